"""The CPU that kernels are compiled for: this one, or the one that MINISPORE_CPU names.

The variable (a name that LLVM knows, for example ``haswell``) is for tests, and for a cache that
several machines share.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import llvmlite.binding as llvm


@functools.cache
def target() -> tuple[str, str]:
    """The CPU's name and features, as LLVM writes them."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    named = os.environ.get("MINISPORE_CPU")
    if named:
        return named, ""
    features = llvm.get_host_cpu_features().flatten()
    if "+avx512vbmi2" in features.split(","):
        features += ",-prefer-256-bit"  # from here on CPUs compute on 16 floats at full speed
    return llvm.get_host_cpu_name(), features


def has_avx512() -> bool:
    """True if the CPU computes on 16 floats at once."""
    return "+avx512f" in target()[1].split(",")


def has_float16() -> bool:
    """True if the CPU converts between float16 and float32."""
    return "+f16c" in target()[1].split(",")


@functools.cache
def machine() -> Any:
    """LLVM's description of the CPU, to compile for it."""
    name, features = target()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=2, jit=True
    )


@functools.cache
def has_fma() -> bool:
    """True if the CPU multiplies and adds in one instruction: then LLVM writes it."""
    one = "define float @f(float %x) { %y = call float @llvm.fma.f32(float %x, float %x, float %x) "
    text = f"declare float @llvm.fma.f32(float, float, float) {one} ret float %y }}"
    return "fmadd" in machine().emit_assembly(llvm.parse_assembly(text))

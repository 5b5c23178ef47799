"""The words of kernels that Python lacks: pointers, the bits of floats, what the CPU has at hand.

A kernel is a Python function over numbers and pointers.  Each word here is an `Intrinsic`: it says
how LLVM computes it, for both compilers (compiler.py and by_numba.py), and how Python does, so that
kernels and the functions of vector.py also run as plain Python on NumPy's scalars.

Kinds of values: f4 f8 i2 i4 i8 u1 (floats and integers of so many bytes; a Bool is stored as u1),
b1 (a condition), p_f4 p_f8 ... (pointers), void.  Half floats (f2 is float16, b2 bfloat16) exist in
memory only, as i2: ``load_f2`` and ``store_f2`` of vector.py make f4 of them and back.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from minispore.engine import cpu

f4, f8, i2, i4, i8 = np.float32, np.float64, np.int16, np.int32, np.int64
u1 = np.uint8

NUMBERS = {"f4": f4, "f8": f8, "i2": i2, "i4": i4, "i8": i8, "u1": u1, "b1": np.bool_}
TYPES: dict[str, Any] = {
    "f4": ir.FloatType(), "f8": ir.DoubleType(), "i4": ir.IntType(32), "i8": ir.IntType(64),
    "i2": ir.IntType(16), "u1": ir.IntType(8), "b1": ir.IntType(1), "void": ir.VoidType(),
}  # fmt: skip
TYPES |= {f"p_{kind}": TYPES[kind].as_pointer() for kind in ("f4", "f8", "i2", "i4", "i8", "u1")}

# What is compiled, by its name: a kernel, and what runs a table of them (native.py).
SIGNATURES = {
    "kernel": ("void", ("p_i8", "p_i8", "i8", "i8", "i8")),  # slots, args, lo, hi, worker
    "run": ("i8", ("p_i8", "i8", "p_i8", "i8")),  # table, rows, slots, first place
    "call": ("i8", ("i8", "p_i8", "i8")),  # object, arguments, their count; gives an object
}


@dataclass(frozen=True)
class Intrinsic:
    """A function that the compilers write as LLVM instructions, by ``generate(builder, *values)``.

    Without `result` its `arity` operands and its result have one kind, f4 or f8.
    """

    generate: Callable[..., Any]
    python: Callable[..., Any]
    result: str = ""
    kinds: tuple[str, ...] = ()
    arity: int = 1
    acts: bool = False  # it has effects

    def __call__(self, *args: Any) -> Any:
        return self.python(*args)


def _call(builder: Any, name: str, result: Any, *args: Any) -> Any:
    """Call a function of LLVM or of the C library."""
    kind = ir.FunctionType(result, [a.type for a in args])
    found = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(found, args)


# ------------------------------------------------------------------------------- pointers


def _pointer(kind: str) -> Intrinsic:
    """What makes an address a pointer: ``p[i]`` then reads without any check."""
    number: Any = NUMBERS[kind]
    memory = np.ctypeslib.as_ctypes_type(number) * 2**40

    def python(address: int) -> np.ndarray:
        return np.frombuffer(memory.from_address(int(address)), number)

    def generate(builder: Any, address: Any) -> Any:
        return builder.inttoptr(address, TYPES[f"p_{kind}"])

    return Intrinsic(generate, python, f"p_{kind}", ("i8",))


p_f4, p_f8, p_i2, p_i4, p_i8, p_u1 = map(_pointer, ("f4", "f8", "i2", "i4", "i8", "u1"))
p_f2 = p_b2 = p_i2  # half floats in memory: their bits


def _call_kernel(builder: Any, address: Any, *args: Any) -> Any:
    args = (*args, ir.Constant(TYPES["i8"], 0))  # the worker
    kind = ir.FunctionType(TYPES["void"], [a.type for a in args]).as_pointer()
    return builder.call(builder.inttoptr(address, kind), args)


def _python_call_kernel(address: int, slots: np.ndarray, args: np.ndarray, *rest: int) -> None:
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 5)(int(address))
    function(slots.ctypes.data, args.ctypes.data, *map(int, rest), 0)


# Call the kernel at an address: (address, slots, args, lo, hi).
call_kernel = Intrinsic(
    _call_kernel, _python_call_kernel, "void", ("i8", "p_i8", "p_i8", "i8", "i8"), acts=True
)


def _prefetch(builder: Any, address: Any) -> Any:
    where = builder.inttoptr(address, TYPES["u1"].as_pointer())
    how = [ir.Constant(TYPES["i4"], n) for n in (0, 3, 1)]  # to read it, often, as data
    return _call(builder, "llvm.prefetch.p0", TYPES["void"], where, *how)


# Bring the bytes at an address into the nearest cache; there may be none.
prefetch = Intrinsic(_prefetch, lambda address: None, "void", ("i8",), acts=True)


def _python(name: str, result: str, *kinds: str) -> Intrinsic:
    """A function of Python's C interface, which only a built-in function may call."""

    def python(*args: Any) -> Any:
        raise TypeError(f"{name} is called by machine code only")

    def generate(builder: Any, *args: Any) -> Any:
        return _call(builder, name, TYPES[result], *args)

    return Intrinsic(generate, python, result, kinds, acts=True)


python_int = _python("PyLong_FromSsize_t", "i8", "i8")
keep, drop = _python("Py_IncRef", "void", "i8"), _python("Py_DecRef", "void", "i8")
unlock_interpreter = _python("PyEval_SaveThread", "i8")
lock_interpreter = _python("PyEval_RestoreThread", "void", "i8")


# ------------------------------------------------------------------------------- bits


def _cast_bits(source: str, to: str) -> Intrinsic:
    return Intrinsic(
        lambda builder, x: builder.bitcast(x, TYPES[to]),
        lambda x: NUMBERS[source](x).view(NUMBERS[to]),
        to,
        (source,),
    )


# The bits of a float as an integer, and back.
bits_f4, bits_f8 = _cast_bits("f4", "i4"), _cast_bits("f8", "i8")
from_bits_f4, from_bits_f8 = _cast_bits("i4", "f4"), _cast_bits("i8", "f8")


# The bits of a float16 as a float32, and back, rounded to even: an instruction, where there is one.
extended_f2 = Intrinsic(
    lambda builder, x: builder.fpext(builder.bitcast(x, ir.HalfType()), TYPES["f4"]),
    lambda x: f4(i2(x).view(np.float16)), "f4", ("i2",),
)  # fmt: skip
truncated_f2 = Intrinsic(
    lambda builder, x: builder.bitcast(builder.fptrunc(x, ir.HalfType()), TYPES["i2"]),
    lambda x: np.float16(x).view(i2), "i2", ("f4",),
)  # fmt: skip


def _scaled(kind: str, bits: int, bias: int) -> Intrinsic:
    """x * 2**n, rounded once: AVX-512 has an instruction, others multiply by two powers of two.

    In LLVM ldexp on other CPUs is a call of the C library for each single element.
    """
    floating, integer = TYPES[kind], TYPES["i4" if kind == "f4" else "i8"]

    def generate(builder: Any, x: Any, n: Any) -> Any:
        if cpu.has_avx512():
            name = "llvm.ldexp.f32.i32" if kind == "f4" else "llvm.ldexp.f64.i32"
            return _call(builder, name, floating, x, n)
        half = builder.ashr(n, ir.Constant(n.type, 1))
        for part in (half, builder.sub(n, half)):
            part = builder.sext(part, integer) if kind == "f8" else part
            exponent = builder.add(part, ir.Constant(integer, bias))
            power = builder.bitcast(builder.shl(exponent, ir.Constant(integer, bits)), floating)
            x = builder.fmul(x, power)
        return x

    return Intrinsic(generate, lambda x, n: NUMBERS[kind](np.ldexp(x, n)), kind, (kind, "i4"))


scale_f4, scale_f8 = _scaled("f4", 23, 127), _scaled("f8", 52, 1023)


# ------------------------------------------------------------------------------- of the CPU


def _llvm(name: str, python: Callable[..., Any], arity: int = 1) -> Intrinsic:
    """A function of LLVM for floats, which becomes one or a few vector instructions."""

    def generate(builder: Any, *args: Any) -> Any:
        kind = args[0].type
        suffix = "f32" if kind == TYPES["f4"] else "f64"
        return _call(builder, f"llvm.{name}.{suffix}", kind, *args)

    return Intrinsic(generate, python, arity=arity)


sqrt = _llvm("sqrt", np.sqrt)
floor, ceil, trunc = _llvm("floor", np.floor), _llvm("ceil", np.ceil), _llvm("trunc", np.trunc)
rint = _llvm("rint", np.rint)  # half to even
fabs = _llvm("fabs", np.abs)
copysign = _llvm("copysign", np.copysign, 2)
maximum, minimum = _llvm("maximum", np.maximum, 2), _llvm("minimum", np.minimum, 2)  # keep nan

fma = _llvm("fma", lambda x, y, z: type(z)(np.longdouble(x) * y + z), 3)  # x * y + z, rounded once
# Whether that is one instruction, not a call of the C library.
has_fma = Intrinsic(lambda b: ir.Constant(TYPES["b1"], cpu.has_fma()), lambda: True, "b1", arity=0)


def _larger(builder: Any, x: Any, y: Any) -> Any:
    name = f"llvm.maximum.{'f32' if x.type == TYPES['f4'] else 'f64'}"
    call = _call(builder, name, x.type, x, y)
    call.fastmath |= {"nnan", "nsz"}
    return call


# The larger of two numbers that are not nan: the fastest reduction, if nan shows elsewhere.
larger = Intrinsic(_larger, lambda x, y: x if x > y else y, arity=2)


# The sum of two numbers; of several, in any order.
plus = Intrinsic(
    lambda builder, x, y: builder.fadd(x, y, flags=("contract", "reassoc", "nsz")),
    lambda x, y: x + y, arity=2,
)  # fmt: skip


def _plain(name: str, python: Callable[..., Any]) -> Intrinsic:
    """Arithmetic that no flag of a kernel changes: rounded each time, in this order, as Python."""
    return Intrinsic(lambda builder, x, y: getattr(builder, name)(x, y), python, "f8", ("f8", "f8"))


exact_add_f8, exact_sub_f8 = _plain("fadd", operator.add), _plain("fsub", operator.sub)
exact_mul_f8, exact_div_f8 = _plain("fmul", operator.mul), _plain("fdiv", operator.truediv)


# ------------------------------------------------------------------------------- of the C library


def _c(name: str, python: Callable[..., Any], arity: int = 1) -> Intrinsic:
    """A function of the C library for f8: called element by element."""
    kinds = ("f8",) * arity
    return Intrinsic(
        lambda builder, *args: _call(builder, name, TYPES["f8"], *args),
        lambda *args: f8(python(*args)), "f8", kinds,
    )  # fmt: skip


c_sin, c_cos, c_tan = _c("sin", np.sin), _c("cos", np.cos), _c("tan", np.tan)
c_asin, c_acos, c_atan = _c("asin", np.arcsin), _c("acos", np.arccos), _c("atan", np.arctan)
c_sinh, c_cosh, c_log2 = _c("sinh", np.sinh), _c("cosh", np.cosh), _c("log2", np.log2)
c_asinh, c_acosh, c_atanh = (
    _c("asinh", np.arcsinh),
    _c("acosh", np.arccosh),
    _c("atanh", np.arctanh),
)
c_log10, c_erf, c_pow = _c("log10", np.log10), _c("erf", math.erf), _c("pow", np.power, 2)
c_erfc = _c("erfc", math.erfc)
c_atan2, c_fmod = _c("atan2", np.arctan2, 2), _c("fmod", np.fmod, 2)


# ------------------------------------------------------------------------------- BLAS


def _gemm(kind: str) -> Intrinsic:
    """C = op(A) op(B) + beta C, row by row, by the routine at an address.

    (routine, transpose a, transpose b, m, n, k, a, lda, b, ldb, beta, c, ldc): C is m x n.  BLAS
    stores column by column, where the same bytes are the transposes, and C' = op(B)' op(A)'.  It
    takes pointers to all arguments.
    """
    number, byte = TYPES[kind], TYPES["u1"]

    def generate(builder: Any, *values: Any) -> Any:
        (routine, ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc) = values

        def place(value: Any) -> Any:
            with builder.goto_entry_block():
                there = builder.alloca(value.type)
            builder.store(value, there)
            return builder.bitcast(there, byte.as_pointer())

        def letter(transposes: Any) -> Any:
            test = builder.icmp_signed("!=", transposes, ir.Constant(transposes.type, 0))
            return place(builder.select(test, *(ir.Constant(byte, ord(c)) for c in "TN")))

        def whole(value: Any) -> Any:
            return place(builder.trunc(value, TYPES["i4"]))

        def pointer(address: Any) -> Any:
            return builder.inttoptr(address, byte.as_pointer())

        arguments = [
            letter(tb), letter(ta), whole(n), whole(m), whole(k), place(ir.Constant(number, 1)),
            pointer(b), whole(ldb), pointer(a), whole(lda), place(beta), pointer(c), whole(ldc),
        ]  # fmt: skip
        function = ir.FunctionType(TYPES["void"], [a.type for a in arguments]).as_pointer()
        return builder.call(builder.inttoptr(routine, function), arguments)

    def python(*args: Any) -> Any:
        raise TypeError("BLAS is called by machine code only")

    kinds = ("i8",) * 10 + (kind, "i8", "i8")
    return Intrinsic(generate, python, "void", kinds, acts=True)


gemm_f4, gemm_f8 = _gemm("f4"), _gemm("f8")


# ------------------------------------------------------------------------------- polynomials


def polynomial(kind: str, *coefficients: float) -> Intrinsic:
    """The polynomial with these coefficients, the constant first, by Horner's rule."""
    number: Any = NUMBERS[kind]
    highest_first = [number(c) for c in reversed(coefficients)]

    def generate(builder: Any, x: Any) -> Any:
        first, *rest = (ir.Constant(TYPES[kind], c.item()) for c in highest_first)
        value = first
        for c in rest:
            value = builder.fmul(value, x, flags=("contract",))
            value = builder.fadd(value, c, flags=("contract",))
        return value

    def python(x: Any) -> Any:
        value = highest_first[0]
        for c in highest_first[1:]:
            value = value * x + c
        return value

    return Intrinsic(generate, python, kind, (kind,))

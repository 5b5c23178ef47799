"""MindSpore's module paths: one table of modules that exist only by name.

A program written for MindSpore may import by paths such as ``mindspore.common.tensor`` or
``mindspore.ops.operations``.  Each row below is such a path and the names found under it;
``install`` makes a module of each, so that plain import statements work:

    import minispore.common.dtype as mstype
    from minispore.ops import operations as P, functional as F, composite as C
    from minispore.ops._grad.grad_base import bprop_getters

MindSpore also has what makes gradients in ``ops`` (``ops.GradOperation``), and functions of
functions (``ops.HyperMap``); here they belong to higher rooms than ops, and are put there by
``install`` too.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import Any

from minispore import dtype, initializer, nn, ops
from minispore.autodiff.api import GradOperation, get_grad, grad, value_and_grad
from minispore.autodiff.jacobian import derivative, jacfwd, jacrev, jvp, vjp
from minispore.compile import jit
from minispore.composite import (
    HyperMap,
    Map,
    MultitypeFuncGraph,
    Partial,
    PrimitiveWithInfer,
    bool_not,
    dict_getitem,
    list_getitem,
    list_len,
    make_list,
    make_tuple,
    partial,
    prim_attr_register,
    scalar_add,
    scalar_div,
    scalar_eq,
    scalar_floordiv,
    scalar_gt,
    scalar_lt,
    scalar_mod,
    scalar_mul,
    scalar_sub,
    tuple_getitem,
    tuple_len,
    tuple_setitem,
    vmap,
)  # fmt: skip
from minispore.context import set_recursion_limit
from minispore.decorators import constexpr, jit_class, lazy_inline, no_inline
from minispore.jit_options import JitConfig
from minispore.mutable import mutable
from minispore.nn.hooks import HookBackward, InsertGradientOf
from minispore.ops.gradient import binop_grad_common, bprop_getters
from minispore.parameter import Parameter, ParameterTuple
from minispore.primitive import Primitive
from minispore.random import get_seed, set_seed
from minispore.tensor import Tensor, tensor

_KINDS_OF_LAYERS = ("activation", "basic", "container", "embedding", "normalization")
_MULTITYPE = (
    "add", "sub", "mul", "div", "mod", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or", "logical_not", "negative", "getitem", "setitem",
    "zeros_like", "ones_like", "bitwise_and", "bitwise_or", "bitwise_xor",
)  # fmt: skip
HIGHER = {
    function.__name__: function
    for function in (
        GradOperation, derivative, get_grad, grad, jacfwd, jacrev, jvp, value_and_grad, vjp,
        HookBackward, HyperMap, InsertGradientOf, Map, MultitypeFuncGraph, Partial, Primitive,
        PrimitiveWithInfer, constexpr, partial, prim_attr_register, vmap,
    )
}  # fmt: skip
_PYTHON = {
    function.__name__: function
    for function in (
        bool_not, make_list, make_tuple, scalar_add, scalar_div, scalar_eq, scalar_floordiv,
        scalar_gt, scalar_lt, scalar_mod, scalar_mul, scalar_sub, tuple_getitem, tuple_len,
        tuple_setitem,
    )
} | {"dict_getitem": dict_getitem, "list_getitem": list_getitem, "list_len": list_len}  # fmt: skip


class _Module(ModuleType):
    """A module of names.

    Importing ``common.mutable`` puts the module in the place of the function ``common.mutable``,
    so a module can be called as the function in it that has its name.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return vars(self)[self.__name__.rpartition(".")[2]](*args, **kwargs)


class _Executors:
    """What MindSpore's tests call of its executors: here all is done when a call returns."""

    def sync(self) -> None:
        """Nothing is left to wait for."""

    def compile(self, cell: Any, *args: Any) -> None:
        """``cell.compile(*args)``."""
        cell.compile(*args)


def _public(module: ModuleType) -> dict[str, Any]:
    """The names that a module offers."""
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    found = {name: getattr(module, name) for name in names}
    return {name: value for name, value in found.items() if not isinstance(value, ModuleType)}


def _table() -> dict[str, dict[str, Any]]:
    """Module paths, parents first, and the names found under each."""
    operations = {**_public(ops), **HIGHER, **_PYTHON}
    rules = {
        "bprop_getters": bprop_getters, "binop_grad_common": binop_grad_common,
        "Primitive": Primitive, "Tensor": Tensor,
    }  # fmt: skip
    seeds = {"set_seed": set_seed, "get_seed": get_seed}
    tensors = {"Tensor": Tensor, "tensor": tensor}
    parameters = {"Parameter": Parameter, "ParameterTuple": ParameterTuple}
    compiler = {"jit": jit, "ms_function": jit}  # ms_function: what jit was called before 2.0
    marks = {"JitConfig": JitConfig, "jit_class": jit_class, "lazy_inline": lazy_inline,
             "no_inline": no_inline, "set_recursion_limit": set_recursion_limit}  # fmt: skip
    layers = _public(nn)
    logger = logging.getLogger("minispore")
    multitype = {name: getattr(ops, name) for name in _MULTITYPE}
    executors = {"_pynative_executor": _Executors(), "_cell_graph_executor": _Executors()}
    primitives = {
        "Primitive": Primitive, "PrimitiveWithInfer": PrimitiveWithInfer, "constexpr": constexpr,
        "prim_attr_register": prim_attr_register, "_primexpr": constexpr,
    }  # fmt: skip
    wrappers = {
        c.__name__: c
        for c in (nn.ForwardValueAndGrad, nn.TrainOneStepCell, nn.WithEvalCell, nn.WithLossCell)
    }
    return {
        "minispore.common": {
            **_public(dtype),
            **tensors,
            **parameters,
            **seeds,
            **compiler,
            **marks,
            "mutable": mutable,
        },
        "minispore.common.api": {**compiler, **marks, **executors},
        "minispore.common.dtype": _public(dtype),
        "minispore.common.initializer": _public(initializer),
        "minispore.common.jit_config": {"JitConfig": JitConfig},
        "minispore.common.mutable": {"mutable": mutable},
        "minispore.common.parameter": parameters,
        "minispore.common.seed": seeds,
        "minispore.common.tensor": tensors,
        "minispore.ops.operations": operations,
        "minispore.ops.functional": operations,
        "minispore.ops.composite": operations,
        "minispore.ops.composite.multitype_ops": multitype,
        **{
            f"minispore.ops.composite.multitype_ops.{name}_impl": {name: function}
            for name, function in multitype.items()
        },
        "minispore.ops.function": operations,
        "minispore.ops.primitive": primitives,
        "minispore.nn.wrap.cell_wrapper": wrappers,
        "minispore.nn.layer": layers,
        **{f"minispore.nn.layer.{kind}": layers for kind in _KINDS_OF_LAYERS},
        "minispore.nn.loss.loss": layers,
        "minispore.log": {n: getattr(logger, n) for n in ("debug", "info", "warning", "error")},
        "minispore.ops._grad": {},
        "minispore.ops._grad.grad_base": rules,
        "minispore.ops._grad_experimental": {},
        "minispore.ops._grad_experimental.grad_base": rules,
    }


def install() -> None:
    """Make the modules of the table importable, and the gradients part of ops."""
    vars(ops).update(HIGHER)
    for path, names in _table().items():
        module = _Module(path, "A path of MindSpore's; see minispore/aliases.py.")
        module.__path__ = []  # so that a missing module below it is reported as such
        vars(module).update(names)
        sys.modules[path] = module
        parent, _, name = path.rpartition(".")
        if name not in vars(sys.modules[parent]):  # a function may have the name of its module
            setattr(sys.modules[parent], name, module)
    for path in ("minispore.ops._grad.grad_base", "minispore.ops._grad_experimental.grad_base"):
        vars(sys.modules[path]).update(
            P=sys.modules["minispore.ops.operations"], F=sys.modules["minispore.ops.functional"]
        )

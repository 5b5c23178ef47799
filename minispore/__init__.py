"""minispore: MindSpore's programming model, small enough to read.

    import minispore as ms
    from minispore import nn, ops

Two modes over one set of primitives: PyNative runs each op at once, Graph compiles functions and
Cells.
"""

# ruff: noqa: I001
__version__ = "0.1.0"

from minispore import context, dtype
from minispore.context import (
    COMPATIBLE, GRAPH_MODE, LAX, PYNATIVE_MODE, STRICT, get_context, set_context, set_device,
    set_recursion_limit,
)  # fmt: skip
from minispore.dtype import (
    bfloat16, bool_, double, dtype_to_nptype, float16, float32, float64, float_, half, int16,
    int32, int64, int8, int_, pytype_to_dtype, single, uint16, uint32, uint64, uint8,
)  # fmt: skip
from minispore import ops
from minispore.tensor import Tensor, from_dlpack, from_numpy, tensor
from minispore.parameter import Parameter, ParameterTuple
from minispore.random import get_seed, set_seed
from minispore.autodiff.api import get_grad, grad, value_and_grad
from minispore.autodiff.jacobian import jacfwd, jacrev, jvp, vjp
from minispore.inputs import enable_dynamic
from minispore.mutable import mutable
from minispore.compile import jit
from minispore.decorators import constexpr, jit_class, lazy_inline, no_inline
from minispore.composite import vmap
from minispore.jit_options import JitConfig
from minispore.views.report import Report, explain
from minispore import nn, train
from minispore.train.sink import data_sink
from minispore.train.serialization import load_checkpoint, load_param_into_net, save_checkpoint
from minispore import aliases as _aliases

_aliases.install()


def run_check() -> None:
    """Multiply two Tensors, and say that it works (MindSpore: ``mindspore.run_check``)."""
    product = jit(lambda x, y: x * y)(Tensor([2.0]), Tensor([3.0]))
    assert product == 6
    print(f"minispore version: {__version__}\nThe result of multiplication calculation is correct.")


__all__ = [
    "GRAPH_MODE", "PYNATIVE_MODE", "STRICT", "COMPATIBLE", "LAX", "set_context", "get_context",
    "set_device", "set_recursion_limit", "context",
    "Tensor", "tensor", "from_numpy", "from_dlpack", "Parameter", "ParameterTuple",
    "dtype", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "bfloat16", "int_", "float_", "half", "single", "double",
    "dtype_to_nptype", "pytype_to_dtype",
    "set_seed", "get_seed",
    "jit", "JitConfig", "jit_class", "constexpr", "lazy_inline", "no_inline", "mutable",
    "enable_dynamic", "explain", "Report",
    "grad", "value_and_grad", "get_grad", "vjp", "jvp", "jacfwd", "jacrev", "vmap", "run_check",
    "nn", "ops", "train",
    "save_checkpoint", "load_checkpoint", "load_param_into_net", "data_sink",
]  # fmt: skip

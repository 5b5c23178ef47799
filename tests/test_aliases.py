"""The public names, and MindSpore's module paths."""

import importlib
import subprocess
import sys

import numpy as np
import pytest
from differential import agree

import minispore as ms
from minispore import nn, ops
from minispore.aliases import binop_grad_common
from minispore.tensor import Tensor


def test_public_names():
    assert len(set(ms.__all__)) == len(ms.__all__)
    for name in ms.__all__:
        assert hasattr(ms, name), name
    assert ms.Tensor is Tensor and ms.nn is nn and ms.ops is ops
    assert ms.tensor([1.0], ms.float16).dtype is ms.float16
    assert ms.from_numpy(np.ones(2)).dtype is ms.float64


def test_import_is_light():
    """Importing needs neither compilers nor drawing, and no module that only a job needs."""
    heavy = ("numba", "scipy", "matplotlib", "graphviz", "tqdm", "llvmlite")
    code = f"import sys, minispore; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "statement",
    [
        "import minispore.context as context; context.set_context(mode=context.PYNATIVE_MODE)",
        "import minispore.nn as nn; nn.Cell",
        "import minispore.ops as ops; ops.Add",
        "import minispore.dtype as mstype; mstype.float32",
        "import minispore.common; minispore.common.Tensor; minispore.common.dtype.float32",
        "from minispore.common.api import jit, ms_function",
        "import minispore.common.dtype as mstype; mstype.float32",
        "from minispore.common import dtype as mstype; mstype.int32",
        "from minispore.common import Tensor, Parameter, ParameterTuple, set_seed, float32",
        "from minispore.common.tensor import Tensor",
        "from minispore.common.parameter import Parameter, ParameterTuple",
        "from minispore.common.initializer import initializer, Normal, HeUniform, One",
        "from minispore.common.seed import set_seed, get_seed",
        "from minispore.common.api import _pynative_executor; _pynative_executor.sync()",
        "from minispore.common.jit_config import JitConfig",
        "from minispore.common.mutable import mutable; mutable(3)",
        "from minispore.common import mutable; mutable(3)",
        "import minispore.common.mutable; minispore.common.mutable(3)",
        "from minispore.nn.layer import Dense; from minispore.nn.layer.basic import Dropout",
        "from minispore.nn.loss.loss import LossBase; from minispore.nn.optim import Momentum",
        "from minispore import log as logger; logger.info('%s', 1); logger.debug('')",
        "from minispore.common import lazy_inline, no_inline, jit_class",
        "from minispore.nn.wrap.cell_wrapper import WithLossCell, TrainOneStepCell",
        "from minispore.ops.composite import HyperMap, Map, MultitypeFuncGraph",
        "from minispore.ops.composite.multitype_ops.zeros_like_impl import zeros_like",
        "from minispore.ops.composite import multitype_ops; multitype_ops.add",
        "from minispore.ops.primitive import PrimitiveWithInfer, prim_attr_register",
        "from minispore import vmap, run_check",
        "from minispore.ops import Primitive, constexpr, partial, InsertGradientOf, HookBackward",
        "from minispore.ops.primitive import constexpr, Primitive, _primexpr",
        "from minispore.ops.function import vjp",
        "from minispore.ops import operations as P; P.MatMul(transpose_b=True)",
        "from minispore.ops import functional as F; F.relu",
        "from minispore.ops import composite as C; C.GradOperation(get_all=True)",
        "from minispore.ops import GradOperation, stop_gradient",
        "import minispore.ops.operations as P; P.ReLU()",
        "import minispore.ops.functional as F; F.cast",
        "from minispore.ops._grad.grad_base import bprop_getters, binop_grad_common, P; P.Mul()",
        "from minispore.ops._grad_experimental.grad_base import bprop_getters",
        "from minispore.ops._grad_experimental import grad_base; grad_base.bprop_getters",
        "from minispore.train.serialization import save_checkpoint, load_checkpoint",
        "from minispore.nn.cell import Cell",
        "from minispore.nn.optim import Adam, Optimizer",
        "from minispore.nn.loss import LossBase",
        "from minispore.nn.learning_rate_schedule import LearningRateSchedule",
    ],
)
def test_import_statements(statement):
    exec(statement, {})


def test_the_names_are_the_same_objects():
    from minispore.common.tensor import Tensor as same_tensor
    from minispore.ops import functional, operations
    from minispore.ops._grad.grad_base import bprop_getters
    from minispore.primitive import bprop_getters as registry

    assert same_tensor is ms.Tensor
    assert functional.relu is ops.relu and operations.MatMul is ops.MatMul
    assert bprop_getters is registry
    assert importlib.import_module("minispore.ops.operations") is operations
    assert ms.context.set_context is ms.set_context and ms.context.GRAPH_MODE == ms.GRAPH_MODE


def test_the_executor_compiles():
    from minispore.common.api import _cell_graph_executor

    _cell_graph_executor.compile(nn.ReLU(), Tensor([1.0]))


def test_a_path_that_does_not_exist():
    for path in ("minispore.common.nothing", "minispore.ops.operations.nothing"):
        with pytest.raises(ModuleNotFoundError, match="nothing"):
            importlib.import_module(path)
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from minispore.common import Nothing", {})


def test_binop_grad_common_undoes_broadcasting():
    x, y = Tensor(np.ones((3, 1))), Tensor(np.ones((1, 4)))
    grad = Tensor(np.arange(12.0).reshape(3, 4))
    dx, dy = binop_grad_common(x, y, grad, grad)
    np.testing.assert_array_equal(dx.asnumpy(), grad.asnumpy().sum(1, keepdims=True))
    np.testing.assert_array_equal(dy.asnumpy(), grad.asnumpy().sum(0, keepdims=True))


def test_what_graphs_call_in_mindspore():
    F = sys.modules["minispore.ops.functional"]

    def program(x):
        t = F.make_tuple(x, 2, 3)
        more = F.tuple_setitem(t, 1, 5), F.tuple_len(t), F.make_list(1, x), F.bool_not(x is None)
        numbers = [
            getattr(F, f"scalar_{name}")(7, 2)
            for name in ("add", "sub", "mul", "div", "floordiv", "mod", "eq", "lt", "gt")
        ]
        return F.tuple_getitem(t, 0), F.dict_getitem({"a": x}, "a"), *more, numbers

    found = agree(program, Tensor(1.0))
    assert found[3] == 3 and found[5] is True
    assert found[6] == [9, 5, 14, 3.5, 3, 1, False, False, True]


def test_run_check(capsys):
    ms.run_check()
    assert capsys.readouterr().out.startswith(f"minispore version: {ms.__version__}\n")

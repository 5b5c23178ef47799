"""Primitives and ops against NumPy, central differences, and each other in both modes."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import graph_of
from helpers import assert_same
from op_functions import FUNCTIONS
from op_table import ROWS, RULES, SCALARS, STRUCTURAL, Case

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import AbstractTensor
from minispore.ir.interp import interpret
from minispore.ir.node import CNode, ParameterNode, ValueNode, toposort
from minispore.primitive import REGISTRY, apply, handled_by
from minispore.symbolic import GraphBuilder, wrap
from minispore.tensor import Tensor

CASES = [
    pytest.param(case, id=f"{name}-{i}")
    for name, cases in (*ROWS.items(), *FUNCTIONS.items())
    for i, case in enumerate(cases)
]
SIZED_BY_VALUES = {"NonZero", "Unique", "MaskPositions"}


def cast_inputs(case: Case, dtype: dt.DType) -> list[np.ndarray]:
    """The case's inputs, floats in `dtype`."""
    return [x.astype(dtype.numpy) if x.dtype == np.float64 else x for x in case.inputs]


def float_types(case: Case) -> tuple[dt.DType, ...]:
    has_floats = any(x.dtype == np.float64 for x in case.inputs)
    return case.dtypes if has_floats else (dt.float64,)


def parts(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value,)


# --------------------------------------------------------------------------------- values


@pytest.mark.parametrize("case", CASES)
def test_value(case: Case) -> None:
    for dtype in float_types(case):
        arrays = cast_inputs(case, dtype)
        before = [a.copy() for a in arrays]
        tensors = [Tensor.from_numpy(a) for a in arrays]
        out = parts(case.function(*tensors))
        wide = [a.astype(np.float64) if dt.from_numpy(a.dtype).is_float else a for a in arrays]
        with np.errstate(all="ignore"):
            expected = parts(case.reference(*wide))
        assert len(out) == len(expected)
        for o, e in zip(out, expected, strict=True):
            e = np.asarray(e)
            kind = case.result or (dtype if e.dtype == np.float64 else dt.from_numpy(e.dtype))
            assert_same(o, e.astype(kind.numpy), case.factor)
            assert not any(np.shares_memory(o.asnumpy(), t.asnumpy()) for t in tensors)
        for a, b in zip(arrays, before, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", RULES)
def test_integers_and_bools(name: str) -> None:
    case = next(
        c for c in ROWS[name] if all(x.ndim for x in c.inputs) and len(c.inputs) == arity(name)
    )
    rule = RULES[name]
    for dtype in (dt.int32, dt.int64, dt.int8, dt.uint8, dt.bool_):
        arrays = [np.array([1, 1], dtype.numpy), np.array([[1], [1]], dtype.numpy)][: arity(name)]
        if dtype.is_integer:
            arrays = [a + dtype.numpy.type(i) for i, a in enumerate(arrays)]
        tensors = [Tensor(a) for a in arrays]
        if rule == "number" and dtype is dt.bool_:
            with pytest.raises(TypeError, match="Bool"):
                case.function(*tensors)
            continue
        with np.errstate(all="ignore"):
            expected = np.asarray(case.reference(*_as_reference(rule, arrays)))
        result = {"float": dt.float32, "bool": dt.bool_, "logical": dt.bool_}.get(rule, dtype)
        assert_same(case.function(*tensors), expected.astype(result.numpy))


def _as_reference(rule: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    kind = {"float": np.float64, "logical": np.bool_}.get(rule)
    return arrays if kind is None else [a.astype(kind) for a in arrays]


def arity(name: str) -> int:
    return REGISTRY[name].arity  # type: ignore[attr-defined]


MATH = {name: getattr(math, name) for name in dir(math) if not name.startswith("_")} | {
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "round": round,
}


@pytest.mark.parametrize("name", [n for n, p in REGISTRY.items() if p.expr and n in ROWS])
def test_expression(name: str) -> None:
    """The scalar expression says what eval computes."""
    arity_of = 3 if name == "Select" else arity(name)
    expr = REGISTRY[name].expr
    assert expr is not None
    compiled = compile(expr.format("a", "b", "c"), name, "eval")
    for case in ROWS[name]:
        if len(case.inputs) != arity_of:
            continue
        out = case.function(*[Tensor(x) for x in case.inputs]).asnumpy()
        operands = _as_reference(RULES.get(name, ""), list(case.inputs))
        inputs = [x.ravel().tolist() for x in np.broadcast_arrays(*operands)]
        values = [
            eval(compiled, MATH, dict(zip("abc", elements, strict=False)))
            for elements in zip(*inputs, strict=True)
        ]
        expected = np.array(values, np.float64).reshape(np.shape(out))
        np.testing.assert_allclose(out.astype(np.float64), expected, rtol=1e-12, atol=1e-14)


# ------------------------------------------------------------------------------ gradients


def gradients(function: Callable, inputs: list, cotangents: list) -> list:
    """The cotangents of `inputs`: a graph of `function` is evaluated, then walked backwards.

    It uses nothing but each primitive's vjp, and works inside a graph too: it can be applied twice.
    """
    abstracts = [AbstractTensor(x.dtype, x.shape) for x in inputs]
    parameters = [ParameterNode(f"x{i}", a) for i, a in enumerate(abstracts)]
    builder = GraphBuilder()
    with handled_by(builder):
        outputs = [builder.node_of(o) for o in parts(function(*map(wrap, parameters)))]
    values: dict[int, Any] = {id(p): x for p, x in zip(parameters, inputs, strict=True)}
    order = toposort(outputs)
    for node in order:
        if isinstance(node, ValueNode):
            values[id(node)] = Tensor(node.value)
        elif isinstance(node, CNode):
            operands = [values[id(i)] for i in node.inputs]
            values[id(node)] = _evaluated(node.callee, operands)
    found: dict[int, Any] = {}
    for node, cotangent in zip(outputs, cotangents, strict=True):
        _add(found, node, cotangent)
    for node in reversed(order):
        dout = found.get(id(node))
        if isinstance(node, CNode) and dout is not None:
            _step(node, values, found, dout)
    return [found.get(id(p)) for p in parameters]


def _evaluated(callee: Any, operands: list) -> Any:
    if callee.name == "TupleGetItem":
        return operands[0][callee.attrs["index"]]
    return apply(callee, *operands)


def _step(node: CNode, values: dict, found: dict, dout: Any) -> None:
    callee: Any = node.callee
    if callee.name == "TupleGetItem":
        source = node.inputs[0]
        items = found.setdefault(id(source), [None] * len(values[id(source)]))
        index = callee.attrs["index"]
        items[index] = dout if items[index] is None else ops.add(items[index], dout)
        return
    operands = tuple(values[id(i)] for i in node.inputs)
    dout = tuple(dout) if isinstance(dout, list) else dout
    cotangents = callee.vjp(operands, values[id(node)], dout)
    assert len(cotangents) == len(operands)
    for source, operand, cotangent in zip(node.inputs, operands, cotangents, strict=True):
        if cotangent is not None and operand.dtype.is_float:
            assert cotangent.shape == operand.shape, callee
            assert cotangent.dtype is operand.dtype, callee
            _add(found, source, cotangent)


def _add(found: dict, node: Any, cotangent: Any) -> None:
    old = found.get(id(node))
    found[id(node)] = cotangent if old is None else ops.add(old, cotangent)


def check_gradient(function: Callable, arrays: list[np.ndarray], seed: int = 0) -> list:
    """Gradients against central differences of fourth order, along one random direction each."""
    rng = np.random.default_rng(seed)
    outputs = [o.asnumpy() for o in parts(function(*map(Tensor, arrays)))]
    weights = [rng.uniform(0.5, 1.5, o.shape) for o in outputs]

    def projected(*inputs: np.ndarray) -> float:
        values = parts(function(*map(Tensor, inputs)))
        return sum(float((v.asnumpy() * w).sum()) for v, w in zip(values, weights, strict=True))

    found = gradients(function, [Tensor(a) for a in arrays], [Tensor(w) for w in weights])
    for i, (array, gradient) in enumerate(zip(arrays, found, strict=True)):
        if array.dtype != np.float64:
            assert gradient is None
            continue
        direction = rng.uniform(-1, 1, array.shape)
        analytic = 0.0 if gradient is None else float((gradient.asnumpy() * direction).sum())
        numeric = derivative(projected, arrays, i, direction)
        assert abs(analytic - numeric) <= 1e-8 * max(1.0, abs(numeric)), (i, analytic, numeric)
    return weights


def derivative(
    f: Callable, arrays: list, i: int, direction: np.ndarray, step: float = 1e-3
) -> float:
    """The derivative of `f` along a direction of input `i`; its error is of the order step^4."""

    def moved(t: float) -> float:
        return f(*[a + t * direction if j == i else a for j, a in enumerate(arrays)])

    one, two = moved(step) - moved(-step), moved(2 * step) - moved(-2 * step)
    return (8 * one - two) / (12 * step)


def pullback(function: Callable, arity: int) -> Callable:
    """``(inputs, cotangents) -> the gradients that exist``, a function that is differentiable."""

    def run(*args: Any) -> tuple:
        found = gradients(function, list(args[:arity]), list(args[arity:]))
        return tuple(g for g in found if g is not None)

    return run


@pytest.mark.parametrize("case", [p for p in CASES if p.values[0].order >= 1])  # type: ignore[attr-defined]
def test_gradient(case: Case) -> None:
    weights = check_gradient(case.function, list(case.inputs))
    if case.order == 2:
        run = pullback(case.function, len(case.inputs))
        check_gradient(run, [*case.inputs, *weights], seed=1)


@pytest.mark.parametrize("case", [p for p in CASES if p.values[0].order >= 1])  # type: ignore[attr-defined]
def test_gradient_types(case: Case) -> None:
    """Gradients have the operands' types, and the value that float64 gives, rounded."""
    exact = pulled_back(case, dt.float64)
    for dtype in case.dtypes[1:]:
        for found, wanted in zip(pulled_back(case, dtype), exact, strict=True):
            assert (found is None) == (wanted is None)
            if found is not None:
                assert_same(found, wanted.asnumpy().astype(dtype.numpy), 2 * case.factor)


def pulled_back(case: Case, dtype: dt.DType) -> list:
    """The gradients, computed in `dtype`, of the same operands: numbers that bfloat16 can hold."""
    arrays = [
        x.astype(dt.bfloat16.numpy).astype(dtype.numpy) if x.dtype == np.float64 else x
        for x in case.inputs
    ]
    tensors = [Tensor(a) for a in arrays]
    outputs = parts(case.function(*tensors))
    weights = [np.arange(ops.size(o)).reshape(o.shape) % 4 + 1 for o in outputs]
    cotangents = [Tensor(w, o.dtype) for w, o in zip(weights, outputs, strict=True)]
    return gradients(case.function, tensors, cotangents)


@pytest.mark.parametrize(
    "op",
    [ops.sign, ops.floor, ops.ceil, ops.round, ops.trunc, ops.stop_gradient, ops.zeros_like]
    + [lambda x: ops.floor_div(x, 2.0), lambda x: ops.div(x, 2.0, rounding_mode="trunc")],
)
def test_no_gradient_flows(op: Callable) -> None:
    assert gradients(op, [Tensor(1.5)], [Tensor(1.0)]) == [None]


# ------------------------------------------------------------------------------ both modes


@pytest.mark.parametrize(
    "case", [p for p in CASES if str(p.id).split("-")[0] not in SIZED_BY_VALUES]
)
def test_graph(case: Case) -> None:
    """A node's type is that of the eager result, and the interpreter finds the same value."""
    for dtype in float_types(case):
        arrays = cast_inputs(case, dtype)
        graph = graph_of(
            case.function, *[AbstractTensor(dt.from_numpy(a.dtype), a.shape) for a in arrays]
        )
        eager = parts(case.function(*map(Tensor, arrays)))
        nodes = graph.outputs() if len(eager) > 1 else (graph.output,)
        for node, value in zip(nodes, eager, strict=True):
            assert node.abstract == AbstractTensor(value.dtype, value.shape)
        for found, value in zip(interpret(graph, arrays), eager, strict=True):
            assert found.tobytes() == value.asnumpy().tobytes()


# -------------------------------------------------------------------------- the table itself


def test_every_primitive_has_a_row() -> None:
    ours = {n for n, p in REGISTRY.items() if p.__module__.startswith("minispore.")}
    assert ours - set(ROWS) - set(SCALARS) - STRUCTURAL == set()


def test_every_row_is_of_a_primitive() -> None:
    assert (set(ROWS) | set(SCALARS) | STRUCTURAL) - set(REGISTRY) == set()
    elementwise = {n for n, p in REGISTRY.items() if issubclass(p, ops.Elementwise)}
    assert elementwise - {"Select"} == set(RULES)


def test_public_functions_are_documented() -> None:
    for name, value in vars(ops).items():
        if inspect.isfunction(value) and value.__module__.startswith("minispore.ops."):
            doc = value.__doc__ or ""
            assert "MindSpore:" in doc or name in OURS, name


OURS = {"sum_to", "constant", "getitem", "setitem"}


def test_public_functions_are_tested() -> None:
    """Functions of one primitive are covered by its rows; all others are called by a test."""
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*ops*.py"))
    called = set(re.findall(r"ops\.(\w+)", tests)) | set(FUNCTIONS)
    composed = {
        name
        for name, value in vars(ops).items()
        if inspect.isfunction(value)
        and value.__module__.startswith("minispore.ops.")
        and value.__name__ == name  # no alias
        and not value.__code__.co_filename.endswith("common.py")  # made by ``functional``
    }
    assert composed - called - OURS == set()

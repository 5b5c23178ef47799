"""Rules: a pattern and what replaces it, both written with our own ops.

    Rule("sub_zero", "x - 0 -> x", lambda x: x - 0, lambda x: x)
    Rule("merge_casts", "cast(cast(x, a), b) -> cast(x, b) if a holds every x",
         lambda x, a, b: op.Cast(op.Cast(x, dtype=a), dtype=b),
         lambda x, b: ops.cast(x, b),
         when=lambda x, a, b: is_lossless(x.dtype, a))

A pattern is traced once, like any function: its parameters become nodes of a sample type and every
op a CNode.  ``op.Name(operands, attribute=...)`` makes a node where the public function would want
to know shapes; a pattern's parameter may stand for an attribute there.  When a node matches, the
replacement is traced with the nodes found, under the names of its parameters (`out` is the
matched node); so it is typed at birth, and compared with what it replaces.

What matches: a parameter, any node (the same one wherever it stands twice); a number, a constant or
Fill of which every element is that number, the sign of zero included; a primitive, one of the
same name and attributes, whose operands match, in either order if it commutes.  With `alone`, the
operations inside the pattern must have no other use: else they would be computed twice.

(MindSpore: optimizer/pattern_matcher.h and the rules of irpass.)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore.abstract import TOKEN, Abstract, AbstractScalar, AbstractTensor
from minispore.dtype import DType
from minispore.ir.compare import constant_key
from minispore.ir.node import CNode, Node, ParameterNode, ValueNode, is_call_of
from minispore.primitive import REGISTRY, Primitive, handled_by
from minispore.symbolic import GraphBuilder, Scalar, wrap
from minispore.tensor import Tensor
from minispore.tree import NeedConstant

COMMUTATIVE = frozenset(
    {
        "Add", "Mul", "Maximum", "Minimum", "Equal", "NotEqual",
        "LogicalAnd", "LogicalOr", "LogicalXor", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
        "ScalarAdd", "ScalarMul", "ScalarEqual", "ScalarNotEqual",
    }
)  # fmt: skip

Bindings = dict[str, Any]  # a pattern's parameter -> the node or attribute it stands for


@dataclass(frozen=True)
class Rule:
    """``pattern -> replacement``, where `when` holds.

    Args:
        name, law: the law in one line.
        pattern, replacement: functions written with ops; see above.
        when: says of what the pattern's parameters and `out` stand for whether the rule fires.
        fastmath: the rule is wrong for nan, inf, -0.0 or the last bit, and off unless asked for.
        sample: the type that a pattern's parameters have while it is traced; with a Scalar's type
            the pattern is one of Scalar primitives.
        alone: what is inside the pattern must have no other use.
    """

    name: str
    law: str
    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    when: Callable[..., bool] | None = None
    fastmath: bool = False
    sample: Abstract = AbstractTensor(dt.float32, (2, 3))
    alone: bool = False

    @cached_property
    def root(self) -> CNode:
        """The traced pattern."""
        variables = [wrap(ParameterNode(n, self.sample)) for n in _parameters(self.pattern)]
        with handled_by(GraphBuilder()):
            traced = self.pattern(*variables)
        root = _node_of(traced)
        assert isinstance(root, CNode) and isinstance(root.callee, Primitive)
        return root

    @property
    def primitives(self) -> tuple[str, ...]:
        """The names of the primitives at which the rule may fire."""
        assert isinstance(self.root.callee, Primitive)
        return (self.root.callee.name,)

    @cached_property
    def hints(self) -> frozenset[str]:
        """What must be among the operands of a node that matches: a quick look before the match."""
        return hints(self.root) - {""}

    def apply(self, node: CNode, uses: Mapping[Node, int] | None = None) -> Node | None:
        """What replaces `node`; None if the rule does not fire.

        `uses`: how often nodes are used, where it is known.
        """
        counts = uses if self.alone and uses is not None else {}
        for bindings in _match_call(self.root, node, {}, counts):
            bindings["out"] = node
            if self.when is not None and not _call(self.when, bindings):
                continue
            builder = _Replacement(node.origin.made_by(self.name))
            with handled_by(builder):
                new = builder.node_of(_call(self.replacement, bindings))
            if new.abstract == node.abstract and not isinstance(builder.token, CNode):
                return new
        return None


class _Replacement(GraphBuilder):
    """Builds what a rule puts in a node's place: no sizes that have to be read off other nodes."""

    def size(self, symbol: str, operands: Sequence[Node] = ()) -> Node:
        raise NeedConstant(f"the size {symbol}")


def scalar_twin(rule: Rule) -> Rule:
    """The same law for Python numbers that vary: ``x - 0 -> x`` on ScalarSub."""
    return Rule(
        f"scalar_{rule.name}", rule.law, rule.pattern, rule.replacement, rule.when, rule.fastmath,
        AbstractScalar(float),
    )  # fmt: skip


def hints(node: Node) -> frozenset[str]:
    """What the operands of a node are."""
    return frozenset(map(_hint, node.inputs))


def _hint(node: Node) -> str:
    """The name of a primitive that a node calls, "constant", or "" for anything else."""
    if isinstance(node, CNode) and isinstance(node.callee, Primitive):
        return "constant" if node.callee.name == "Fill" else node.callee.name
    return "constant" if isinstance(node, ValueNode) else ""


@cache
def _parameters(function: Callable) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _call(function: Callable, bindings: Bindings) -> Any:
    """`function` on the bindings that its parameters name; nodes as Tensors and Scalars."""
    found = [bindings[name] for name in _parameters(function)]
    return function(*(wrap(v) if isinstance(v, Node) else v for v in found))


def _node_of(value: Any) -> Any:
    """The node of a traced Tensor or Scalar; other values as they are."""
    if isinstance(value, Tensor):
        return value._node
    return value.node if isinstance(value, Scalar) else value


class _Op:
    """``op.Name(x, y, attribute=value)``: a pattern's node, whose type is that of `x`."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def make(*operands: Any, **attrs: Any) -> Any:
            nodes = [GraphBuilder().node_of(o) for o in operands]
            abstract = nodes[0].abstract if nodes else TOKEN
            return wrap(CNode(REGISTRY[name].bound(**attrs), nodes, abstract))

        return make


op = _Op()


# ----------------------------------------------------------------------------------- matching


def match(
    pattern: Node, node: Node, bindings: Bindings, uses: Mapping[Node, int]
) -> Iterator[Bindings]:
    """Every way in which `node` matches, as bindings that extend those given.

    An operation inside the pattern matches none that is used more than once, by `uses`.
    """
    if isinstance(pattern, ParameterNode):
        bound = bindings.get(pattern.name)
        if bound is None:
            yield {**bindings, pattern.name: node}
        elif same_value(bound, node):
            yield bindings
    elif isinstance(pattern, ValueNode):
        if is_number(node, pattern.value):
            yield bindings
    elif isinstance(pattern, CNode) and isinstance(node, CNode) and uses.get(node, 1) == 1:
        yield from _match_call(pattern, node, bindings, uses)


def _match_call(
    pattern: CNode, node: CNode, bindings: Bindings, uses: Mapping[Node, int]
) -> Iterator[Bindings]:
    wanted, found = pattern.callee, node.callee
    assert isinstance(wanted, Primitive)
    if (
        not isinstance(found, Primitive)
        or found.name != wanted.name
        or len(pattern.inputs) != len(node.inputs)
    ):
        return
    bound = _match_attributes(wanted, found, bindings)
    if bound is None:
        return
    yield from _match_operands(pattern.inputs, node.inputs, bound, uses)
    if wanted.name in COMMUTATIVE:
        yield from _match_operands(pattern.inputs, node.inputs[::-1], bound, uses)


def _match_operands(
    patterns: tuple[Node, ...],
    nodes: tuple[Node, ...],
    bindings: Bindings,
    uses: Mapping[Node, int],
) -> Iterator[Bindings]:
    if not patterns:
        yield bindings
        return
    for first in match(patterns[0], nodes[0], bindings, uses):
        yield from _match_operands(patterns[1:], nodes[1:], first, uses)


def _match_attributes(wanted: Primitive, found: Primitive, bindings: Bindings) -> Bindings | None:
    """The bindings with those of attributes; None if the attributes differ."""
    if wanted.attrs.keys() != found.attrs.keys():
        return None
    for name, pattern in wanted.attrs.items():
        parameter = _node_of(pattern)
        if isinstance(parameter, ParameterNode):
            bindings = {**bindings, parameter.name: found.attrs[name]}
        elif wanted.bound(value=pattern) != wanted.bound(value=found.attrs[name]):
            return None
    return bindings


def same_value(a: Node, b: Node) -> bool:
    """True for one node, and for two constants of the same type and bits."""
    if isinstance(a, ValueNode) and isinstance(b, ValueNode):
        return constant_key(a) == constant_key(b)
    return a is b


def is_number(node: Node, number: Any) -> bool:
    """True if a constant, or a Fill, is `number` in every element, with its sign if it is zero."""
    number = np.asarray(number).item()
    if is_call_of(node, "Fill"):
        return _is(node.callee.attrs["value"], number)  # type: ignore[attr-defined]
    if not isinstance(node, ValueNode):
        return False
    value = node.value
    if isinstance(value, np.ndarray):
        if value.size == 0 or not _is(value.flat[0].item(), number):
            return False  # most are told by their first element
        return bool((value == value.flat[0]).all()) and _one_sign(value)
    return isinstance(value, (bool, int, float)) and _is(value, number)


def _is(value: Any, number: Any) -> bool:
    return value == number and _sign(value) == _sign(number)


def _sign(value: Any) -> float:
    return math.copysign(1.0, value) if value == 0 else 0.0


def _one_sign(values: np.ndarray) -> bool:
    return not dt.from_numpy(values.dtype).is_float or len(set(np.signbit(values).flat)) == 1


# ------------------------------------------------------------------ what conditions ask about


def is_exact(x: Any) -> bool:
    """True for integers and bools, Tensors and Scalars: arithmetic has no -0.0, nan or rounding."""
    return x.kind is not float if isinstance(x, Scalar) else not x.dtype.is_float


def is_lossless(source: DType, target: DType) -> bool:
    """True if a cast from `source` to `target` keeps every value."""
    if source is target or source is dt.bool_:
        return True
    if source.is_float != target.is_float:
        return target.is_float and source.itemsize * 8 <= dt.DIGITS[target]
    if source.is_float:
        return source.itemsize < target.itemsize
    signed = target.kind == "int" or source.kind == "uint"
    wider = target.itemsize > source.itemsize or (
        target.itemsize == source.itemsize and target.kind == source.kind
    )
    return target is not dt.bool_ and signed and wider

"""A function under grad, while evaluating: its region, and the gradients asked for.

The function is evaluated in a region whose explicit parameters are the values to differentiate
by: the chosen arguments, in cells of their own, and the weights, whose cells hold the parameters as
long as the function runs.  Lowering makes a Grad of it, which the `grad` stage expands by J.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minispore import ops
from minispore.frontend.heap import GradNode, Region
from minispore.ir.node import Node, ParameterNode
from minispore.tensor import Tensor

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


def call_gradient(
    cotangents_of: Callable, ev: Evaluator, gradient: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """A call of a GradFunction, which selects the variables and packs the result.

    autodiff/api.py is an upper room: its `cotangents_of`, which checks what the caller gave as the
    outputs' cotangents, is passed in.
    """
    own_args, own_kwargs, sens = gradient.split_sens(tuple(args), kwargs)
    function = ev.get_attribute(gradient, "fn")
    ev.get_attribute(gradient, "weights")  # a guard: the same weights at the next call
    selection = gradient.select(own_args, own_kwargs)
    weights = [_seen(ev, w) for w in selection.weights]
    if gradient.return_ids:
        for w in weights:
            ev.get_attribute(w, "name")
    given = [*own_args, *own_kwargs.values()]
    value, found = differentiate(
        ev, function, given, list(own_kwargs), selection.numbers, weights,
        gradient.differentiated,
        None if sens is None else lambda outs: cotangents_of(outs, sens),
    )  # fmt: skip
    return gradient.package(value, selection, found)


def _seen(ev: Evaluator, weight: Any) -> Any:
    """A weight as the evaluated program sees it, its flag guarded."""
    weight = ev.seen(weight)
    if ev.outside.number(weight) is None:
        raise TypeError("which Parameter to differentiate by depends on a Tensor: choose outside")
    ev.get_attribute(weight, "requires_grad")
    return weight


def differentiate(
    ev: Evaluator,
    function: Any,
    given: list[Any],
    keywords: list[str],
    numbers: Sequence[int],
    weights: list[Any],
    differentiated: Callable[[Any], list[Tensor]],
    sens: Callable[[list[Tensor]], list[Tensor]] | None = None,
) -> tuple[Any, list[Any]]:
    """Evaluate a function and its gradients.

    Args:
        given: the arguments, those for `keywords` last.
        numbers: which of `given` (all Tensors) to differentiate by.
        weights: the Parameters to differentiate by.
        differentiated: picks from the value the Tensors whose sum is differentiated.
        sens: gives their cotangents; ones if None.

    Returns:
        The value, and the gradients of arguments and weights: zeros for what is no float Tensor
        or requires no gradient.
    """
    name = getattr(function, "__name__", type(function).__name__)
    region = Region(ev.region, "function", f"grad_{name}", ev.origin)
    owner = GradNode(region, ev.origin)
    region.owner = owner
    params: list[ParameterNode | None] = []
    with ev.within(region):
        inner = list(given)
        for i in numbers:
            params.append(_variable(ev, owner, given[i], f"x{i}"))
            inner[i] = ev.born(Tensor._of_node(params[-1] or given[i]._node))
        before = _enter_weights(ev, owner, weights)
        seen = [getattr(v, "_node", None) for v in inner]
        n = len(inner) - len(keywords)
        value = ev.call(function, inner[:n], dict(zip(keywords, inner[n:], strict=True)))
        _refuse_writes(inner, seen)
        outs = differentiated(value)
    params += _leave_weights(weights, before)
    owner.outs = [ev.node_of(v) for v in outs]
    if sens is not None:
        owner.sens = [ev.node_of(c) for c in sens(outs)]
    place = {id(p): k for k, p in enumerate(region.params)}
    variables = [*(given[i] for i in numbers), *weights]
    found = [
        ops.zeros_like(v) if p is None else ev.wrap_out(owner, place[id(p)], p.abstract)
        for v, p in zip(variables, params, strict=True)
    ]
    return value, found


def _refuse_writes(given: list[Any], nodes: list[Node | None]) -> None:
    """Refuse writes to the arguments, as a tape does; `nodes` are what they held before."""
    for value, node in zip(given, nodes, strict=True):
        if isinstance(value, Tensor) and value._node is not node:
            raise RuntimeError(
                "an argument of the differentiated function is written in place; "
                "copy it first, for example x = x * 1"
            )


def _variable(ev: Evaluator, owner: GradNode, value: Any, name: str) -> ParameterNode | None:
    """A parameter of the region for a value to differentiate by; None if it has no gradient."""
    if not value.dtype.is_float:
        return None
    param = ParameterNode(name, value._abstract, ev.origin)
    owner.region.params.append(param)
    owner.operands.append(value._node)
    ev.home[id(param)] = owner.region
    return param


def _enter_weights(
    ev: Evaluator, owner: GradNode, weights: list[Any]
) -> dict[int, tuple[Node, ParameterNode]]:
    """Put a parameter into each weight's cell: id of the weight -> (node before, parameter)."""
    before: dict[int, tuple[Node, ParameterNode]] = {}
    for w in weights:
        if id(w) not in before and w.requires_grad and w.dtype.is_float:
            ev.touch_tensor(w)
            old, param = w._node, _variable(ev, owner, w, w.name)
            assert param is not None
            w._node = param
            ev.commits.variables[id(param)] = old
            before[id(w)] = (old, param)
    return before


def _leave_weights(
    weights: list[Any], before: dict[int, tuple[Node, ParameterNode]]
) -> list[ParameterNode | None]:
    """Give the weights that were not written their own nodes again; their parameters."""
    params: list[ParameterNode | None] = []
    for w in weights:
        old, param = before.get(id(w), (None, None))
        if param is not None and w._node is param:
            w._node = old
        params.append(param)
    return params

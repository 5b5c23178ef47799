"""A function under grad, while evaluating: its region, and the gradients asked for.

The function is evaluated in a region whose explicit parameters are the values to differentiate
by: the chosen arguments, in cells of their own, and the weights, whose cells hold the parameters as
long as the function runs.  Lowering makes a Grad of it, which the `grad` stage expands by J.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minispore.frontend.heap import GradNode, Region
from minispore.ir.node import Node, ParameterNode
from minispore.symbolic import Scalar, wrap
from minispore.tensor import Tensor
from minispore.tree import flatten

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


def differentiate(
    ev: Evaluator,
    function: Any,
    args: list[Any],
    kwargs: dict[str, Any],
    positions: list[int],
    weights: list[Any],
    has_aux: bool,
    sens: Any = None,
) -> tuple[Any, list[Any], list[Any]]:
    """Evaluate ``function(*args)`` and its gradients.

    Args:
        positions: the arguments to differentiate by; those that are no float Tensors get None.
        weights: the Parameters to differentiate by, as the evaluated program sees them.
        has_aux: differentiate the first result only.
        sens: cotangents of the differentiated results, in their structure; ones if None.

    Returns:
        The value, the gradients of the arguments, the gradients of the weights.
    """
    name = getattr(function, "__name__", type(function).__name__)
    region = Region(ev.region, "function", f"grad_{name}", ev.origin)
    owner = GradNode(region, ev.origin)
    region.owner = owner
    cells: dict[int, Tensor] = {}
    ev.region = region
    try:
        inner = list(args)
        for i in positions:
            if isinstance(args[i], Tensor) and args[i].dtype.is_float:
                cells[i] = ev.born(wrap(_variable(ev, owner, args[i]._node, f"x{i}")))
                inner[i] = cells[i]
        before = _enter_weights(ev, owner, weights)
        value = ev.call(function, inner, kwargs)
        written = [i for i, cell in cells.items() if cell._node not in region.params]
        outs = _leaves(value[0] if has_aux else value)
    finally:
        ev.region = region.parent  # type: ignore[assignment]
        region.hand_up()
    if written:
        raise RuntimeError(
            "an argument of the differentiated function is written in place; "
            "copy it first, for example x = x * 1"
        )
    params = _leave_weights(weights, before)
    owner.outs = [ev.node_of(v) for v in outs]
    if sens is not None:
        owner.sens = [ev.node_of(v) for v in _leaves(sens)]
    number = {id(p): k for k, p in enumerate(region.params)}
    inputs = [cells.get(i) for i in positions]
    arg_params = iter(region.params)
    of_args = [ev.wrap_out(owner, number[id(p)], p.abstract) if c is not None else None
               for c, p in _with_params(inputs, arg_params)]  # fmt: skip
    of_weights = [
        None if p is None else ev.wrap_out(owner, number[id(p)], p.abstract) for p in params
    ]
    return value, of_args, of_weights


def _with_params(inputs: list[Any], params: Any) -> list[tuple[Any, Any]]:
    """Each differentiated argument with its parameter, which stand in the same order."""
    return [(c, None if c is None else next(params)) for c in inputs]


def _variable(ev: Evaluator, owner: GradNode, operand: Node | None, name: str) -> ParameterNode:
    assert operand is not None
    param = ParameterNode(name, operand.abstract, ev.origin)
    owner.region.params.append(param)
    owner.operands.append(operand)
    ev.home[id(param)] = owner.region
    return param


def _enter_weights(
    ev: Evaluator, owner: GradNode, weights: list[Any]
) -> dict[int, tuple[Node, ParameterNode]]:
    """Put a parameter into each weight's cell: id of the weight -> (node before, parameter)."""
    before: dict[int, tuple[Node, ParameterNode]] = {}
    for w in weights:
        if id(w) not in before and w.requires_grad and w.dtype.is_float:
            owner.region.touch(w)
            old = w._node
            param = _variable(ev, owner, old, w.name)
            w._node = param
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


def _leaves(value: Any) -> list[Any]:
    """The results that have a gradient: float Tensors and float numbers."""
    leaves, _ = flatten(value, lambda v: isinstance(v, (Tensor, Scalar)))
    return [v for v in leaves if (v.dtype.is_float if isinstance(v, Tensor) else v.kind is float)]

"""Calls of Cells: hooks, then ``construct``, or the Cell's own gradient beside it."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from minispore import ops
from minispore.autodiff.tape import checked, refuse_containers
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.functions import activate, bind, called_region, in_region, parts
from minispore.frontend.heap import CallNode, CustomGradient, Region
from minispore.ir.node import LATE, ParameterNode
from minispore.symbolic import is_run_time, wrap
from minispore.tensor import Tensor
from minispore.tree import flatten, unflatten

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


def call_cell(ev: Evaluator, cell: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call of a Cell: hooks, then construct (or construct with the Cell's own gradient)."""
    code, fresh, text = ev.outside.source(cell)
    pre = _hooks(ev, cell, "_pre_hooks")
    post = _hooks(ev, cell, "_hooks")
    if _hooks(ev, cell, "_backward_hooks"):
        raise UnsupportedError(
            f"the backward hooks of {type(cell).__name__} are called in PyNative mode only: remove "
            "them, or define its gradient with bprop"
        )
    phase = ev.phase
    ev.scopes.append(_scope_name(ev, cell))
    ev.cells.append(cell)
    ev.phase = getattr(type(cell), "_phase", phase)
    try:
        for hook in pre:
            changed = ev.call(hook, [cell, tuple(args)], {})
            if changed is not None:
                args = list(changed) if isinstance(changed, tuple) else [changed]
        if hasattr(cell, "bprop") and ev.get_attribute(cell, "bprop") is not None:
            out = _call_with_bprop(ev, cell, args, kwargs)
        else:
            out = _construct(ev, cell, args, kwargs)
        for hook in post:
            changed = ev.call(hook, [cell, tuple(args), out], {})
            out = out if changed is None else changed
    finally:
        ev.scopes.pop()
        ev.cells.pop()
        ev.phase = phase
    return out


def _hooks(ev: Evaluator, cell: Any, name: str) -> list[Any]:
    hooks = getattr(cell, name, None)
    if not hooks:
        code, fresh, text = ev.outside.source(cell)
        if hooks is not None and not fresh:
            ev.outside.require(f"not {code}.{name}", f"hooks of {text}")
        return []
    return list(ev.homed(ev.outside.attribute(cell, name, hooks)).values())


def _construct(ev: Evaluator, cell: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    method = ev.get_attribute(cell, "construct")
    if not isinstance(method, types.MethodType):
        return ev.call(method, args, kwargs)
    kind = LATE if getattr(cell, "_is_inlined_late", False) else "cell"
    return in_region(ev, kind, type(cell).__name__, method.__func__, [cell, *args], kwargs)


def _scope_name(ev: Evaluator, cell: Any) -> str:
    """The name of a Cell in scopes: its attribute in the Cell around it, else its class."""
    if ev.cells:
        for name, child in getattr(ev.cells[-1], "_cells", {}).items():
            if child is cell:
                return name
    return type(cell).__name__


def _call_with_bprop(ev: Evaluator, cell: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A Cell with its own gradient: arguments, results and the graph of bprop are explicit."""
    function = ev.get_attribute(cell, "construct").__func__
    code, owner, parent = parts(function)
    inputs = list(bind(ev, function, code, [cell, *args], kwargs).values())[1:]
    refuse_containers(type(cell).__name__, inputs)
    region = called_region(ev, "cell", type(cell).__name__)
    owner_node = region.owner
    assert isinstance(owner_node, CallNode)
    owner_node.operands = [v._node for v in inputs if isinstance(v, Tensor)]  # type: ignore[misc]
    with ev.within(region):
        inner = explicit(ev, region, inputs, "x")
        value = activate(ev, function, code, owner, parent, [cell, *inner], {})
    refuse_containers(type(cell).__name__, value if isinstance(value, tuple) else (value,))
    leaves, _ = flatten(value, is_run_time)
    owner_node.results = [ev.node_of(v) for v in leaves]
    _build_bprop(ev, cell, owner_node, inputs, value)
    return value


def explicit(ev: Evaluator, region: Region, values: list[Any], name: str) -> list[Any]:
    """The values with each Tensor replaced by an explicit parameter of the region."""
    out = []
    for value in values:
        if isinstance(value, Tensor):
            param = ParameterNode(name, value._abstract, ev.origin)
            region.params.append(param)
            ev.home[id(param)] = region
            value = ev.born(wrap(param))
        out.append(value)
    return out


def _build_bprop(ev: Evaluator, cell: Any, owner: CallNode, inputs: list[Any], value: Any) -> None:
    region = Region(owner.parent, "cell", f"{type(cell).__name__}_bprop", ev.origin, owner)
    owner.custom = custom = CustomGradient(region)
    owner.regions = (owner.region, region)
    phase, ev.phase = ev.phase, "backward"
    with ev.within(region, keeps=False):
        args = explicit(ev, region, inputs, "x")
        leaves, structure = flatten(value, lambda v: isinstance(v, Tensor))
        outs = explicit(ev, region, leaves, "out")
        douts = iter(explicit(ev, region, [o for o in outs if o._abstract.has_cotangent], "dout"))
        all_douts = [next(douts) if o._abstract.has_cotangent else ops.zeros_like(o) for o in outs]
        custom.params = list(region.params)
        bprop = ev.get_attribute(cell, "bprop")
        got = ev.call(
            bprop, [*args, unflatten(structure, outs), unflatten(structure, all_douts)], {}
        )
        cotangents = checked(f"{type(cell).__name__}.bprop", got, tuple(args))
        for x, c in zip(args, cotangents, strict=True):
            if isinstance(x, Tensor) and x._abstract.has_cotangent:
                custom.cotangents.append(ev.node_of(ops.zeros_like(x) if c is None else c))
        if region.changes(ev.births):
            raise UnsupportedError(
                f"{type(cell).__name__}.bprop must not write or print anything: what it "
                "returns is all that is used"
            )
    ev.phase = phase

"""Generator expressions and comprehensions: loops that are run as far as an item is asked for."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from minispore.frontend.heap import END, Env, Frame, Lazy
from minispore.symbolic import NeedConstant

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


def generator(ev: Evaluator, node: Any, make: Callable[[], Any]) -> Lazy:
    """What a generator expression is: its loops, run as far as the next item is asked for.

    The first iterable is evaluated at once, in the scope around; all else in a scope of its
    own, when it is reached.
    """
    outer, loops = ev.frame, node.generators
    targets = {n.id for g in loops for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    walrus = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
    env = ev.born(Env(outer.env, frozenset(targets)))
    code = replace(outer.code, local=frozenset(targets), nonlocal_=frozenset(walrus))
    first = ev.iterator(ev.expression(loops[0].iter))

    def step(it: Lazy, k: int) -> bool:
        """Bind the targets of loop k, and of those around it, to their next items."""
        while True:
            if it.slots[k] is None:  # it begins anew for each item of the loop around it
                if not step(it, k - 1):
                    return False
                it.slots[k] = ev.iterator(ev.expression(loops[k].iter))
            item = it.slots[k].advance()
            if item is not END:
                ev.assign(loops[k].target, item)
                if _all_true(ev, loops[k].ifs):
                    return True
            elif k == 0:
                return False
            else:
                it.slots[k] = None

    def advance(it: Lazy) -> Any:
        ev.frames.append(Frame(code, env, outer.owner, ev.frame.where, None, ev.region))
        try:
            ev.region.touch(it)
            return make() if step(it, len(loops) - 1) else END
        finally:
            ev.frames.pop()

    made = Lazy(advance)
    made.slots |= dict.fromkeys(range(len(loops))) | {0: first}
    return ev.born(made)


def _all_true(ev: Evaluator, tests: list[ast.expr]) -> bool:
    """Whether all conditions of a comprehension hold."""
    for test in tests:
        condition = ev.truth_of(test)
        if not isinstance(condition, bool):
            raise NeedConstant(
                "the length of a comprehension that a Tensor decides",
                "multiply by a mask, or choose with ops.where",
            )
        if not condition:
            return False
    return True


def items(ev: Evaluator, node: Any, make: Callable[[], Any]) -> list[Any]:
    """The items of a comprehension."""
    it, found = generator(ev, node, make), []
    while (item := it.advance()) is not END:
        found.append(item)
    return found

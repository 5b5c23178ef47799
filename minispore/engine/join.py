"""Two kernels that run one after the other as one, where a call costs more than the work.

That is so in loops: beside a kernel of the body there is one that counts the turns and compares.
"""

from __future__ import annotations

import re

from minispore.engine.emit import Kernel
from minispore.engine.fuse import MOST_STEPS, Group

_HEAD = "def kernel(slots, args, lo, hi, worker):\n"
_NUMBERED = re.compile(r"\b([adkstwx])(\d+)\b|\bargs\[(\d+)\]")


def joined(first: Kernel, then: Kernel) -> Kernel | None:
    """A kernel that does what both do; None if that is not worth it.

    One of them must be about single numbers; the other works element by element, too.
    """
    groups = first.group, then.group
    steps = [s for g in groups for s in g.steps]
    if not all(g.is_flat and g.steps[0].gives != "own" for g in groups):
        return None
    if min(g.size for g in groups) > 1 or len(steps) > MOST_STEPS:
        return None
    large = max(groups, key=lambda g: g.size)
    start, one = _body(first, large).split(_HEAD)
    _, two = _body(then, large).split(_HEAD)
    last = max((int(n) for _, n, _ in _NUMBERED.findall(one) if n), default=0)
    source = f"{start}{_HEAD}{one}{_renumbered(two, last, len(first.arguments))}"
    kinds = first.group.kinds | then.group.kinds
    both = Group(steps, large.rows, large.columns, True, kinds, first.group.needs)
    return Kernel(source, [*first.arguments, *then.arguments], large.size, both, splits=False)


def _body(kernel: Kernel, large: Group) -> str:
    """The text of a kernel; of one about single numbers, with a loop of its own."""
    if kernel.group is large:
        return kernel.source
    return kernel.source.replace("range(lo, hi)", "range(0, 1)")


def _renumbered(text: str, last: int, arguments: int) -> str:
    """With other variables, and arguments that come after others."""

    def other(found: re.Match) -> str:
        letter, number, argument = found.groups()
        return f"{letter}{int(number) + last}" if letter else f"args[{int(argument) + arguments}]"

    return _NUMBERED.sub(other, text)


__all__ = ["joined"]

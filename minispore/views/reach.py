"""Which writers of a place a reader may find, where instructions jump.

After a branch that are those of both arms; in a loop, and after it, also the one before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

START = -1  # what was there before the first instruction


class Reach:
    """The ways through numbered instructions.

    Args:
        steps: of each, where it may jump, and whether it may go on to the next.
    """

    def __init__(self, steps: Iterable[tuple[Collection[int], bool]]):
        known = list(steps)
        self.before: list[list[int]] = [[] for _ in range(len(known) + 1)]
        self.before[0].append(START)
        for number, (targets, goes_on) in enumerate(known):
            for after in {*targets, *[number + 1] * goes_on}:
                self.before[after].append(number)

    def found(self, reader: int, writers: Collection[int]) -> list[int]:
        """Those of the instructions `writers` whose value `reader` may find, in order."""
        if len(writers) < 2:
            return list(writers)
        found, seen, todo = [], set(), list(self.before[reader])
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            if at in writers:
                found.append(at)
            elif at != START:
                todo += self.before[at]
        return sorted(found)

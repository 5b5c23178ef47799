"""In which order kernels run, and which take turns on parts of their work.

What reads the latest value is next, while the cache has it.  Kernels in a *bundle* take turns, part
by part, so that what one writes the next one finds in the nearest cache:

    attention of batch element 0:    q k'    softmax    a v
    attention of batch element 1:    q k'    softmax    a v
    ...

That is possible where part c of the work reads only part c of what the others write: each buffer
between them is cut into parts along its first axis.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from minispore.abstract import Shape
from minispore.engine.fuse import Group
from minispore.engine.layout import Buffer, View, broadcast
from minispore.engine.lower import Step

Bundle = list[Group]


def ordered(
    groups: list[Group], wishes: Iterable[tuple[Group, Group]] = ()
) -> list[tuple[Bundle, int]]:
    """Bundles in an order in which they can run, each with its number of parts.

    Of each pair in `wishes` the first group comes after the second one, if it can.
    """
    bundles, needs = _bundled(groups)
    place = {g: i for i, bundle in bundles.items() for g in bundle}
    for late, early in wishes:
        if not _reaches(needs, place[early], place[late]):
            needs[place[late]].add(place[early])
    users: dict[int, list[int]] = {i: [] for i in bundles}
    for i, needed in needs.items():
        for j in needed:
            users[j].append(i)
    missing = {i: len(needed) for i, needed in needs.items()}
    height: dict[int, int] = {}
    for i in reversed(_topological(users, dict(missing))):
        height[i] = max((height[u] + 1 for u in users[i]), default=0)
    big = {i: max(g.size for g in b) > 1 for i, b in bundles.items()}
    # what little depends on (what a gradient does to its parameter) goes first
    heap = [(big[i], 0, height[i], i) for i, n in missing.items() if not n]
    heapq.heapify(heap)
    done: list[tuple[Bundle, int]] = []
    while heap:
        i = heapq.heappop(heap)[-1]
        done.append((_inner_order(bundles[i]), _parts(bundles[i])))
        for user in users[i]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(heap, (big[user], -len(done), height[user], user))
    return done


def _topological(users: dict[int, list[int]], missing: dict[int, int]) -> list[int]:
    ready = [i for i, n in missing.items() if not n]
    for i in ready:
        for user in users[i]:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    return ready


def _reaches(needs: dict[int, set[int]], start: int, goal: int) -> bool:
    """True if a bundle is another one, or needs it, perhaps over others."""
    todo, seen = [start], {start}
    while todo:
        i = todo.pop()
        if i == goal:
            return True
        todo += needs[i] - seen
        seen |= needs[i]
    return False


def _inner_order(bundle: Bundle) -> Bundle:
    """The groups of a bundle, each after what it needs."""
    done: dict[Group, None] = {}
    while len(done) < len(bundle):
        for g in bundle:
            if g not in done and all(n in done or n not in bundle for n in g.needs):
                done[g] = None
    return list(done)


# ------------------------------------------------------------------------------- bundles


def _parts(bundle: Bundle) -> int:
    return _batch(bundle[0]) if len(bundle) > 1 else 1


def _bundled(groups: list[Group]) -> tuple[dict[int, Bundle], dict[int, set[int]]]:
    """Groups that can take turns put together; and which bundles each of them needs."""
    number = {g: i for i, g in enumerate(groups)}
    bundles = {i: [g] for i, g in enumerate(groups)}
    needs = {i: {number[n] for n in g.needs} for i, g in enumerate(groups)}

    def reaches(start: int, goals: set[int], seen: set[int]) -> bool:
        if start in goals:
            return True
        seen.add(start)
        return any(n not in seen and reaches(n, goals, seen) for n in needs[start])

    for one, other in _neighbours(groups):
        i, j = number[one], number[other]
        outside = (needs[i] | needs[j]) - {i, j}
        if i == j or any(reaches(n, {i, j}, set()) for n in outside):
            continue
        both = bundles[i] + bundles[j]
        if not _take_turns(both):
            continue
        bundles[i] = both
        needs[i] = outside
        for g in bundles.pop(j):
            number[g] = i
        del needs[j]
        for k, needed in needs.items():
            if j in needed:
                needs[k] = (needed - {j}) | {i}
    return bundles, needs


def _neighbours(groups: list[Group]) -> Iterator[tuple[Group, Group]]:
    """Pairs of which one reads what the other writes, then pairs that read the same."""
    batched = [g for g in groups if _is_batched(g)]
    for g in batched:
        for n in groups:
            if n in g.needs or g in n.needs:
                yield g, n
    for i, g in enumerate(batched):
        for h in batched[:i]:
            if {v.buffer for v in g.steps[0].inputs} & {v.buffer for v in h.steps[0].inputs}:
                yield g, h


def _is_batched(g: Group) -> bool:
    return g.steps[0].kind == "matmul" and _batch(g) > 1


def _batch(g: Group) -> int:
    """How many parts a group's work has: the first axis of a product's batch; 0 if any fits."""
    step = g.steps[0]
    if step.gives != "own":
        return 0
    shape: Shape = step.more["result"].shape if step.kind == "matmul" else (1, 1)
    return shape[0] if len(shape) > 2 else 1


def _take_turns(bundle: Bundle) -> bool:
    """True if groups can work on parts in turn."""
    sizes = {_batch(g) for g in bundle} - {0}
    n = sizes.pop() if len(sizes) == 1 else 1
    if n == 1:
        return False
    written = {b for g in bundle for b in g.kinds}
    return all(_is_cut(g, n, written) for g in bundle)


def _is_cut(g: Group, n: int, written: set[Buffer]) -> bool:
    """True if part c of n of a group's work reads and writes part c of each buffer."""
    if g.steps[0].gives == "own":
        step = g.steps[0]
        return all(
            _is_first_axis(view) for view in _operands(step)
            if view.buffer in written
        )  # fmt: skip
    if (g.size if g.is_flat else g.rows) % n or not {"full", "row"} >= set(g.kinds.values()):
        return False
    return all(
        how[0] in ("full", "row") or view.buffer not in written
        for step in g.steps
        for view, how in zip(step.inputs, step.ways, strict=True)
        if view.buffer not in g.kinds
    )


def _operands(step: Step) -> list[View]:
    """The views of a product, the operands with the axes of its batch."""
    result: View = step.more["result"]
    return [result, *(broadcast(v, (*result.shape[:-2], *v.shape[-2:])) for v in step.inputs)]


def _is_first_axis(view: View) -> bool:
    """True if index c of the first axis is part c of the buffer."""
    first, rest = view.steps[0], view.steps[1:]
    inside = sum((n - 1) * s for n, s in zip(view.shape[1:], rest, strict=True))
    whole = first * view.shape[0] == view.buffer.size and view.offset == 0
    return whole and min(rest) >= 0 and inside < first

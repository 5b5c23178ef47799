"""Which steps become one kernel.

Steps (lower.py) are put into groups, each of which becomes one kernel (emit.py).  Within a group
there is one domain of R rows by C columns, and every value has a kind:

    full     one element for each row and column         x, exp(x - m)
    row      one for each row                            m = max(x, -1), keep_dims
    sum      one for each column, at the end of all rows the gradient of a bias
    total    a single one, at the end                    a loss

Operands from outside are read as full, row, column (the same for all rows), cyclic (row r reads
row r % P), strided, by an index for each row, or scalar.  Fusing stops where a value would be
needed before it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from minispore.engine.layout import Buffer
from minispore.engine.lower import Step

MOST_STEPS = 80  # in one group: compiling a kernel takes time in proportion


# ------------------------------------------------------------------------------- groups


@dataclass(eq=False)
class Group:
    """Steps that become one kernel; `kinds` are those of the buffers that they write.

    Until a step needs rows and columns only the `size` of the domain is fixed (`is_flat`).
    """

    steps: list[Step]
    rows: int
    columns: int
    is_flat: bool
    kinds: dict[Buffer, str]
    needs: set[Group] = field(default_factory=set)

    @property
    def size(self) -> int:
        return self.rows * self.columns


def group(steps: Iterable[Step], needed: Iterable[Buffer] = ()) -> list[Group]:
    """Put steps into groups; the buffers `needed` are used elsewhere."""
    made = _Grouping()
    for step in steps:
        made.add(step)
    _recompute(made.groups, made.home, set(needed))
    return made.groups


class _Grouping:
    """Groups in the making: `home` tells which group writes a buffer, `readers` which read it."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.home: dict[Buffer, Group] = {}
        self.readers: dict[Buffer, dict[Group, None]] = {}

    def add(self, step: Step) -> None:
        """Put a step into the largest group that computes an operand, else that reads the same."""
        others = list(
            dict.fromkeys(self.home[v.buffer] for v in step.inputs if v.buffer in self.home)
        )
        candidates = sorted((g for g in self.groups if g in others), key=lambda g: -g.size)
        candidates += [g for b in _whole_inputs(step) for g in self.readers.get(b, ())]
        if step.size == 1:  # single numbers, such as a learning rate: with others, but no later
            candidates += [g for g in self.groups if g.size == 1 and g.needs.issuperset(others)]
        chosen = next((g for g in candidates if self.joins(step, g, others)), None)
        if chosen is None:
            kinds = dict.fromkeys(step.outs, step.gives)
            chosen = Group([step], step.rows, step.columns, step.is_flat, kinds)
            chosen.needs = set(others)
            self.groups.append(chosen)
        else:
            for other in [o for o in others if o is not chosen]:
                self.absorbs(chosen, other)
        self.home |= dict.fromkeys(step.outs, chosen)
        for buffer in _whole_inputs(step):
            self.readers.setdefault(buffer, {})[chosen] = None

    def joins(self, step: Step, g: Group, others: list[Group]) -> bool:
        """Put a step into a group, if what it needs from others does not need the group."""
        if step.gives == "own" or len(g.steps) >= MOST_STEPS:
            return False
        if any(o is not g and _reaches(o, g) for o in others):
            return False
        if not _fit(step, g):
            return False
        g.needs |= {o for o in others if o is not g}
        return True

    def absorbs(self, g: Group, h: Group) -> bool:
        """Put all of group `h` into `g`, if nothing lies between them."""
        between = [n for n in g.needs if n is not h] + [n for n in h.needs if n is not g]
        if any(_reaches(n, h) or _reaches(n, g) for n in between):
            return False
        if len(g.steps) + len(h.steps) > MOST_STEPS or not _unite(g, h):
            return False
        g.needs = (g.needs | h.needs) - {g, h}
        for other in self.groups:
            if h in other.needs:
                other.needs = (other.needs - {h}) | {g}
        for buffer in h.kinds:
            self.home[buffer] = g
        for known in self.readers.values():
            if h in known:
                del known[h]
                known[g] = None
        self.groups.remove(h)
        return True


def _reaches(start: Group, goal: Group) -> bool:
    """True if `start` needs `goal`, directly or not."""
    todo, seen = [start], {start}
    while todo:
        g = todo.pop()
        if g is goal:
            return True
        fresh = g.needs - seen
        seen |= fresh
        todo += fresh
    return False


def _whole_inputs(step: Step) -> list[Buffer]:
    pairs = zip(step.inputs, step.ways, strict=False)
    return [v.buffer for v, how in pairs if how[0] == "full" and v.buffer.size > 1]


def _recompute(groups: list[Group], home: dict[Buffer, Group], needed: set[Buffer]) -> None:
    """What other groups need is computed there again, if that is cheap and reads no more.

    A normalised layer's x - m, say: its gradient has x and m, so that no one stores the difference.
    """
    changed = True
    while changed:
        changed = False
        stored, readers = set(needed), dict[Buffer, dict[Group, None]]()
        for g in groups:
            for buffer in (v.buffer for s in g.steps for v in s.inputs):
                readers.setdefault(buffer, {})[g] = None
                if home.get(buffer) is not g:
                    stored.add(buffer)
        for h in groups:
            for step in h.steps:
                users = [g for g in readers.get(step.out, ()) if g is not h]
                if users and step.out not in needed and all(
                    _is_cheap(step, h, g, home, stored) for g in users
                ):  # fmt: skip
                    for g in users:
                        _clone(step, h, g, home)
                        del readers[step.out][g]
                        for view in step.inputs:
                            readers[view.buffer][g] = None
                    changed = True


def _is_cheap(step: Step, h: Group, g: Group, home: dict, stored: set[Buffer]) -> bool:
    """True if group `g` may compute a step of group `h` again for what it reads anyway."""
    kind = h.kinds[step.out]
    if step.kind != "map" or kind != "full" or "(" in step.text or "/" in step.text:
        return False
    if h.is_flat or g.size != h.size or "own" in g.kinds.values() or len(g.steps) >= MOST_STEPS:
        return False
    if not g.is_flat and (g.rows, g.columns) != (h.rows, h.columns):
        return False
    uses = [how for s in g.steps for v, how in zip(s.inputs, s.ways, strict=True)
            if v.buffer is step.out]  # fmt: skip
    if any(how != ("full",) for how in uses):
        return False
    read = {v.buffer for s in g.steps for v in s.inputs}
    more = 0
    for view, how in zip(step.inputs, step.ways, strict=True):
        if how[0] == "full" and h.kinds.get(view.buffer, "full") == "full":
            if view.buffer not in stored and home.get(view.buffer) is h:
                return False
            more += view.buffer not in read
        elif how[0] not in ("full", "row", "column", "scalar", "cyclic"):
            return False
    return more <= 1


def _clone(step: Step, h: Group, g: Group, home: dict[Buffer, Group]) -> None:
    """Put a copy of a step of group `h` first in group `g`, which read its value until now."""
    out = Buffer(step.out.dtype, step.out.size)
    out.step = Step("map", step.inputs, out, h.rows, h.columns, ways=step.ways, text=step.text,
                    node=step.node)  # fmt: skip
    for s in g.steps:
        s.inputs = [replace(v, buffer=out) if v.buffer is step.out else v for v in s.inputs]
    g.steps.insert(0, out.step)
    g.kinds[out] = "full"
    g.rows, g.columns, g.is_flat = h.rows, h.columns, False
    home[out] = g
    g.needs |= {home[v.buffer] for v in step.inputs if v.buffer in home} - {g}


def _domain(step: Step, g: Group) -> tuple[dict[str, str], str] | None:
    """What a step takes from inside a group, by how it reads it, and what it gives."""
    if step.kind == "map" and step.is_flat:
        if step.size == g.size:
            return {"full": "full", "scalar": "full" if g.size == 1 else "row"}, "full"
        if not g.is_flat and step.size == g.rows:
            return {"full": "row", "scalar": "none"}, "row"
        return None
    if _is_total(step, g):
        return {"full": g.kinds[step.inputs[0].buffer]}, "total"
    if step.size != g.size:
        return None
    if not g.is_flat and (step.rows, step.columns) != (g.rows, g.columns):
        if not _sums_blocks(step, g):
            return None
        step.more = {"each": 1, "period": step.columns // g.columns}
        step.rows, step.columns = g.rows, g.columns
    return {"full": "full", "row": "row", "scalar": "row"}, step.gives


def _fit(step: Step, g: Group) -> bool:
    """Put a step into a group if it has its domain; what it reads there must be complete."""
    domain = None if "own" in g.kinds.values() else _domain(step, g)
    if domain is None:
        return False
    wanted, kind = domain
    for view, how in zip(step.inputs, step.ways, strict=True):
        inside = g.kinds.get(view.buffer)
        if inside is not None and inside != wanted.get(how[0]):
            return False
        if inside == "row" and how[0] == "scalar" and g.rows != 1:
            return False
    if not step.is_flat and g.is_flat:
        g.rows, g.columns, g.is_flat = step.rows, step.columns, False
    g.steps.append(step)
    g.kinds[step.out] = kind
    return True


def _is_total(step: Step, g: Group) -> bool:
    """True if a step reduces all of a value of the group to one number."""
    inside = g.kinds.get(step.inputs[0].buffer) if step.gives == "row" and step.rows == 1 else None
    if g.is_flat or g.rows == 1 or step.kind == "pick":
        return False
    return inside in ("row", "full") and step.columns == (g.rows if inside == "row" else g.size)


def _sums_blocks(step: Step, g: Group) -> bool:
    """True if a sum over the first axis adds up blocks of rows of the group."""
    return step.gives == "sum" and step.more["period"] == 1 and step.columns % g.columns == 0


def _unite(g: Group, h: Group) -> bool:
    """Put the steps of `h` before those of `g`, if both have one domain."""
    if "own" in h.kinds.values():
        return False
    if h.size == g.size and (g.is_flat or h.is_flat or (h.rows, h.columns) == (g.rows, g.columns)):
        kinds = h.kinds
    elif h.is_flat and not g.is_flat and h.size == g.rows:
        kinds = dict.fromkeys(h.kinds, "row")  # it computes what each row needs
    else:
        return False
    both = kinds | g.kinds
    rows, columns = (h.rows, h.columns) if g.is_flat and not h.is_flat else (g.rows, g.columns)
    alone = "full" if g.size == 1 and g.is_flat and h.is_flat else "row" if rows == 1 else "none"
    for step in [*h.steps, *g.steps]:
        if both[step.out] == "total":
            continue
        for view, how in zip(step.inputs, step.ways, strict=True):
            inside = both.get(view.buffer)
            row_step = both[step.out] == "row" and step.kind == "map"
            whole = "row" if row_step else "full"
            wanted = {"full": whole, "row": "row", "scalar": alone}.get(how[0])
            if inside is not None and inside != wanted:
                return False
    g.rows, g.columns, g.is_flat = rows, columns, g.is_flat and h.is_flat
    g.steps = h.steps + g.steps
    g.kinds = both
    return True

"""Merging what the arms of a Switch wrote and returned.

The same object stays itself; equal constants stay constants; numbers of one kind become a Scalar,
Tensors of one dtype and shape a Tensor; containers merge item by item if they are all new in their
arms; functions, strings and None become a Choice.  Anything else is a Conflict, an error when it
is read.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from minispore.abstract import AbstractScalar, AbstractTensor, agree
from minispore.dtype import bool_
from minispore.frontend.choices import (
    can_be_chosen,
    chain_of,
    chained,
    kind_of,
    none_first,
)
from minispore.frontend.exits import RAISE, RETURN, Exit
from minispore.frontend.heap import (
    UNSET,
    Choice,
    Conflict,
    Region,
    SwitchNode,
    Unset,
    World,
    read_slots,
    write_slots,
)
from minispore.frontend.values import type_name, with_place
from minispore.ir.node import Node
from minispore.primitive import as_tensor, is_number
from minispore.symbolic import Scalar, scalar_op, wrap
from minispore.tensor import Tensor

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


class Merge:
    """Merges what the arms of one Switch wrote and returned."""

    def __init__(self, ev: Evaluator, owner: SwitchNode, results: list[tuple[Region, Exit, dict]]):
        self.ev, self.owner, self.results = ev, owner, results
        self.pairs: dict[tuple[int, ...], Any] = {}
        self.partner: list[dict[int, tuple]] = [{} for _ in results]
        self.before: dict[int, dict] = {}  # what changed objects held before the Switch
        self.mixed_up: list[tuple[Tensor, list[Tensor]]] = []  # merged Tensors, alternatives
        self.by_index = owner.condition.abstract == AbstractScalar(int)

    def run(self) -> Exit:
        ev = self.ev
        changed: dict[int, Any] = {}
        for _, _, changes in self.results:
            changed.update({i: c[0] for i, c in changes.items()})
        self.before = {i: read_slots(obj) for i, obj in changed.items()}
        for i, obj in changed.items():
            old = self.before[i]
            now = [c[i][2] if i in c else old for _, _, c in self.results]
            ev.region.touch(obj)
            write_slots(obj, self.slots(obj, old, now))
        exit = self.exit()
        for made, olds in self.mixed_up:
            ev.alternatives.note(made, olds)
        return exit

    def node_in(self, tensor: Tensor, k: int) -> Node:
        """What a Tensor holds at the end of arm `k`."""
        changes = self.results[k][2]

        def held(t: Tensor) -> Any:
            i = id(t)
            slots = changes[i][2] if i in changes else self.before.get(i, {"value": t._node})
            return slots["value"]

        self.ev.alternatives.read(tensor, held)
        return held(tensor)

    def slots(self, obj: Any, old: dict, now: list[dict]) -> dict:
        """The merged slots of an object that some arm wrote."""
        if isinstance(obj, World):
            now = [obj.base | slots for slots in now]  # an arm may have seen less of the base
            written = dict.fromkeys(key for slots in now for key in slots)
            return {k: self.of_world(k, [slots.get(k, UNSET) for slots in now]) for k in written}
        alive = [k for k in range(len(now)) if not self.dead(k, obj)]
        if len(alive) <= 1:
            return now[alive[0]] if alive else old
        keys = list(dict.fromkeys(key for k in alive for key in now[k]))
        order: Any = set if isinstance(obj, set) else list
        if isinstance(obj, (list, dict, set)) and any(order(now[k]) != order(keys) for k in alive):
            return self.sizes(obj, keys, [len(now[k]) for k in alive])
        values = {}
        for key in keys:
            values[key] = self.value([now[k].get(key, UNSET) for k in alive], alive)
        return values

    def sizes(self, obj: Any, keys: list, sizes: list[int]) -> dict:
        """The slots of a container of which the arms left another number of items, or order."""
        differ = "other keys, or another order of them,"
        if len(set(sizes)) > 1:
            differ = " or ".join(map(str, sizes)) + " items"
        conflict = Conflict(
            f"a {type(obj).__name__} has {differ} depending on a Tensor (branch at "
            f"{self.owner.origin.where}): write the same items in every arm",
            of_size=True,
        )
        return {conflict: None} if isinstance(obj, set) else dict.fromkeys(keys, conflict)

    def of_world(self, key: Any, values: list[Any]) -> Any:
        """The Token, or an attribute of an older object.

        The Token of an arm that raises carries its effects; what else it wrote went with them.
        """
        arms = [k for k, (_, e, _) in enumerate(self.results) if key == "token" or e.may != {RAISE}]
        values = [values[k] for k in arms]
        unset = [v is UNSET for v in values]
        if any(unset) and not all(unset):
            return Conflict(
                f"attribute '{key[-1]}' is new, and written in one arm only (branch at "
                f"{self.owner.origin.where}): give it a Tensor before"
            )
        return self.value(values, arms) if arms else UNSET

    def dead(self, k: int, obj: Any) -> bool:
        """True if nobody will see what arm `k` did to `obj`."""
        exit = self.results[k][1]
        return exit.may == {RAISE} or (exit.may == {RETURN} and obj is self.ev.frame.env)

    # -------------------------------------------------------------------------- values

    def value(self, values: list[Any], arms: list[int]) -> Any:
        """One value from those of several arms; `arms` are their numbers."""
        first = values[0]
        if all(v is first for v in values[1:]):
            return first
        if any(isinstance(v, Unset) for v in values):
            return UNSET
        for v in values:
            if isinstance(v, Conflict):
                return v
        if all(isinstance(v, Node) for v in values):
            return self.nodes(values, arms, raw=True)
        if all(isinstance(v, Tensor) for v in values):
            return self.tensors(values, arms)
        if all(is_number(v) for v in values):
            return self.numbers(values, arms)
        if all(is_number(v) or isinstance(v, Tensor) for v in values):
            return self.mixed(values, arms)
        if all(isinstance(v, tuple) for v in values):
            return self.tuples(values, arms)
        own = [id(v) in self.ev.objects for v in values]
        if all(isinstance(v, (list, dict)) for v in values) or all(own):
            return self.containers(values, arms)
        if can_be_chosen(values):
            return self.choice(values, arms)
        return self.conflict(values)

    def conflict(self, values: list[Any]) -> Conflict:
        kinds = list(map(type_name, values))
        where = self.owner.origin.where
        if len(set(kinds)) == 1:
            return Conflict(
                f"which {kinds[0]} it is depends on a Tensor (branch at {where}): write the items "
                "of one in place, or make a new one of the same size in every arm"
            )
        return Conflict(
            f"its type depends on a Tensor (branch at {where}): it is "
            f"{' or '.join(map(with_place, values))}; make the arms agree in type, dtype and shape"
        )

    def nodes(self, values: list[Node], arms: list[int], raw: bool = False) -> Any:
        """A new output of the Switch."""
        abstract = values[0].abstract
        if not all(agree(v.abstract, abstract) for v in values):
            return self.conflict([wrap(v) for v in values])
        out: list[Node | None] = [None] * len(self.results)
        for k, v in zip(arms, values, strict=True):
            out[k] = v
        self.owner.outs.append(tuple(out))
        made = self.ev.wrap_out(self.owner, len(self.owner.outs) - 1, abstract)
        if raw:
            return made._node if isinstance(made, Tensor) else getattr(made, "node", made)
        return made

    def tensors(self, values: list[Tensor], arms: list[int]) -> Any:
        key = tuple(map(id, values))
        if key not in self.pairs:
            made = self.nodes([self.node_in(v, k) for k, v in zip(arms, values, strict=True)], arms)
            self.pairs[key] = made
            self.ev.alive.extend(values)
            if isinstance(made, Tensor) and not self.paired(values, arms):
                what = f"is one of two, depending on a Tensor (branch at {self.owner.origin.where})"
                made = self.pairs[key] = self.ev.alternatives.one_of(values, made, what)
                partners = (self.pairs.get(self.partner[k].get(id(v), ())) for k, v in
                            zip(arms, values, strict=True))  # fmt: skip
                others = [p for p in partners if isinstance(p, Tensor) and p is not made]
                self.mixed_up.append((made, values + others))
        return self.pairs[key]

    def paired(self, values: list[Any], arms: list[int]) -> bool:
        """True if each value is new in its arm, or only returned, and meets the same partners."""
        key = tuple(map(id, values))
        one_to_one = all(
            self.partner[k].setdefault(id(v), key) == key for k, v in zip(arms, values, strict=True)
        )
        return one_to_one and all(self.is_new(v, k) for k, v in zip(arms, values, strict=True))

    def is_new(self, value: Any, k: int) -> bool:
        """True if an object was made in arm `k`, or is only returned there."""
        if id(value) in self.ev.frame.pending:
            return True
        home = self.ev.births.get(id(value))
        inside = home is not None and self.results[k][0].encloses(home)
        return inside and not self.ev.alternatives.is_one_of(value)

    def numbers(self, values: list[Any], arms: list[int]) -> Any:
        kinds = {kind_of(v) for v in values}
        if len(kinds) > 1:
            return self.conflict(values)
        constants = [v for v in values if not isinstance(v, Scalar)]
        if len(constants) == len(values) and len({repr(v) for v in constants}) == 1:
            return values[0]
        return self.nodes([self.node_at(k, v) for k, v in zip(arms, values, strict=True)], arms)

    def node_at(self, k: int, value: Any, make: Callable = lambda value: value) -> Node:
        """The node of a value, or of what `make` makes of it, at the end of arm `k`."""
        here, self.ev.region = self.ev.region, self.results[k][0]
        try:
            return self.ev.node_of(make(value))
        finally:
            self.ev.region = here

    def mixed(self, values: list[Any], arms: list[int]) -> Any:
        """A bool beside a 0-d Bool Tensor is a Tensor; other numbers beside Tensors conflict."""
        for v in values:
            ok = kind_of(v) is bool if is_number(v) else v._abstract == AbstractTensor(bool_, ())
            if not ok:
                return self.conflict(values)
        made = partial(as_tensor, dtype=bool_)
        pairs = zip(arms, values, strict=True)
        return self.nodes([self.node_at(k, v, made) for k, v in pairs], arms)

    def tuples(self, values: list[tuple], arms: list[int]) -> Any:
        if len({(type(v), len(v)) for v in values}) > 1:
            return self.conflict(values)
        items = [self.value(list(column), arms) for column in zip(*values, strict=True)]
        kind: Any = type(values[0])
        return kind(*items) if hasattr(kind, "_fields") else kind(items)

    def containers(self, values: list[Any], arms: list[int]) -> Any:
        """Lists, dicts or objects, item by item if they are all new in their arms and alike."""
        contents = [read_slots(v) for v in values]
        kinds = {(type(v), tuple(c)) for v, c in zip(values, contents, strict=True)}
        ev, first = self.ev, values[0]
        own = id(first) in ev.objects
        if len(kinds) > 1 or not self.paired(values, arms):
            return self.choice(values, arms) if own else self.conflict(values)
        key = tuple(map(id, values))
        if key not in self.pairs:
            made = ev.new_object(type(first)) if own else ev.born(copy(first))
            self.pairs[key] = made
            if ev.frame.pending.issuperset(key):
                ev.frame.pending.add(id(made))
            columns = {k: self.value([c[k] for c in contents], arms) for k in contents[0]}
            write_slots(made, columns)
        return self.pairs[key]

    def choice(self, values: list[Any], arms: list[int]) -> Any:
        """One of several alternatives, as a chain: a, if it is a, else b, if it is b, else c."""
        chains = [chain_of(v) for v in values]
        marks = {m: None for chain in chains for m in chain}
        *firsts, last = none_first(marks)
        conditions: list[Any] = []
        options = [self.alternative(last, chains, arms)]
        for m in reversed(firsts):
            held = [self.holds(m, c, k) for k, c in zip(arms, chains, strict=True)]
            conditions.insert(0, self.which(held, arms))
            options.insert(0, self.alternative(m, chains, arms))
        result = chained(conditions, options)
        plain = len(arms) == len(self.results) and not any(isinstance(v, Choice) for v in values)
        if isinstance(result, Choice) and self.by_index and plain:
            result.table = (self.owner.condition, tuple(values))
        return result

    def holds(self, wanted: Any, chain: dict[Any, tuple], k: int) -> Any:
        """Whether arm `k` has the marked alternative: a bool, or a Scalar of that arm."""
        if wanted not in chain or len(chain) == 1:
            return wanted in chain
        if chain[wanted][1] is not None:
            return Scalar(chain[wanted][1])
        others = [Scalar(condition) for _, condition in chain.values() if condition is not None]
        with self.ev.within(self.results[k][0]):
            return scalar_op("ScalarNot", reduce(or_, others))

    def which(self, conditions: list[Any], arms: list[int]) -> Any:
        """One condition from those of the arms: that of the Switch itself if it says the same."""
        by_bool = arms == [0, 1] and not self.by_index
        if by_bool and set(map(type, conditions)) == {bool}:
            if conditions[0] is not conditions[1]:
                own = Scalar(self.owner.condition)
                return own if conditions[0] else scalar_op("ScalarNot", own)
        return self.numbers(conditions, arms)

    def alternative(self, mark: Any, chains: list[dict[Any, tuple]], arms: list[int]) -> Any:
        """An alternative that some arms have; Tensors of one type, numbers, tuples are merged."""
        found = {k: c[mark][0] for k, c in zip(arms, chains, strict=True) if mark in c}
        first = next(iter(found.values()))
        if isinstance(first, (Tensor, tuple)) or is_number(first):
            return self.value(list(found.values()), list(found))
        return first

    # -------------------------------------------------------------------------- exits

    def exit(self) -> Exit:
        exits = [e for _, e, _ in self.results]
        alive = [k for k, e in enumerate(exits) if e.may != {RAISE}]
        if not alive:
            return Exit(RAISE)
        may = frozenset().union(*(exits[k].may for k in alive))
        returning = [k for k in alive if RETURN in exits[k].may]
        value = self.value([exits[k].value for k in returning], returning) if returning else None
        if len(may) == 1:
            return Exit(next(iter(may)), value)
        codes = [exits[k].code for k in alive]
        code = codes[0] if len(codes) == 1 else self.numbers(codes, alive)
        return Exit(code, value, may)

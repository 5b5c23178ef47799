"""A compiled call without Python between its checks, its kernels and its writes.

The way of a call through compile.py costs some 40 us: a signature, a guard of hundreds of lines, a
plan, the writes.  A small network's training step takes 4 us of work.  So when a graph has been
used twice, and is one segment of kernels, a later call takes a shortcut: machine code compares some
words of memory (watch.py) instead of the guard, looks at the arguments, runs the kernels, and
writes (engine/direct.py).  What it is not certain about goes the long way.
"""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from minispore import context
from minispore.engine.native import layout_is_known
from minispore.frontend.guards import Guarded
from minispore.mutable import Mutable
from minispore.tensor import Tensor
from minispore.tree import Leaf, unflatten
from minispore.watch import Unwatched, Watch, dicts_tell

if TYPE_CHECKING:
    from minispore.engine.direct import DirectCall
    from minispore.program import Compiled

MISSED: Any = object()  # in place of a result: take the long way
_CONTAINERS = (tuple, list, dict, set, Mutable)


class Shortcut:
    """Calls of one compiled graph like one of them: ``shortcut(args)`` is the result, or MISSED."""

    def __init__(
        self, compiled: Compiled, captured: list[Tensor], direct: DirectCall, watch: Watch
    ):
        self.direct = direct
        self.call, self.arrays = direct.call, direct.arrays
        self.lock = compiled.lock if compiled.writes else threading.RLock()
        # until the results are taken: another call, of a thread or a signal, overwrites them
        self.is_open = False
        self.rest = Guarded(watch.rest, "A", watch.values, {}).function() if watch.rest else None
        self.captured, self.structure, self.places = captured, compiled.structure, compiled.places
        is_one = isinstance(compiled.structure, Leaf) and compiled.places[0] < 0
        self.only = self.direct.places[~compiled.places[0]] if is_one else None
        self.watch = watch

    def __call__(self, args: tuple) -> Any:
        if self.rest is not None and not self.holds(args):
            return MISSED
        if self.is_open:
            return MISSED
        with self.lock:
            self.is_open = True
            try:
                status = self.call(*args)
                if status and self.direct.go_on(args, status):
                    return MISSED
                return self.result(args)
            except BaseException:
                self.direct.give_up()
                raise
            finally:
                self.is_open = False

    @property
    def compared(self) -> tuple[int, int]:
        """How many words of memory are compared, and how many lines of the guard stay Python."""
        return len(self.watch.words), len(self.watch.rest)

    def holds(self, args: tuple) -> bool:
        """True if what only Python can tell is as it was."""
        return self.rest is None or self.rest([a for a in args if type(a) is Tensor]) is not None

    def several(self, calls: list[tuple]) -> Any:
        """Make calls one after the other, up to one that is to go the long way.

        Those that are made are taken from the list; if that are all, the result of the last.
        """
        arity, last = len(calls[0]), calls[-1]
        if not arity or any(len(c) != arity for c in calls) or not self.holds(calls[0]):
            return None
        if self.is_open:
            return None
        with self.lock:
            self.is_open = True
            try:
                made, status = divmod(self.direct.calls(*chain.from_iterable(calls)), 4)
                del calls[:made]
                if status:
                    call = calls.pop(0)
                    if self.direct.go_on(call, status):
                        calls.insert(0, call)
                return None if calls else self.result(last)
            except BaseException:
                self.direct.give_up()
                raise
            finally:
                self.is_open = False

    def result(self, args: tuple) -> Any:
        """What the last call, which had these arguments, returns: Tensors, at its leaves."""
        if self.only is not None:
            return Tensor._wrap(self.arrays[self.only])
        inputs = [*(a for a in args if type(a) is Tensor), *self.captured]
        made = {o: Tensor._wrap(self.arrays[at]) for o, at in self.direct.places.items()}
        found = [inputs[p] if p >= 0 else made[~p] for p in self.places]
        return unflatten(self.structure, found)


class Shortcuts:
    """The shortcut of one compiled graph, and when it is worth while to make it anew."""

    def __init__(self) -> None:
        self.shortcut: Shortcut | None = None
        self.long_ways = 0
        self.next = 2

    def after(self, compiled: Compiled, args: tuple) -> Shortcut | None:
        """The shortcut for calls like one that has just gone the long way.

        To make one takes some ms; what changes between all calls gets ever fewer of them.
        """
        self.long_ways += 1
        if self.long_ways >= self.next:
            served = self.shortcut is not None and self.shortcut.direct.hits > 8
            self.next = self.long_ways + 1 if served else 2 * self.long_ways
            self.shortcut = shortcut_for(compiled, args)
        return self.shortcut


def shortcut_for(compiled: Compiled, args: tuple) -> Shortcut | None:
    """A shortcut for calls like this one; None if there is none.  Nothing is run or written."""
    tensors = [a for a in args if type(a) is Tensor]
    if (
        not layout_is_known() or not dicts_tell()
        or any(isinstance(a, _CONTAINERS) or isinstance(a, Tensor) and type(a) is not Tensor
               for a in args)
        or len(set(map(id, tensors))) < len(tensors) or not _is_plain(compiled, len(tensors))
    ):  # fmt: skip
        return None
    from minispore.engine.direct import AXES, DirectCall, in_place, parts_of  # they need a compiler

    if any(t._data.ndim > AXES for t in tensors):
        return None
    parts = parts_of(compiled.function.plan)
    needed = {~p for p in (*compiled.places, *(p for _, p in compiled.writes)) if p < 0}
    if parts is None or not needed.issubset(parts.outputs):
        return None
    watch = Watch(compiled.guarded)
    try:
        _watch_settings(watch)
    except Unwatched:
        return None
    inputs = compiled.guard(tensors)  # still holds, after what is watched has been read
    if inputs is None or not _are_fixed(compiled.guarded, watch, inputs, len(tensors)):
        return None
    captured = inputs[len(tensors) :]
    cells = {~p: compiled.targets[n].cell for n, p in compiled.writes}
    written = {output: inputs[cell] for output, cell in cells.items()}
    direct = DirectCall(in_place(parts, cells), args, captured, written, watch.words)
    return Shortcut(compiled, captured, direct, watch)


def _is_plain(compiled: Compiled, n_arguments: int) -> bool:
    """True if a call only writes captured Tensors, one output each, and returns others."""
    return (
        not compiled.guarded.builds
        and all(compiled.targets[n].cell >= n_arguments for n, _ in compiled.writes)
        and compiled.containers is None
        and not compiled.stores
        and not compiled.other_writes
        and not compiled.function.check_finite
        and not context.checks_finite()
        and os.environ.get("MS_JIT") != "0"
    )


def _watch_settings(watch: Watch) -> None:
    """Watch over what else a call looks at: the global settings, the environment."""
    for content in (context._settings, getattr(os.environ, "_data", None)):
        if type(content) is not dict:
            raise Unwatched
        watch.watch_dict(content)


def _are_fixed(guarded: Guarded, watch: Watch, inputs: Sequence[Any], n_arguments: int) -> bool:
    """True if the captured inputs are the same Tensors as long as the guard holds."""
    codes: Any = ast.parse(guarded.result, mode="eval").body
    for code, found in zip(codes.elts[n_arguments:], inputs[n_arguments:], strict=True):
        if not isinstance(found, Tensor) or not isinstance(code, ast.Name):
            return False
        fixed = any(line.code.startswith(f"{code.id} is K") for line in guarded.lines)
        if watch.values.get(code.id) is not found and not fixed:
            return False
    return True

"""data_sink: steps on one batch after the other, many in one go.

A loop in Python costs a call, a batch and its Tensors for every step.  For a compiled step that is
small this is most of the time, so batches are collected, and machine code makes all the calls
(shortcut.py).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np

from minispore.compile import JitFunction
from minispore.jit_options import DEFAULTS, JitConfig
from minispore.tensor import Tensor

MOST = 1024  # steps in one go
SECONDS = 0.05  # about how long one go may be: Ctrl-C waits for its end


class Batches:
    """The batches of some data, again and again, each as a tuple of new Tensors.

    The arrays of a list or tuple are shared; what an iterator gives is copied, as it may be written
    when the next batch is made.
    """

    def __init__(self, data: Iterable[Any]):
        if hasattr(data, "create_tuple_iterator"):
            self.start: Callable[[], Iterator[Any]] = data.create_tuple_iterator
        elif isinstance(data, Iterable):
            self.start = functools.partial(iter, data)
        else:
            raise TypeError(
                f"data_sink takes an iterable of batches, not {type(data).__name__}: a batch is an "
                "array, or a tuple of arrays"
            )
        self.shares = type(data) in (list, tuple)
        self.rest: Iterator[Any] = iter(())
        self.error: BaseException | None = None  # of the batch after those that were taken

    def take(self, count: int) -> list[tuple]:
        """The next batches, so many or up to the end of the data; none at its end.

        An error of the data comes when the batches before it have been taken.
        """
        taken: list[tuple] = []
        try:
            if self.error is None:
                for batch in islice(self.rest, count):
                    taken.append(self.tensors(batch))
        except BaseException as error:
            self.error = error
        if self.error is not None and not taken:
            found, self.error = self.error, None
            raise found
        return taken

    def put_back(self, batches: list[tuple]) -> None:
        """Batches that were taken, but are still to come."""
        self.rest = chain(batches, self.rest)

    def restart(self) -> None:
        """Begin at the first batch again."""
        self.rest = self.start()

    def tensors(self, batch: Any) -> tuple:
        """A batch as the arguments of a call."""
        if isinstance(batch, Mapping):
            raise TypeError(
                "data_sink: a batch is an array, or a tuple of arrays, not a "
                f"{type(batch).__name__}: fn gets its arrays by position"
            )
        return tuple(map(self.tensor, batch if isinstance(batch, (tuple, list)) else (batch,)))

    def tensor(self, value: Any) -> Tensor:
        """One of the arrays as a Tensor that no one else has."""
        if self.shares and isinstance(value, np.ndarray):
            return Tensor.from_numpy(value)
        return Tensor(value)


def data_sink(
    fn: Callable[..., Any],
    dataset: Iterable[Any],
    sink_size: int = 1,
    jit_config: JitConfig | None = None,
    input_signature: Any = None,
) -> Callable[[], Any]:
    """A function without arguments that runs steps on the next batches (``mindspore.data_sink``).

    Each call makes `sink_size` steps and returns what the last one does.  Steps of a compiled
    function that is one piece of machine code are made without returning to Python between them.
    At the end of the data it begins again.  Batches are read ahead of the steps: what makes them
    must not depend on what a step does.

    Args:
        fn: the step; it gets a batch's arrays as Tensors.  A compiled one (``jit``) is fast.
        dataset: an iterable of batches: arrays, or tuples of arrays; or what has a
            ``create_tuple_iterator``.
        sink_size: how many steps a call makes; -1: all, to the end of the data.
        jit_config: compile `fn` so.
        input_signature: compile `fn` for such arguments only; see ``jit``.

    Raises:
        ValueError: `sink_size` is neither positive nor -1; or (when called) there is no batch.
        TypeError: `fn` cannot be called, `dataset` is no iterable, or `jit_config` no JitConfig; or
            (when called) a batch is neither an array nor a tuple of arrays.
    """
    if not callable(fn):
        raise TypeError(f"data_sink's fn must be a function or a Cell, not {type(fn).__name__}")
    if not isinstance(jit_config, JitConfig | None):
        raise TypeError(
            "data_sink's jit_config must be a JitConfig, such as JitConfig(jit_level='O1'), "
            f"not {jit_config!r}"
        )
    if type(sink_size) is not int or sink_size < 1 and sink_size != -1:
        raise ValueError(
            f"sink_size must be a positive int, or -1 for all of the data, not {sink_size!r}"
        )
    if jit_config is not None or input_signature is not None:
        options = DEFAULTS if jit_config is None else jit_config.options()
        fn = JitFunction(fn, replace(options, input_signature=input_signature))
    batches = Batches(dataset)

    def sink_process() -> Any:
        __tracebackhide__ = True
        return _run(fn, batches, sink_size)

    return functools.update_wrapper(sink_process, fn, ("__module__", "__name__", "__doc__"), ())


def _run(fn: Callable[..., Any], batches: Batches, steps: int) -> Any:
    """Make so many steps (-1: to the end of the data); the last result."""
    __tracebackhide__ = True
    if steps < 0:
        batches.restart()
    made, at_once, found = 0, 1, None
    while made != steps:
        taken = batches.take(min(at_once, steps - made) if steps > 0 else at_once)
        if not taken and (steps > 0 or not made):
            batches.restart()
            taken = batches.take(1)
            if not taken:
                raise ValueError("data_sink: the data has no batch, or could be read only once")
        if not taken:
            return found
        start = time.perf_counter()
        number = len(taken)
        try:
            found = _run_batches(fn, taken)
        finally:
            if taken:
                batches.put_back(taken)
        made += number
        a_step = (time.perf_counter() - start) / number
        at_once = max(1, min(2 * at_once, int(SECONDS / max(a_step, 1e-9)), MOST))
    return found


def _run_batches(fn: Callable[..., Any], taken: list[tuple]) -> Any:
    """Make a step on each batch, which is taken from the list; the last result."""
    __tracebackhide__ = True
    if isinstance(fn, JitFunction):
        return fn.run_all(taken)
    found = None
    while taken:
        found = fn(*taken.pop(0))
    return found

"""capture_mode="trace": Python itself runs the function, on Tensors that are graph nodes.

The Tracer is an Evaluator that calls the user's functions in place of evaluating their source; the
package's own Cells, and what grad differentiates, go the usual way.  Python does not tell what it
reads, so before anything runs the Tracer looks up what the functions' code names (globals,
closures, attributes of the objects reached) and guards that: a later call with another value
compiles again.  What it writes would be written only while compiling: that is undone and refused.

(MindSpore's "trace" guards nothing, JAX's jit neither.)
"""

from __future__ import annotations

import builtins
import dis
import linecache
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from minispore.frontend.attributes import has_own, lookup
from minispore.frontend.capture import Opaque, Outside, is_stdlib, is_trusted, module_of
from minispore.frontend.errors import UnsupportedError, locate
from minispore.frontend.evaluate import Evaluator
from minispore.frontend.functions import defaults
from minispore.frontend.heap import UNSET
from minispore.frontend.natives import PURE
from minispore.ir.node import Location, Origin
from minispore.primitive import Primitive
from minispore.tensor import Tensor, is_tensor
from minispore.tree import flatten, unflatten

# Builtins that act on the world: in a traced function they would do so only while compiling.
_ACTING = frozenset("print input open exec eval breakpoint setattr delattr globals vars".split())
_VALUES = (str, bytes, int, float, type(None), Tensor)
_WRAPPED = ("__wrapped_function__", "__func__", "__self__", "func", "fn", "fget")


class Tracer(Evaluator):
    """Lets Python run one call of a user's function; see the module."""

    hides_values = True  # of Tensors from outside: Python would read them only while compiling

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.outside = Outside(lambda: self.returned)
        self._reading = _Reading(self)
        self._is_open = self._is_entered = False

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        run = super().call if self._is_open else self._outermost
        return run(function, args, kwargs)

    def _outermost(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The call that is compiled."""
        self._is_open, drawn = True, _generators()
        try:
            with self._reading:
                value = super().call(function, args, kwargs)
            if drawn != _generators():
                error = UnsupportedError(
                    "random numbers of Python or NumPy would be drawn only while tracing: use "
                    "minispore.ops, or draw them outside"
                )
                locate(error, self._reading.drawing()[:1])
                raise error
        except Exception as error:
            locate(error, [self.returned] if self.returned else [])
            raise
        leaves, structure = flatten(value, is_tensor)
        return unflatten(structure, [self.seen(leaf) for leaf in leaves], known=False)

    def is_outermost(self) -> bool:
        return not self._is_entered and super().is_outermost()

    def runner_of(self, function: Any) -> Callable[[list, dict], Any] | None:
        users = isinstance(function, types.FunctionType) and not is_trusted(module_of(function))
        return partial(self._run, function) if users else None

    def _run(self, function: types.FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Let Python run a function of the user's."""
        frames, self.frames, self._is_entered = self.frames, [], True
        self.returned = _place(function.__code__, -1)
        try:
            self._reading.follow([function, *args, *kwargs.values()])
            value = function(*args, **kwargs)
        except Exception as error:
            locate(error, [*self._places(), *_places_of(error)])
            raise
        finally:
            self.frames = frames
        return value

    def callers(self) -> tuple[Location, ...]:
        return tuple(self._places()[:-1]) if not self.frames else super().callers()

    def _places(self) -> list[Location]:
        """Where the user's functions are, outermost first."""
        frame: types.FrameType | None = sys._getframe(1)
        places = []
        while frame is not None and frame.f_code is not Tracer._outermost.__code__:
            if _is_users(frame):
                places.append(_place(frame.f_code, frame.f_lasti))
            frame = frame.f_back
        return places[::-1]

    def failed(self, error: BaseException) -> None:
        locate(error, [*self._places(), *(frame.where for frame in self.frames)])

    def bind(self, prim: Primitive, args: tuple) -> Any:
        if not self.frames:
            places = self._places()
            self.origin = Origin(places[-1] if places else None, "/".join(self.scopes), self.phase)
        return super().bind(prim, args)

    def is_new(self, value: Any) -> bool:
        """Python makes objects without telling: those of the user's that come from nowhere."""
        new = not _is_foreign(type(value).__module__) and id(value) not in self.outside._sources
        return new or super().is_new(value)


# ------------------------------------------------------------------------------ where we are


def _is_users(frame: types.FrameType) -> bool:
    return not is_trusted(frame.f_globals.get("__name__"))


def _place(code: types.CodeType, last: int) -> Location:
    """The expression that a frame is at; a negative `last` means the function."""
    nowhere = (_definition(code), 0, 0, 0)
    line, end_line, column, end = [*code.co_positions()][last // 2] if last >= 0 else nowhere
    if line is None or line != end_line:
        column = end = 0
    function = code.co_name
    return Location(code.co_filename, line or code.co_firstlineno, column or 0, end or 0, function)


def _definition(code: types.CodeType) -> int:
    """The line of ``def``: where the code begins, decorators may stand."""
    first = line = code.co_firstlineno
    while (text := linecache.getline(code.co_filename, line).lstrip()) and line < first + 20:
        if text.startswith(("def ", "async def ")):
            return line
        line += 1
    return first


def _places_of(error: BaseException) -> list[Location]:
    """Where the user's functions were that an error came through, outermost first."""
    traceback, places = error.__traceback__, []
    while traceback is not None:
        if _is_users(traceback.tb_frame):
            places.append(_place(traceback.tb_frame.f_code, traceback.tb_lasti))
        traceback = traceback.tb_next
    return places


def _generators() -> list[Any]:
    """The states of the generators whose draws no graph sees."""
    return [random.getstate(), repr(np.random.get_state(legacy=False))]


_GENERATORS = (random.random.__self__, np.random.rand.__self__)  # type: ignore[attr-defined]


def _drawing(code: types.CodeType, fn: types.FunctionType) -> Iterator[Location]:
    """Where code in a function names what draws from such a generator, as ``np.random.rand``."""
    value: Any = None
    for step in dis.get_instructions(code):
        if isinstance(step.argval, types.CodeType):
            yield from _drawing(step.argval, fn)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            value = fn.__globals__.get(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, types.ModuleType):
            value = vars(value).get(step.argval)
        else:
            value = None
        if any(getattr(value, "__self__", None) is g for g in _GENERATORS):
            yield _place(code, step.offset)


# --------------------------------------------------------------------------- what is read


@cache
def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The globals and the attributes that a function's code names, in inner functions too.

    Raises:
        UnsupportedError: it has a ``try``, which could hide that a value is not known.
    """
    names: set[str] = set()
    attributes: set[str] = set()
    for step, after in pairwise(dis.get_instructions(code)):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
            names.add(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "LOAD_SUPER_ATTR"):
            attributes.add(step.argval)
        if step.opname == "PUSH_EXC_INFO" and after.opname != "WITH_EXCEPT_START":
            error = UnsupportedError(
                "'try' cannot be traced: it could hide that a Tensor has no value yet; leave out "
                "capture_mode='trace'"
            )
            locate(error, [_place(code, after.offset)])
            raise error
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names(constant)
            names |= inner[0]
            attributes |= inner[1]
    return frozenset(names), frozenset(attributes)


def _naming(code: types.CodeType, name: str) -> Iterator[Location]:
    """Where a function's code, or that of its inner functions, names something."""
    for step in dis.get_instructions(code):
        if step.argval == name:
            yield _place(code, step.offset)
        elif isinstance(step.argval, types.CodeType):
            yield from _naming(step.argval, name)


class _Reading:
    """What a traced function may read of the Python world: captured, and watched for writes."""

    def __init__(self, ev: Tracer):
        self.ev = ev
        self.names: set[str] = set()  # of attributes
        self.objects: dict[int, Any] = {}  # whose attributes of these names are captured
        self.functions: list[types.FunctionType] = []
        self.seen: set[int] = set()
        self.read: set[tuple[int, str]] = set()
        self.watched: list[tuple[Callable[[], dict], dict, Callable[[dict], None], str]] = []

    def follow(self, values: list[Any]) -> None:
        """Capture what functions and objects may read."""
        for value in values:
            self.found(value)
        pending = True
        while pending:
            pairs = [(o, n) for o in list(self.objects.values()) for n in sorted(self.names)]
            pending = False
            for obj, name in pairs:
                if (id(obj), name) not in self.read:
                    self.read.add((id(obj), name))
                    with self.naming(name, self.functions):
                        self.attribute(obj, name)
                    pending = True

    @contextmanager
    def naming(self, name: str, functions: list[types.FunctionType]) -> Iterator[None]:
        """What is refused for its name is refused where that stands in the source."""
        try:
            yield
        except UnsupportedError as error:
            locate(error, [p for fn in functions for p in _naming(fn.__code__, name)][:1])
            raise

    def drawing(self) -> list[Location]:
        """Where the functions name what draws random numbers that no graph sees."""
        return [place for fn in self.functions for place in _drawing(fn.__code__, fn)]

    def found(self, value: Any, text: str = "an argument") -> None:
        """Note a value that the program can reach."""
        if isinstance(value, _VALUES) or id(value) in self.seen:
            return
        self.seen.add(id(value))
        self.ev.alive.append(value)
        if isinstance(value, Opaque):
            raise UnsupportedError(value.why)
        kinds: tuple[tuple[Any, Callable[[Any, str], None]], ...] = (
            ((list, tuple, dict, set, frozenset), self.items),
            (types.FunctionType, self.function),
            (types.ModuleType, self.module),
            (types.BuiltinFunctionType, self.in_c),
            (type, self.cls),
            (object, self.object),
        )
        next(note for kind, note in kinds if isinstance(value, kind))(value, text)

    def items(self, value: Any, text: str) -> None:
        """A container."""
        self.watch_items(value, text)
        for item in [*value.values()] if isinstance(value, dict) else [*value]:
            self.found(item, f"an item of {text}")

    def module(self, value: types.ModuleType, text: str) -> None:
        if not _is_pure(value.__name__):
            self.objects[id(value)] = value

    def in_c(self, value: types.BuiltinFunctionType, text: str) -> None:
        """A function without Python source."""
        if value.__module__ is not None and not _is_pure(value.__module__):
            raise UnsupportedError(
                f"'{value.__module__}.{value.__qualname__}' would be called only while tracing: "
                "call it outside and pass its result in"
            )

    def cls(self, value: type, text: str) -> None:
        """A class."""
        if not _is_foreign(value.__module__):
            self.objects[id(value)] = value
            self.special_methods(value)

    def object(self, value: Any, text: str) -> None:
        """An object: the function that it wraps, or its attributes."""
        if callable(value):
            for name in _WRAPPED:
                self.found(getattr(value, name, None), text)
        if isinstance(value, partial):
            self.objects[id(value)] = value
            self.names |= {"args", "keywords"}
            return
        if hasattr(value, "construct"):  # what the package's own methods read of a Cell
            self.names |= {"_cells", "_params"}
        elif _is_pure(type(value).__module__) or any(value is g for g in _GENERATORS):
            return
        self.objects[id(value)] = value
        self.watch_attributes(value, text)
        self.special_methods(type(value))

    def special_methods(self, cls: type) -> None:
        """What Python calls by itself: ``__init__``, ``__call__``, ``__add__`` ..."""
        self.ev.outside.special_methods(cls)
        for kind in cls.__mro__:
            for name, found in vars(kind).items():
                if name.startswith("__") and not _is_foreign(kind.__module__):
                    self.found(found)

    def function(self, fn: types.FunctionType, text: str) -> None:
        """A function: its globals, closure and defaults."""
        if _is_foreign(module_of(fn)):
            return
        names, attributes = _names(fn.__code__)
        self.functions.append(fn)
        self.objects[id(fn)] = fn
        self.watch_attributes(fn, fn.__name__)
        self.names |= attributes
        for name in sorted(names):
            with self.naming(name, [fn]):
                self.name(fn, name)
        outside = self.ev.outside
        for i, name in enumerate(fn.__code__.co_freevars):
            cell = fn.__closure__[i]  # type: ignore[index]
            if cell != types.CellType():  # it has a value
                self.watch_cell(cell, name)
                value = cell.cell_contents
                self.captured(outside.closure(fn, i, name, value), value, name)
        code = fn.__code__
        defaults(self.ev, fn, list(code.co_varnames[: code.co_argcount]))

    def name(self, fn: types.FunctionType, name: str) -> None:
        """A global or builtin that a function names."""
        if name in fn.__globals__:
            self.watch_global(fn, name)
            seen = self.ev.outside.global_name(fn, name)
            self.captured(seen, fn.__globals__[name], name)
        elif hasattr(builtins, name):
            self.ev.outside.no_global(fn, name)
            if name in _ACTING:
                raise UnsupportedError(
                    f"'{name}' in '{fn.__name__}' would act only while tracing: call it "
                    "outside, or leave out capture_mode='trace'"
                )

    def captured(self, seen: Any, real: Any, text: str) -> None:
        if isinstance(seen, Opaque):
            raise UnsupportedError(seen.why)
        self.ev.homed(seen)
        self.found(real, text)

    def attribute(self, obj: Any, name: str) -> None:
        """``obj.name``, if there is such a thing."""
        outside = self.ev.outside
        if isinstance(obj, types.ModuleType) or has_own(obj, name):
            value = vars(obj).get(name, UNSET)
            if isinstance(obj, types.ModuleType) and is_stdlib(obj.__name__):
                self.found(value)
            elif value is not UNSET:
                self.captured(outside.attribute(obj, name, value), value, name)
            return
        cls = obj if isinstance(obj, type) else type(obj)
        found = lookup(cls, name)
        if isinstance(found, types.MemberDescriptorType):
            if hasattr(obj, name):  # a slot, or what a partial holds
                value = getattr(obj, name)
                self.captured(outside.attribute(obj, name, value), value, name)
            return
        if found is UNSET or _is_foreign(cls.__module__):
            return
        inner = getattr(found, "__func__", getattr(found, "fget", found))
        if isinstance(inner, types.FunctionType):
            outside.from_class(cls, name, found, None if isinstance(obj, type) else obj)
            self.found(inner)
        elif not hasattr(type(found), "__get__"):
            self.captured(outside.attribute(obj, name, found), found, name)

    # ------------------------------------------------------------------------ what is written

    def watch_items(self, value: Any, text: str) -> None:
        """Watch a list, dict or set."""
        if isinstance(value, list):
            put: Callable[[dict], None] = lambda d: value.__setitem__(slice(None), [*d.values()])  # noqa: E731
            self.watch(lambda: dict(enumerate(value)), put, text)
        elif isinstance(value, dict):
            self.watch(lambda: dict(value), partial(_refill, value), text)
        elif isinstance(value, set):
            self.watch(lambda: dict.fromkeys(value), partial(_refill, value), text)

    def watch_attributes(self, obj: Any, text: str) -> None:
        read = lambda: _own_state(obj)  # noqa: E731

        def put(old: dict) -> None:
            for name in read().keys() - old.keys():
                object.__delattr__(obj, name)
            for name, value in old.items():
                object.__setattr__(obj, name, value)

        self.watch(read, put, text)

    def watch_global(self, fn: types.FunctionType, name: str) -> None:
        scope = fn.__globals__
        self.watch(lambda: {name: scope.get(name)}, scope.update, name)

    def watch_cell(self, cell: Any, name: str) -> None:
        put = lambda old: setattr(cell, "cell_contents", old[name])  # noqa: E731
        self.watch(lambda: {name: cell.cell_contents}, put, name)

    def watch(
        self, read: Callable[[], dict], put: Callable[[dict], None], text: str
    ) -> None:  # fmt: skip
        self.watched.append((read, read(), put, text))

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        """Undo what was written, and refuse it."""
        for read, old, put, text in self.watched:
            now = read()
            same = now.keys() == old.keys() and all(now[k] is old[k] for k in old)
            if not same or list(now) != list(old):
                put(old)
                if error is None:
                    with self.naming(text, self.functions):
                        raise UnsupportedError(
                            f"'{text}' is older than the compiled call and would be written only "
                            "while tracing: return the new value, or leave out "
                            "capture_mode='trace'"
                        )


def _own_state(obj: Any) -> dict[str, Any]:
    """What an object holds in its ``__dict__`` and in slots."""
    state = {k: v for k, v in getattr(obj, "__dict__", {}).items() if k != "_graphs"}
    for kind in type(obj).__mro__:
        for name, found in vars(kind).items() if "__slots__" in vars(kind) else ():
            if isinstance(found, types.MemberDescriptorType) and hasattr(obj, name):
                state[name] = getattr(obj, name)
    return state


def _refill(container: Any, old: dict) -> None:
    container.clear()
    container.update(old)


def _is_foreign(module: str | None) -> bool:
    """True for modules whose code is not the user's."""
    return module is not None and (_is_pure(module) or is_stdlib(module))


def _is_pure(module: str) -> bool:
    """True for modules whose functions have no hidden state."""
    return is_trusted(module) or module.split(".")[0] in PURE

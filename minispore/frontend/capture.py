"""What a compiled graph reads of the Python world.

Every value reached from outside (a global, a closure, an attribute, an item) is read through its
path again at each call.  Tensors and Parameters are inputs of the graph; everything else is a
constant under a guard (guards.py).  A list, dict, set or ndarray of the Python world is represented
by a copy, so that evaluating a program never touches the real one.
"""

from __future__ import annotations

import operator
import re
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minispore.abstract import AbstractScalar, AbstractTensor
from minispore.dims import Decisions
from minispore.dtype import DType
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.guards import Guarded, Guards, Line
from minispore.ir.node import Location, ParameterNode
from minispore.mutable import Mutable
from minispore.parameter import Parameter
from minispore.primitive import bprop_getters, eager_handler, handled_by
from minispore.symbolic import Scalar
from minispore.tensor import Tensor
from minispore.tree import Marked, constant_key, unmarked

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), DType,
          range, np.dtype, np.generic)  # fmt: skip
# What a class written in C uses to give access to its content.
_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType)

# Of an object: the code that reaches it, whether it is fresh, a description.
Source = tuple[str, bool, str]


def is_trusted(module: str | None) -> bool:
    """True for code of this package, which does not change while a program runs."""
    return module is not None and (module == "minispore" or module.startswith("minispore."))


def module_of(function: Any) -> str:
    """The module that has the code of a function.

    (``functools.wraps`` gives a user's function the ``__module__`` of the one it wraps.)
    """
    module = getattr(function, "__module__", None) or ""
    names = getattr(function, "__globals__", None)
    home = module if names is None else names.get("__name__", "")
    return module if module.split(".")[0] == home.split(".")[0] else home


def is_stdlib(module: str) -> bool:
    """True for Python's own modules."""
    return module.split(".")[0] in sys.stdlib_module_names


def is_opaque(value: Any) -> bool:
    """True for a container or iterator written in C: nothing tells whether its content changes."""
    kind = type(value)
    if isinstance(value, (type, types.ModuleType)):
        return False
    names = ("__len__", "__iter__", "__next__", "__getitem__")
    return any(isinstance(getattr(kind, name, None), _IN_C) for name in names)


class Opaque:
    """Stands for an object that is_opaque: whoever uses it raises."""

    def __init__(self, real: Any, text: str):
        self.why = (
            f"'{text}' is a {type(real).__name__}, whose content may change without notice, so "
            "a compiled graph cannot use it: pass its items in a list, or as a Tensor"
        )


MANY = 8  # constants in a container that are guarded one by one; more, all at once


@dataclass(frozen=True)
class Older:
    """A container that is older than the call: what the program sees of it, and held at first.

    At each call it is found by its `code` in the guard; an argument, or in one, by its `path`.
    """

    seen: Any
    real: Any
    before: list[Any]
    code: str = ""
    path: tuple = ()

    @property
    def is_written(self) -> bool:
        """True if it no longer holds what it held, in that order."""
        now = items_of(self.seen)
        return len(now) != len(self.before) or any(map(operator.is_not, now, self.before))


def items_of(container: Any) -> list[Any]:
    """The items of a list or set; the keys and then the values of a dict."""
    return [*container, *container.values()] if isinstance(container, dict) else list(container)


class Outside:
    """The inputs and guards of one graph in the making.

    `tensors` are the real Tensors (and mutable numbers) behind the graph's parameters, arguments
    first; `shadows` what the evaluated program sees in their place.  `where` tells the place in it
    that is evaluated.
    """

    def __init__(self, where: Callable[[], Location | None]) -> None:
        self.guards = Guards(where)
        self.constant, self.require = self.guards.constant, self.guards.require
        self.tensors: list[Any] = []
        self.shadows: list[Any] = []
        self.params: list[ParameterNode] = []
        self._paths: list[tuple[str, bool]] = []  # of each Tensor: its code, whether it is fresh
        self.shared: set[int] = set()  # the numbers of Tensors that are reached by several paths
        self._by_id: dict[int, int] = {}  # id of a real Tensor, or of its shadow -> its number
        self._sources: dict[int, Source] = {}  # id of an object
        self._memo: dict[str, Any] = {}  # code -> what the program sees
        self._open: set[int] = set()  # ids of the containers that are being copied
        self._classes: set[type] = set()  # whose special methods are guarded
        self._copies: dict[int, tuple[Any, str]] = {}  # id of a container -> its copy, its variable
        self.marked: dict[int, Any] = {}  # by id: what ``mutable`` gave, as the program sees it
        self.older: dict[int, Older] = {}  # by id of what the program sees
        self.old: dict[int, str] = {}  # id of a copy -> the description of the real one
        self._keep: list[Any] = []  # keeps ids valid

    # ------------------------------------------------------------------------------- sources

    def pin(self, obj: Any, description: str) -> None:
        """Make an object a root: the graph's key says that it is this very object."""
        self._sources.setdefault(id(obj), (self.constant(obj), False, description))
        self._keep.append(obj)
        if not isinstance(obj, type):
            self.special_methods(type(obj))

    def build(self, cls: type, args: tuple, kwargs: dict, description: str) -> Any:
        """An object that each call builds anew (a Cell made inside a jitted function)."""
        with handled_by(eager_handler()):
            obj = cls(*args, **kwargs)
        code = f"{self.constant(cls)}(*{self.constant(args)}, **{self.constant(kwargs)})"
        self._keep += [obj, args, kwargs]
        self._sources[id(obj)] = (self.guards.variable(code, True), True, description)
        return obj

    def source(self, obj: Any) -> Source:
        """Where an object was reached: code, whether calls make it anew, a description."""
        if id(obj) not in self._sources:
            self.pin(obj, getattr(obj, "__qualname__", type(obj).__name__))
        return self._sources[id(obj)]

    # ------------------------------------------------------------------------------- reading

    def attribute(self, obj: Any, name: str, value: Any) -> Any:
        """What the program sees of ``obj.name``, whose real value is `value`."""
        code, fresh, text = self.source(obj)
        return self.capture(value, f"{code}.{name}", fresh, f"{text}.{name}")

    def global_name(self, fn: types.FunctionType, name: str) -> Any:
        """What the program sees of a global of `fn`."""
        value = fn.__globals__[name]
        if is_trusted(module_of(fn)):
            return self.trusted(value)
        code = self.constant(fn.__globals__)
        return self.capture(value, f"{code}[{name!r}]", False, name)

    def no_global(self, fn: types.FunctionType, name: str) -> None:
        """A name is none of `fn`'s globals, so that it means the builtin."""
        if not is_trusted(module_of(fn)):
            self.guards.require(f"{name!r} not in {self.constant(fn.__globals__)}", name)

    def trusted(self, value: Any) -> Any:
        """A value of the package itself: no guard, but Tensors are still inputs."""
        if isinstance(value, (Tensor, list, dict, set)):
            return self.capture(value, self.constant(value), False, "a constant of minispore")
        return value

    def closure(self, fn: types.FunctionType, index: int, name: str, value: Any) -> Any:
        """What the program sees of a free variable of a function made outside."""
        cell = fn.__closure__[index]  # type: ignore[index]
        return self.capture(value, f"{self.constant(cell)}.cell_contents", False, name)

    def no_attribute(self, obj: Any, name: str) -> None:
        """An object has no attribute of its own or of its class by a name."""
        code, fresh, text = self.source(obj)
        absent = f"{name!r} not in getattr({code}, '__dict__', ()) and "
        absent += f"not hasattr(type({code}), {name!r})"
        self.guards.require(absent, f"{text} has no {name}", fresh)

    def special_methods(self, cls: type) -> None:
        """The special methods that a user's class defines, such as ``__add__``, are the same."""
        if cls in self._classes:
            return
        self._classes.add(cls)
        for kind in cls.__mro__:
            if is_trusted(kind.__module__) or is_stdlib(kind.__module__):
                continue
            for name, found in vars(kind).items():
                if name.startswith("__") and isinstance(found, types.FunctionType):
                    method = self.constant(getattr(cls, name))
                    self.guards.require(f"{self.constant(cls)}.{name} is {method}", name)

    def gradient_rules(self) -> None:
        """No rule is registered or undone (``bprop_getters``)."""
        rules = self.constant(bprop_getters)
        self.require(f"{rules}.version == {bprop_getters.version}", "gradient rules")

    def from_class(self, cls: type, name: str, found: Any, obj: Any = None) -> None:
        """A method, property or the like that a class gives (to `obj`) is still the same.

        `obj`, if given, is an object from outside, which might get an attribute of its own.
        """
        base, fresh, text = (self.constant(cls), False, cls.__name__)
        if obj is not None:
            base, fresh, text = self.source(obj)
            base = f"type({base})" if isinstance(found, property) else base
        inner = getattr(found, "__func__", found)
        bound = obj is not None or isinstance(found, classmethod)
        if bound and not isinstance(found, (staticmethod, property)):
            code = f"{base}.{name}.__func__"
        else:
            code = f"{base}.{name}"
        self.guards.require(f"{code} is {self.constant(inner)}", f"{text}.{name}", fresh)

    def descriptor(self, obj: Any, name: str, found: Any, lookup: Callable) -> None:
        """The descriptor that an object's class has under a name is the same."""
        code, fresh, text = self.source(obj)
        now = f"{self.constant(lookup)}(type({code}), {name!r})"
        self.guards.require(f"{now} is {self.constant(found)}", f"{text}.{name}", fresh)

    def capture(self, real: Any, code: str, fresh: bool, text: str) -> Any:
        """What the program sees of a value found at `code`; adds its guard or input once."""
        if code in self._memo:
            return self._memo[code]
        seen = self._capture(real, code, fresh, text)
        self._memo[code] = seen
        self._keep.append(real)
        return seen

    def _capture(self, real: Any, code: str, fresh: bool, text: str) -> Any:
        guards = self.guards
        if isinstance(real, Tensor):
            if code == self.constant(real) and id(real) in self._by_id:
                return self.shadows[self._by_id[id(real)]]  # the object itself, not a path to it
            return self._tensor(real, guards.variable(code, fresh), fresh, text)
        if isinstance(real, slice):
            parts = ((n, getattr(real, n)) for n in ("start", "stop", "step"))
            return slice(*[self.capture(v, f"{code}.{n}", fresh, f"{text}.{n}") for n, v in parts])
        if isinstance(real, _PLAIN):
            guards.require_constant(code, real, text, fresh)
            return real
        if isinstance(real, (list, tuple, dict, set, frozenset)):
            return self._container(real, guards.variable(code, fresh), fresh, text)
        if type(real) is np.ndarray:
            return self._array(real, code, fresh, text)
        if not isinstance(real, type):
            self.special_methods(type(real))
        if fresh:
            var = guards.variable(code, fresh)
            guards.require(f"type({var}) is {self.constant(type(real))}", text, fresh)
            self._sources.setdefault(id(real), (var, True, text))
        else:
            guards.require(f"{code} is {self.constant(real)}", text)
            self._sources.setdefault(id(real), (self.constant(real), False, text))
        return Opaque(real, text) if is_opaque(real) else real

    def _array(self, real: np.ndarray, code: str, fresh: bool, text: str) -> np.ndarray:
        """A copy of an ndarray: a constant that no one can write."""
        copy = real.copy()
        copy.flags.writeable = False
        self.old[id(copy)] = text
        self.guards.require_constant(code, real, text, fresh)
        self._keep.append(copy)
        return copy

    # ---------------------------------------------------------------------------- containers

    def _container(self, real: Any, var: str, fresh: bool, text: str) -> Any:
        known = self._copies.get(id(real))
        if known is not None:
            self.guards.require(f"{var} is {known[1]}", f"{text} is the same", fresh)
            return known[0]
        if id(real) in self._open:
            raise UnsupportedError(f"'{text}' contains itself, which no compiled graph can follow")
        self._open.add(id(real))
        self.guards.require(f"type({var}) is {self.constant(type(real))}", text, fresh)
        make: dict[type, Any] = {
            dict: self._dict, list: self._list, tuple: self._tuple,
            set: self._set, frozenset: self._set,
        }  # fmt: skip
        kind = next(k for k in make if isinstance(real, k))
        plain = unmarked(real) if isinstance(real, Marked) else real
        copy = make[kind](plain, var, fresh, text)
        if plain is not real:
            self.marked[id(copy)] = copy
        self._open.remove(id(real))
        if kind in (tuple, frozenset):
            return copy
        if hasattr(plain, "__dict__"):  # of a user's class
            copy.__dict__.update(real.__dict__)
        self._copies[id(real)] = copy, var
        if not fresh and not text.endswith("__dict__"):
            self.older[id(copy)] = Older(copy, real, items_of(copy), var)
        self._sources[id(copy)] = var, fresh, text
        self.old[id(copy)] = text
        return copy

    def _all_at_once(self, items: Any, code: str, fresh: bool, text: str) -> bool:
        """Guard a container of many constants, and nothing else, by a single line."""
        if len(items) <= MANY or not all(isinstance(v, _PLAIN) for v in items):
            return False
        var = self.guards.variable(f"list({code})", fresh)
        self.guards.require_constants(var, list(items), text, fresh)
        return True

    def _items(self, real: Any, var: str, fresh: bool, text: str) -> list[Any]:
        if self._all_at_once(real, var, fresh, text):
            return list(real)
        self.guards.require(f"len({var}) == {len(real)}", f"length of {text}", fresh)
        return [self.capture(v, f"{var}[{i}]", fresh, f"{text}[{i}]") for i, v in enumerate(real)]

    def _list(self, real: list, var: str, fresh: bool, text: str) -> list:
        copy: list = type(real).__new__(type(real))
        list.extend(copy, self._items(real, var, fresh, text))
        return copy

    def _tuple(self, real: tuple, var: str, fresh: bool, text: str) -> tuple:
        items = self._items(real, var, fresh, text)
        if all(a is b for a, b in zip(items, real, strict=True)):
            return real
        return tuple.__new__(type(real), items)

    def _set(self, real: Any, var: str, fresh: bool, text: str) -> Any:
        """A copy of a set or frozenset; its items have no path, and are told by their identity."""
        key = self.constant(constant_key(frozenset(real)))
        self.guards.require(f"constant_key(frozenset({var})) == {key}", text, fresh)
        others = {v for v in real if not isinstance(v, _PLAIN)}
        seen = [self.capture(v, self.constant(v), fresh, f"an item of {text}") for v in others]
        make: Any = type(real)
        return make([*(v for v in real if v not in others), *seen])

    def _dict(self, real: dict, var: str, fresh: bool, text: str) -> dict:
        keys = tuple(real)
        if all(type(k) is str for k in keys):
            test = f"tuple({var}) == {self.constant(keys)}"
        else:
            test = f"constant_key(tuple({var})) == {self.constant(constant_key(keys))}"
        self.guards.require(test, f"keys of {text}", fresh)
        self._keep.append(keys)
        copy: dict = type(real).__new__(type(real))
        put = OrderedDict.__setitem__ if isinstance(real, OrderedDict) else dict.__setitem__
        known = self._all_at_once(real.values(), f"{var}.values()", fresh, text)
        for k, v in real.items():
            if known:
                put(copy, k, v)
                continue
            place = repr(k) if type(k) in (str, int) else self.constant(k)
            put(copy, k, self.capture(v, f"{var}[{place}]", fresh, f"{text}[{k!r}]"))
        if isinstance(real, defaultdict):
            copy.default_factory = real.default_factory  # type: ignore[attr-defined]
        return copy

    # ------------------------------------------------------------------------------- Tensors

    def argument(self, real: Any, name: str, decisions: Decisions, axes: Collection[int]) -> Any:
        """The Tensor (or Scalar, for a mutable number) that the program sees for an argument.

        The sizes of its `axes` are none that the graph knows.
        """
        number = self._by_id.get(id(real))
        if number is None:
            code = f"A[{len(self.tensors)}]"
            sizes = {a: decisions.input(real.shape[a], f"{code}._data.shape[{a}]") for a in axes}
            number = self._add(real, code, False, name, sizes)
        return self.shadows[number]

    def _tensor(self, real: Tensor, var: str, fresh: bool, text: str) -> Tensor:
        number = self._by_id.get(id(real))
        require = self.guards.require
        if number is not None:
            self.shared.add(number)
            require(f"{var} is {self._paths[number][0]}", f"{text} is the same Tensor", fresh)
            return self.shadows[number]
        if isinstance(real, Parameter) and not fresh:
            require(f"{var} is {self.constant(real)}", text)  # so its dtype and shape are the same
        else:
            require(f"type({var}) is {self.constant(type(real))}", text, fresh)
            shape, dtype = real._data.shape, real._data.dtype
            require(f"{var}._data.shape == {self.constant(shape)}", f"shape of {text}", fresh)
            require(f"{var}._data.dtype == {self.constant(dtype)}", f"dtype of {text}", fresh)
            self._keep += [shape, dtype]
        return self.shadows[self._add(real, var, fresh, text)]

    def _add(
        self, real: Any, code: str, fresh: bool, name: str, sizes: Mapping[int, Any] | None = None
    ) -> int:
        number, value = len(self.tensors), real
        if isinstance(real, Mutable):
            value = real.plain()
            param = ParameterNode(name, AbstractScalar(type(value)))
            shadow: Any = Scalar(param)
        else:
            known, unknown = real._abstract, sizes or {}
            shape = tuple(unknown.get(axis, size) for axis, size in enumerate(known.shape))
            name = real.name if isinstance(real, Parameter) else name
            param = ParameterNode(name, AbstractTensor(known.dtype, shape))
            is_parameter = isinstance(real, Parameter)
            shadow = Parameter._shadow(real, param) if is_parameter else Tensor._of_node(param)
        self.tensors.append(value)
        self.shadows.append(shadow)
        self.params.append(param)
        self._paths.append((code, fresh))
        self._by_id[id(real)] = self._by_id[id(shadow)] = number
        self._sources[id(shadow)] = (code, fresh, name)
        return number

    def number(self, shadow: Any) -> int | None:
        """The number of the input that a Tensor of the program stands for."""
        return self._by_id.get(id(shadow))

    # ------------------------------------------------------------------------------- the guard

    def is_fresh(self, obj: Any) -> bool:
        """True for an object that each call makes anew."""
        return id(obj) in self._sources and self._sources[id(obj)][1]

    def captured(self) -> list[Older]:
        """The containers that were reached from outside, not as arguments."""
        return [older for older in self.older.values() if older.code]

    def guarded(self, n_args: int, decisions: Decisions, containers: bool) -> Guarded:
        """The guard; it collects the captured `containers` too, after the Tensors."""
        codes = [code for code, _ in self._paths]
        captured = [*zip(self.tensors, self._paths, strict=True)][n_args:]
        params = frozenset(
            id(t) for t, (_, fresh) in captured if isinstance(t, Parameter) and not fresh
        )
        last: list[Line] = []
        if params:
            name, reason = self.constant(params), "an argument is captured"
            tests = [f"id({c}) in {name}" for c in codes[:n_args]]
            last += [Line(test, reason, holds=False, tells_apart=True) for test in tests]
        plain = [code for t, (code, _) in captured if not isinstance(t, Parameter)]
        arguments = zip(self.tensors[:n_args], codes, strict=False)
        distinct = [code for t, code in arguments if isinstance(t, Tensor)] + plain
        if plain and len(distinct) > 1:
            ids = ", ".join(f"id({c})" for c in distinct)
            test = f"len({{{ids}}}) != {len(distinct)}"
            last.append(Line(test, "two Tensors are one", holds=False, tells_apart=True))
        codes += [older.code for older in self.captured() if containers]
        return self.guards.guarded(codes, self._sizes(decisions), last)

    def _sizes(self, decisions: Decisions) -> list[Line]:
        """The lines that read the sizes of arguments, and what was decided by these."""
        lines = [Line(f"{symbol} = {code}") for symbol, code in decisions.codes.items()]
        for condition in decisions.conditions:
            text = condition
            for symbol, code in decisions.codes.items():
                argument, _, axis = code.partition("._data")
                name = self.params[int(argument[2:-1])].name
                text = re.sub(rf"\b{symbol}\b", name + axis, text)
            lines.append(Line(condition, f"sizes of arguments: {text}"))
        return lines

"""What a compiled graph reads of the Python world, and how a later call checks it.

Every value reached from outside (a global, a closure, an attribute, an item) is read through its
path again at each call.  Tensors and Parameters are inputs of the graph; everything else is a
constant under a guard.  All guards of one graph are one generated Python function:

    def guard(A):                  # A: the Tensors among the arguments
        v1 = G1['net']
        if v1 is not K1: return None
        ...
        return [A[0], v7, v9]      # the Tensors to feed, in the order of the graph's parameters

A list, dict or set of the Python world is represented by a copy, so that evaluating a program never
touches the real one.
"""

from __future__ import annotations

import struct
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from minispore.dtype import DType
from minispore.ir.node import ParameterNode
from minispore.parameter import Parameter
from minispore.primitive import eager_handler, handled_by
from minispore.tensor import Tensor

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), DType,
          slice, range, np.dtype, np.generic)  # fmt: skip


def same_constant(a: Any, b: Any) -> bool:
    """True if two plain constants are of one type and equal to the bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    return a is b or bool(a == b)


def is_trusted(module: str | None) -> bool:
    """True for code of this package, which does not change while a program runs."""
    return module is not None and (module == "minispore" or module.startswith("minispore."))


class Outside:
    """The inputs and guards of one graph in the making.

    `tensors` are the real Tensors behind the graph's parameters, arguments first; `shadows` what
    the evaluated program sees in their place.
    """

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.shadows: list[Tensor] = []
        self.params: list[ParameterNode] = []
        self.names: list[str] = []
        self._codes: list[str] = []
        self._by_id: dict[int, int] = {}  # id of a real Tensor -> its number
        self._sources: dict[int, tuple[str, bool, str]] = {}  # id -> (code, fresh, description)
        self._memo: dict[str, Any] = {}
        self._copies: dict[int, Any] = {}  # id of a real container -> its copy
        self.old: dict[int, str] = {}  # id of a copy -> the description of the real one
        self._keep: list[Any] = []
        self._lines: list[str] = []
        self._fresh_lines: list[str] = []
        self._names: dict[str, Any] = {"same_constant": same_constant}
        self._constants: dict[int, str] = {}
        self._counter = 0

    # ------------------------------------------------------------------------------- sources

    def constant(self, obj: Any) -> str:
        """A name for an object in the generated code."""
        name = self._constants.get(id(obj))
        if name is None:
            name = f"K{len(self._constants)}"
            self._constants[id(obj)] = name
            self._names[name] = obj
        return name

    def pin(self, obj: Any, description: str) -> None:
        """Make an object a root: the graph's key says that it is this very object."""
        self._sources.setdefault(id(obj), (self.constant(obj), False, description))
        self._keep.append(obj)

    def build(self, cls: type, args: tuple, kwargs: dict, description: str) -> Any:
        """An object that each call builds anew (a Cell made inside a jitted function)."""
        with handled_by(eager_handler()):
            obj = cls(*args, **kwargs)
        var = self._variable(
            f"{self.constant(cls)}(*{self.constant(args)}, **{self.constant(kwargs)})", True
        )
        self._keep += [obj, args, kwargs]
        self._sources[id(obj)] = (var, True, description)
        return obj

    def source(self, obj: Any) -> tuple[str, bool, str]:
        """Where an object was reached: code, whether calls make it anew, a description."""
        found = self._sources.get(id(obj))
        if found is None:
            self.pin(obj, getattr(obj, "__qualname__", type(obj).__name__))
            found = self._sources[id(obj)]
        return found

    def _variable(self, code: str, fresh: bool) -> str:
        self._counter += 1
        var = f"v{self._counter}"
        (self._fresh_lines if fresh else self._lines).append(f"{var} = {code}")
        return var

    def _guard(self, condition: str, fresh: bool, reason: str) -> None:
        lines = self._fresh_lines if fresh else self._lines
        lines.append(f"if not ({condition}): return None  # {reason}")

    def require(self, condition: str, reason: str, **names: Any) -> None:
        """Add a guard of another kind; `names` are objects that the condition refers to."""
        self._names.update(names)
        line = f"if not ({condition}): return None  # {reason}"
        if line not in self._lines:
            self._lines.append(line)

    # ------------------------------------------------------------------------------- reading

    def attribute(self, obj: Any, name: str, value: Any) -> Any:
        """What the program sees of ``obj.name``, whose real value is `value`."""
        code, fresh, text = self.source(obj)
        holder = obj.__name__ if isinstance(obj, types.ModuleType) else None
        holder = obj.__module__ if isinstance(obj, type) else holder
        fixed = is_trusted(holder) or name not in getattr(obj, "__dict__", ())
        return self.capture(value, f"{code}.{name}", fresh, f"{text}.{name}", fixed)

    def global_name(self, fn: types.FunctionType, name: str) -> Any:
        """What the program sees of a global of `fn`."""
        value = fn.__globals__[name]
        if is_trusted(fn.__module__):
            return self.trusted(value)
        code = self.constant(fn.__globals__)
        return self.capture(value, f"{code}[{name!r}]", False, name)

    def trusted(self, value: Any) -> Any:
        """A value of the package itself: no guard, but Tensors are still inputs."""
        return self.capture(value, self.constant(value), False, "constant") if isinstance(
            value, (Tensor, list, dict, set)) else value  # fmt: skip

    def closure(self, fn: types.FunctionType, index: int, name: str, value: Any) -> Any:
        """What the program sees of a free variable of a function made outside."""
        cell = fn.__closure__[index]  # type: ignore[index]
        return self.capture(value, f"{self.constant(cell)}.cell_contents", False, name)

    def capture(self, real: Any, code: str, fresh: bool, text: str, fixed: bool = False) -> Any:
        """What the program sees of a value found at `code`; adds its guard or input once.

        Where the name is `fixed`, functions and classes of the package need no guard.
        """
        if code in self._memo:
            return self._memo[code]
        seen = self._capture(real, code, fresh, text, fixed)
        self._memo[code] = seen
        self._keep.append(real)
        return seen

    def _capture(self, real: Any, code: str, fresh: bool, text: str, fixed: bool) -> Any:
        if isinstance(real, Tensor):
            return self._tensor(real, self._variable(code, fresh), fresh, text)
        if isinstance(real, _PLAIN):
            k = self.constant(real)
            test = f"{code} is {k}" if real is None or isinstance(real, bool) else (
                f"same_constant({code}, {k})")  # fmt: skip
            self._guard(test, fresh, text)
            return real
        if isinstance(real, (list, tuple, dict, set)):
            return self._container(real, self._variable(code, fresh), fresh, text)
        if fresh:
            var = self._variable(code, fresh)
            self._guard(f"type({var}) is {self.constant(type(real))}", fresh, text)
            self._sources.setdefault(id(real), (var, True, text))
        elif not (
            fixed
            and is_trusted(getattr(real, "__module__", None))
            and isinstance(real, (type, types.FunctionType))
        ):
            self._guard(f"{code} is {self.constant(real)}", fresh, text)
            self._sources.setdefault(id(real), (self.constant(real), False, text))
        return real

    def _container(self, real: Any, var: str, fresh: bool, text: str) -> Any:
        self._guard(f"type({var}) is {self.constant(type(real))}", fresh, text)
        if isinstance(real, (dict, set)):
            keys = tuple(real)
            self._guard(f"tuple({var}) == {self.constant(keys)}", fresh, f"keys of {text}")
            self._keep.append(keys)
        else:
            self._guard(f"len({var}) == {len(real)}", fresh, f"length of {text}")
        if isinstance(real, set):
            copy: Any = set(real)
        elif isinstance(real, dict):
            values = [
                self.capture(v, f"{var}[{self._key(k)}]", fresh, f"{text}[{k!r}]")
                for k, v in real.items()
            ]
            copy = type(real)() if type(real) in (dict, OrderedDict) else dict()
            copy.update(zip(real, values, strict=True))
        else:
            items = [
                self.capture(v, f"{var}[{i}]", fresh, f"{text}[{i}]") for i, v in enumerate(real)
            ]
            if isinstance(real, tuple):
                unchanged = all(a is b for a, b in zip(items, real, strict=True))
                kind: Any = type(real)
                return (
                    real if unchanged else kind(*items) if hasattr(real, "_fields") else kind(items)
                )
            copy = items
        known = self._copies.setdefault(id(real), copy)
        if known is copy:
            self.old[id(copy)] = text
        return known

    def _key(self, key: Any) -> str:
        return repr(key) if isinstance(key, (str, int)) else self.constant(key)

    # ------------------------------------------------------------------------------- Tensors

    def argument(self, real: Tensor, name: str) -> Tensor:
        """The Tensor that the program sees for an argument."""
        number = self._by_id.get(id(real))
        if number is None:
            number = self._add(real, f"A[{len(self.tensors)}]", name)
        return self.shadows[number]

    def _tensor(self, real: Tensor, var: str, fresh: bool, text: str) -> Tensor:
        number = self._by_id.get(id(real))
        if number is not None:
            self._guard(f"{var} is {self._codes[number]}", fresh, f"{text} is the same Tensor")
            return self.shadows[number]
        if isinstance(real, Parameter) and not fresh:
            self._guard(f"{var} is {self.constant(real)}", fresh, text)
        else:
            self._guard(f"type({var}) is {self.constant(type(real))}", fresh, text)
        shape, dtype = self.constant(real._data.shape), self.constant(real._data.dtype)
        self._guard(f"{var}._data.shape == {shape}", fresh, f"shape of {text}")
        self._guard(f"{var}._data.dtype == {dtype}", fresh, f"dtype of {text}")
        self._keep += [real._data.shape, real._data.dtype]
        return self.shadows[self._add(real, var, text)]

    def _add(self, real: Tensor, code: str, name: str) -> int:
        number = len(self.tensors)
        name = real.name if isinstance(real, Parameter) else name
        param = ParameterNode(name, real._abstract)
        if isinstance(real, Parameter):
            shadow: Tensor = Parameter._shadow(real)
            shadow._node = param
        else:
            shadow = Tensor._of_node(param)
        self.tensors.append(real)
        self.shadows.append(shadow)
        self.params.append(param)
        self.names.append(name)
        self._codes.append(code)
        self._by_id[id(real)] = number
        return number

    def real(self, shadow: Tensor) -> Tensor | None:
        """The real Tensor behind a shadow."""
        for number, s in enumerate(self.shadows):
            if s is shadow:
                return self.tensors[number]
        return None

    # ------------------------------------------------------------------------------- the guard

    def guard(self, n_args: int) -> tuple[Callable[[list], list | None], str]:
        """The generated guard, and its source."""
        distinct = [c for c, t in zip(self._codes, self.tensors, strict=True)
                    if not isinstance(t, Parameter) or c.startswith("A[")]  # fmt: skip
        params = frozenset(id(t) for t in self.tensors if isinstance(t, Parameter))
        lines = [*self._lines, *self._fresh_lines]
        if params and distinct:
            self._names["PARAMETERS"] = params
            own = {id(t) for t in self.tensors[:n_args]}
            for code, real in zip(self._codes, self.tensors, strict=True):
                if code in distinct and id(real) not in params and id(real) in own:
                    lines.append(f"if id({code}) in PARAMETERS: return None  # aliased argument")
        if len(self.tensors) > n_args and len(distinct) > 1:
            ids = ", ".join(f"id({c})" for c in distinct)
            lines.append(f"if len({{{ids}}}) != {len(distinct)}: return None  # aliased Tensors")
        body = "\n        ".join(lines + [f"return [{', '.join(self._codes)}]"])
        source = (
            "def guard(A):\n    try:\n        " + body + "\n"
            "    except (AttributeError, IndexError, KeyError, TypeError, ValueError):\n"
            "        return None  # the path to a captured value does not exist any more\n"
        )
        scope = dict(self._names)
        exec(compile(source, "<guards>", "exec"), scope)
        return scope["guard"], source

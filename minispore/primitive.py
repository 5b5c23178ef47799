"""The Primitive record, the registry, and ``apply``: the single dispatch point of both modes.

A primitive is a class; everything about it is read in one place: how its output type follows
from its inputs (`infer`), its value in NumPy (`eval`), its gradient *written in ops* (`vjp`), the
scalar expression from which kernels are generated (`expr`).  An instance is the primitive with its
attributes bound (MindSpore: ``ops.ReduceSum(keep_dims=True)``), and is what a graph node calls.

    user code -> ops.tanh(x) -> apply(Tanh(), x) -> handler.bind
                                                     |- eager: NumPy at once, the tape records
                                                     `- graph: a new CNode

Values are Tensors (positional), attributes are hashable keywords.  Handlers are registered by
upper rooms, so this module imports nothing of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

from minispore.abstract import Abstract, at_sizes, symbols_of
from minispore.dims import Dim, ScalarLike, is_born
from minispore.dtype import DType, of_python, promote, promote_scalar

REGISTRY: dict[str, type[Primitive]] = {}
HIDDEN: dict[int, str] = {}  # id of a Tensor that ops keep for themselves -> its name in graphs


class TensorLike:
    """What ``ops`` may ask of a Tensor: `shape`, `dtype`.  The class itself is in tensor.py."""

    __slots__ = ()
    shape: tuple[int, ...]
    dtype: DType


class Primitive:
    """A primitive operation with its attributes.

    Subclasses are registered by their class name and override

    * ``infer(*abstracts) -> Abstract``: the output's type; raises the user's error,
    * ``eval(*arrays) -> array`` (a tuple for several outputs): the value in NumPy.  It must not
      alias or change its inputs,
    * ``vjp(inputs, out, dout) -> tuple``: one cotangent (or None for none) per input, written with
      public ops on Tensors, so that the tape, graphs and second order share it.  With several
      outputs `out` and `dout` are tuples; a dout of None means zero.

    Class attributes: `expr`, the scalar expression of an element-wise primitive, with {0}, {1}
    for its inputs; `promotes`, True if Tensor inputs are cast to their common type; `effect`, True
    if it takes and returns the Token (see ``apply``); `gives_sizes`, True if its result has a
    size (attribute `count`) that is known only when it has run.

    Attributes may hold sizes that are not known yet (dims.py).  When a graph runs, the primitive is
    bound anew with what they are: those of inputs are known from the start, and for each that is
    born the node has one more operand, an int, after all others.
    """

    name: ClassVar[str]
    expr: ClassVar[str | None] = None
    promotes: ClassVar[bool] = False
    effect: ClassVar[bool] = False
    gives_sizes: ClassVar[bool] = False
    is_users: ClassVar[bool] = False  # written outside the package: its promises are checked

    def __init_subclass__(cls, register: bool = True, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.is_users = not cls.__module__.startswith("minispore.")
        if register:
            cls.name = cls.__name__
            known = REGISTRY.get(cls.name, cls)
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ValueError(f"a primitive named {cls.name} is registered already")
            REGISTRY[cls.name] = (
                cls  # a class that is defined again, in a notebook, replaces itself
            )

    attrs: dict[str, Any]
    _key: tuple | None
    _symbols: tuple[str, ...] | None
    _sized: tuple[tuple, Any]  # the sizes of the last run, and the primitive bound with them

    def __new__(cls, *args: Any, **kwargs: Any) -> Primitive:
        """An instance without attributes yet."""
        prim = object.__new__(cls)
        prim.__dict__.update(attrs={}, _key=None, _symbols=None, _sized=((), None))
        return prim

    def __init__(self, **attrs: Any):
        self.attrs.update(attrs)

    def __setattr__(self, name: str, value: Any) -> None:
        # ``self.k = v`` is an attribute like those passed to __init__: kept elsewhere, it would be
        # lost, for graphs know a primitive by its name and attrs alone.
        self.attrs[name] = value
        self.__dict__.update(_key=None, _symbols=None)

    def __getattr__(self, name: str) -> Any:
        attrs = self.__dict__.get("attrs", {})
        if name in attrs:
            return attrs[name]
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")

    @classmethod
    def bound(cls, **attrs: Any) -> Primitive:
        """The primitive with exactly these attributes, past the public constructor."""
        prim = cls.__new__(cls)
        Primitive.__init__(prim, **attrs)
        return prim

    def infer(self, *abstracts: Any) -> Abstract:
        raise NotImplementedError(f"{self.name}.infer")

    def eval(self, *arrays: Any) -> Any:
        raise NotImplementedError(f"{self.name}.eval")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        raise TypeError(f"{self.name} has no gradient; use ops.stop_gradient on its input")

    def can_fail(self, *args: Any) -> bool:
        """True if ``eval`` may raise on some values of these arguments, and no Check says so."""
        return False

    @property
    def symbols(self) -> tuple[str, ...]:
        """The sizes in its attributes that are not known yet."""
        if self._symbols is None:
            found = {s for value in self.attrs.values() for s in symbols_of(value)}
            self.__dict__["_symbols"] = tuple(sorted(found))
        return self._symbols  # type: ignore[return-value]

    @property
    def needs(self) -> tuple[str, ...]:
        """Those of the symbols that are operands of the node: sizes that are born elsewhere."""
        return () if self.gives_sizes or not self.symbols else tuple(filter(is_born, self.symbols))

    def type_of(self, *abstracts: Any) -> Any:
        """What ``infer`` says of a node with operands of these types."""
        return self.infer(*abstracts[: len(abstracts) - len(self.needs)])

    def at_run(self, operands: Sequence[Any], sizes: Mapping[str, int]) -> tuple[Any, Sequence]:
        """The primitive with sizes in place of symbols, and its own operands."""
        own = len(operands) - len(self.needs)
        given = dict(zip(self.needs, operands[own:], strict=True))
        key = tuple([given[s] if s in given else sizes.get(s) for s in self.symbols])
        last, sized = self._sized
        if last != key:
            known = {s: n for s, n in zip(self.symbols, key, strict=True) if n is not None}
            sized = self.bound(**{k: at_sizes(v, known) for k, v in self.attrs.items()})
            self.__dict__["_sized"] = (key, sized)
        return sized, operands[:own]

    def __call__(self, *args: Any) -> Any:
        return apply(self, *args)

    def prepare(self, args: tuple) -> tuple:
        """Turn the arguments into Tensors, of one common type if the primitive promotes."""
        if self.promotes:
            return promoted(self.name, args)
        return tuple(a if isinstance(a, TensorLike) else as_tensor(a) for a in args)

    @property
    def key(self) -> tuple:
        """What makes two primitives equal: name and attributes, by type and value."""
        if self._key is None:
            items = tuple(sorted((k, _typed(v)) for k, v in self.attrs.items()))
            self.__dict__["_key"] = (self.name, items)
        return self._key  # type: ignore[return-value]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Primitive) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        attrs = ", ".join(f"{k}={v!r}" for k, v in self.attrs.items())
        return f"Prim[{self.name}]<{attrs}>" if attrs else f"Prim[{self.name}]"


def _typed(value: Any) -> Any:
    """A sortable, hashable form of an attribute that tells 1, 1.0 and True (and -0.0) apart."""
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, tuple(_typed(v) for v in value))
    if isinstance(value, (bool, int, float, str, bytes, type(None), DType)):
        return (type(value).__name__, repr(value))
    if isinstance(value, Dim):
        return ("Dim", value.form)
    return (type(value).__name__, value)


# ---------------------------------------------------------------------------------- dispatch


class Handler(Protocol):
    """Gives primitives a meaning: evaluates them, or makes nodes of them."""

    def bind(self, prim: Primitive, args: tuple) -> Any:
        """The result of `prim` on prepared arguments: a Tensor, or a tuple of them."""

    def constant(self, value: Any, dtype: DType | None) -> Any:
        """A Tensor that holds a Python number or nested list, or an ndarray."""

    def write(self, cell: Any, value: Any) -> None:
        """Give the Tensor `cell` the value of another Tensor, of the same dtype and shape."""

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a Cell or a gradient that Python calls while a graph is made."""


class _Handlers(threading.local):
    def __init__(self) -> None:
        self.stack: list[Handler] = []


_handlers = _Handlers()
_eager: list[Handler] = []  # one: what runs when no graph is being built


def register_eager(handler: Handler) -> None:
    """Set the handler that evaluates at once (tensor.py does this when it is imported)."""
    _eager[:] = [handler]


def current_handler() -> Handler:
    """What gives primitives their meaning in this thread now."""
    return _handlers.stack[-1] if _handlers.stack else _eager[0]


def eager_handler() -> Handler:
    """The handler that evaluates at once."""
    return _eager[0]


def is_tracing() -> bool:
    """True while a graph is being built in this thread."""
    return bool(_handlers.stack) and _handlers.stack[-1] is not _eager[0]


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Send every ``apply`` of this thread to `handler` for the length of the block."""
    _handlers.stack.append(handler)
    try:
        yield
    finally:
        _handlers.stack.pop()


def apply(prim: Primitive, *args: Any) -> Any:
    """The result of a primitive: a Tensor, a tuple of Tensors, or None for an effect.

    An effect's Token is threaded by the handler: callers neither pass nor receive it.
    """
    return current_handler().bind(prim, prim.prepare(args))


# ---------------------------------------------------------------------- arguments to Tensors


def is_number(value: Any) -> bool:
    """True for Python numbers, varying or constant."""
    return isinstance(value, (bool, int, float, ScalarLike))


def number_kind(value: Any) -> type:
    """bool, int or float: the Python type of a number."""
    if isinstance(value, ScalarLike):
        return value.kind
    return bool if isinstance(value, bool) else int if isinstance(value, int) else float


def as_tensor(value: Any, dtype: DType | None = None) -> Any:
    """`value` as a Tensor; a number takes `dtype`; a Tensor is returned unchanged."""
    if isinstance(value, TensorLike):
        return value
    if isinstance(value, ScalarLike):
        from_scalar = REGISTRY["ScalarToTensor"]
        return apply(from_scalar.bound(dtype=dtype or of_python(value.kind)), value)
    return current_handler().constant(value, dtype)


def promoted(name: str, args: tuple) -> tuple:
    """The arguments as Tensors of one type; a cast that is needed is a Cast node."""
    dtype: DType | None = None
    alike = True
    for a in args:
        if isinstance(a, TensorLike):
            own = a.dtype
            if own is not dtype:
                alike = alike and dtype is None
                dtype = own if dtype is None else promote(dtype, own)
        elif is_number(a):
            alike = False
        else:
            raise TypeError(f"{name} takes Tensors and numbers, not {type(a).__name__} ({a!r:.40})")
    if alike and args:
        return args
    if dtype is None:
        tensors = tuple(as_tensor(a) for a in args)
        return promoted(name, tensors)
    for a in args:
        if not isinstance(a, TensorLike):
            dtype = promote_scalar(dtype, number_kind(a))
    return tuple(_cast(as_tensor(a, dtype), dtype) for a in args)


def _cast(x: Any, dtype: DType) -> Any:
    return x if x.dtype is dtype else apply(REGISTRY["Cast"].bound(dtype=dtype), x)


# ------------------------------------------------------------------- gradient rules of users


class BpropGetters:
    """Users' gradient rules, which win over the built-in ones (``bprop_getters.register``).

    A getter takes the primitive and returns ``bprop(*inputs, out, dout) -> tuple``.  `version`
    changes with every registration: compiled graphs guard on it.
    """

    def __init__(self) -> None:
        self._getters: dict[str, Callable] = {}
        self.version = 0

    def register(self, prim: Any) -> Callable[[Callable], Callable]:
        """A decorator that registers a getter for a primitive class, instance or name."""
        name = prim if isinstance(prim, str) else prim.name
        if name not in REGISTRY:
            raise ValueError(f"'{name}' is no primitive; see minispore.primitive.REGISTRY")

        def decorator(getter: Callable) -> Callable:
            self._getters[name] = getter
            self.version += 1
            return getter

        return decorator

    def unregister(self, prim: Any) -> None:
        """Undo ``register``: the built-in rule is used again; KeyError if there was none."""
        name = prim if isinstance(prim, str) else prim.name
        del self._getters[name]
        self.version += 1

    def get(self, prim: Primitive) -> Callable | None:
        """The user's bprop for this primitive, or None."""
        getter = self._getters.get(prim.name)
        return getter(prim) if getter else None


bprop_getters = BpropGetters()

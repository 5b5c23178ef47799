"""What a program tells the compiler of its own code: constexpr, lazy_inline, jit_class ...

@ms.constexpr
def half(shape): return shape[0] // 2      # runs while compiling, on constants

class Block(nn.Cell):
    @ms.lazy_inline
    def __init__(self): ...                # stays a call in the graph until the others are gone
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from minispore.frontend import calls
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.evaluate import Evaluator
from minispore.frontend.values import is_symbolic, type_name
from minispore.primitive import current_handler, eager_handler, handled_by, is_tracing
from minispore.tensor import is_tensor
from minispore.tree import Structure, constant_key, flatten, unflatten

Class = TypeVar("Class", bound=type)


def jit_class(cls: Class) -> Class:
    """Say that objects of a class may be made and used in compiled functions; they may anyway.

    Returns:
        The class, with the mark that MindSpore sets: ``__ms_class__``.

    Raises:
        TypeError: no class, or a Cell's.

    MindSpore: ``mindspore.jit_class``.
    """
    if not isinstance(cls, type):
        raise TypeError(f"jit_class decorates a class, not {type(cls).__name__}")
    if hasattr(cls, "construct"):
        raise TypeError(f"jit_class is for classes of one's own; {cls.__name__} is a Cell")
    cls.__ms_class__ = True  # type: ignore[attr-defined]
    return cls


# --------------------------------------------------------------------------------- constexpr


class Constexpr:
    """A function that is called with constants, as it is, while a graph is compiled."""

    def __init__(self, fn: Callable, name: str | None, reuse_result: bool):
        if not callable(fn):
            raise TypeError(f"constexpr decorates a function, not {type(fn).__name__}")
        functools.update_wrapper(self, fn)
        self.function = fn
        self.name = name or getattr(fn, "__name__", type(fn).__name__)
        self.reuse_result = reuse_result

    def __repr__(self) -> str:
        return f"Prim[{self.name}]<constexpr_prim=True>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return current_handler().call(self, list(args), kwargs)
        self.check(args, kwargs)
        return self.function(*args, **kwargs)

    def check(self, args: Any, kwargs: dict) -> None:
        """Refuse what is no constant."""
        for name, value in [*((f"argument {i}", v) for i, v in enumerate(args, 1)),
                            *kwargs.items()]:  # fmt: skip
            if is_symbolic(value):
                raise TypeError(
                    f"'{self.name}' is a constexpr, computed while compiling: it takes constants, "
                    f"and {name} is {type_name(value)}"
                )

    def result(self, args: Any, kwargs: dict) -> tuple[list[Any], Structure]:
        """The Tensors in the result, as arrays, and the structure around them."""
        with handled_by(eager_handler()):
            leaves, structure = flatten(self.function(*args, **kwargs), is_tensor)
        return [leaf.asnumpy() for leaf in leaves], structure

    def key(self, args: Any, kwargs: dict) -> Any:
        """What makes results equal."""
        arrays, structure = self.result(args, kwargs)
        return structure, constant_key(arrays)


def _evaluate(ev: Evaluator, op: Constexpr, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A constexpr in a graph that is being made."""
    op.check(args, kwargs)
    before = flatten((args, kwargs), is_tensor)[1]
    arrays, structure = op.result(args, kwargs)
    if before != flatten((args, kwargs), is_tensor)[1]:
        raise UnsupportedError(
            f"'{op.name}' is a constexpr, so it must not change its arguments: return a new value"
        )
    if not op.reuse_result:
        call = ", ".join(map(ev.outside.constant, (args, kwargs)))
        key = ev.outside.constant((structure, constant_key(arrays)))
        ev.outside.require(f"{ev.outside.constant(op)}.key({call}) == {key}", f"{op.name}(...)")
    value = unflatten(structure, [ev.constant(a, None) for a in arrays])
    if callable(value) and not isinstance(value, type):
        raise UnsupportedError(
            f"'{op.name}' is a constexpr, so it must return numbers, strings or Tensors, or "
            f"tuples, lists and dicts of them, not {type(value).__name__}"
        )
    return ev.born(value) if isinstance(value, (list, dict)) else value


calls.SPECIAL.append((Constexpr, _evaluate))


def constexpr(
    fn: Callable | None = None,
    get_instance: bool = True,
    name: str | None = None,
    reuse_result: bool = True,
    check: bool = True,
) -> Any:
    """Make a function an op that is computed while a graph is compiled, from constants.

    It runs as it is, so it may use all of Python.  What it computes must depend on its arguments
    alone: what else it reads is not watched.

    Args:
        fn: the function; without it a decorator is returned.
        get_instance: False gives what makes the op: ``op()(3)``.
        name: the op's name, by default that of the function.
        reuse_result: False computes it again at each call; another result compiles again.
        check: kept for MindSpore's signature; arguments are always checked.

    Raises:
        TypeError: `fn` is no function; when it is called: an argument that is no constant.

    MindSpore: ``mindspore.constexpr``.
    """
    if fn is None:
        return lambda function: constexpr(function, get_instance, name, reuse_result, check)
    op = Constexpr(fn, name, reuse_result)
    return op if get_instance else lambda: op


# ------------------------------------------------------------------------------- lazy_inline


def lazy_inline(
    fn: Callable | None = None, attrs: str | list[str] | None = None, policy: str | None = None
) -> Any:
    """Decorate a Cell's ``__init__``: its graph stays a call until all else is optimised.

    Args:
        fn: the ``__init__``; without it a decorator is returned.
        attrs: kept for MindSpore's signature.
        policy: None, or "front": put the body in place of the call at once, as without this.

    Raises:
        ValueError: another function, `attrs` or `policy`.

    MindSpore: ``mindspore.lazy_inline``.
    """
    if attrs is not None and not isinstance(attrs, (str, list)):
        raise ValueError(f"lazy_inline: attrs must be a list or a str, not {type(attrs).__name__}")
    if policy not in (None, "front"):
        raise ValueError(f"lazy_inline: policy must be None or 'front', not {policy!r}")
    if fn is None:
        return lambda function: lazy_inline(function, attrs, policy)
    if getattr(fn, "__name__", "") != "__init__":
        raise ValueError(
            "lazy_inline decorates the __init__ of a Cell, not "
            f"{getattr(fn, '__name__', type(fn).__name__)}"
        )
    init: Callable = fn

    @functools.wraps(init)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self._is_inlined_late = policy is None

    return wrapper


def no_inline(fn: Callable) -> Callable:
    """The function as it is: what is inlined and when is the business of passes.

    MindSpore: ``mindspore.no_inline``.
    """
    return fn


__all__ = ["constexpr", "jit_class", "lazy_inline", "no_inline"]

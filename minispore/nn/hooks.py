"""Functions that see gradients on their way, and may change them.

``HookBackward`` and ``InsertGradientOf`` are the identity with a gradient of its own, like a Cell
that defines ``bprop``.  In a graph such a function must not print or write anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minispore.frontend.builtins import BUILTINS
from minispore.nn.cell import call_with_bprop
from minispore.tensor import Tensor, hook_registrar, tapes


class InsertGradientOf:
    """The identity; the gradient g becomes ``f(g)`` (g stays as it is if that is None).

    (MindSpore: ``ops.InsertGradientOf``.)
    """

    def __init__(self, f: Callable[[Any], Any]):
        if not callable(f):
            raise TypeError(f"{type(self).__name__} takes a function, not {type(f).__name__}")
        self.f = f

    def construct(self, x: Any) -> Any:
        return x

    def bprop(self, x: Any, out: Any, dout: Any) -> tuple:
        changed = self.f(dout)
        return (dout if changed is None else changed,)

    def __call__(self, x: Any) -> Any:
        return call_with_bprop(self, (x,), {})


class HookBackward(InsertGradientOf):
    """The identity of one Tensor; ``hook_fn((g,))`` is called with its gradient g.

    It may return another gradient, bare or as such a tuple, or None.  `cell_id` changes nothing.
    (MindSpore: ``ops.HookBackward``, in PyNative mode only.)
    """

    def __init__(self, hook_fn: Callable[[tuple], Any], cell_id: str = ""):
        super().__init__(hook_fn)

    def bprop(self, x: Any, out: Any, dout: Any) -> tuple:
        changed = self.f((dout,))
        if isinstance(changed, tuple) and len(changed) == 1:
            return changed
        return (dout if changed is None else changed,)


def _register(tensor: Tensor, hook_fn: Callable[[Any], Any]) -> None:
    """``Tensor.register_hook`` in PyNative mode: the Tensor becomes what InsertGradientOf gives."""
    if not tapes.active:
        raise RuntimeError(
            "register_hook is called while nothing is differentiated: call it inside the function "
            "that grad differentiates"
        )
    tensor._key = InsertGradientOf(hook_fn)(tensor)._key


def _register_in_graph(ev: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """The same while a graph is built."""
    tensor, hook_fn = (*args, *kwargs.values())
    hooked = ev.call(InsertGradientOf(hook_fn), [tensor], {})
    ev.touch_tensor(tensor)
    tensor._node = hooked._node


hook_registrar[:] = [_register]
BUILTINS[Tensor.register_hook] = _register_in_graph

"""What users' gradient rules are written with, beside the ops themselves.

    @bprop_getters.register(ops.Mul)
    def get_bprop_mul(self):
        def bprop(x, y, out, dout):
            return binop_grad_common(x, y, dout * y, dout * x)
        return bprop

(MindSpore: ``mindspore.ops._grad.grad_base``, which this serves under its old name.)
"""

from __future__ import annotations

from typing import Any

from minispore import ops
from minispore.primitive import bprop_getters


def binop_grad_common(x: Any, y: Any, dx: Any, dy: Any) -> tuple[Any, Any]:
    """The cotangents of two operands, summed over the axes along which each was broadcast.

    Args:
        x, y: the operands.
        dx, dy: cotangents of the shape that the operands have together.
    """
    return ops.sum_to(dx, x.shape), ops.sum_to(dy, y.shape)


__all__ = ["binop_grad_common", "bprop_getters"]

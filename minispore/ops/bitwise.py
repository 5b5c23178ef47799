"""Bit by bit on integers, and the logical operation on bools: ``& | ^`` of Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from minispore.abstract import AbstractTensor
from minispore.ops.common import functional
from minispore.ops.elementwise import ANY, Elementwise


class _Bitwise(Elementwise, register=False):
    arity = 2
    takes = ANY
    gives_bool = False
    gradient = None

    def infer(self, *operands: AbstractTensor) -> AbstractTensor:
        out = super().infer(*operands)
        if out.dtype.is_float:
            raise TypeError(f"{self.name} takes integers and bools, not {out.dtype}")
        return out


class BitwiseAnd(_Bitwise):
    """Bits that are set in both operands; of bools, logical and."""

    expr = "{0} & {1}"
    numpy: Any = staticmethod(np.bitwise_and)


class BitwiseOr(_Bitwise):
    """Bits that are set in any operand; of bools, logical or."""

    expr = "{0} | {1}"
    numpy: Any = staticmethod(np.bitwise_or)


class BitwiseXor(_Bitwise):
    """Bits that are set in one of the operands; of bools, exclusive or."""

    expr = "{0} ^ {1}"
    numpy: Any = staticmethod(np.bitwise_xor)


bitwise_and = functional(BitwiseAnd, "bitwise_and", "``input & other``.", binary=True)
bitwise_or = functional(BitwiseOr, "bitwise_or", "``input | other``.", binary=True)
bitwise_xor = functional(BitwiseXor, "bitwise_xor", "``input ^ other``.", binary=True)

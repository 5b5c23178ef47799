"""Running kernels: one call from Python for a whole table of them.

The table is that of kernels/table.py.  Kernels find their arrays by number in a table of addresses,
the slots: first the inputs and outputs of the run, then constants, then places in the arena.

A call must cost little: ctypes takes 1 to 3 us for it.  So machine code is made a built-in function
of Python (``METH_FASTCALL``: C code gets the arguments as a row of object addresses), and reads the
arrays' addresses itself, from fixed places in the objects; that takes 0.1 us.  That the places are
right is checked once; where they are not, Python looks up the addresses.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minispore.engine import cache

_METH_FASTCALL = 0x80
_SOURCE = """
from minispore.engine.kernels.table import address_of, p_i8, run_table, take_addresses
from minispore.engine.kernels.words import i8, lock_interpreter, python_int, unlock_interpreter
"""
_RUN = f'''{_SOURCE}
def run(table, rows, slots, start):
    """Run a table, of which the slots are filled; the next place."""
    return run_table(table, rows, slots, start)
'''
_CALL = f'''{_SOURCE}
def call(itself, arrays, count):
    """The built-in function: of arrays, bound to [table, rows, slots, unlocks, next place]."""
    bound = p_i8(address_of(itself))
    slots = p_i8(bound[2])
    status = take_addresses(arrays, count, slots)
    if status == 0:
        state = 0
        if bound[3] != 0:
            state = unlock_interpreter()
        place = run_table(p_i8(bound[0]), bound[1], slots, bound[4])
        if bound[3] != 0:
            lock_interpreter(state)
        status = i8(place < 5 * bound[1])
        bound[4] = place * status
    return python_int(status)
'''


def bound(table: np.ndarray, rows: int, slots: np.ndarray, unlocks: bool = False) -> Callable:
    """A function of arrays that puts their addresses into the first slots and runs a table.

    It returns 0 when all is done; 1 if it is to be called again, with the same arrays, to go on;
    -1 - i, without running anything, if array i is not C-contiguous and aligned.

    Args:
        table: int64, five words a row (kernels/table.py).
        rows: how many there are.
        slots: int64, one address each; the caller keeps alive what they point to.
        unlocks: other Python threads may run meanwhile (0.1 us: for what takes long).
    """
    if not layout_is_known():
        return _bound_by_ctypes(table, rows, slots)
    block = np.array([table.ctypes.data, rows, slots.ctypes.data, unlocks, 0], np.int64)
    return built_in(_CALL, block, table, slots)


def built_in(source: str, itself: np.ndarray, *kept: Any) -> Callable:
    """A built-in function of Python: the source's `call`, bound to an array; `kept` stay alive."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes = ctypes.c_void_p, ctypes.py_object, ctypes.py_object
    make.restype = ctypes.py_object
    return make(ctypes.addressof(_definition(source)), itself, kept)


def _bound_by_ctypes(table: np.ndarray, rows: int, slots: np.ndarray) -> Callable:
    """The same where objects are laid out in another way."""
    place, end = 0, 5 * rows

    def run(*arrays: np.ndarray) -> int:
        nonlocal place
        for i, array in enumerate(arrays):
            if not (array.flags.c_contiguous and array.flags.aligned):
                return -1 - i
            slots[i] = array.ctypes.data
        place = _runner()(table.ctypes.data, rows, slots.ctypes.data, place)
        again = place < end
        place *= again
        return int(again)

    return run


@functools.cache
def _runner() -> Any:
    """The compiled ``run(table, rows, slots, start)``, of addresses, through ctypes."""
    word = ctypes.c_ssize_t
    return ctypes.CFUNCTYPE(word, word, word, word, word)(cache.kernel(_RUN))


class _MethodDef(ctypes.Structure):
    """What Python wants to know of a built-in function."""

    _fields_ = [
        ("name", ctypes.c_char_p), ("address", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]  # fmt: skip


_definitions: dict[str, _MethodDef] = {}


def _definition(source: str) -> _MethodDef:
    """One for each source, whichever thread is first: functions refer to it as long as they live.

    (Of two threads that make one, `functools.cache` would keep that of the last only.)
    """
    made = _MethodDef(b"call", cache.kernel(source), _METH_FASTCALL, b"Run a table of kernels.")
    return _definitions.setdefault(source, made)


def word(address: int) -> int:
    """The word of memory at an address."""
    return ctypes.c_int64.from_address(address).value


@functools.cache
def layout_is_known() -> bool:
    """True if this Python takes built-in functions, and arrays are as `take_addresses` has them."""
    from minispore.engine.kernels.table import BASE, DATA, FLAGS, WANTED

    if not hasattr(getattr(ctypes, "pythonapi", None), "PyCFunction_NewEx"):
        return False
    whole = np.zeros((4, 6), np.float32)
    odd = np.ndarray(3, np.float32, bytearray(16), offset=1)
    for array in (whole, whole[1:], whole[:, ::2], whole.T, odd, odd[:1], whole + 1):
        flags = ctypes.c_int32.from_address(id(array) + FLAGS).value
        fine = array.flags.c_contiguous and array.flags.aligned
        if word(id(array) + BASE) != (0 if array.base is None else id(array.base)):
            return False
        if word(id(array) + DATA) != array.ctypes.data or (flags & WANTED == WANTED) != fine:
            return False
    return True

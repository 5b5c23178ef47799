"""Running a table of kernels: what native.py compiles.

Rows are of five words: (0, kernel, its argument block, lo, hi) calls a kernel, (1, place) jumps,
(2, place, slot) jumps if the bool in a slot is false, (3, place, slot) if it is true.  A place is
that of a row's first word.
"""

from __future__ import annotations

from minispore.engine.kernels.words import call_kernel, p_i4, p_i8, p_u1

# Of an ndarray: where its address is, the array that has its memory, its flags; those of a
# C-contiguous aligned one.
DATA, BASE, FLAGS, WANTED = 16, 48, 64, 0x101


def address_of(array):
    """The address of an array's elements."""
    return p_i8(array + DATA)[0]


def take_addresses(arrays, count, slots):
    """Put the arrays' addresses into the first slots; -1 - i if array i is laid out otherwise."""
    status = 0
    for i in range(count):
        if p_i4(arrays[i] + FLAGS)[0] & WANTED != WANTED:
            status = -1 - i
        slots[i] = address_of(arrays[i])
    return status


def run_table(table, rows, slots, start):
    """Run rows from a place on, with at most 10,000 jumps; the next place, 5 * rows at the end.

    Python is asked from time to time whether someone has pressed Ctrl-C.
    """
    i = start
    jumps = 0
    while i < 5 * rows and jumps < 10000:
        op = table[i]
        if op == 0:
            call_kernel(table[i + 1], slots, p_i8(table[i + 2]), table[i + 3], table[i + 4])
            i += 5
        elif op == 1 or (p_u1(slots[table[i + 2]])[0] != 0) == (op == 3):
            i = table[i + 1]
            jumps += 1
        else:
            i += 5
    return i

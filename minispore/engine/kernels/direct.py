"""A whole call of a compiled function in machine code: what engine/direct.py compiles.

All that it needs stands in a block of words, with names below for their places.  Objects of Python
are addresses; a Tensor's array is read from its slot, and results are written there.
"""

from __future__ import annotations

from minispore.engine.kernels.table import BASE, FLAGS, WANTED, address_of, run_table
from minispore.engine.kernels.words import (
    drop,
    i8,
    keep,
    lock_interpreter,
    p_i4,
    p_i8,
    p_u1,
    unlock_interpreter,
)

# The block.  First what is run, as in table.py; then pairs (where they are, how many):
(
    TABLE, ROWS, SLOTS, UNLOCKS, PLACE, BUSY,
    WATCHED, N_WATCHED,  # (address, word): what must not have changed
    ARGUMENTS, N_ARGUMENTS,  # see fits
    CAPTURED, N_CAPTURED,  # (slot, Tensor): what is read beside the arguments
    OUTPUTS, N_OUTPUTS,  # (slot, where an array for it is, the Tensor that is written or 0)
    FLAGS_OF_CHECKS, N_CHECKS,  # slots of bools which must come out true
    OWNED, N_OWNED,  # Tensors that are written where they are
    HELD, TENSOR, NDARRAY, ROOM, NONE,  # arrays in use; addresses of types, and of None
    IN_DATA, IN_KEY,  # where a Tensor has its array, and its key
    HITS,  # how many calls have been made so
    SIZE,
) = range(27)  # fmt: skip
DONE, AGAIN, MISS, RENEW = range(4)  # what a call gives; see engine/direct.py
TYPE, RANK, SHAPE, DTYPE = 8, 24, 32, 56  # of any object, and of an ndarray
WRITEABLE = 0x400  # among its flags
AXES = 8  # words for an argument's sizes
FACTS = 4 + AXES


def word(address):
    """The word at an address."""
    return p_i8(address)[0]


def unchanged(watched, count):
    """1 if all words are what they were; one that is not may make the next address invalid."""
    same = 1
    i = 0
    while i < 2 * count and same != 0:
        same = i8(word(watched[i]) == watched[i + 1])
        i += 2
    return same


def array_of(block, tensor):
    """The address of a Tensor's array; 0 if it has none in C order and aligned."""
    array = word(tensor + block[IN_DATA])
    fine = i8(array != 0)
    if fine != 0:
        fine = i8(word(array + TYPE) == block[NDARRAY])
    if fine != 0:
        fine = i8(p_i4(array + FLAGS)[0] & WANTED == WANTED)
    return array * fine


def fits(block, facts, argument, slots, held):
    """1 if an argument is as before; facts: (slot or -1, the object or 0, dtype, rank, sizes)."""
    same = i8(argument == facts[1])
    if facts[1] == 0:
        array = 0
        if word(argument + TYPE) == block[TENSOR]:
            array = array_of(block, argument)
        if array != 0:
            rank = p_i4(array + RANK)[0]
            same = i8(word(array + DTYPE) == facts[2]) & i8(rank == facts[3])
            sizes = p_i8(word(array + SHAPE))
            axis = 0
            while axis < facts[3] and same != 0:
                same = i8(sizes[axis] == facts[4 + axis])
                axis += 1
            if facts[0] >= 0 and same != 0:
                slots[facts[0]] = address_of(array)
                held[0] = array
    return same


def take_arguments(block, arguments, first, slots):
    """1 if all arguments, from the first on, are as before, different, and none a captured one."""
    facts = p_i8(block[ARGUMENTS])
    captured = p_i8(block[CAPTURED])
    count = block[N_ARGUMENTS]
    same = 1
    i = 0
    while i < count and same != 0:
        argument = arguments[first + i]
        same = fits(block, p_i8(block[ARGUMENTS] + 8 * FACTS * i), argument, slots,
                    p_i8(block[HELD] + 8 * i))  # fmt: skip
        if facts[FACTS * i + 1] == 0:
            for j in range(i):
                same = same & i8(arguments[first + j] != argument)
            for j in range(block[N_CAPTURED]):
                same = same & i8(captured[2 * j + 1] != argument)
        i += 1
    return same


def take_captured(block, slots):
    """1 if all captured Tensors have arrays that kernels can read."""
    captured = p_i8(block[CAPTURED])
    held = p_i8(block[HELD] + 8 * block[N_ARGUMENTS])
    fine = 1
    for i in range(block[N_CAPTURED]):
        array = array_of(block, captured[2 * i + 1])
        if array == 0:
            fine = 0
        else:
            slots[captured[2 * i]] = address_of(array)
            held[i] = array
    return fine


def is_free(block, array):
    """1 if it may be written, as no one else has it or a view of its memory: memory.is_free."""
    owner = word(array + BASE)
    free = i8(p_i4(array)[0] == 1) & i8(p_i4(array + FLAGS)[0] & WRITEABLE != 0)
    if owner != 0:
        kind = word(owner + TYPE)
        free = free & i8((kind == block[NDARRAY]) | (kind == block[ROOM]))
        free = free & i8(p_i4(owner)[0] == 1)
        if free != 0:
            free = i8(word(owner + BASE) == 0)
    return free


def take_outputs(block, slots):
    """1 if there is an array for each output that no one else has.

    For a result there are two, so that the last one may still be in use.
    """
    outputs = p_i8(block[OUTPUTS])
    free = 1
    for i in range(block[N_OUTPUTS]):
        place = p_i8(outputs[3 * i + 1])
        if is_free(block, place[0]) == 0 and outputs[3 * i + 2] == 0:
            other = place[1]
            place[1] = place[0]
            place[0] = other
        free = free & is_free(block, place[0])
        slots[outputs[3 * i]] = address_of(place[0])
    return free


def owns(block):
    """1 if no one else has the arrays that are written where they are."""
    tensors = p_i8(block[OWNED])
    free = 1
    for i in range(block[N_OWNED]):
        free = free & is_free(block, word(tensors[i] + block[IN_DATA]))
    return free


def start(block, arguments, first, count, slots):
    """DONE if the call is one that can be made so, and the slots are filled."""
    status = MISS
    if count == block[N_ARGUMENTS] and block[BUSY] == 0:
        if unchanged(p_i8(block[WATCHED]), block[N_WATCHED]) != 0:
            if take_arguments(block, arguments, first, slots) != 0:
                if take_captured(block, slots) != 0:
                    free = take_outputs(block, slots) & owns(block)
                    status = RENEW * i8(free == 0)
    return status


def hold(block):
    """Own the arrays that are read, while other threads may run."""
    held = p_i8(block[HELD])
    for i in range(block[N_ARGUMENTS] + block[N_CAPTURED]):
        if held[i] != 0:
            keep(held[i])
    return 0


def release(block):
    """The opposite of hold."""
    held = p_i8(block[HELD])
    for i in range(block[N_ARGUMENTS] + block[N_CAPTURED]):
        if held[i] != 0:
            drop(held[i])
    return 0


def run(block, slots):
    """Run the table from its place on; AGAIN if there is more to do."""
    state = 0
    if block[UNLOCKS] != 0:
        state = unlock_interpreter()
    place = run_table(p_i8(block[TABLE]), block[ROWS], slots, block[PLACE])
    if block[UNLOCKS] != 0:
        lock_interpreter(state)
    status = i8(place < 5 * block[ROWS])
    block[PLACE] = place * status
    return status


def checked(block, slots):
    """DONE if all that is asserted is true."""
    checks = p_i8(block[FLAGS_OF_CHECKS])
    status = DONE
    for i in range(block[N_CHECKS]):
        if p_u1(slots[checks[i]])[0] == 0:
            status = MISS
    return status


def renumber(block, tensor):
    """A Tensor has another value: its key is given when one asks."""
    key = p_i8(tensor + block[IN_KEY])
    if key[0] != block[NONE]:
        old = key[0]
        key[0] = block[NONE]
        keep(block[NONE])
        drop(old)
    return 0


def write(block):
    """Each Tensor that is written gets its new array; the old one takes the place of that."""
    outputs = p_i8(block[OUTPUTS])
    for i in range(block[N_OUTPUTS]):
        tensor = outputs[3 * i + 2]
        if tensor != 0:
            place = p_i8(outputs[3 * i + 1])
            data = p_i8(tensor + block[IN_DATA])
            old = data[0]
            data[0] = place[0]
            place[0] = old
            renumber(block, tensor)
    tensors = p_i8(block[OWNED])
    for i in range(block[N_OWNED]):
        renumber(block, tensors[i])
    return 0


def finish(block, slots):
    """The end of a call: results are written, unless a check fails."""
    if block[UNLOCKS] != 0:
        release(block)
    block[BUSY] = 0
    status = checked(block, slots)
    if status == DONE:
        write(block)
        block[HITS] += 1
    return status


def begin(block, arguments, first, count, slots):
    """A new call, as far as one stretch of the run goes; its status."""
    status = start(block, arguments, first, count, slots)
    if status == DONE:
        block[BUSY] = 1
        if block[UNLOCKS] != 0:
            hold(block)
        status = go_on(block, slots)
    return status


def go_on(block, slots):
    """A call that has begun, as far as one stretch of the run goes; its status."""
    status = run(block, slots)
    if status == DONE:
        status = finish(block, slots)
    return status


def give_up(block):
    """A call that has begun, if there is one, is not finished."""
    if block[BUSY] * block[UNLOCKS] != 0:
        release(block)
    block[PLACE] = 0
    block[BUSY] = 0
    return MISS


def one_call(itself, arguments, count):
    """A call; of its own block alone, to go on with one; of two such, to give it up."""
    block = p_i8(address_of(itself))
    slots = p_i8(block[SLOTS])
    is_new = 1
    if count > 0:
        is_new = i8(arguments[0] != itself)
    status = DONE
    if is_new != 0:
        status = begin(block, arguments, 0, count, slots)
    elif count == 1:
        status = go_on(block, slots)
    else:
        status = give_up(block)
    return status


def many_calls(itself, arguments, count):
    """Calls one after the other, as long as they are DONE: 4 * how many, and the last status."""
    block = p_i8(address_of(itself))
    slots = p_i8(block[SLOTS])
    arity = block[N_ARGUMENTS]
    first = 0
    made = 0
    status = DONE
    while first < count and status == DONE:
        status = begin(block, arguments, first, arity, slots)
        first += arity
        made += i8(status == DONE)
    return 4 * made + status

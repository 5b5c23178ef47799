"""What is older than the call.

A compiled function reads globals, closures and attributes as they are at the call. Of these it can
write Tensors, Parameters, lists, dicts, sets, and attributes that are numbers.
"""

import collections

import numpy as np

import minispore as ms
from error_programs.catalogue import NET, on, script

ARRAY = np.array([1, 2])
TOTAL = 0


@on(TypeError, "'ARRAY' is older than the compiled call, so the graph cannot change it")
def changing_a_global_array(x):
    """Copy it first, or return the new value."""
    ARRAY[0] = 3
    return x


@script(TypeError, "a list, dict or set that the compiled function changes is reached in two ways")
def two_lists_that_are_one():
    """Pass a copy of it."""

    @ms.jit
    def move(source, target):
        target.append(source.pop())

    move([1], [2])
    items = [1]
    move(items, items)


@on(RuntimeError, "the global 'TOTAL' cannot be written in a compiled graph")
def writing_a_global(x):
    """Return the value, and assign it outside."""
    global TOTAL
    TOTAL = x
    return x


def counter():
    count = 0

    def step(x):
        """Return the value."""
        nonlocal count
        count += 1
        return x

    return step


on(RuntimeError, "'count' belongs to a function outside the graph: return the value instead")(
    counter()
)


@on(TypeError, "'number' of Net is older than the compiled call, so the graph can write only a")
def writing_a_text_to_an_object(x):
    """Write a number, make it a Parameter, or return the value."""
    NET.number = "four"
    return x


@on(TypeError, "'name' of Parameter w cannot be written in a compiled graph: write it outside")
def renaming_a_parameter(x):
    """Write it outside; the next call sees it."""
    NET.w.name = "v"
    return x * NET.w


@on(RuntimeError, "an attribute cannot be deleted in a compiled graph")
def deleting_an_attribute(x):
    """Set it to None."""
    del NET.number
    return x


QUEUE = collections.deque([1])


@on(RuntimeError, "'QUEUE' is a deque, whose content may change without notice")
def a_container_written_in_c(x):
    """Pass its items in a list, or as a Tensor."""
    return x * QUEUE[0]


CIRCLE: list = []
CIRCLE.append(CIRCLE)


@on(RuntimeError, "'CIRCLE[0]' contains itself, which no compiled graph can follow")
def a_list_in_itself(x):
    """Pass what is needed of it."""
    return x * len(CIRCLE)


@on(NameError, "name 'nowhere' is not defined")
def an_unknown_name(x):
    return x * nowhere  # noqa: F821


def unset_closure():
    def read(x):
        """Give the variable a value before the function is called."""
        return x * later

    if read is None:
        later = 3
    return read


on(NameError, "free variable 'later' has no value yet")(unset_closure())

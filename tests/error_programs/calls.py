"""Calls.

A graph holds what has Python source, and what `minispore` offers. What acts on the world would do
so only while compiling.
"""

import collections
import itertools
import time

import numpy as np

import minispore as ms
from error_programs.catalogue import on, two


@on(RuntimeError, "'time.time' has no Python source and may have hidden state")
def a_function_written_in_c(x):
    """Call it outside, and pass its result in."""
    return x * time.time()


@on(RuntimeError, "needs values that are known only at run time: use the function of minispore.ops")
def a_function_of_numpy(x):
    """Use the function of `minispore.ops`."""
    return np.sin(x)


@on(RuntimeError, "'open' cannot be part of a compiled graph: call it outside")
def a_builtin_that_acts(x):
    """Call it outside."""
    open("file")
    return x


@on(RuntimeError, "'set_context' acts on the program, not on Tensors")
def a_setting(x):
    """Call it outside."""
    ms.set_context(mode=ms.GRAPH_MODE)
    return x


@on(RuntimeError, "print to a file cannot be part of a compiled graph")
def printing_to_a_file(x):
    """Return what is to be written."""
    print(x, file=OUT)
    return x


OUT = object()


@on(TypeError, "'seperator' is an invalid keyword argument for print()")
def a_wrong_keyword_of_print(x):
    print(x, seperator=",")
    return x


@on(TypeError, "sep must be None or a string, not int")
def a_separator_that_is_no_string(x):
    print(x, sep=3)
    return x


@on(RuntimeError, "a set that holds Tensors cannot be printed")
def printing_a_set(x):
    """Print a list of its items."""
    print({x})
    return x


@on(RuntimeError, "an endless iterator (count) cannot be part of a compiled graph")
def an_endless_iterator(x):
    """Count with a `while`, or with `range`."""
    for i in itertools.count():
        x = x + i
    return x


@on(RuntimeError, "a deque cannot be part of a compiled graph: use a list, dict or set")
def a_deque(x):
    """Use a list."""
    return collections.deque([x])[0]


@on(RuntimeError, "a generator or iterator of one's own cannot be part of a compiled graph")
def an_iterator_of_ones_own(x):
    """Use a list."""
    for y in Countdown():
        x = x + y
    return x


class Countdown:
    def __init__(self):
        self.n = 3

    def __iter__(self):
        return self

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n


@on(TypeError, "'int' object is not callable")
def calling_a_number(x):
    number = 3
    return number(x)


@on(TypeError, "unbound method list.append() needs an argument")
def a_method_without_its_object(x):
    return list.append()


@on(TypeError, "descriptor 'append' for 'list' objects doesn't apply to a 'tuple' object")
def a_method_of_another_object(x):
    return list.append((x,), x)


@on(TypeError, "two() takes 2 positional arguments but 3 were given")
def too_many_arguments(x):
    return two(x, x, x)


@on(TypeError, "two() is missing required argument(s): 'b'")
def too_few_arguments(x):
    return two(x)


@on(TypeError, "two() got multiple values for argument 'a'")
def an_argument_twice(x):
    return two(x, a=x)


@on(TypeError, "got multiple values for keyword argument 'b'")
def a_keyword_twice(x):
    return two(x, b=x, **{"b": x})


@on(TypeError, "two() got an unexpected keyword argument 'c'")
def an_unknown_keyword(x):
    return two(x, x, c=x)


@on(TypeError, "'int' object is not a mapping")
def spreading_a_number(x):
    return two(x, **3)

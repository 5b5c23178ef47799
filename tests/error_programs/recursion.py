"""Functions that call themselves.

A recursion that a Tensor decides is evaluated until the types of what it returns and writes no
longer change.
"""

import minispore as ms
from error_programs.catalogue import Held, X, on
from minispore import Tensor, ops


@on(RecursionError, "calls itself on every path: nothing ends the recursion", Tensor(1.0))
def recursion_without_an_end(x):
    """Return something without a call in one arm of an `if`."""
    if x > 0:
        return recursion_without_an_end(x - 1)
    return recursion_without_an_end(x + 1)


@on(RecursionError, "deep while compiling: a recursion must be ended by a constant")
def recursion_on_constants_without_an_end(x, n=0):
    """Something must end it: an `if` on a constant that changes, or on a Tensor."""
    return recursion_on_constants_without_an_end(x, n + 1)


@on(TypeError, "writes a list or dict that it was given: copy it", X, [X])
def recursion_that_writes_its_arguments(x, items):
    """Pass a copy, `list(items)`."""
    if x.sum() > 100:
        return x
    mine = list(items)
    return writes(x, mine)


def writes(x, items):
    if x.sum() > 100:
        return x
    items[0] = x
    return writes(x * 2, items)


@on(TypeError, "returns a list that other names mean too: return a copy of it")
def recursion_that_returns_its_argument(x):
    """Return `list(items)`."""
    return hands_on(x, [x])[0]


def hands_on(x, items):
    return items if x.sum() > 100 else hands_on(x * 2, items)


@on(TypeError, "depends on how often it runs: return Tensors and numbers, or tuples")
def recursion_that_returns_an_object(x):
    """Return Tensors and numbers, or tuples, lists and dicts of them."""
    return boxed(x).x


def boxed(x):
    return Held(x) if x.sum() > 100 else boxed(x * 2)


@on(TypeError, "changes 'x' from")
def recursion_that_changes_a_type(x):
    """Keep the type of what is written the same in every call."""
    box = Held(x)
    widens(x, box)
    return x


def widens(x, box):
    if x.sum() > 100:
        return x
    box.x = ops.concat([box.x, x])
    return widens(x * 2, box)


@on(RecursionError, "its gradient would contain its own gradient")
def recursion_of_a_gradient(x):
    """Take the gradient outside of the function that calls itself."""

    def f(x):
        if x.sum() > 20:
            return x
        return f(f(x * 3) + ms.grad(f)(x * 2))

    return f(x)

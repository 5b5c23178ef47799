"""Values and containers."""

import numpy as np

import minispore as ms
from error_programs.catalogue import on


@on(TypeError, "cannot unpack non-iterable int object")
def unpacking_a_number(x):
    a, b = 3
    return x


@on(ValueError, "too many values to unpack (expected 1)")
def too_many_values(x):
    (a,) = x
    return a


@on(ValueError, "not enough values to unpack (expected 3, got 2)")
def too_few_values(x):
    a, b, c = x
    return a


@on(ValueError, "not enough values to unpack (expected at least 3, got 2)")
def too_few_values_for_a_star(x):
    a, b, c, *rest = x
    return a


@on(TypeError, "'list' object is not an iterator")
def next_of_a_list(x):
    return next([x])


@on(TypeError, "'set' object is not reversible")
def a_reversed_set(x):
    return [x * k for k in reversed({1, 2})]


@on(ValueError, "zip() argument 2 is shorter than argument 1")
def a_strict_zip(x):
    return [a + b for a, b in zip([x, x], [x], strict=True)]


@on(ValueError, "list.remove(x): x not in list")
def removing_what_is_not_there(x):
    items = [1, 2]
    items.remove(3)
    return x


@on(ValueError, "3 is not in list")
def the_index_of_what_is_not_there(x):
    return x * [1, 2].index(3)


@on(RuntimeError, "dictionary changed size during iteration")
def a_dict_that_grows_while_it_is_read(x):
    table = {"a": x}
    for key in table:
        table[key + "b"] = x
    return x


@on(RuntimeError, "the items of a ndarray cannot be written in a compiled graph")
def writing_into_another_container(x):
    """Use a list, dict or Tensor."""
    data = np.zeros(3)
    data[0] = 3
    return x


@on(AttributeError, "'str' object has no attribute 'shout'")
def an_unknown_method_of_text(x):
    return f"{x.sum().item()}".shout()


@on(RuntimeError, "an object whose class says how it is printed cannot be formatted by % or")
def formatting_an_object(x):
    """Use an f-string."""
    return "%s %s" % (x.sum().item(), Printed())  # noqa: UP031


class Printed:
    def __str__(self):
        return "printed"


@on(RuntimeError, "the text of a Loud that is not raised")
def the_text_of_an_exception(x):
    """Print what it is made of."""
    print(Loud(x))
    return x


class Loud(ValueError):
    def __str__(self):
        return "loud"


@on(OverflowError, "does not fit the 64-bit ints of a graph; use float or a constant")
def an_int_beyond_64_bits(x):
    """Use a float."""
    return x.sum().astype(ms.int32).item() * 2**62


@on(ValueError, "is complex; a graph has real numbers only")
def a_complex_power(x):
    """Take the power of its absolute value, or of a Tensor, which gives nan."""
    return (-x.sum().item()) ** 0.5


@on(ValueError, "int ** negative int that is known only at run time: make one a float")
def a_negative_power(x):
    """`2.0 ** n`."""
    return 2 ** -x.sum().astype(ms.int32).item()


@on(TypeError, "bad operand type for unary ~: 'float'")
def inverting_a_float(x):
    return ~x.sum().item()

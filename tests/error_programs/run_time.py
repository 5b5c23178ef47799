"""What is known only when the graph runs.

A graph is made before the values of its inputs are known. What decides its shape (sizes, keys, the
length of a list, which object something is) must be known by then.
"""

import minispore as ms
from error_programs.catalogue import Plain, on
from minispore import ops


@on(ValueError, "the truth of a Tensor of shape (2,) is ambiguous: use .any() or .all()")
def truth_of_several(x):
    """An `if` needs one truth: `(x > 0).any()` or `(x > 0).all()`."""
    return x if x > 0 else -x


@on(TypeError, "an int that decides types, shapes or Python objects cannot be known")
def a_size(x):
    """A size may be that of a Tensor, such as `len(x[x > 0])`, but no number that is computed."""
    return ops.zeros((x.sum().astype(ms.int32).item(), 2))


@on(TypeError, "a key cannot be known when the graph is compiled")
def a_key(x):
    """Keys are constants: use numbers as keys, or an `if` for each."""
    return {"a": x, "b": 1}[x.sum().item()]


@on(TypeError, "the length of a range that depends on a Tensor cannot be known")
def a_list_of_unknown_length(x):
    """Loop over the range with `for`, in place of making a list of it."""
    return list(range(x.sum().astype(ms.int32).item()))


@on(TypeError, "the step of a range cannot be known")
def a_step(x):
    """The step decides which way a loop goes: make it a constant."""
    for i in range(0, 10, x.sum().astype(ms.int32).item()):
        x = x + i
    return x


@on(TypeError, "the length of a comprehension that a Tensor decides cannot be known")
def a_filtered_comprehension(x):
    """Multiply by a mask, or choose with `ops.where`, in place of leaving items out."""
    return sum([v for v in x if v > 1])


@on(TypeError, "which items a filter keeps cannot be known")
def a_filter(x):
    """As for a comprehension: multiply by a mask, or choose with `ops.where`."""
    return list(filter(lambda v: v > 1, x))


@on(TypeError, "the order of a list that is sorted by Tensors cannot be known")
def a_sorted_list(x):
    """Sort a Tensor with `ops.sort`, not a list of Tensors."""
    return sorted([x[0], x[1]])


@on(TypeError, "what list.index finds among Tensors cannot be known")
def the_position_in_a_list(x):
    """Compare in a Tensor: `ops.argmax(x == v)`."""
    return [x[0], x[1]].index(x.max())


@on(TypeError, "whether a Plain has the attribute 'extra' cannot be known")
def whether_an_attribute_is_there(x):
    """Give the attribute a value in every case, and test the value."""
    box = Plain()
    if x.sum() > 0:
        box.extra = x
    return x if hasattr(box, "extra") else -x


@on(TypeError, "the position of an iterator cannot be known")
def an_iterator_in_a_loop(x):
    """Go through the items with `for`, or by an index."""
    items = iter([x, x * 2, x * 3])
    while x.sum() < 100:
        x = x + next(items)
    return x


@on(TypeError, "the number in a string that depends on a Tensor cannot be known")
def a_number_from_text(x):
    """Keep the number itself, beside its text."""
    return x * int(f"{x.sum().item()}")


@on(TypeError, "what str.split gives for a string that depends on a Tensor cannot be known")
def a_method_of_text(x):
    """Only methods that give a string wait for the run; use the parts before they are joined."""
    return f"{x.sum().item()} a".split()


@on(TypeError, "the content of a string that depends on a Tensor cannot be known")
def comparing_a_text(x):
    """Test the number that it is made of."""
    return x if f"{x.sum().item()}" == "3" else -x


@on(TypeError, "a float that is a dict key, or in a set, cannot be known")
def a_number_as_key(x):
    """Keys are constants: use a list of pairs."""
    return {x.sum().item(): x}


@on(TypeError, "by how many places a number is shifted cannot be known")
def shifting_by_a_number(x):
    """Multiply by `2**n`."""
    return x * (1 << x.sum().astype(ms.int32).item())


@on(TypeError, "pow() of three numbers cannot be known")
def power_with_a_modulus(x):
    """Write `a ** b % m`."""
    return pow(x.sum().astype(ms.int32).item(), 2, 5)


@on(TypeError, "the truth of a bool cannot be known", mode="trace")
def the_truth_while_tracing(x):
    """Leave out `capture_mode="trace"`: then both arms become part of the graph."""
    return x if x.sum().item() > 0 else -x


@on(TypeError, "only an integer Tensor can be used as an index, not Float32")
def a_float_as_index(x):
    """Cast it: `i.astype(ms.int32)`."""
    return [1, 2][x.sum()]


@on(TypeError, "'float' object cannot be interpreted as an integer")
def a_float_in_a_range(x):
    """`int(...)` of it, or compute with integers."""
    for i in range(x.sum().item()):
        x = x + i
    return x


@on(ValueError, "only a Tensor of one element can become a Python number, not shape (2,)")
def a_number_of_several(x):
    """`x.sum()`, `x[0]` ... first, then `float(...)`."""
    return float(x)


@on(UnboundLocalError, "cannot access local variable 'y': it has no value here")
def a_name_of_one_arm(x):
    """Give the name a value before the `if`."""
    if x.sum() > 0:
        y = x
    return y

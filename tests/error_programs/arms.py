"""Arms and loops that Tensors decide.

Both arms of an `if` that a Tensor decides become part of the graph, and so does the body of a loop.
What they leave behind must have one type, and be one object.
"""

from error_programs.catalogue import NET, OTHER, Plain, on, two
from minispore import Parameter, ops


@on(TypeError, "cannot be used: its type depends on a Tensor")
def arms_of_different_types(x):
    """Make the arms agree in type, dtype and shape: `x.sum(keepdims=True)`, `.astype(...)`."""
    y = x.sum() if x.sum() > 0 else x
    return y * 2


@on(TypeError, "which list it is depends on a Tensor")
def one_of_two_lists(x):
    """Make a new list of the same size in every arm, or write the items of one."""
    a, b = [x], [x * 2]
    chosen = a if x.sum() > 0 else b
    return chosen[0]


@on(TypeError, "a list has 2 or 1 items depending on a Tensor")
def lists_of_different_sizes(x):
    """Write as many items in every arm: zeros where there is nothing."""
    items = [x]
    if x.sum() > 0:
        items.append(x * 2)
    return items[0]


@on(TypeError, "attribute 'y' is new, and written in one arm only")
def a_new_attribute_in_one_arm(x):
    """Give the object a Tensor of this name before the call."""
    if x.sum() > 0:
        NET.y = x
    return NET.y


@on(TypeError, "this Tensor is one of two, depending on a Tensor")
def writing_one_of_two(x):
    """Write a `.copy()`, or write in each arm."""
    y, z = x * 1, x * 2
    chosen = y if x.sum() > 0 else z
    chosen[0] = 5.0
    return y


@on(TypeError, "this Tensor is carried round a loop that a Tensor decides")
def writing_what_a_loop_carries(x):
    """Write a `.copy()` of it."""
    y = x * 1
    z = y
    while z.sum() < 10:
        z = z * 2
        y, z = z, y
        z[0] = 1.0
    return y


@on(TypeError, "this Tensor may be another one, depending on a Tensor, which has been written")
def reading_one_of_two_after_a_write(x):
    """Give the one that is kept a `.copy()` before the write."""
    y, z = x * 1, x * 2
    chosen = y if x.sum() > 0 else z
    y[0] = 5.0
    return chosen * 1


@on(TypeError, "whether these are the same Tensor is known only when the graph runs")
def the_same_tensor(x):
    """Compare values, not identities; or keep a flag beside the Tensor."""
    y, z = x * 1, x * 2
    chosen = y if x.sum() > 0 else z
    return x if chosen is y else -x


@on(TypeError, "what follows ** is None or dict, depending on a Tensor: make it the same in every")
def a_choice_of_keywords(x):
    """Make it the same in every arm: an empty dict in place of None."""
    more = None if x.sum() > 0 else {"b": x}
    return two(x, **more)


@on(TypeError, "isinstance: whether this is a Parameter depends on a Tensor: copy it first")
def a_parameter_or_not(x):
    """`.copy()` in each arm makes it a Tensor."""
    chosen = NET.w if x.sum() > 0 else x
    return x if isinstance(chosen, Parameter) else -x


@on(AttributeError, "which Parameter's 'name' this is depends on a Tensor")
def the_name_of_one_of_two_parameters(x):
    """Ask in each arm."""
    chosen = NET.w if x.sum() > 0 else OTHER.w
    return {chosen.name: x}


@on(RuntimeError, "which Parameter is printed depends on a Tensor: print a .copy() of it")
def printing_one_of_two_parameters(x):
    """Print a `.copy()`."""
    print(NET.w if x.sum() > 0 else OTHER.w)
    return x


@on(TypeError, "whether this Tensor is one that is older than the compiled call depends on a")
def an_attribute_that_may_be_an_argument(x):
    """Give it a `.copy()`."""
    NET.old = x if x.sum() > 0 else x * 2
    return x


@on(TypeError, "whether the attribute 'older' is the Tensor that another one is, too, depends on")
def two_attributes_that_may_be_one_tensor(x):
    """Give one a `.copy()`."""
    y, z = x * 1, x * 2
    NET.old = y
    NET.older = y if x.sum() > 0 else z
    return x


@on(TypeError, "which Parameter 'w' is depends on a Tensor: use set_data")
def one_of_two_parameters_as_attribute(x):
    """`NET.w.set_data(...)`."""
    if x.sum() > 0:
        NET.w = OTHER.w
    return x


@on(TypeError, "a loop that a Tensor decides changes 'x' from Tensor[Float32, (")
def a_loop_that_grows(x):
    """Keep dtype and shape the same in every turn: write into a Tensor of the full size."""
    while x.sum() < 100:
        x = ops.concat([x, x])
    return x


@on(TypeError, "changes the number of items of a list")
def a_list_that_grows_in_a_loop(x):
    """Write into a Tensor at an index, in place of appending."""
    steps = []
    while x.sum() < 100:
        x = x * 2
        steps.append(x)
    return steps


@on(
    TypeError,
    "'old' of Net is a Tensor or not, depending on a Tensor: write a Tensor in every case",
)
def an_attribute_that_is_a_tensor_or_not(x):
    """Write a Tensor in every arm."""
    if x.sum() > 0:
        NET.old = x
    return x


@on(AttributeError, "object has no attribute 'y' if an arm of an if or a loop does not run")
def an_attribute_of_one_arm(x):
    """Give the attribute a value before the `if`."""
    box = Plain()
    if x.sum() > 0:
        box.y = x
    else:
        box.z = x
    return box.y


@on(TypeError, "a value that depends on a Tensor is compared inside a container")
def a_choice_in_a_container(x):
    """Take it out of the list, and compare it alone."""
    name = "a" if x.sum() > 0 else None
    return x if [name] == ["a"] else -x


@on(TypeError, "a value that depends on a Tensor cannot be a dict key or in a set")
def a_choice_as_key(x):
    """Use the keys in each arm."""
    name = "a" if x.sum() > 0 else "b"
    return {name: x}

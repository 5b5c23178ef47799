"""Objects and Cells."""

from error_programs.catalogue import NET, Plain, on
from minispore import Parameter, Tensor, nn


class Made:
    def __new__(cls, *args):
        return object.__new__(cls)


class Writable:
    def _set(self, value):
        self.kept = value

    only = property(None, _set)
    fixed = property(lambda self: 3)


@on(RuntimeError, "super(): __class__ cell not found")
def super_outside_a_class(x):
    return super().construct(x)


@on(TypeError, "Plain() takes no arguments")
def arguments_for_a_class_without_init(x):
    return Plain(x)


@on(RuntimeError, "a Made cannot be made in a compiled graph, as its class defines __new__")
def a_class_with_new(x):
    """Make it outside, or leave out `__new__`."""
    Made()
    return x


@on(AttributeError, "property 'only' of 'Writable' object has no getter")
def reading_a_property_without_getter(x):
    return x * Writable().only


@on(AttributeError, "property 'fixed' of 'Writable' object has no setter")
def writing_a_property_without_setter(x):
    box = Writable()
    box.fixed = x
    return x


@on(TypeError, "__bool__ should return a Python number, returned Tensor")
def a_truth_that_is_a_tensor(x):
    """Return `bool(...)`, or a number."""
    return x if Truthful(x) else -x


class Truthful:
    def __init__(self, x):
        self.x = x

    def __bool__(self):
        return self.x.sum() > 0


@on(RuntimeError, "Failure takes run-time values by position only")
def an_exception_with_keywords(x):
    """Pass them by position."""
    if x.sum() > 0:
        raise Failure(value=x)
    return x


class Failure(Exception):
    def __init__(self, value=None):
        super().__init__(value)


@on(RuntimeError, "a Parameter cannot be part of an error in a compiled graph: use its value()")
def an_error_with_a_parameter(x):
    """`w.value()`."""
    if x.sum() > 0:
        raise ValueError(NET.w)
    return x


@on(RuntimeError, "a Parameter, or a Tensor with an initializer, would be made only once")
def making_a_parameter(x):
    """Make it outside: in `__init__` of a Cell."""
    return x * Parameter(Tensor([1.0, 2.0]), name="v")


@on(RuntimeError, "a Dense cannot be made where a Tensor decides whether or how often")
def making_a_cell_in_an_arm(x):
    """Make it before the `if`."""
    if x.sum() > 0:
        return nn.Dense(2, 2)(x.reshape(1, 2))
    return x.reshape(1, 2)


@on(RuntimeError, "Dense(...) in a compiled function takes constants")
def making_a_cell_of_tensors(x):
    """Its arguments are constants; a Tensor can be given to its `construct`."""
    return nn.Dense(2, 2, weight_init=x)(x.reshape(1, 2))


HOOKED = nn.ReLU()
HOOKED.register_backward_hook(lambda cell, inputs, outputs: None)


@on(RuntimeError, "the backward hooks of ReLU are called in PyNative mode only")
def a_cell_with_backward_hooks(x):
    """Remove the hooks, or define the Cell's gradient with `bprop`."""
    return HOOKED(x)

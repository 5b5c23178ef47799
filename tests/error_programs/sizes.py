"""Sizes that vary.

Described inputs may have sizes that are known only when the graph runs, and so may results, such as
those of a mask. What is decided by such a size is decided when the graph is compiled.
"""

import minispore as ms
from error_programs.catalogue import X, on, script, two
from minispore import Tensor, nn


@on(TypeError, "where something is decided by it, cannot be known when the graph is compiled")
def deciding_by_a_size(x):
    """How many items there are depends on values: compute with a mask."""
    return x.split(len(x[x > 0]))


@on(ZeroDivisionError, "integer division or modulo by zero")
def dividing_a_size_by_zero(x):
    return x * (len(x[x > 0]) // 0)


@script(ValueError, "1 inputs are described, but 2 are given: describe each")
def another_number_of_inputs():
    """Describe every argument."""
    return described(ROWS)(X, X)


@script(ValueError, "input 'x' is described as 2 values, not Tensor")
def a_tensor_for_a_pair():
    """Call it as it is described."""
    return described((ROWS, ROWS))(X)


@script(TypeError, "input 'x' is described as a Tensor, but is int (3)")
def a_number_for_a_tensor():
    """Call it as it is described."""
    return described(ROWS)(3)


@script(TypeError, "input 'x' is described as Float32, but is Int64")
def a_described_dtype():
    """Cast the argument."""
    return described(ROWS)(Tensor([[1, 2]]))


@script(ValueError, "input 'x' is described with shape (None, 2), but has shape (2,)")
def a_described_shape():
    """Only the sizes that are None may be any."""
    return described(ROWS)(X)


@script(ValueError, "input 'x' is described as 2, but is 3")
def a_described_constant():
    """Call it with this constant, or leave it out of the description."""
    return described(2)(3)


ROWS = Tensor(shape=[None, 2], dtype=ms.float32)


class Described(nn.Cell):
    def construct(self, x, *more):
        return x


def described(*inputs):
    """A Cell that is compiled for inputs like these."""
    net = Described()
    net.set_inputs(*inputs)
    return ms.jit(net)


@script(ValueError, "enable_dynamic: describe an input, as in enable_dynamic(x=Tensor(...))")
def describing_nothing():
    """Name an input, and give a Tensor with None among its sizes."""
    return ms.enable_dynamic()


@script(TypeError, "enable_dynamic: 'x' must be described by Tensors")
def describing_by_a_shape():
    """`Tensor(shape=[None, 3], dtype=ms.float32)`."""
    return ms.enable_dynamic(x=(None, 3))


@script(TypeError, "enable_dynamic: no size of 'x' is None")
def describing_fixed_sizes():
    """Write None for the sizes that vary."""
    return ms.enable_dynamic(x=X)


@script(ValueError, "enable_dynamic: 'z' is no parameter; there are ['a', 'b']")
def describing_an_unknown_parameter():
    """Use the parameter's name."""
    return ms.enable_dynamic(z=ROWS)(two)


@script(TypeError, "mutable: dynamic_len=True is for a tuple or list, not int")
def a_number_of_dynamic_length():
    """Leave it out."""
    return ms.mutable(3, dynamic_len=True)


@script(TypeError, "mutable takes Tensors, numbers, and tuples, lists and dicts of them, not str")
def a_mutable_string():
    """Strings are constants: each has a graph of its own."""
    return ms.mutable("a")

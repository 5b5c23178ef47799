"""Tensors.

What a Tensor is made of, and what Python may ask of it.
"""

from fractions import Fraction

import numpy as np

import minispore as ms
from error_programs.catalogue import X, on, script
from minispore import Tensor, ops


@on(RuntimeError, "asnumpy() of this Tensor is known only when the graph runs; compute with")
def the_array_of_a_tensor(x):
    """Use `minispore.ops`, or return the Tensor and call `asnumpy()` outside."""
    return x.asnumpy().mean()


@on(ValueError, "item() needs a Tensor with one element, not 2 (shape (2,))")
def an_item_of_several(x):
    """`x.sum()`, `x[0]` ... first."""
    return x.item()


@on(TypeError, "the index of a Tensor that is known only at run time cannot be known", mode="trace")
def a_size_while_tracing(x):
    """Leave out `capture_mode="trace"`: then an index may be a Tensor."""
    return (x, -x)[x.argmax()]


@on(TypeError, "a Tensor without axes has no len()")
def the_length_of_a_number(x):
    return len(x.sum())


@on(TypeError, "a Tensor without axes cannot be iterated over")
def iterating_over_a_number(x):
    return [v for v in x.sum()]


@script(ValueError, "Halving.eval gave shape (1,), but infer promised (2,)")
def a_primitive_that_breaks_its_promise():
    """`infer` tells the shape of what `eval` gives."""
    return Halving()(X)


class Halving(ops.Primitive):
    def infer(self, x):
        return x

    def eval(self, x):
        return x[: len(x) // 2]


@script(TypeError, "a Tensor is made from a number, a nested list, an ndarray or a Tensor, not Fra")
def a_tensor_of_something_else():
    """Convert it: `float(...)`."""
    return Tensor(Fraction(1, 3))


@script(TypeError, "a Tensor holds numbers only, not what is in ['a', None]")
def a_tensor_of_other_things():
    """Only numbers, and nested lists of them."""
    return Tensor(["a", None])


@script(ValueError, "nested lists of unequal length make no Tensor: [[1, 2], [3]]")
def lists_of_unequal_length():
    """Pad the shorter ones."""
    return Tensor([[1, 2], [3]])


@script(OverflowError, "does not fit an integer Tensor of 64 bits")
def an_int_too_large():
    """Use a float."""
    return Tensor(2**70)


@script(TypeError, "dtype must be a DType such as minispore.float32, not 'float32'")
def a_dtype_by_its_name():
    """`ms.float32`."""
    return Tensor([1.0], "float32")


@script(TypeError, "from_numpy takes an ndarray, not list")
def a_list_for_an_ndarray():
    """`Tensor(...)` takes lists."""
    return Tensor.from_numpy([1.0])


@script(ValueError, "a copy is needed to turn Float32 into float64")
def another_dtype_without_a_copy():
    """Leave out `copy=False`."""
    return X.__array__(np.float64, copy=False)


@script(ValueError, "give a Tensor its data, or shape and init, not both")
def data_and_a_shape():
    """Leave out one."""
    return Tensor([1.0], shape=(1,), dtype=ms.float32, init=ms.common.initializer.One())


@script(TypeError, "Tensor(shape=...) needs a dtype")
def a_shape_without_a_dtype():
    """`Tensor(shape=(2,), dtype=ms.float32)`."""
    return Tensor(shape=(2,))


@script(ValueError, "a Tensor with sizes of None describes inputs: it has no init")
def a_description_with_values():
    """Leave out one."""
    shape = (None,)
    return Tensor(shape=shape, dtype=ms.float32, init=ms.common.initializer.One())


@script(ValueError, "a size is None or not negative, not as in [None, -3]")
def a_negative_size():
    """Where any size will do, write None."""
    return Tensor(shape=[None, -3], dtype=ms.float32)


@script(ValueError, "a Tensor of shape [None, 3] describes inputs: it has no elements")
def the_elements_of_a_description():
    """It is for `set_inputs`, `input_signature` and `enable_dynamic`."""
    return Tensor(shape=[None, 3], dtype=ms.float32).asnumpy()

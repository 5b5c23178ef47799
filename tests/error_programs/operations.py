"""Operations.

What an operation asks of its operands is asked when the graph is compiled, in the same words as in
PyNative mode; the error shows the operands. What depends on values is checked when the graph runs.
Each operation's page in the reference lists its errors; these are the commonest.
"""

import minispore as ms
from error_programs.catalogue import X, on, script
from minispore import Tensor, ops


@on(ValueError, "shapes (2,) and (3,) cannot be broadcast")
def shapes_that_do_not_fit(x):
    """Sizes must be equal, or 1: `reshape` or index with None first."""
    return x + Tensor([1.0, 2.0, 3.0])


@on(RuntimeError, "matmul of shapes (2,) and (3, 2) is impossible: the last size of the first, 2")
def a_product_of_other_sizes(x):
    """Transpose one: `x @ w.T`."""
    return x @ ops.ones((3, 2))


@on(ValueError, "reshape of shape (2,) to (3,) is impossible: 2 elements are not 3")
def another_number_of_elements(x):
    """The product of the sizes must stay the same; -1 stands for what is left."""
    return x.reshape(3)


@on(ValueError, "concat")
def concatenating_other_sizes(x):
    """All sizes but that of the axis must be equal."""
    return ops.concat([x.reshape(1, 2), x.reshape(2, 1)])


@on(ValueError, "axis 1 is out of range")
def an_axis_too_many(x):
    """A Tensor of one axis has axis 0, which is also -1."""
    return x.sum(axis=1)


@on(IndexError, "index 5 is out of range")
def an_index_out_of_range(x):
    """Indices begin at 0; negative ones count from the end."""
    return x[5]


@on(IndexError, "out of range")
def an_index_out_of_range_at_run_time(x):
    """The error shows the line when the graph runs: clip the index with `ops.clamp`."""
    return x[x.sum().astype(ms.int32)]


@script(
    FloatingPointError,
    "Log made -inf at [0] out of finite numbers, in the forward pass (check_finite); the",
)
def a_number_that_is_not_finite():
    """`check_finite` found what makes a nan or inf: keep its operand away from there."""
    return ms.jit(ops.log, check_finite=True)(X - X)


@on(RecursionError, "calls itself more than 1000 calls deep; set_context(max_call_depth=...) can")
def a_recursion_too_deep_at_run_time(x):
    """The recursion ended too late: raise the limit, or use a loop."""
    return countdown(x.sum() * 1000)


def countdown(n):
    if n < 1:
        return n
    return countdown(n - 1)

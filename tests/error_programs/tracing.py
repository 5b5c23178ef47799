"""Under capture_mode="trace".

Python itself runs these functions, once, with `jit(..., capture_mode="trace")`. What they do beside
computing with Tensors would be done only then.
"""

import time

import numpy as np

from error_programs.catalogue import on

NUMBERS = [1]


@on(
    RuntimeError,
    "'try' cannot be traced: it could hide that a Tensor has no value yet",
    mode="trace",
)
def try_while_tracing(x):
    """Leave out `capture_mode="trace"`."""
    try:
        return x * 2
    except ValueError:
        return x


@on(RuntimeError, "'time.time' would be called only while tracing", mode="trace")
def a_function_in_c_while_tracing(x):
    """Call it outside, and pass its result in."""
    return x * time.time()


@on(
    RuntimeError,
    "random numbers of Python or NumPy would be drawn only while tracing",
    mode="trace",
)
def random_numbers_while_tracing(x):
    """Use `ops.rand` and its kin, or draw outside."""
    return x * np.random.rand()  # noqa: NPY002


@on(
    RuntimeError,
    "'NUMBERS' is older than the compiled call and would be written only",
    mode="trace",
)
def writing_a_list_while_tracing(x):
    """Return the new value."""
    NUMBERS.append(3)
    return x


@on(RuntimeError, "'print' in 'printing_while_tracing' would act only while tracing", mode="trace")
def printing_while_tracing(x):
    """Leave out `capture_mode="trace"`: then `print` is part of the graph."""
    print(x)
    return x

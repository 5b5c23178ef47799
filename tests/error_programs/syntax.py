"""Syntax."""

from dataclasses import dataclass
from typing import Any

import minispore as ms
from error_programs.catalogue import on


@on(RuntimeError, "'yield' cannot be part of a compiled graph: return a list")
def a_generator(x):
    """Return a list."""
    yield x


@on(RuntimeError, "'import' cannot be part of a compiled graph: import the module at the top")
def an_import(x):
    """Import at the top of the file."""
    import math

    return x * math.pi


@on(RuntimeError, "'class' cannot be part of a compiled graph: define the class outside")
def a_class(x):
    """Define the class outside."""

    class Inner:
        pass

    return x


@on(TypeError, "complex numbers cannot be part of a compiled graph")
def a_complex_number(x):
    """Compute with real and imaginary parts."""
    return x * 1j


@on(RuntimeError, "No active exception to reraise")
def raising_again(x):
    """`raise` without an exception belongs into an `except`."""
    if x.sum() > 0:
        raise
    return x


@on(TypeError, "exceptions must derive from BaseException")
def raising_what_is_no_exception(x):
    raise "text"  # noqa: B016


@on(RuntimeError, "what may fail when the graph runs cannot be handled there")
def handling_what_fails_at_run_time(x):
    """Test the condition with `if`, or put `try` around the call of the compiled function."""
    try:
        return x[x.sum().astype(ms.int32)]
    except IndexError:
        return x


@on(RuntimeError, "'finally' would have to run if the graph fails")
def finally_around_what_fails(x):
    """Put `try` around the call of the compiled function."""
    try:
        y = x[x.sum().astype(ms.int32)]
    finally:
        x[0] = 1.0
    return y


@on(RuntimeError, "an error of run-time values cannot be handled in a graph")
def handling_an_error_with_values(x):
    """Raise the error with constants, or outside of the `try`."""
    try:
        raise ValueError(x)
    except ValueError:
        return x


class Guard:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        print("left")


@on(RuntimeError, "__exit__ of Guard would have to run if the body of 'with' fails")
def a_context_manager_around_what_fails(x):
    """Use it around the call of the compiled function."""
    with Guard():
        return x[x.sum().astype(ms.int32)]


@on(TypeError, "'Tensor[Float32, (2)]' object does not support the context manager protocol")
def with_of_no_context_manager(x):
    with x:
        return x


@dataclass
class Point:
    a: Any
    b: Any


@on(TypeError, "Point() accepts 2 positional sub-patterns (3 given)")
def a_pattern_of_too_many_parts(x):
    match Point(x, x):
        case Point(a, b, c):
            return a + b + c
    return x

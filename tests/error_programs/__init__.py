"""Programs that a compiled graph cannot be, one for each message, with what to do about it.

Each module is a chapter: the first line of its docstring is the title, the rest leads in.  The
docstring of a program says what its error means and how the program is changed; there is none where
the error is Python's own.  The book's page of messages shows these programs (book/messages.py), and
tests/test_messages.py runs them.
"""

import inspect
from dataclasses import dataclass
from types import ModuleType

from error_programs import (
    arms,
    calls,
    gradients,
    objects,
    operations,
    options,
    outside,
    recursion,
    results,
    run_time,
    sizes,
    source,
    syntax,
    tensors,
    tracing,
    values,
)
from error_programs.catalogue import Program, programs


@dataclass
class Chapter:
    """Programs that belong together."""

    title: str
    text: str
    programs: list[Program]


def chapter(module: ModuleType) -> Chapter:
    """The chapter that a module is."""
    title, _, text = inspect.cleandoc(module.__doc__ or "").partition("\n")
    return Chapter(title.removesuffix("."), text.strip(), programs[module.__name__])


CHAPTERS = [
    chapter(module)
    for module in (
        run_time, arms, sizes, outside, syntax, calls, values, objects, recursion, gradients,
        results, tensors, operations, source, tracing, options,
    )
]  # fmt: skip
PROGRAMS = [program for each in CHAPTERS for program in each.programs]

# Messages that no program shows, and why.
UNSHOWN = {
    "an index cannot be known": "a loop that needs it is unrolled",
    "changes the type of a Tensor": "a write keeps dtype and shape",
    "changes attribute '": "the first turn of the loop is taken out of it",
    "a starred expression cannot stand here": "Python's parser says so before",
    "'{type(target).__name__}' cannot be assigned to": "Python's parser says so before",
    "a {type(obj).__name__} older than the compiled call is written": "another message comes first",
    "the types of what {self.carry.what} writes do not settle": "its types are refused first",
    "a value made inside a loop that runs in the graph": "carried, or refused where it is written",
    "a value made inside a function that calls itself": "carried, or refused where it is written",
    "the type of what {self.name} returns does not settle": "arms of two types are refused first",
    "several lambdas like this stand in line": "Python 3.12 only",
    "there is no item {index}": "a check before it says that the index is out of range",
    "a Parameter cannot be made in a compiled function": "making it has been refused before",
    "{type(value).__name__} is no value of the graph": "ops check their arguments",
    "the size {symbol} outside of the arm or loop where it is born": "such a value cannot leave it",
    "{bprop.__name__} has an effect": "rules are evaluated, which allows effects",
    "the gradient rule of {node.callee} gives": "what a rule gives has been checked",
    "cannot be known when a gradient is compiled": "sizes that are born, in PyNative mode",
    "a gradient of higher order needs zeros in a loop": "sizes that are born, third order",
}

"""Which function a code object comes from, when several stand on one line."""

import ast

import pytest

from minispore.frontend.source import code_of

# fmt: off
ON_ONE_LINE = [lambda x: x + 1, lambda x: x + 2, lambda x, y: 1, lambda x: 5, lambda x: False]
NESTED = [lambda x: (lambda y: y + x), (lambda x: (lambda y: y * x))(3), lambda x: (lambda: 7)()]
# fmt: on


def body_of(fn):
    return ast.unparse(code_of(fn).node.body)


def test_lambdas_on_one_line():
    bodies = [body_of(f) for f in ON_ONE_LINE]
    assert bodies == ["x + 1", "x + 2", "1", "5", "False"]


def test_lambdas_in_lambdas():
    assert [body_of(f) for f in NESTED] == ["lambda y: y + x", "y * x", "(lambda: 7)()"]


def test_the_same_text_twice():
    same = [lambda x: 5, lambda x: 5]
    assert [body_of(f) for f in same] == ["5", "5"]


def test_what_cannot_be_told_is_an_error():
    """Python 3.12 does not say where the constant of a lambda is."""
    alike = [lambda x=1: 5, lambda x=2: 5]
    if any(end > start for _, _, start, end in alike[0].__code__.co_positions()):
        assert [body_of(f) for f in alike] == ["5", "5"]
    else:
        with pytest.raises(OSError, match="give each a line of its own"):
            body_of(alike[0])

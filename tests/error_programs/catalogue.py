"""What a program that raises an error is, and what the programs of several chapters use."""

import inspect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import minispore as ms
from minispore import Parameter, Tensor, nn


@dataclass
class Program:
    """A function that raises an error when it is compiled and called on `args`.

    A script is called as it is: it compiles something itself.
    """

    function: Callable
    error: type[Exception]
    message: str  # a part of the error's text
    args: tuple
    mode: str = "ast"
    is_script: bool = False

    @property
    def name(self) -> str:
        """What the page and the tests call it."""
        return self.function.__name__

    @property
    def advice(self) -> str:
        """What its error means, and how it is changed; empty where Python says so itself."""
        return inspect.cleandoc(self.function.__doc__ or "")

    def run(self) -> Any:
        """Compile and call it."""
        if self.is_script:
            return self.function()
        return ms.jit(self.function, capture_mode=self.mode)(*self.args)


programs: dict[str, list[Program]] = defaultdict(list)  # of each module


def on(
    error: type[Exception], message: str, *args: Any, mode: str = "ast"
) -> Callable[[Callable], Callable]:
    """A decorator for a program: its error, and its arguments (one Tensor)."""

    def register(function: Callable) -> Callable:
        programs[function.__module__].append(Program(function, error, message, args or (X,), mode))
        return function

    return register


def script(error: type[Exception], message: str) -> Callable[[Callable], Callable]:
    """A decorator for a program that compiles something itself."""

    def register(function: Callable) -> Callable:
        programs[function.__module__].append(Program(function, error, message, (), is_script=True))
        return function

    return register


X = Tensor([1.0, 2.0])


def two(a, b):
    return a + b


class Plain:
    pass


class Held:
    def __init__(self, x):
        self.x = x


class Net(nn.Cell):
    def __init__(self, name="w"):
        super().__init__()
        self.w = Parameter(Tensor([1.0, 2.0]), name)
        self.number = 3
        self.old = self.older = None

    def construct(self, x):
        return x * self.w


NET, OTHER = Net(), Net("v")

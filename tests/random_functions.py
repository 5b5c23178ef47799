"""Random functions with branches, loops, writes in place and shared Tensors, as source text.

    make(net) -> f(x)

Names are Tensors of three floats: local ones, those in two lists, and attributes of `net`.  Every
statement may give one of them another name, write it, or depend on its sum.
"""

import random

LOCAL = ["a", "b", "c", "x"]
STATE = ["net.p", "net.q", "net.h", "net.k"]  # two Parameters, two Tensors
BOUNDS = ["-0.3", "0.1", "0.4", "0.7", "1.5"]


class Source:
    """Writes the text of one function; the same seed gives the same text."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.counters = 0
        self.helper = False  # inside a helper, which calls no other

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def name(self) -> str:
        return self.pick(*LOCAL, *LOCAL, *STATE)

    def condition(self) -> str:
        return f"{self.name()}.sum() > {self.pick(*BOUNDS)}"

    def expression(self) -> str:
        a, b, factor = self.name(), self.name(), self.pick("0.5", "-0.5", "0.25")
        return self.pick(
            f"{a} * {factor}", f"{a} * 0.5 + {b} * {factor}", f"ops.tanh({a})", f"{a}.copy()",
            f"ops.sin({a} - {b})", f"({a} if {self.condition()} else {b})", a,
            f"ops.add({a}, 0.25)" if self.helper else f"{self.pick('g', 'h')}({a}, {b})",
        )  # fmt: skip

    def simple(self) -> str:
        """A statement of one line."""
        a, b, target = self.name(), self.name(), self.pick(*LOCAL)
        i, items = self.pick("0", "1"), self.pick("l", "m")
        return self.pick(
            f"{target} = {self.expression()}", f"{target} = {self.expression()}",
            f"{a}.add_({b} * 0.5)", f"{a}[{i}] = 0.5",
            f"{self.pick(*LOCAL, 'net.p', 'net.h')} {self.pick('+=', '*=')} {b} * 0.5",
            f"net.{self.pick('h', 'k')} = {self.expression()} * 1.0",
            f"ops.assign(net.{self.pick('p', 'q')}, {a})",
            f"print({a}.sum())", f"assert {a}.sum() < {self.pick('0.9', '2.0', '5.0')}, 'too much'",
            f"{items}[{i}] = {a}", f"{target} = {items}[{i}]", f"{items}[{i}].add_(0.25)",
            self.pick("m = l", f"l = [{a}, {b}]"),
        )  # fmt: skip

    def statement(self, depth: int, in_loop: bool) -> list[str]:
        kind = self.random.random()
        if depth and kind < 0.2:
            arms = [f"if {self.condition()}:", *self.block(depth - 1, in_loop)]
            if self.random.random() < 0.6:
                arms += ["else:", *self.block(depth - 1, in_loop)]
            return arms
        if depth and kind < 0.3:
            self.counters += 1
            i, body = f"i{self.counters}", self.block(depth - 1, True)
            if self.random.random() < 0.5:
                return [f"for {i} in range({self.pick('2', '3', '18')}):", *body]
            test = f"while {self.condition()} and {i} < {self.pick('2', '5')}:"
            return [f"{i} = 0", test, f"    {i} = {i} + 1", *body]
        if in_loop and kind < 0.35:
            return [f"if {self.condition()}: {self.pick('break', 'continue')}"]
        if kind < 0.39:
            return [f"if {self.condition()}: return {self.returned()}"]
        return [self.simple()]

    def block(self, depth: int, in_loop: bool) -> list[str]:
        lines = [
            line
            for _ in range(self.random.randint(1, 3))
            for line in self.statement(depth, in_loop)
        ]
        return [f"    {line}" for line in lines]

    def returned(self) -> str:
        if self.helper:
            return f"{self.name()} * 2"
        return f"a * 1, b * 1, c * 1, [l[0] * 1, l[1] * 1], m[0] * 1, {self.name()} * 1"

    def text(self) -> str:
        """A module whose ``make(net)`` gives the function."""
        lines = ["from minispore import ops", "", "", "def make(net):"]
        self.helper = True
        for name in ("g", "h"):
            body = ["x = b; c = a * 0.5; l = [a, b]; m = [b, c]", *self.statement(1, False)]
            body += [*self.statement(1, False), f"return {self.pick('a', 'b', 'c', 'c * 0.5')}"]
            lines += [f"    def {name}(a, b):", *(f"        {line}" for line in body), ""]
        self.helper = False
        body = ["a = x * 0.5; b = a; c = x + 0.1; l = [a, c]; m = l"]
        for _ in range(self.random.randint(3, 7)):
            body += self.statement(2, False)
        body += [f"return {self.returned()}"]
        lines += ["    def f(x):", *(f"        {line}" for line in body), "", "    return f"]
        return "\n".join(lines) + "\n"

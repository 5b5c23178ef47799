"""Random programs: functions as source text, of all that the front end can say.

``Program(random).text()`` is a module.  Its ``make()`` gives the function to run and the Tensors
that the function may write besides its arguments; ``arguments(i)`` are new arguments.  Equal random
numbers give equal text.  What expressions and statements look like stands in program_grammar.py.

The writer knows the kind of every name.  It keeps to what a graph can hold, most of the time: a
name keeps its kind, lists keep their length where Tensors decide, what is written in place is one
Tensor whatever Tensors decide.  `bold` programs write what they like; `hostile` ones break all
rules now and then.
"""

from __future__ import annotations

import ast
import random
import re
from dataclasses import dataclass, field, replace
from typing import Any

from program_grammar import (
    BOUND,
    ERRORS,
    EXPRESSIONS,
    LITERALS,
    LOOPS,
    MATCHES,
    NAMES,
    STATEMENTS,
)

HOLE = re.compile(r"<(?:([A-Z]):)?([a-z]+|[A-Z])([~!=+]?)>")
TENSORS = ("vec", "num", "mat", "dbl", "whole", "longs", "truth")
RETURNED = (
    *TENSORS, "int", "float", "bool", "str", "text", "list", "pair", "table", "nest", "grid",
    "maybe",
)  # fmt: skip
PARAMETERS = (
    "vec",
    "vec",
    "num",
    "int",
    "float",
    "list",
    "whole",
    "maybe",
    "fn",
    "box",
    "nest",
    "grid",
)
STATE = {
    "SELF.p": "vec", "SELF.q": "num", "SELF.w": "mat",
    "SELF.h": "vec", "SELF.g": "vec", "SELF.e": "num",
    "SHARED": "vec", "POOL[0]": "vec", "POOL[1]": "vec", "SELF.depth": "known",
}  # fmt: skip
WEIGHTS = ("SELF.p", "SELF.q", "SELF.w")
ATOMS = (
    ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.Subscript, ast.List, ast.Dict,
    ast.ListComp, ast.DictComp, ast.JoinedStr, ast.Tuple,
)  # fmt: skip


class Missing(Exception):
    """There is no name of a kind."""


@dataclass
class Scope:
    """What is known of names at a place: their kinds, which may be assigned to, and so on."""

    kinds: dict[str, str] = field(default_factory=dict)
    targets: set[str] = field(default_factory=set)
    fresh: set[str] = field(default_factory=set)  # surely one Tensor: may be written in place
    assigned: set[str] = field(default_factory=set)

    def copy(self) -> Scope:
        return Scope(dict(self.kinds), set(self.targets), set(self.fresh), set(self.assigned))


def joined(scopes: list[Scope]) -> Scope:
    """What is known where several paths meet."""
    first = scopes[0]
    kinds = {n: k for n, k in first.kinds.items() if all(s.kinds.get(n) == k for s in scopes)}
    written = set.union(*(s.assigned for s in scopes))
    always = set.intersection(*(s.assigned for s in scopes))
    fresh = set.intersection(*(s.fresh for s in scopes)) - (written - always)
    return Scope(kinds, first.targets & kinds.keys(), fresh, written)


@dataclass(frozen=True)
class Place:
    """Where a statement stands."""

    returns: tuple[str, ...] = ()  # the kinds of the function's results
    loops: int = 0  # around it, in this function
    nested: int = 0  # functions around it
    varying: bool = False  # a Tensor decides whether it runs
    growing: bool = True  # lists may change their length

    def returned(self, writer: Writer) -> str:
        values = [writer.result(kind) for kind in self.returns]
        return f"return {', '.join(values)}"


class Writer:
    """Writes blocks of statements."""

    def __init__(self, rng: random.Random, hostile: float = 0.0, bold: bool = False):
        self.random, self.hostile, self.bold = rng, hostile, bold
        self.scope = Scope()
        self.place = Place()
        self.signatures: dict[str, tuple[tuple[str, ...], str]] = {}
        self.defaults: set[str] = set()  # functions whose last argument has a default
        self.numbers = 0

    def pick(self, options: list) -> Any:
        if not options:
            raise Missing
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def number(self, name: str) -> str:
        """A name that nothing else has."""
        self.numbers += 1
        return f"{name}{self.numbers + 1}"

    # ----------------------------------------------------------------------- expressions

    def names(self, kind: str) -> list[str]:
        if kind == "pure":
            return [n for n in self.names("fn") if n not in self.scope.targets]
        return [n for n, k in self.scope.kinds.items() if k == kind]

    def expression(self, kind: str, depth: int) -> str:
        """An expression of a kind."""
        known = self.names(kind)
        if depth <= 0 or self.chance(0.3):
            if known and (self.chance(0.85) or kind not in LITERALS):
                return self.pick(known)
            if kind in LITERALS:
                return self.literal(kind)
        callees = [n for n, k in self.scope.kinds.items() if k == "def"]
        callees = [n for n in callees if self.signatures[n][1] == kind]
        if callees and self.chance(0.25):
            return self.call(self.pick(callees), depth)
        while kind in EXPRESSIONS:
            text = self.fill(self.pick(EXPRESSIONS[kind]), depth - 1)
            if text is not None:
                return text
        return self.literal(kind)

    def literal(self, kind: str) -> str:
        return self.fill(self.pick(LITERALS[kind]), 0)

    def call(self, name: str, depth: int) -> str:
        kinds = self.signatures[name][0]
        given = [self.expression(k, depth - 1) for k in kinds]
        if name in self.defaults and self.chance(0.3):
            given.pop()
        given = [f"*[{', '.join(given)}]"] if self.chance(0.1) else given
        return f"{name}({', '.join(given)})"

    def fill(self, production: str, depth: int, new: list[tuple[str, str]] | None = None):
        """A production with its holes filled; None if there is no name for one.

        The names that become known are added to `new`.
        """
        bound: dict[str, str] = {}
        if "SELF" in production and "SELF.p" not in self.scope.kinds:
            return None

        def hole(match: re.Match) -> str:
            label, kind, mark = match.groups()
            if kind in bound:
                return bound[kind]
            if mark in ("=", "+"):
                return match.group()
            if mark:
                names = self.names(kind)
                anyone = mark == "~" or self.bold
                text = self.pick([n for n in names if anyone or n in self.scope.fresh])
            else:
                text = atom(self.expression(kind, depth))
            bound[label] = text
            return text

        def target(match: re.Match) -> str:
            name = self.target(*match.groups()[1:])
            if new is not None:
                new.append((name, match.group(2)))
            return name

        try:
            return HOLE.sub(target, HOLE.sub(hole, production))
        except Missing:
            return None

    def target(self, kind: str, mark: str) -> str:
        """A name to assign to: one that has such a value, or a new one."""
        known = [n for n in self.names(kind) if n in self.scope.targets]
        mine = [n + "_" * self.place.nested for n in NAMES[kind].split()] if mark == "=" else []
        return self.pick(known * 2 + [n for n in mine if n not in self.scope.kinds])

    def result(self, kind: str) -> str:
        """A value to return: containers are new ones, and no Parameter is returned as it is."""
        if self.bold:
            return self.expression(kind, 2)
        kinds = self.scope.kinds
        self.scope.kinds = {n: k for n, k in kinds.items() if n not in WEIGHTS}
        is_container = kind in ("list", "table", "pair", "bag", "nest", "grid")
        text = self.fill(EXPRESSIONS[kind][0], 1) if is_container else self.expression(kind, 2)
        self.scope.kinds = kinds
        return text

    # ------------------------------------------------------------------------ statements

    def learn(self, new: list[tuple[str, str]], text: str) -> None:
        """Names have been assigned to."""
        scope, fresh = self.scope, makes_new(text)
        for name, kind in new:
            scope.kinds[name] = kind
            scope.targets.add(name)
            scope.assigned.add(name)
            (scope.fresh.add if fresh and kind in TENSORS else scope.fresh.discard)(name)

    def simple(self) -> list[str]:
        """A statement of one line, or of a few."""
        groups = {
            "assign": 40, "make": 4 if self.place.varying and not self.bold else 14,
            "items": 12 if self.place.growing else 0, "write": 14, "state": 10, "effect": 7,
            "alias": 1 if self.place.varying and not self.bold else 4,
        }  # fmt: skip
        while True:
            group = self.random.choices([*groups], [*groups.values()])[0]
            if self.hostile and self.chance(self.hostile):
                group = "hostile"
            lines = self.line(self.pick(STATEMENTS[group]))
            if lines:
                return lines

    def line(self, production: str) -> list[str]:
        """A statement by its production; empty if there is no name that it needs."""
        new: list[tuple[str, str]] = []
        text = self.fill(production, 2, new)
        if text is None:
            return []
        self.learn(new, text)
        return text.split("; ")

    def block(self, depth: int, least: int = 1, most: int = 3) -> tuple[list[str], bool]:
        """Statements, and whether they surely leave the block."""
        lines: list[str] = []
        for _ in range(self.random.randint(least, most)):
            more, leaves = self.statement(depth)
            lines += more
            if leaves:
                return lines, True
        return lines, False

    def indented(self, depth: int, **where) -> tuple[list[str], bool]:
        """A block inside another statement."""
        around, self.place = self.place, replace(self.place, **where)
        lines, leaves = self.block(depth)
        if not leaves and self.chance(0.15):
            lines, leaves = [*lines, *self.exit()], True
        self.place = around
        return indent(lines), leaves

    def statement(self, depth: int) -> tuple[list[str], bool]:
        """Any statement, and whether it surely leaves the block."""
        kind = self.random.random()
        if depth and kind < 0.16:
            return self.branch(depth)
        if depth and kind < 0.18:
            return self.match(depth)
        if depth and kind < 0.19:
            return self.attempt(depth) if self.chance(0.4) else self.context(depth)
        if depth and kind < 0.29:
            return self.for_loop(depth)
        if depth and kind < 0.39:
            return self.while_loop(depth)
        if depth and kind < 0.44 and self.place.nested < 2 and not self.place.loops:
            return self.function(depth - 1), False
        if kind < 0.50 and (self.place.loops or self.place.returns):
            return [f"if {self.expression('cond', 2)}:", *indent(self.exit())], False
        return self.simple(), False

    def exit(self) -> list[str]:
        """A statement that leaves the block."""
        if self.chance(0.06):
            return [f"raise ValueError('bad', {self.expression('int', 1)})"]
        loop = ["break", "continue"] * 2 if self.place.loops else []
        return [self.pick([*loop, self.place.returned(self)])]

    # ------------------------------------------------------------------ branches and loops

    def test(self) -> tuple[str, bool]:
        """A condition, and whether Tensors may decide it."""
        if self.chance(0.15):
            return self.expression("fixed", 2), False
        if self.chance(0.1):
            new: list[tuple[str, str]] = []
            text = self.fill("(<num=> := <num>) > <bound>", 1, new)
            self.learn(new, "")
            return text, True
        return self.expression("cond", 2), True

    def branch(self, depth: int) -> tuple[list[str], bool]:
        """``if``, perhaps with ``elif`` and ``else``."""
        test, varies = self.test()
        before, varying = self.scope, varies or self.place.varying
        lines: list[str] = []
        falling: list[Scope] = []

        def arm(head: str) -> None:
            self.scope = before.copy()
            self.scope.assigned = set()
            body, leaves = self.indented(depth - 1, varying=varying)
            lines.extend([head, *body])
            if not leaves:
                falling.append(self.scope)

        arm(f"if {test}:")
        while self.chance(0.2):
            self.scope = before
            arm(f"elif {self.expression('cond', 2)}:")
        if self.chance(0.55):
            arm("else:")
        else:
            falling.append(replace(before.copy(), assigned=set()))
        self.scope = joined(falling) if falling else before
        self.scope.assigned |= before.assigned
        return lines, not falling

    def match(self, depth: int) -> tuple[list[str], bool]:
        """``match``, whose last case takes what is left."""
        kind, cases = self.pick(MATCHES)
        before, varying = self.scope, True
        lines: list[str] = [f"match {self.expression(kind, 2)}:"]
        falling: list[Scope] = []
        for k, case in enumerate(cases):
            if k < len(cases) - 1 and self.chance(0.3):
                continue
            self.scope = before.copy()
            self.scope.assigned = set()
            names = {n: self.number(n) for n in BOUND if re.search(rf"\b(?<!'){n}\b(?!=)", case)}
            for name, made in names.items():
                case = re.sub(rf"\b(?<!'){name}\b(?!=)", made, case)
                self.scope.kinds[made] = BOUND[name]
            guard = (
                f" if {self.expression('cond', 1)}"
                if k < len(cases) - 1 and self.chance(0.2)
                else ""
            )
            body, leaves = self.indented(depth - 1, varying=varying)
            lines += indent([f"case {case}{guard}:", *body])
            if not leaves:
                falling.append(self.scope)
        self.scope = joined(falling) if falling else before
        self.scope.assigned |= before.assigned
        return lines, not falling

    def aside(self, depth: int, scope: Scope | None = None, **where) -> list[str]:
        """A block that runs or not, or in part: afterwards names have the kinds they had before."""
        before, self.scope = self.scope, scope or self.scope.copy()
        self.scope.assigned = set()
        lines, _ = self.indented(depth, **where)
        written = self.scope.assigned & before.kinds.keys()
        self.scope = before
        before.fresh -= written
        before.assigned |= written
        return lines

    def attempt(self, depth: int) -> tuple[list[str], bool]:
        """``try``, of what constants let fail, or not."""
        error, kind = self.pick(ERRORS)
        lines = ["try:", *self.aside(depth - 1)]
        if self.chance(0.6):
            fails = self.fill(error, 1) or "raise ValueError('thrown')"
            lines += indent([f"if {self.expression('fixed', 1)}:", f"    {fails}"])
        heads = [f"except {kind}:", f"except (ValueError, {kind}) as error:"]
        lines += [self.pick(heads), *self.aside(depth - 1)]
        lines += ["else:", *self.aside(0)] if self.chance(0.3) else []
        lines += ["finally:", *self.aside(0, loops=0)] if self.chance(0.3) else []
        return lines, False

    def context(self, depth: int) -> tuple[list[str], bool]:
        """``with``, of an object that counts."""
        box, name = self.expression("box", 0), self.number("v")
        scope = self.scope.copy()
        scope.kinds[name] = "vec"
        return [f"with Counting({box}) as {name}:", *self.aside(depth - 1, scope)], False

    def loop(self, head: str, first: list[str], known: dict[str, str], depth: int, varying: bool):
        """The lines of a loop; `known` are the names that its head binds."""
        scope = self.scope.copy()
        scope.targets &= {n for n in sorted(scope.targets) if self.chance(0.5)}
        scope.fresh -= scope.targets
        scope.kinds |= known
        where = {"loops": self.place.loops + 1, "growing": False}
        varying = varying or self.place.varying
        body = self.aside(depth - 1, scope, varying=varying, **where)
        lines = [head, *indent(first), *body]
        return lines + (
            ["else:", *self.aside(depth - 1, varying=varying)] if self.chance(0.25) else []
        )

    def for_loop(self, depth: int) -> tuple[list[str], bool]:
        names, kinds, iterable = self.pick(LOOPS)
        length = "18" if not self.place.loops and not self.place.nested else "3"
        text = self.fill(iterable.replace("LONG", length), 1)
        if text is None:
            return self.simple(), False
        targets = [self.number(n) for n in names.split()]
        known = dict(zip(targets, kinds.split(), strict=True))
        head = f"for {', '.join(targets)} in {text}:"
        return self.loop(head, [], known, depth, "whole" in iterable or "int" in iterable), False

    def while_loop(self, depth: int) -> tuple[list[str], bool]:
        """A loop that ends when its counter is large enough, if not before."""
        longest = ["20"] if self.place == Place(self.place.returns) else []
        counter, most = self.number("i"), self.pick(["2", "3", "5", *longest])
        form = self.random.random()
        test, first = (
            f"{atom(self.expression('cond', 1))} and {counter} < {most}",
            [f"{counter} += 1"],
        )
        if form < 0.2:
            test, first = "True", [*first, f"if {counter} > {most}:", "    break"]
        elif form < 0.35:
            test = f"{counter} < {most}"
        elif form < 0.5:
            new: list[tuple[str, str]] = []
            walrus = self.fill("(<num=> := <num> * 0.5) > <bound>", 1, new)
            self.learn(new, "")
            test = f"{walrus} and {counter} < {most}"
        lines = self.loop(f"while {test}:", first, {counter: "int"}, depth, form >= 0.35)
        self.scope.kinds[counter] = "int"
        return [f"{counter} = 0", *lines], False

    # ------------------------------------------------------------------------- functions

    def function(self, depth: int, prefix: str = "", captures: bool = True) -> list[str]:
        """A function; it is known from here on."""
        if self.chance(0.25):
            return self.recursive(depth, prefix, captures)
        kinds = tuple(self.pick(PARAMETERS) for _ in range(self.random.randint(1, 3)))
        if self.chance(0.4):
            kinds = ("vec",)
        returns = self.pick(["vec", "vec", "num", "int", "pair", "maybe", "list", "box", "grid"])
        name = self.number("h")
        parameters = [self.number(k[0]) for k in kinds]
        lines = self.body(dict(zip(parameters, kinds, strict=True)), returns, depth, captures)
        first = ["self"] * (prefix == "self.")
        self.announce(prefix + name, kinds, returns)
        if kinds[-1] in ("vec", "num", "float", "maybe") and self.chance(0.3):
            parameters[-1] += f"={self.literal(kinds[-1])}"
            self.defaults.add(prefix + name)
        return [f"def {name}({', '.join([*first, *parameters])}):", *indent(lines)]

    def recursive(self, depth: int, prefix: str, captures: bool) -> list[str]:
        """A function that calls itself, until a constant or a Tensor ends it."""
        kind = "steps" if self.chance(0.5) else "depth"
        name, count, value = self.number("r"), self.number("k"), self.number("v")
        known = {count: "whole" if kind == "steps" else "known", value: "vec"}
        *lines, last = self.body(known, "vec", depth, captures, kept=count)
        again = f"{prefix}{name}({count} - 1, {value} * 0.5)"
        lines += [f"if {count} > 0:", f"    {value} = {last.removeprefix('return ')}",
                  f"    return {again} + {value} * 0.5", f"return {value}"]  # fmt: skip
        self.announce(prefix + name, (kind, "vec"), "vec")
        first = ["self"] * (prefix == "self.")
        return [f"def {name}({', '.join([*first, count, value])}):", *indent(lines)]

    def announce(self, name: str, kinds: tuple[str, ...], returns: str) -> None:
        """A function may be called from here on."""
        self.signatures[name] = kinds, returns
        self.scope.kinds[name] = "fn" if kinds == ("vec",) and returns == "vec" else "def"

    def body(
        self, known: dict[str, str], returns: str, depth: int, captures: bool, kept: str = ""
    ) -> list[str]:
        """The lines of a function; it may write a few names of the function around it.

        The argument `kept` is not assigned to.
        """
        around, place = self.scope, self.place
        lines: list[str] = []
        safe = [n for n, k in around.kinds.items() if k != "fn" or n not in around.targets]
        self.scope = Scope({n: around.kinds[n] for n in safe})  # others might become this one
        if captures:
            own = [n for n in sorted(around.targets) if around.kinds[n] in (*TENSORS, "int")]
            outer = [n for n in own if self.chance(0.2)]
            if outer:
                lines.append(f"nonlocal {', '.join(outer)}")
                self.scope.targets = set(outer)
                around.fresh -= set(outer)
        self.scope.kinds |= known
        self.scope.targets |= known.keys() - {kept}
        self.place = Place((returns,), 0, place.nested + 1, True)
        lines += self.block(depth)[0]
        lines.append(f"return {self.result(returns)}")
        self.scope, self.place = around, place
        return lines


class Program:
    """One program; see above."""

    def __init__(self, rng: random.Random):
        self.random = rng
        hostile, bold = rng.choices([(0.0, False), (0.0, True), (0.15, False)], [75, 15, 10])[0]
        self.gradient = rng.choices(["none", "first", "second"], [70, 20, 10])[0]
        self.method = rng.random() < 0.4  # f is the construct of a Cell, its helpers are methods
        self.writer = Writer(rng, hostile, bold)
        self.returns = ("vec", *rng.choices(RETURNED, k=rng.randint(1, 3)))

    def text(self) -> str:
        """The module."""
        owner = "self" if self.method else "net"
        inner = self.inner()
        helpers, main = self.helpers(), self.main()
        helpers, main = ("\n".join(v).replace("SELF", owner) for v in (helpers, main))
        own, free = (helpers + "\n" + main, "") if self.method else ("", helpers + "\n" + main)
        text = MODULE.format(
            inner=block(inner.replace("SELF", "self"), 1), methods=block(own, 1),
            functions=block(free, 1), f="net" if self.method else "f", gradient=self.gradient,
            shared=self.random.choice([-1, -1, -1, 1]),
            inputs=self.inputs(),
        )  # fmt: skip
        return ast.unparse(ast.parse(text)) + "\n"

    def inner(self) -> str:
        """The Cell in the Cell."""
        writer = self.writer
        writer.scope = Scope({"SELF.w": "vec"})
        lines = writer.body({"x": "vec"}, "vec", 1, False)
        return "\n".join(["def construct(self, x):", *indent(lines)])

    def helpers(self) -> list[str]:
        """Functions that the main function calls."""
        self.writer.scope = Scope(dict(STATE))
        prefix = "self." if self.method else ""
        count = self.random.randint(1, 2)
        return [x for _ in range(count) for x in self.writer.function(1, prefix, False)]

    def main(self) -> list[str]:
        """The main function."""
        writer = self.writer
        known = dict(x="vec", y="num", z="dbl", n="whole", c="truth", k="known")
        writer.scope.kinds |= known
        writer.scope.targets = {*"xyznc"}
        writer.scope.fresh = {*"xyznc", *STATE} - {"SELF.depth"}
        writer.place = Place(self.returns)
        start = self.random.sample([*NAMES], 4)
        first = [
            line
            for kind in ["vec", "list", *start]
            for line in writer.line(f"<{kind}=> = <{kind}>")
        ]
        lines, leaves = writer.block(3, 3, 7)
        lines += [] if leaves else [writer.place.returned(writer)]
        name, own = ("construct", ["self"]) if self.method else ("f", [])
        return [f"def {name}({', '.join([*own, *known])}):", *indent(first + lines)]

    def inputs(self) -> str:
        """Three sets of arguments."""
        rng = self.random
        sets = [
            ([rng.choice(VALUES) for _ in range(3)], rng.choice(VALUES),
             [rng.choice(VALUES) for _ in range(3)], rng.randint(-1, 5), rng.random() < 0.5)
            for _ in range(3)
        ]  # fmt: skip
        return repr(sets)


VALUES = [-0.3, -0.1, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.6]

MODULE = """
import minispore as ms
from minispore import Parameter, Tensor, nn, ops

INPUTS = {inputs}
SCALE = 0.5
SHARED = Tensor([0.4, 0.1, -0.2], ms.float32)
POOL = [Tensor([0.3, 0.5, 0.1], ms.float32), Tensor([-0.1, 0.2, 0.7], ms.float32)]

class Box:
    def __init__(self, v, n):
        self.v, self.n = v, n
    def step(self, a):
        self.v = self.v * 0.5 + a
        self.n += 1
        return self.v
    def __add__(self, other):
        return Box(self.v + other.v, self.n)

class Counting:
    def __init__(self, box):
        self.box = box
    def __enter__(self):
        self.box.n += 1
        return self.box.v
    def __exit__(self, kind, error, trace):
        self.box.n -= 2
        return kind is KeyError

class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([0.3, -0.2, 0.5], ms.float32), name="w")
{inner}

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.p = Parameter(Tensor([0.1, 0.2, 0.3], ms.float32), name="p")
        self.q = Parameter(Tensor(0.4, ms.float32), name="q")
        self.w = Parameter(Tensor([[0.2, 0.1, -0.3], [0.6, -0.4, 0.2]], ms.float32), name="w")
        self.h = Tensor([0.0, 0.5, 1.0], ms.float32)
        self.g = Tensor([0.2, -0.4, 0.3], ms.float32)
        self.e = Tensor(0.3, ms.float32)
        self.depth = 2
        self.inner = Inner()
        self.blocks = nn.CellList([nn.Tanh(), nn.ReLU()])
{methods}

def total(value):
    if isinstance(value, Tensor):
        floating = value.dtype == ms.float32 or value.dtype == ms.float64
        return value.astype(ms.float64).sum() if floating else 0.0
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return sum([total(v) * (i + 1) for i, v in enumerate(value)], 0.0)
    return 0.0

def arguments(i):
    x, y, z, n, c = INPUTS[i]
    x = SHARED if i == {shared} else Tensor(x, ms.float32)
    y, z, n = Tensor(y, ms.float32), Tensor(z, ms.float64), Tensor(n, ms.int32)
    return x, y, z, n, Tensor(c), 2

def make():
    net = Net()
    state = [net.p, net.q, net.w, net.inner.w, SHARED, *POOL]
    weights = [net.p, net.q, net.inner.w]
{functions}
    def loss(x, y, z, n, c, k):
        return total({f}(x * 1, y * 1, z * 1, n * 1, c, k))
    def slopes(x, y, z, n, c, k):
        return total(ms.grad(loss, (0, 1, 2), weights)(x, y, z, n, c, k))
    first = ms.value_and_grad(loss, (0, 1, 2), weights)
    second = ms.value_and_grad(slopes, (0, 1, 2), weights)
    return dict(none={f}, first=first, second=second)["{gradient}"], net, state
"""


def block(text: str, depth: int) -> str:
    """Text, indented."""
    return "\n".join("    " * depth + line for line in text.split("\n"))


def indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def atom(text: str) -> str:
    """An expression as an operand: in parentheses where it needs them."""
    node = ast.parse(text, mode="eval").body
    return text if isinstance(node, ATOMS) else f"({text})"


def makes_new(text: str) -> bool:
    """True for an assignment of a Tensor that nothing else is."""
    statement = ast.parse(text).body[0] if text else None
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr in ("copy", "tanh", "sin", "stack", "sum", "mean", "where")
    return isinstance(value, (ast.BinOp, ast.Compare))

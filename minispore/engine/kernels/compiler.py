"""From a kernel's Python text to machine code: a compiler for a small language.

A kernel is a Python function of numbers and pointers: assignments, `for` over `range`, `while`,
`if`, arithmetic, comparisons, ``p[i]``, casts such as ``f4(x)``, calls of the words (words.py) and
of other such functions (vector.py), which are inlined.  This module walks over its syntax tree and
writes LLVM instructions; LLVM makes vector code of the loops.

The meaning is that of NumPy's scalars: a plain number takes the kind of what it meets (``x * 2`` is
f4 if x is), i4 with f4 is f8, and integers wrap around.  Integers divided by 0 are 0.  A variable
keeps the kind of its first value.  Both sides of a choice, and of ``and`` and ``or``, are computed,
unless they read memory.

Numba accepts the same text, but it takes 0.5 s to start and 0.05 to 0.1 s for a kernel, where this
takes 0.02 s.  What is not in the language (`Unsupported`) still goes there (by_numba.py).
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from minispore.engine import cpu
from minispore.engine.kernels import words
from minispore.engine.kernels.words import NUMBERS, SIGNATURES, TYPES, Intrinsic


class Unsupported(Exception):
    """The text is not in the language of kernels."""


@dataclass(frozen=True)
class Value:
    """A value: its kind, and where LLVM has it; a plain number has kind int or float."""

    kind: str
    at: Any


@dataclass
class Scope:
    """The variables of one function: their values, or (if loops change them) their places."""

    globals: dict[str, Any]
    changing: frozenset[str]
    flags: tuple[str, ...]
    values: dict[str, Value] = field(default_factory=dict)
    result: Any = None


def machine_code(
    function: Callable, tree: ast.FunctionDef, name: str, flags: Sequence[str]
) -> bytes:
    """Compile a kernel: object code with one function called `name`.

    Args:
        function: what the text defines (its globals tell what names mean).
        tree: its syntax tree.
        name: of the function in the object code.
        flags: what LLVM may do with floats ("contract": an exact product is added).

    Raises:
        Unsupported: the text is not in the language of kernels.
    """
    module = llvm.parse_assembly(str(llvm_module(function, tree, name, flags)))
    machine = cpu.machine()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def llvm_module(function: Callable, tree: ast.FunctionDef, name: str, flags: Sequence[str]) -> Any:
    """A kernel as LLVM instructions, not optimized yet."""
    result, kinds = SIGNATURES[tree.name]
    module = ir.Module(name)
    module.triple = llvm.get_default_triple()
    kind = ir.FunctionType(TYPES[result], [TYPES[k] for k in kinds])
    made = ir.Function(module, kind, name)
    made.attributes.add("nounwind")
    Compiler(made, result).function(function, tree, kinds, flags)
    return module


# ------------------------------------------------------------------------------- the compiler

_ARITHMETIC: dict[type, tuple[str, str, Callable]] = {  # of floats, of integers, of plain numbers
    ast.Add: ("fadd", "add", operator.add),
    ast.Sub: ("fsub", "sub", operator.sub),
    ast.Mult: ("fmul", "mul", operator.mul),
    ast.Div: ("fdiv", "", operator.truediv),
    ast.FloorDiv: ("", "floordiv", operator.floordiv),
    ast.Mod: ("", "floormod", operator.mod),
    ast.BitAnd: ("", "and_", operator.and_),
    ast.BitOr: ("", "or_", operator.or_),
    ast.BitXor: ("", "xor", operator.xor),
    ast.LShift: ("", "shl", operator.lshift),
    ast.RShift: ("", "ashr", operator.rshift),
    ast.Pow: ("", "", operator.pow),
}
_COMPARISONS: dict[type, str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_CASTS = {number: kind for kind, number in NUMBERS.items()} | {bool: "b1", float: "f8", int: "i8"}
_NUMPY: dict[Any, Any] = {
    np.sqrt: words.sqrt, np.floor: words.floor, np.ceil: words.ceil, np.trunc: words.trunc,
    np.rint: words.rint, np.copysign: words.copysign, np.maximum: words.maximum,
    np.minimum: words.minimum, np.abs: abs,
}  # fmt: skip
_FLOATS = ("f4", "f8")
_ORDER = ("b1", "u1", "i2", "i4", "i8", "f4", "f8")


class Compiler:
    """Writes one kernel's instructions; `scope` holds the variables of the function at hand."""

    def __init__(self, function: Any, result: str) -> None:
        self.entry = function.append_basic_block("entry")
        self.function_ = function
        self.builder = ir.IRBuilder(self.entry)
        self.result = result
        self.scope = Scope({}, frozenset(), ())
        self.loops: list[tuple[Any, Any]] = []  # where `continue` and `break` go

    def function(self, function: Any, tree: ast.FunctionDef, kinds: Sequence[str],
                 flags: Sequence[str]) -> None:  # fmt: skip
        """The whole kernel."""
        args = [Value(k, a) for k, a in zip(kinds, self.function_.args, strict=True)]
        with self.inside(function, tree, args, flags):
            self.body(tree.body)
        if not self.builder.block.is_terminated:
            end = self.builder.ret_void if self.result == "void" else self.builder.unreachable
            end()

    @contextmanager
    def inside(self, function: Any, tree: ast.FunctionDef, args: Sequence[Value],
               flags: Sequence[str]) -> Iterator[None]:  # fmt: skip
        """The scope of a function whose parameters have these values."""
        names = [a.arg for a in tree.args.args]
        if len(names) != len(args):
            raise Unsupported(f"{tree.name} takes {len(names)} arguments, not {len(args)}")
        outer = self.scope
        self.scope = Scope(function.__globals__, _changing(tree), tuple(flags))
        for name, arg in zip(names, args, strict=True):
            self.assign(name, self.strong(arg))
        yield
        self.scope = outer

    # ----------------------------------------------------------------- statements

    def body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            made = getattr(self, f"do_{type(statement).__name__}", None)
            if made is None:
                raise Unsupported(f"line {statement.lineno}: {type(statement).__name__}")
            made(statement)
            if self.builder.block.is_terminated:
                return

    def do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # else a docstring
            self.value(node.value)

    def do_Pass(self, node: ast.Pass) -> None:
        pass

    def do_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.store(target, value)

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        left = ast.copy_location(
            ast.Subscript(node.target.value, node.target.slice, ast.Load())
            if isinstance(node.target, ast.Subscript)
            else ast.Name(getattr(node.target, "id", ""), ast.Load()),
            node,
        )
        self.store(node.target, self.arithmetic(node.op, self.value(left), self.value(node.value)))

    def store(self, target: ast.expr, value: Any) -> None:
        """Assign to a name, to ``p[i]``, or to several of them."""
        if isinstance(target, ast.Name):
            self.assign(target.id, self.strong(value))
        elif isinstance(target, ast.Subscript):
            place, kind = self.place(target)
            self.builder.store(self.cast(value, kind).at, place)
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple):
            for one, part in zip(target.elts, value, strict=True):
                self.store(one, part)
        else:
            raise Unsupported(f"line {target.lineno}: assignment to {type(target).__name__}")

    def assign(self, name: str, value: Value) -> None:
        scope = self.scope
        if name not in scope.changing:
            scope.values[name] = value
            return
        if name not in scope.values:
            scope.values[name] = Value(value.kind, self.new_place(value.kind))
        place = scope.values[name]
        if place.kind != value.kind:
            raise Unsupported(f"'{name}' is a {place.kind} and then a {value.kind}")
        self.builder.store(value.at, place.at)

    def new_place(self, kind: str) -> Any:
        """Memory for a variable; LLVM makes registers of it."""
        with self.builder.goto_block(self.entry):
            self.builder.position_at_start(self.entry)
            return self.builder.alloca(TYPES[kind])

    def do_Return(self, node: ast.Return) -> None:
        value = None if node.value is None else self.value(node.value)
        if value is None:
            self.builder.ret_void()
        else:
            self.builder.ret(self.cast(value, self.result).at)

    def do_If(self, node: ast.If) -> None:
        test = self.condition(self.value(node.test))
        if isinstance(test.at, bool):
            self.body(node.body if test.at else node.orelse)
            return
        yes, no, after = (self.function_.append_basic_block(n) for n in ("yes", "no", "after"))
        self.builder.cbranch(test.at, yes, no)
        for block, body in ((yes, node.body), (no, node.orelse)):
            self.builder.position_at_end(block)
            self.body(body)
            if not self.builder.block.is_terminated:
                self.builder.branch(after)
        self.builder.position_at_end(after)

    def do_While(self, node: ast.While) -> None:
        self.loop(node, lambda: self.condition(self.value(node.test)).at, None, lambda: None)

    def do_For(self, node: ast.For) -> None:
        call = node.iter
        if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "range"
                and isinstance(node.target, ast.Name)):  # fmt: skip
            raise Unsupported(f"line {node.lineno}: for without range")
        ends = [self.cast(self.value(a), "i8").at for a in call.args]
        zero, one = (ir.Constant(TYPES["i8"], n) for n in (0, 1))
        first, last = (zero, ends[0]) if len(ends) == 1 else ends[:2]
        step = ends[2] if len(ends) == 3 else one
        count = self.new_place("i8")
        self.builder.store(first, count)

        def test() -> Any:
            at = self.builder.load(count)
            up = self.builder.icmp_signed("<", at, last)
            if isinstance(step, ir.Constant):
                return up if step.constant > 0 else self.builder.icmp_signed(">", at, last)
            down = self.builder.icmp_signed(">", at, last)
            return self.builder.select(self.builder.icmp_signed(">", step, zero), up, down)

        def begin() -> None:
            self.assign(node.target.id, Value("i8", self.builder.load(count)))  # type: ignore[attr-defined]

        def advance() -> None:
            self.builder.store(
                self.builder.add(self.builder.load(count), step, flags=("nsw",)), count
            )

        self.loop(node, test, begin, advance)

    def loop(self, node: Any, test: Callable, begin: Callable | None, advance: Callable) -> None:
        """A loop whose `test` is run before each round and `advance` after it."""
        if node.orelse:
            raise Unsupported(f"line {node.lineno}: else of a loop")
        head, body, step, after = (
            self.function_.append_basic_block(n) for n in ("head", "body", "step", "after")
        )
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.builder.cbranch(test(), body, after)
        self.builder.position_at_end(body)
        if begin is not None:
            begin()
        self.loops.append((step, after))
        self.body(node.body)
        self.loops.pop()
        if not self.builder.block.is_terminated:
            self.builder.branch(step)
        self.builder.position_at_end(step)
        advance()
        self.builder.branch(head)
        self.builder.position_at_end(after)

    def do_Continue(self, node: ast.Continue) -> None:
        self.builder.branch(self.loops[-1][0])

    def do_Break(self, node: ast.Break) -> None:
        self.builder.branch(self.loops[-1][1])

    # ----------------------------------------------------------------- expressions

    def value(self, node: ast.expr) -> Any:
        """The value of an expression: a Value, a tuple of them, or a global object."""
        made = getattr(self, f"of_{type(node).__name__}", None)
        if made is None:
            raise Unsupported(f"line {node.lineno}: {type(node).__name__}")
        return made(node)

    def of_Constant(self, node: ast.Constant) -> Value:
        return self.known(node.value)

    def known(self, value: Any) -> Any:
        """A number of Python or NumPy; anything else is given back."""
        kind = _CASTS.get(type(value))
        if isinstance(value, (bool, np.bool_)):
            return Value("b1", bool(value))
        if isinstance(value, (int, float)) and not isinstance(value, np.generic):
            return Value(type(value).__name__, value)
        return value if kind is None else Value(kind, ir.Constant(TYPES[kind], value.item()))

    def of_Name(self, node: ast.Name) -> Any:
        scope = self.scope
        if node.id in scope.values:
            value = scope.values[node.id]
            if node.id in scope.changing:
                return Value(value.kind, self.builder.load(value.at))
            return value
        if node.id in scope.globals:
            return self.known(scope.globals[node.id])
        builtins = scope.globals["__builtins__"]
        found = builtins if isinstance(builtins, dict) else vars(builtins)
        if node.id not in found:
            raise Unsupported(f"line {node.lineno}: there is no '{node.id}'")
        return found[node.id]

    def of_Attribute(self, node: ast.Attribute) -> Any:
        return self.known(getattr(self.value(node.value), node.attr))

    def of_Tuple(self, node: ast.Tuple) -> tuple:
        return tuple(self.value(e) for e in node.elts)

    def of_Subscript(self, node: ast.Subscript) -> Any:
        place, kind = self.place(node)
        return Value(kind, self.builder.load(place))

    def place(self, node: ast.Subscript) -> tuple[Any, str]:
        """Where ``p[i]`` is, and of what kind."""
        pointer = self.value(node.value)
        if not (isinstance(pointer, Value) and pointer.kind.startswith("p_")):
            raise Unsupported(f"line {node.lineno}: [] of what is no pointer")
        index = self.cast(self.value(node.slice), "i8")
        return self.builder.gep(pointer.at, [index.at], inbounds=True), pointer.kind[2:]

    def of_BinOp(self, node: ast.BinOp) -> Value:
        return self.arithmetic(node.op, self.value(node.left), self.value(node.right))

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        x = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            test = self.condition(x)
            at = not test.at if isinstance(test.at, bool) else self.builder.not_(test.at)
            return Value("b1", at)
        if isinstance(node.op, ast.Invert):
            return self.arithmetic(ast.BitXor(), x, Value("int", -1))
        if isinstance(node.op, ast.UAdd):
            return x
        if x.kind in ("int", "float"):
            return Value(x.kind, -x.at)
        if x.kind in _FLOATS:
            return Value(x.kind, self.builder.fneg(x.at))
        return self.arithmetic(ast.Sub(), Value("int", 0), x)

    def of_Compare(self, node: ast.Compare) -> Value:
        operands = [self.value(o) for o in (node.left, *node.comparators)]
        tests = [
            self.compare(op, x, y)
            for op, (x, y) in zip(node.ops, itertools.pairwise(operands), strict=True)
        ]
        return functools.reduce(lambda a, b: self.both(ast.And(), a, b), tests)

    def compare(self, op: ast.cmpop, x: Value, y: Value) -> Value:
        symbol = _COMPARISONS.get(type(op))
        if symbol is None:
            raise Unsupported(f"comparison {type(op).__name__}")
        x, y, kind = self.alike(x, y)
        if kind in _FLOATS:
            test = self.builder.fcmp_unordered if symbol == "!=" else self.builder.fcmp_ordered
        elif kind in ("u1", "b1"):
            test = self.builder.icmp_unsigned
        else:
            test = self.builder.icmp_signed
        return Value("b1", test(symbol, x.at, y.at))

    def of_BoolOp(self, node: ast.BoolOp) -> Value:
        value = self.condition(self.value(node.values[0]))
        for more in node.values[1:]:
            if _acts(more, self.scope.globals):
                stop = ast.Constant(isinstance(node.op, ast.Or))
                rest: tuple[Any, Any] = (stop, more) if stop.value else (more, stop)
                value = self.choice(value, *rest)
            else:
                value = self.both(node.op, value, self.condition(self.value(more)))
        return value

    def both(self, op: ast.boolop, x: Value, y: Value) -> Value:
        x, y = self.cast(x, "b1"), self.cast(y, "b1")
        made = self.builder.and_ if isinstance(op, ast.And) else self.builder.or_
        return Value("b1", made(x.at, y.at))

    def of_IfExp(self, node: ast.IfExp) -> Value:
        test = self.condition(self.value(node.test))
        if isinstance(test.at, bool):
            return self.value(node.body if test.at else node.orelse)
        return self.choice(test, node.body, node.orelse)

    def choice(self, test: Value, yes: ast.expr, no: ast.expr) -> Value:
        """`yes` if `test` holds, else `no`; both are computed, unless they touch memory."""
        if not any(_acts(n, self.scope.globals) for n in (yes, no)):
            x, y, kind = self.alike(self.value(yes), self.value(no))
            return Value(kind, self.builder.select(self.cast(test, "b1").at, x.at, y.at))
        blocks = [self.function_.append_basic_block(n) for n in ("yes", "no", "after")]
        self.builder.cbranch(self.cast(test, "b1").at, *blocks[:2])
        values, ends = [], []
        for block, node in zip(blocks, (yes, no), strict=False):
            self.builder.position_at_end(block)
            values.append(self.value(node))
            ends.append(self.builder.block)
        kind = _common(*(v.kind for v in values))
        for i, end in enumerate(ends):
            self.builder.position_at_end(end)
            values[i] = self.cast(values[i], kind)
            self.builder.branch(blocks[2])
        self.builder.position_at_end(blocks[2])
        phi = self.builder.phi(TYPES[kind])
        for value, end in zip(values, ends, strict=True):
            phi.add_incoming(value.at, end)
        return Value(kind, phi)

    # ----------------------------------------------------------------- calls

    def of_Call(self, node: ast.Call) -> Any:
        if node.keywords:
            raise Unsupported(f"line {node.lineno}: keywords")
        called = self.value(node.func)
        called = _NUMPY.get(called, called) if callable(called) else called
        args = [self.value(a) for a in node.args]
        if isinstance(called, Intrinsic):
            return self.intrinsic(called, args)
        if called in _CASTS and len(args) == 1:
            return self.cast(args[0], _CASTS[called])
        if called in (min, max) and len(args) == 2:
            x, y, kind = self.alike(*args)
            test = self.compare(ast.Lt() if called is min else ast.Gt(), y, x)
            return Value(kind, self.builder.select(test.at, y.at, x.at))
        if called is abs and len(args) == 1:
            return self.absolute(self.strong(args[0]))
        if inspect.isfunction(called):
            return self.inline(called, args)
        raise Unsupported(f"line {node.lineno}: a call of {called}")

    def intrinsic(self, called: Intrinsic, args: Sequence[Value]) -> Value:
        kinds, result = called.kinds, called.result
        if not result:
            result = _common(*(a.kind for a in args))
            result = result if result in _FLOATS else "f8"
            kinds = (result,) * called.arity
        if len(kinds) != len(args):
            raise Unsupported(f"a word takes {len(kinds)} arguments, not {len(args)}")
        values = [self.cast(a, k).at for a, k in zip(args, kinds, strict=True)]
        return Value(result, called.generate(self.builder, *values))

    def absolute(self, x: Value) -> Value:
        if x.kind in _FLOATS:
            return self.intrinsic(words.fabs, [x])
        minus = self.arithmetic(ast.Sub(), Value("int", 0), x)
        test = self.compare(ast.Lt(), x, Value("int", 0))
        return Value(x.kind, self.builder.select(test.at, minus.at, x.at))

    def inline(self, called: Any, args: Sequence[Value]) -> Any:
        """The value of a function of ours: its statements, then what it returns."""
        tree = _tree(called)
        *body, last = tree.body
        if not isinstance(last, ast.Return) or last.value is None:
            raise Unsupported(f"{called.__name__} does not end with a return")
        if any(isinstance(n, ast.Return) for s in body for n in ast.walk(s)):
            raise Unsupported(f"{called.__name__} returns early")
        with self.inside(called, tree, args, ("contract",)):
            self.body(body)
            return self.value(last.value)

    # ----------------------------------------------------------------- numbers

    def arithmetic(self, op: ast.operator, x: Value, y: Value) -> Value:
        if type(op) not in _ARITHMETIC:
            raise Unsupported(f"operator {type(op).__name__}")
        floats, integers, plain = _ARITHMETIC[type(op)]
        if x.kind in ("int", "float") and y.kind in ("int", "float"):
            return self.known(plain(x.at, y.at))
        x, y, kind = self.alike(x, y)
        if kind == "b1" and integers not in ("and_", "or_", "xor"):
            kind = "u1"
        if kind not in _FLOATS and isinstance(op, ast.Div):
            kind = "f8"
        x, y = self.cast(x, kind), self.cast(y, kind)
        if not (floats if kind in _FLOATS else integers):
            raise Unsupported(f"{type(op).__name__} of {kind}")
        if kind in _FLOATS:
            return Value(kind, getattr(self.builder, floats)(x.at, y.at, flags=self.scope.flags))
        if integers.startswith("floor"):
            return self.floor_division(integers, x, y)
        return Value(kind, getattr(self.builder, integers)(x.at, y.at))

    def floor_division(self, part: str, x: Value, y: Value) -> Value:
        """``x // y`` or ``x % y`` of integers; 0 if y is 0."""
        builder, kind = self.builder, x.kind
        zero, one, minus = (ir.Constant(TYPES[kind], n) for n in (0, 1, -1))
        wrong = builder.icmp_signed("==", y.at, zero)
        opposite = builder.icmp_signed("==", y.at, minus)  # the CPU traps on the least one / -1
        by = builder.select(builder.or_(wrong, opposite), one, y.at)
        quotient, rest = builder.sdiv(x.at, by), builder.srem(x.at, by)
        signs = builder.icmp_signed("<", builder.xor(rest, by), zero)
        off = builder.and_(builder.icmp_signed("!=", rest, zero), signs)
        if part == "floordiv":
            value = builder.select(off, builder.sub(quotient, one), quotient)
            value = builder.select(opposite, builder.sub(zero, x.at), value)
        else:
            value = builder.select(off, builder.add(rest, by), rest)
        return Value(kind, builder.select(wrong, zero, value))

    def alike(self, x: Value, y: Value) -> tuple[Value, Value, str]:
        """Both operands in their common kind."""
        kind = _common(x.kind, y.kind)
        return self.cast(x, kind), self.cast(y, kind), kind

    def strong(self, value: Any) -> Any:
        """A plain number as i8 or f8; a known condition as b1."""
        if isinstance(value, tuple):
            return tuple(map(self.strong, value))
        if not isinstance(value, Value):
            raise Unsupported(f"{value!r:.40} is no number")
        return self.cast(value, {"int": "i8", "float": "f8"}.get(value.kind, value.kind))

    def condition(self, value: Value) -> Value:
        """Whether a value is not 0."""
        if value.kind in ("b1", "int", "float"):
            return value if value.kind == "b1" else Value("b1", bool(value.at))
        return self.compare(ast.NotEq(), value, Value("int", 0))

    def cast(self, value: Any, kind: str) -> Value:
        """A value in another kind."""
        if not isinstance(value, Value):
            raise Unsupported(f"{value!r:.40} is no number")
        if value.kind in ("int", "float") or isinstance(value.at, bool):
            number = NUMBERS.get(kind)
            if number is None:
                raise Unsupported(f"a number is no {kind}")
            return Value(kind, ir.Constant(TYPES[kind], number(value.at).item()))
        if value.kind == kind:
            return value
        if kind == "b1":
            return self.condition(value)
        if value.kind not in _ORDER or kind not in _ORDER:
            raise Unsupported(f"a {value.kind} is no {kind}")
        return Value(kind, self.converted(value, kind))

    def converted(self, value: Value, kind: str) -> Any:
        builder, to = self.builder, TYPES[kind]
        if value.kind in _FLOATS and kind in _FLOATS:
            made = builder.fpext if kind == "f8" else builder.fptrunc
        elif value.kind in _FLOATS:
            made = builder.fptosi
        elif kind in _FLOATS:
            made = builder.uitofp if value.kind in ("u1", "b1") else builder.sitofp
        elif _ORDER.index(kind) < _ORDER.index(value.kind):
            made = builder.trunc
        else:
            made = builder.zext if value.kind in ("u1", "b1") else builder.sext
        return made(value.at, to)


# ------------------------------------------------------------------------------- about the text


def _common(*kinds: str) -> str:
    """The kind in which values of these kinds meet."""
    strong = [k for k in kinds if k not in ("int", "float")]
    if any(k not in _ORDER for k in strong):
        if len(set(kinds)) == 1:
            return kinds[0]
        raise Unsupported(f"{' and '.join(kinds)} do not mix")
    if not strong:
        return "f8" if "float" in kinds else "i8"
    kind = max(strong, key=_ORDER.index)
    if kind == "f4" and any(k in ("i4", "i8") for k in strong):
        return "f8"
    if "float" in kinds and kind not in _FLOATS:
        return "f8"
    return "i8" if kind in ("b1", "u1") and "int" in kinds else kind


def _acts(node: ast.AST, names: dict[str, Any]) -> bool:
    """True if code reads memory or has effects, so that it must not run where it is not taken."""
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript):
            return True
        called = names.get(getattr(part, "id", ""))
        if isinstance(called, Intrinsic) and called.acts:
            return True
        if inspect.isfunction(called) and _acts(_tree(called), called.__globals__):
            return True
    return False


@functools.cache
def _changing(tree: ast.FunctionDef) -> frozenset[str]:
    """The names that loops and branches assign: variables with a place of their own."""
    found = set()
    for statement in tree.body:
        if isinstance(statement, (ast.For, ast.While, ast.If)):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found.add(node.id)
    return frozenset(found)


@functools.cache
def _trees(path: str) -> dict[str, ast.FunctionDef]:
    """The functions of a file, by name."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    return {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}


def _tree(function: Any) -> ast.FunctionDef:
    found = _trees(function.__code__.co_filename).get(function.__name__)
    if found is None:
        raise Unsupported(f"the text of {function.__name__} is not at hand")
    return found

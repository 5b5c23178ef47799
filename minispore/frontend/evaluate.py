"""The front end: an interpreter of Python's AST whose Tensors are graph nodes.

Python values are real Python values, so aliasing, mutation, integers of any size, late capture and
the builtins are right by construction.  What is constant is computed; what tensors decide becomes a
Switch or a While (control.py); a called function becomes a sub-graph (calls.py, functions.py); what
comes from outside becomes an input or a guarded constant (capture.py).  At the end the regions are
lowered to closed graphs (lower.py).

    Evaluator.statement_If, expression_BinOp ...    one handler per AST class, found by name
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from minispore.frontend import (
    attributes,
    calls,
    comprehensions,
    contexts,
    control,
    exits,
    handlers,
    loops,
    objects,
    operators,
    text,
)
from minispore.frontend import gradient as gradients
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import (
    BREAK,
    CONTINUE,
    GO_ON,
    RAISE,
    RETURN,
    Arm,
    Exit,
    Raised,
    Unreachable,
)
from minispore.frontend.fence import location
from minispore.frontend.heap import UNSET, Closure, Env, Lazy, Region
from minispore.frontend.operators import BINARY, COMPARE, INPLACE, UNARY
from minispore.frontend.recorder import Recorder
from minispore.frontend.source import analyse
from minispore.frontend.values import refuse_choice, type_name, working_on
from minispore.ir.node import Location, Node, Origin
from minispore.symbolic import Scalar
from minispore.tensor import Tensor


def _operands(
    node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> dict[ast.expr | str, Any]:
    """What a function is called with: by the text of the arguments, or by their names."""
    found: dict[ast.expr | str, Any] = {}
    if isinstance(node.func, ast.Attribute) and hasattr(function, "__self__"):
        found[node.func.value] = function.__self__
    starred = any(isinstance(a, ast.Starred) for a in node.args)
    named = [f"argument {i}" for i in range(1, len(args) + 1)] if starred else node.args
    found.update(zip(named, args, strict=True))
    found.update(kwargs)
    return found


class Evaluator(Recorder):
    """Evaluates one call of a user's function into a graph: Python's meaning for each AST class."""

    def __init__(self, name: str, max_depth: int = 1000, keeps_loops: bool = True):
        super().__init__(name)
        self.scopes: list[str] = []
        self.cells: list[Any] = []  # the Cells whose construct is being evaluated, outermost first
        self.phase = "forward"
        self.names: dict[int, str] = {}  # id of a node -> what the program calls it
        self.max_depth = max_depth
        self.returned: Location | None = None  # the last return statement
        self.unrolled = 16 if keeps_loops else 4096  # iterations before a loop is tried as a While
        self.tries: list[Region] = []  # where the open try statements stand
        self.handled: list[BaseException] = []  # what the handlers around us handle
        self.keeping = 0  # depth of loops that constants decide and that are tried as a While
        self.refused_recursions: dict[tuple, Exception] = {}  # calls that are evaluated as they are
        self.kept: set[int] = set()  # loops that constants decide and that are no longer unrolled

    @contextmanager
    def keeping_loop(self) -> Iterator[None]:
        """Evaluate a loop that could be unrolled, too."""
        self.keeping += 1
        try:
            yield
        finally:
            self.keeping -= 1

    # ---------------------------------------------------------------------- where we are

    def runner_of(self, function: Any) -> Callable[[list, dict], Any] | None:
        """What runs a function in place of evaluating its source, if anything does."""
        return None

    def at(self, node: ast.AST) -> None:
        """Say that what follows comes from this place in the user's source."""
        where = location(node, self.frame.code)
        self.frame.where = where
        self.origin = Origin(where, "/".join(self.scopes), self.phase)

    def throw(self, kind: Callable, args: Sequence[Any]) -> None:
        """Raise ``kind(*args)`` to an open ``try``, if constants lead from there to here."""
        handlers.throw(self, kind, args)

    # ---------------------------------------------------------------------- statements

    def block(self, statements: list[ast.stmt]) -> Exit:
        """Run statements in order, until one leaves the block."""
        for i, statement in enumerate(statements):
            rest = statements[i + 1 :]
            if isinstance(statement, ast.If):
                exit, done = self.statement_if(statement, rest)
                if done:
                    return exit
            else:
                done = bool(rest) and exits.only_returns(statement)  # a loop runs the rest too
                try:
                    exit = self.statement(statement, partial(self.block, rest) if done else None)
                except Unreachable:
                    return Exit(RAISE)
                if done:
                    return exit
            if exit.may == {GO_ON}:
                continue
            if GO_ON not in exit.may:
                return exit
            return control.go_on_if(self, exit, partial(self.block, rest))
        return Exit(GO_ON)

    def statement(self, node: ast.stmt, rest: Arm | None = None) -> Exit:
        """Run one statement; a loop also runs the rest of the block, if that is given."""
        handler = getattr(self, f"statement_{type(node).__name__}", None)
        self.at(node)
        if handler is None:
            raise UnsupportedError(f"'{type(node).__name__}' cannot be part of a compiled graph")
        if isinstance(node, (ast.For, ast.While)):
            return handler(node, rest)
        return handler(node) or Exit(GO_ON)

    def statement_if(self, node: ast.If, rest: list[ast.stmt]) -> tuple[Exit, bool]:
        """An `if`: the exit, and whether it covers the rest of the block too."""
        condition = self.truth_of(node.test)
        if isinstance(condition, bool):
            return self.block(node.body if condition else node.orelse), False
        falls = [not exits.always_leaves(arm) for arm in (node.body, node.orelse)]
        if exits.has_exit(node) and sum(falls) <= 1:
            # The rest of the block belongs to the only arm that goes on.
            arms = [
                lambda: self.block(node.body + (rest if falls[0] else [])),
                lambda: self.block(node.orelse + (rest if falls[1] else [])),
            ]
            return control.branch(self, condition, arms), True
        arms = [lambda: self.block(node.body), lambda: self.block(node.orelse)]
        return control.branch(self, condition, arms), False

    def statement_Expr(self, node: ast.Expr) -> None:
        self.expression(node.value)

    def statement_Pass(self, node: ast.stmt) -> None:
        pass

    statement_Global = statement_Nonlocal = statement_Pass  # source.py has read what they say

    def statement_Return(self, node: ast.Return) -> Exit:
        value = self.expression(node.value) if node.value else None
        self.at(node)
        self.returned = self.frame.where
        self.frame.pending.update(map(id, exits.displayed(node.value, value)))
        return Exit(RETURN, value)

    def statement_Break(self, node: ast.Break) -> Exit:
        return Exit(BREAK)

    def statement_Continue(self, node: ast.Continue) -> Exit:
        return Exit(CONTINUE)

    def statement_Assign(self, node: ast.Assign) -> None:
        value = self.expression(node.value)
        for target in node.targets:
            self.assign(target, value)

    def statement_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            old = self.load_name(node.target.id)
            store: Callable[[Any], None] = lambda v: self.assign(node.target, v)  # noqa: E731
        elif isinstance(node.target, ast.Attribute):
            obj = self.expression(node.target.value)
            name = node.target.attr
            old = self.get_attribute(obj, name)
            store = lambda v: attributes.set_attribute(self, obj, name, v)  # noqa: E731
        else:
            assert isinstance(node.target, ast.Subscript)
            container = self.expression(node.target.value)
            index = self.expression(node.target.slice)
            old = objects.get_item(self, container, index)
            store = lambda v: objects.set_item(self, container, index, v)  # noqa: E731
        right = self.expression(node.value)
        self.at(node)
        if isinstance(old, (list, dict, set)):
            self.check_writable(old)
            self.region.touch(old)
        extends = isinstance(old, list) and isinstance(node.op, ast.Add)
        if extends and not hasattr(type(right), "__radd__"):  # as a Tensor has: it makes the sum
            right = self.iterate(right)
        with working_on({node.target: old, node.value: right}):
            store(self.operate(INPLACE[type(node.op)], old, right))

    def statement_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.store_name(node.name, self.make_closure(node, node.name))

    def statement_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.load_name(target.id)
                self.store_name(target.id, UNSET)
            elif isinstance(target, ast.Subscript):
                container, index = self.expression(target.value), self.expression(target.slice)
                self.at(target)
                refuse_choice(container, "what is deleted from")
                self.touch_items(container)
                del container[index]
            else:
                raise UnsupportedError(
                    "an attribute cannot be deleted in a compiled graph: set it to None"
                )

    def statement_Assert(self, node: ast.Assert) -> Exit:
        condition = self.truth_of(node.test)
        if condition is True:
            return Exit(GO_ON)
        if node.msg is None or isinstance(node.msg, ast.Constant) or condition is False:
            args = [] if node.msg is None else [self.expression(node.msg)]
            self.at(node)
            return control.check(self, condition, AssertionError, args)

        message: ast.expr = node.msg

        def fail() -> Exit:
            return control.check(self, False, AssertionError, [self.expression(message)])

        return control.branch(self, condition, [lambda: Exit(GO_ON), fail])

    def statement_Try(self, node: ast.Try) -> Exit:
        return handlers.run(self, node)

    def statement_With(self, node: ast.With) -> Exit:
        return contexts.run(self, node.items, node.body)

    def statement_Raise(self, node: ast.Raise) -> Exit:
        if node.exc is None and not self.handled:
            raise RuntimeError("No active exception to reraise")
        value = self.expression(node.exc) if node.exc else self.handled[-1]
        if node.cause is not None:
            self.expression(node.cause)
        self.at(node)
        if isinstance(value, Raised):
            return control.check(self, False, value.make, value.args)
        if isinstance(value, BaseException):
            return control.check(self, False, lambda: value, [])
        if isinstance(value, type) and issubclass(value, BaseException):
            return control.check(self, False, value, [])
        raise TypeError("exceptions must derive from BaseException")

    def statement_While(self, node: ast.While, rest: Arm | None) -> Exit:
        return loops.while_loop(self, node, rest)

    def statement_For(self, node: ast.For, rest: Arm | None) -> Exit:
        return loops.for_loop(self, node, self.expression(node.iter), rest)

    # ---------------------------------------------------------------------- names

    def load_name(self, name: str) -> Any:
        """The value of a name: local, enclosing, global, builtin."""
        frame = self.frame
        env: Env | None = None if name in frame.code.global_ else frame.env
        while env is not None:
            if name in env.slots or name in env.local:
                return self.readable(env.slots.get(name, UNSET), name)
            env = env.parent
        fn = frame.owner
        if name in fn.__code__.co_freevars and name not in frame.code.global_:
            index = fn.__code__.co_freevars.index(name)
            cell = fn.__closure__[index]  # type: ignore[index]
            try:
                value = cell.cell_contents
            except ValueError:
                raise NameError(f"free variable '{name}' has no value yet") from None
            return self.homed(self.outside.closure(fn, index, name, value))
        if name in fn.__globals__:
            return self.homed(self.outside.global_name(fn, name))
        if hasattr(builtins, name):
            self.outside.no_global(fn, name)
            return getattr(builtins, name)
        raise NameError(f"name '{name}' is not defined")

    def store_name(self, name: str, value: Any) -> None:
        frame = self.frame
        env: Env | None = frame.env
        if name in frame.code.global_:
            raise UnsupportedError(
                f"the global '{name}' cannot be written in a compiled graph: return the value and "
                "assign it outside"
            )
        if name in frame.code.nonlocal_:
            env = frame.env.parent
            while env is not None and name not in env.local:
                env = env.parent
            if env is None:
                raise UnsupportedError(
                    f"'{name}' belongs to a function outside the graph: return the value instead"
                )
        assert env is not None
        self.region.touch(env)
        env.slots[name] = value
        self.remember_name(value, name)

    def remember_name(self, value: Any, name: str) -> None:
        """Remember the first name of a value: operands of sub-graphs are called by it."""
        if isinstance(value, (Tensor, Scalar)):
            self.names.setdefault(id(self.node_of(value)), name)

    def assign(self, target: ast.expr, value: Any) -> None:
        """Bind a target: a name, attribute, item, or a pattern of targets."""
        if isinstance(target, ast.Name):
            self.at(target)
            self.store_name(target.id, value)
        elif isinstance(target, ast.Attribute):
            obj = self.expression(target.value)
            self.at(target)
            attributes.set_attribute(self, obj, target.attr, value)
        elif isinstance(target, ast.Subscript):
            obj, index = self.expression(target.value), self.expression(target.slice)
            self.at(target)
            with working_on({target.value: obj, "value": value}):
                objects.set_item(self, obj, index, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value)
        else:
            raise UnsupportedError(f"'{type(target).__name__}' cannot be assigned to")

    def unpack(self, target: ast.Tuple | ast.List, value: Any) -> None:
        self.at(target)
        if not hasattr(type(value), "__iter__") and not hasattr(type(value), "__getitem__"):
            raise TypeError(f"cannot unpack non-iterable {type_name(value)} object")
        items = self.iterate(value)
        n = len(target.elts)
        star = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
        if not star:
            if len(items) < n:
                raise ValueError(f"not enough values to unpack (expected {n}, got {len(items)})")
            if len(items) > n:
                raise ValueError(f"too many values to unpack (expected {n})")
            for t, v in zip(target.elts, items, strict=True):
                self.assign(t, v)
            return
        k = star[0]
        if len(items) < n - 1:
            raise ValueError(
                f"not enough values to unpack (expected at least {n - 1}, got {len(items)})"
            )
        tail = len(items) - (n - 1 - k)
        parts = [*items[:k], self.born(list(items[k:tail])), *items[tail:]]
        for t, v in zip(target.elts, parts, strict=True):
            self.assign(t.value if isinstance(t, ast.Starred) else t, v)

    # ---------------------------------------------------------------------- expressions

    def expression(self, node: ast.expr) -> Any:
        """The value of an expression."""
        handler = getattr(self, f"expression_{type(node).__name__}", None)
        if handler is None:
            self.at(node)
            raise UnsupportedError(f"'{type(node).__name__}' cannot be part of a compiled graph")
        return handler(node)

    def expression_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, complex):
            self.at(node)
            raise TypeError(
                "complex numbers cannot be part of a compiled graph: compute with real and "
                "imaginary parts"
            )
        return node.value

    def expression_Name(self, node: ast.Name) -> Any:
        self.at(node)
        return self.load_name(node.id)

    def expression_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.items(node.elts))

    def expression_List(self, node: ast.List) -> Any:
        return self.born(self.items(node.elts))

    def expression_Set(self, node: ast.Set) -> Any:
        return self.born(set(self.items(node.elts)))

    def items(self, nodes: list[ast.expr]) -> list[Any]:
        """The values of a display's elements, starred ones spread."""
        values: list[Any] = []
        for n in nodes:
            if isinstance(n, ast.Starred):
                values.extend(self.iterate(self.expression(n.value)))
            else:
                values.append(self.expression(n))
        return values

    def expression_Dict(self, node: ast.Dict) -> Any:
        out: dict[Any, Any] = {}
        for k, v in zip(node.keys, node.values, strict=True):
            if k is None:
                out |= self.spread(self.expression(v))
            else:
                key, value = self.expression(k), self.expression(v)
                self.at(k)
                out[key] = value
        return self.born(out)

    def expression_BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.expression(node.left), self.expression(node.right)
        self.at(node)
        with working_on({node.left: left, node.right: right}):
            return self.operate(BINARY[type(node.op)], left, right)

    def expression_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return control.negate(self, self.truth_of(node.operand))
        value = self.expression(node.operand)
        self.at(node)
        with working_on({node.operand: value}):
            return self.operate(UNARY[type(node.op)], value)

    def spread(self, more: Any) -> dict:
        """``**more``, in a call or a display."""
        refuse_choice(more, "what follows **")
        if not isinstance(more, dict):
            raise TypeError(f"'{type_name(more)}' object is not a mapping")
        return more

    def operate(self, function: Callable, *operands: Any) -> Any:
        """The result of an operator."""
        return operators.operate(self, function, *operands)

    def expression_Compare(self, node: ast.Compare) -> Any:
        left, right = self.expression(node.left), self.expression(node.comparators[0])
        op = node.ops[0]  # desugared to one
        self.at(node)
        if isinstance(op, (ast.Is, ast.IsNot)):
            same = control.is_same(self, left, right)
            return same if isinstance(op, ast.Is) else control.negate(self, same)
        if isinstance(op, (ast.In, ast.NotIn)):
            found = control.contains(self, right, left)
            return found if isinstance(op, ast.In) else control.negate(self, found)
        with working_on({node.left: left, node.comparators[0]: right}):
            return self.operate(COMPARE[type(op)], left, right)

    def expression_BoolOp(self, node: ast.BoolOp) -> Any:
        return control.bool_op(self, isinstance(node.op, ast.And), node.values)

    def expression_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.truth_of(node.test)
        if isinstance(condition, bool):
            return self.expression(node.body if condition else node.orelse)
        self.at(node)
        arms = [lambda: self.expression(node.body), lambda: self.expression(node.orelse)]
        return control.choose(self, condition, arms)

    def truth_of(self, node: ast.expr) -> bool | Node:
        """The truth of an expression: a constant, or the node that will hold it."""
        if isinstance(node, ast.BoolOp):
            return control.truth_of_all(self, isinstance(node.op, ast.And), node.values)
        value = self.expression(node)
        self.at(node)
        return control.truth(self, value)

    def expression_NamedExpr(self, node: ast.NamedExpr) -> Any:
        value = self.expression(node.value)
        self.assign(node.target, value)
        return value

    def expression_Attribute(self, node: ast.Attribute) -> Any:
        obj = self.expression(node.value)
        self.at(node)
        return self.get_attribute(obj, node.attr)

    def expression_Subscript(self, node: ast.Subscript) -> Any:
        obj, index = self.expression(node.value), self.expression(node.slice)
        self.at(node)
        with working_on({node.value: obj}):
            return objects.get_item(self, obj, index)

    def expression_Slice(self, node: ast.Slice) -> Any:
        parts = [self.expression(p) if p else None for p in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def expression_Starred(self, node: ast.Starred) -> Any:
        self.at(node)
        raise SyntaxError("a starred expression cannot stand here")

    def expression_Lambda(self, node: ast.Lambda) -> Any:
        return self.make_closure(node, "<lambda>")

    def make_closure(self, node: ast.FunctionDef | ast.Lambda, name: str) -> Closure:
        args = node.args
        defaults = [self.expression(d) for d in args.defaults]
        kw = {
            a.arg: self.expression(d)
            for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)
            if d is not None
        }
        code = analyse(node, self.frame.code.file, name)
        return self.born(Closure(self, code, self.frame.env, self.frame.owner, defaults, kw))

    def expression_Call(self, node: ast.Call) -> Any:
        function = self.expression(node.func)
        args = self.items(node.args)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.expression(keyword.value)
            self.at(node)
            more = self.spread(value) if keyword.arg is None else {keyword.arg: value}
            for name in kwargs.keys() & more.keys():
                raise TypeError(f"got multiple values for keyword argument '{name}'")
            kwargs |= more
        self.at(node)
        if not calls.is_op(function):
            return self.call(function, args, kwargs)
        with working_on(_operands(node, function, args, kwargs)):
            return self.call(function, args, kwargs)

    def expression_JoinedStr(self, node: ast.JoinedStr) -> Any:
        parts = [self.expression(v) for v in node.values]
        return control.each_text(self, parts, lambda *now: text.joined(list(now)))

    def expression_FormattedValue(self, node: ast.FormattedValue) -> Any:
        value = self.expression(node.value)
        spec = self.expression(node.format_spec) if node.format_spec else ""
        self.at(node)
        return text.formatted(self, value, node.conversion, spec)

    def expression_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return comprehensions.generator(self, node, lambda: self.expression(node.elt))

    def expression_ListComp(self, node: ast.ListComp) -> Any:
        return self.born(comprehensions.items(self, node, lambda: self.expression(node.elt)))

    def expression_SetComp(self, node: ast.SetComp) -> Any:
        return self.born(set(comprehensions.items(self, node, lambda: self.expression(node.elt))))

    def expression_DictComp(self, node: ast.DictComp) -> Any:
        pair = lambda: (self.expression(node.key), self.expression(node.value))  # noqa: E731
        return self.born(dict(comprehensions.items(self, node, pair)))

    # ---------------------------------------------------------------------- objects

    def get_attribute(self, obj: Any, name: str) -> Any:
        return attributes.get_attribute(self, obj, name)

    def iterator(self, value: Any) -> Lazy:
        """``iter(value)``, for an iterable whose length is known."""
        return objects.iterate(self, value)

    def iterate(self, value: Any) -> list[Any]:
        """The items of such an iterable."""
        return list(objects.iterate(self, value))

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a call."""
        return calls.call(self, function, args, kwargs)

    def linearise(self, gradient: Any, args: tuple) -> tuple[Any, Callable]:
        """A function's value and its pull: see autodiff/jacobian.py, which asks for it."""
        return gradients.linearise(self, gradient, args)

    def stacked(self, count: int, row: Callable, likes: Sequence[Tensor]) -> list[Tensor]:
        """The results of ``row(0) ...``, stacked: see autodiff/jacobian.py."""
        return gradients.stacked(self, count, row, likes)

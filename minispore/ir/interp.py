"""What a graph means: its nodes, one after the other, on NumPy arrays and Python numbers.

This is the definition that every pass, the engine and every device is tested against; it is meant
to be read, not to be fast.  A Tensor is an ndarray, a Scalar a Python number, a tuple a tuple; a
Stack is None (empty) or a pair (top value, the Stack below); the Token is None.

    node          its value
    parameter     the argument
    constant      itself
    primitive     eval(operands); sizes in its attributes are those of the inputs, or operands
    graph         the value of its output, with the operands as arguments
    Switch        one of its graphs on the operands after the choice
    While         the last carry: body after body, as long as cond is true
    Grad          the graph that J makes of it (``register_grad_expander``)

Graphs call graphs to any depth, so calls are not Python calls: an activation is a generator that
yields (graph, arguments) where it needs a value, and the run keeps the stack of them.  ``steps``
gives the same run node by node, for who wants to look on (views/stepper.py, finite.py).
(MindSpore has no such interpreter; its closest relative is the VM of Myia.)
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minispore.abstract import (
    TOKEN,
    Abstract,
    AbstractScalar,
    AbstractTensor,
    AbstractTuple,
    sizes_of,
)
from minispore.context import get_context
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Node,
    ParameterNode,
    Switch,
    ValueNode,
    While,
    is_tuple_plumbing,
    shown_frames,
    toposort,
)
from minispore.primitive import Primitive

RUNNING = "While running the graph:"  # begins the note that points at the user's line
_UNKNOWN: Any = object()


@dataclass(eq=False)
class Step:
    """A node of a run: what it works on, and its value, once it has one.

    `graph` is where it stands, `caller` the step whose call runs that graph (None for the entry),
    and `turn` says which turn of a While this is, from 0.  `error` is what the node raised.
    """

    node: CNode
    operands: tuple
    graph: FuncGraph
    caller: Step | None
    turn: int
    value: Any = _UNKNOWN
    error: Exception | None = None

    @property
    def is_done(self) -> bool:
        """True once the node has a value."""
        return self.value is not _UNKNOWN

    @property
    def is_call(self) -> bool:
        """True for calls of graphs, Switch, While and Grad."""
        return not isinstance(self.node.callee, Primitive)

    @property
    def callers(self) -> list[Step]:
        """The calls that lead here, outermost first."""
        found: list[Step] = []
        step = self.caller
        while step is not None:
            found.append(step)
            step = step.caller
        return found[::-1]


Call = tuple[FuncGraph, Sequence[Any], int]  # what an activation asks for; the last is the turn
Activation = Generator[Call | Step, Any, Any]


def interpret(
    graph: FuncGraph, inputs: Sequence[Any], trace: Callable[[Node, Any], None] | None = None
) -> tuple:
    """The outputs of a graph as a tuple: the items of a tuple output, else the one value.

    Args:
        graph: any graph; its Grad nodes are expanded when they are met.
        inputs: one ndarray or Python number per parameter (None for the Token or an empty Stack).
        trace: called with each node and its value, in the order of execution.

    Outputs may be the very arrays of inputs or constants: copy them before writing to them.  An
    exception carries the user's line as a note.  With MINISPORE_DEBUG=1 in the environment each
    value is compared with its node's abstract.
    """
    run = _Run(trace, is_stepped=False).steps(graph, inputs)
    try:
        next(run)
    except StopIteration as end:
        return end.value
    raise AssertionError("a run that is not stepped stops at the end only")


def steps(graph: FuncGraph, inputs: Sequence[Any]) -> Generator[Step, None, tuple]:
    """A run, node by node: yields each CNode as a Step, and returns what ``interpret`` does.

    A call is yielded before the steps of its graph, and has its value when they are over; any other
    node has it already, or its error, which is raised when one goes on.  The parts of tuples,
    which compute nothing, are left out.
    """
    return _Run(None, is_stepped=True).steps(graph, inputs)


class _Run:
    """What the activations of one run share."""

    def __init__(self, trace: Callable[[Node, Any], None] | None, is_stepped: bool):
        self.trace, self.is_stepped = trace, is_stepped
        self.sizes: dict[str, int] = {}  # of the inputs, where the graph does not know them
        self.debug = debugging()
        self.orders: dict[FuncGraph, list[Node]] = {}
        self.depth: Counter[FuncGraph] = Counter()  # calls that are open

    def steps(self, graph: FuncGraph, inputs: Sequence[Any]) -> Generator[Step, None, tuple]:
        """Keep the stack of activations, and pass their steps on."""
        if len(inputs) != len(graph.parameters):
            raise TypeError(f"{graph.name} takes {len(graph.parameters)} inputs, not {len(inputs)}")
        self.sizes = sizes_of([p.abstract for p in graph.parameters], inputs)
        calls = [self.activation(graph, inputs)]
        callers: list[Step | None] = [None]
        value: Any = None
        while calls:
            try:
                with np.errstate(all="ignore"):
                    asked = calls[-1].send(value)
            except StopIteration as end:
                calls.pop()
                callers.pop()
                value = end.value
                continue
            value = None
            if isinstance(asked, Step):
                callers[-1] = asked
                yield asked
            else:
                callee, arguments, turn = asked
                calls.append(self.activation(callee, arguments, callers[-1], turn))
                callers.append(None)
        return value if isinstance(graph.abstract, AbstractTuple) else (value,)

    def activation(
        self, graph: FuncGraph, arguments: Sequence[Any], caller: Step | None = None, turn: int = 0
    ) -> Activation:
        """One evaluation of a graph; returns the value of its output."""
        if graph not in self.orders:
            self.orders[graph] = execution_order(graph)
        values: dict[Node, Any] = dict(zip(graph.parameters, arguments, strict=True))
        for node in self.orders[graph]:
            try:
                if isinstance(node, ValueNode):
                    values[node] = node.value
                elif isinstance(node, CNode):
                    operands = [values[i] for i in node.inputs]
                    if self.is_stepped and not is_tuple_plumbing(node):
                        step = Step(node, tuple(operands), graph, caller, turn)
                        values[node] = yield from self.stepped(step, operands)
                    else:
                        values[node] = yield from self.call(node, operands)
                if self.debug:
                    check_value(values[node], node.abstract)
            except Exception as error:
                add_location(error, node)
                raise
            if self.trace:
                self.trace(node, values[node])
        return values[graph.output]

    def stepped(self, step: Step, operands: list) -> Activation:
        """The value of a CNode, which is yielded as a step too."""
        if step.is_call:
            yield step
        try:
            step.value = yield from self.call(step.node, operands)
        except Exception as error:
            step.error = error
            if not step.is_call:
                yield step
            raise
        if not step.is_call:
            yield step
        return step.value

    def call(self, node: CNode, operands: list) -> Activation:
        """The value of a CNode."""
        callee, turn = node.callee, 0
        if isinstance(callee, Primitive):
            if callee.symbols:
                callee, own = callee.at_run(operands, self.sizes)
                operands = list(own)
            return as_abstract(callee.eval(*operands), node.abstract)
        if isinstance(callee, While):
            constants, carry = operands[: callee.n_const], operands[callee.n_const :]
            while (yield callee.cond, [*constants, *carry], turn):
                carry = yield callee.body, [*constants, *carry], turn
                turn += 1
            return tuple(carry)
        if isinstance(callee, Switch):
            callee, operands = callee.graphs[chosen(callee, operands[0])], operands[1:]
        elif isinstance(callee, Grad):
            callee = expanded(node, self.sizes)
        self.depth[callee] += 1
        check_depth(self.depth[callee], callee)
        value = yield callee, operands, turn
        self.depth[callee] -= 1
        return value


def execution_order(graph: FuncGraph) -> list[Node]:
    """The nodes of a graph in the order in which they run: every effect as early as it can.

    So a pure node that fails on its values runs after the effects (among them its own Check)
    that come before it in the program.
    """
    effects = [n for n in graph.nodes() if isinstance(n, CNode) and has_token(n.abstract)]
    return toposort([*effects, graph.output])


def has_token(abstract: Abstract) -> bool:
    """True for the Token and for tuples that hold it."""
    if isinstance(abstract, AbstractTuple):
        return any(map(has_token, abstract.items))
    return abstract == TOKEN


def chosen(switch: Switch, choice: Any) -> int:
    """Which graph of a Switch runs: 0 for true, 1 for false, or the int itself."""
    if isinstance(choice, (bool, np.bool_, np.ndarray)):
        return 0 if choice else 1
    if not 0 <= choice < len(switch.graphs):
        raise IndexError(f"Switch has {len(switch.graphs)} graphs; there is no number {choice}")
    return choice


def as_abstract(value: Any, abstract: Abstract) -> Any:
    """A primitive's result as its node's abstract says: NumPy gives scalars for 0-d arrays.

    A dtype may change within its kind only (float64 to float32, never float to int: TypeError).
    """
    if isinstance(abstract, AbstractTensor):
        array = np.asarray(value)
        return array.astype(abstract.dtype.numpy, casting="same_kind", copy=False)
    if isinstance(abstract, AbstractTuple):
        return tuple(as_abstract(v, a) for v, a in zip(value, abstract.items, strict=True))
    return value


# ----------------------------------------------------------------------- Grad, depth, errors

GradExpander = Callable[[FuncGraph, Mapping[str, int]], FuncGraph]
_grad_expander: list[GradExpander] = []  # one: autodiff registers it


def register_grad_expander(expand: GradExpander) -> None:
    """Say how Grad nodes are run: `expand` returns a graph of the same value without them.

    It is given the sizes of this run, by their symbols: rules of gradients may decide by them.
    """
    _grad_expander[:] = [expand]


def expanded(node: CNode, sizes: Mapping[str, int]) -> FuncGraph:
    """A graph that takes a Grad node's operands and returns its value."""
    if not _grad_expander:
        raise NotImplementedError(
            "a Grad node cannot be run before minispore.autodiff.transform is imported"
        )
    parameters = [ParameterNode(f"x{i}", x.abstract) for i, x in enumerate(node.inputs)]
    call = CNode(node.callee, parameters, node.abstract, node.origin)
    return _grad_expander[0](FuncGraph("grad", parameters, call), sizes)


def check_depth(depth: int, graph: FuncGraph) -> None:
    """RecursionError where `depth` calls of a graph are open, and that is too many."""
    limit = get_context("max_call_depth")
    if depth > limit:
        raise RecursionError(
            f"{graph.name} calls itself more than {limit} calls deep; "
            "set_context(max_call_depth=...) can raise that limit"
        )


def add_location(error: Exception, node: Node) -> None:
    """Add the user's line to an exception as a note, once: the innermost node has the word."""
    where, notes = node.origin.where, getattr(error, "__notes__", ())
    if where is not None and not any(n.startswith(RUNNING) for n in notes):
        error.add_note("\n".join([RUNNING, *shown_frames([*node.origin.callers, where])]))


def debugging() -> bool:
    """True if MINISPORE_DEBUG=1 is in the environment: values and passes are checked."""
    return os.environ.get("MINISPORE_DEBUG") == "1"


def check_value(value: Any, abstract: Abstract) -> None:
    """TypeError if a run-time value is not what its abstract says."""
    if isinstance(abstract, AbstractTensor):
        fits = (
            isinstance(value, np.ndarray)
            and value.dtype == abstract.dtype.numpy
            and abstract.takes(value.shape)
        )
    elif isinstance(abstract, AbstractScalar):
        fits = type(value) is abstract.kind
    elif isinstance(abstract, AbstractTuple):
        fits = isinstance(value, tuple) and len(value) == len(abstract.items)
        if fits:
            for v, a in zip(value, abstract.items, strict=True):
                check_value(v, a)
    else:  # Token, Stack
        fits = value is None or (abstract != TOKEN and isinstance(value, tuple))
    if not fits:
        found = f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else repr(value)
        raise TypeError(f"the value {found} is no {abstract}, which its node promised")

"""A graph as a flat list of instructions on numbered slots, and the loop that runs it.

    kernels    slots = segment(slots)          a native call: what can be machine code (split.py)
    compute    slot = primitive(slots)         a NumPy call
    resize     the same, where attributes of the primitive hold sizes that each run has anew
    move       slots = slots, at once          the end of an arm, the next carry of a loop
    jump       to an instruction; `unless` a slot is true; `choose`: to one of several
    call       a routine with slots of its own, for graphs that are called twice or call themselves
    return     from a routine, or the end
    free       forget slots (every instruction can: a slot is empty after its last use)

A Switch or While whose graphs are used once is laid out in place, so that running it is jumping:

    s3 = ScalarLess(s2, s0)                        while s2 < n:
    unless s3 jump 5
    s4 = ScalarAdd(s2, s1)                             s2 = s2 + 1
    move s2 = s4
    jump 0

Tuples are not there: MakeTuple and TupleGetItem only name slots.  What an instruction does is what
the interpreter (ir/interp.py) does; without kernels results are equal to the last bit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minispore.abstract import (
    STACK,
    Abstract,
    AbstractTensor,
    AbstractTuple,
    sizes_of,
    symbols_of,
)  # fmt: skip
from minispore.engine.memory import Room
from minispore.engine.segments import MixedSegment, Segment
from minispore.engine.split import split
from minispore.ir.compare import constant_key
from minispore.ir.interp import add_location, as_abstract, check_depth, chosen, execution_order
from minispore.ir.literal import write_constant
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Node,
    ParameterNode,
    Switch,
    ValueNode,
    While,
    graphs_of,
    is_call_of,
    item_index,
)
from minispore.primitive import Primitive
from minispore.symbolic import constant_node

Slots = tuple[int, ...]  # where a value is: one slot, or one for each item of a tuple


@dataclass(slots=True)
class Instruction:
    """One step: `do` is one of the functions below, the rest is what it works on.

    `function`: a primitive's value, a Switch, or the Routine that is called.
    """

    do: Callable[[_Run, Instruction], None]
    inputs: Slots = ()
    outputs: Slots = ()
    function: Any = None
    targets: list[int] = field(default_factory=list)
    free: Slots = ()
    node: Node | None = None


@dataclass(eq=False)
class Routine:
    """The instructions of a graph; `slots` holds its constants in their places, else None."""

    graph: FuncGraph
    instructions: list[Instruction] = field(default_factory=list)
    slots: list[Any] = field(default_factory=list)


class _Run:
    """The state of a run: which instruction is next, the slots, and who waits for a return."""

    def __init__(self, main: Routine, inputs: Sequence[Any], sizes: dict[str, int]):
        self.sizes = sizes
        self.callers: list[tuple[Routine, list[Any], int, Slots]] = []
        self.depth: Counter[Routine] = Counter()  # calls that are open
        self.result: list[Any] | None = None
        self.enter(main, inputs)

    def enter(self, routine: Routine, arguments: Sequence[Any]) -> None:
        self.routine, self.pc = routine, 0
        self.slots = routine.slots.copy()
        self.slots[: len(arguments)] = arguments

    def to_the_end(self) -> list[Any]:
        """Run until the first routine returns."""
        while self.result is None:
            step = self.routine.instructions[self.pc]
            self.pc += 1
            slots = self.slots
            try:
                step.do(self, step)
            except Exception as error:
                if step.node is not None:
                    add_location(error, step.node)
                raise
            for i in step.free:
                slots[i] = None
        return self.result


def compute(run: _Run, step: Instruction) -> None:
    """slot = primitive(slots)"""
    slots = run.slots
    slots[step.outputs[0]] = step.function(*[slots[i] for i in step.inputs])


def unpack(run: _Run, step: Instruction) -> None:
    """slots = primitive(slots), which gives a tuple"""
    slots = run.slots
    values = step.function(*[slots[i] for i in step.inputs])
    for i, value in zip(step.outputs, values, strict=True):
        slots[i] = value


def resize(run: _Run, step: Instruction) -> None:
    """slots = primitive(slots), bound with the sizes of this run"""
    prim, abstract = step.function
    prim, operands = prim.at_run([run.slots[i] for i in step.inputs], run.sizes)
    value = as_abstract(prim.eval(*operands), abstract)
    values = value if isinstance(abstract, AbstractTuple) else (value,)
    for i, v in zip(step.outputs, values, strict=True):
        run.slots[i] = v


def kernels(run: _Run, step: Instruction) -> None:
    """slots = kernels(slots), in one native call"""
    slots = run.slots
    operands = [slots[i] for i in step.inputs]
    values = step.function.run(operands)
    if values is None:
        values = _by_python(step.function, operands)
    for i, value in zip(step.outputs, values, strict=True):
        slots[i] = value


def _by_python(segment: MixedSegment, operands: list[Any]) -> Sequence[Any]:
    """What a segment computes, if kernels cannot: the values, or the error."""
    if segment.host is None:
        segment.host = Executable(segment.graph())
    return segment.host.run([*operands, None])[: len(segment.outputs)]


def move(run: _Run, step: Instruction) -> None:
    """slots = slots, all at once"""
    values = [run.slots[i] for i in step.inputs]
    for i, value in zip(step.outputs, values, strict=True):
        run.slots[i] = value


def jump(run: _Run, step: Instruction) -> None:
    """Go on at the target."""
    run.pc = step.targets[0]


def unless(run: _Run, step: Instruction) -> None:
    """Go on at the target if the slot is not true."""
    if not run.slots[step.inputs[0]]:
        run.pc = step.targets[0]


def choose(run: _Run, step: Instruction) -> None:
    """Go on at the target whose number is in the slot, as a Switch counts them."""
    run.pc = step.targets[chosen(step.function, run.slots[step.inputs[0]])]


def call(run: _Run, step: Instruction) -> None:
    """Run a routine on new slots of its own."""
    arguments = [run.slots[i] for i in step.inputs]
    run.depth[step.function] += 1
    check_depth(run.depth[step.function], step.function.graph)
    run.callers.append((run.routine, run.slots, run.pc, step.outputs))
    run.enter(step.function, arguments)


def leave(run: _Run, step: Instruction) -> None:
    """Give the slots back to the routine that called, or end the run with them."""
    values = [run.slots[i] for i in step.inputs]
    run.depth[run.routine] -= 1
    if not run.callers:
        run.result = values
        return
    run.routine, run.slots, run.pc, outputs = run.callers.pop()
    for i, value in zip(outputs, values, strict=True):
        run.slots[i] = value


def forget(run: _Run, step: Instruction) -> None:
    """Nothing but to free slots."""


def compile_plan(graph: FuncGraph, level: str = "O0") -> Executable:
    """The plan of a graph without Grad nodes.  It holds no reference to inputs or results.

    Args:
        level: "O0": all steps are NumPy calls.  "O1", "O2": what kernels can compute, they do (they
            differ in the passes that made the graph).
    """
    return Executable(graph, level)


class Executable:
    """A graph that can be run: ``run(inputs)``; ``listing()`` shows its instructions."""

    def __init__(self, graph: FuncGraph, level: str = "O0"):
        self.graph = graph
        self.has_kernels = level != "O0"
        self.routines: dict[FuncGraph, Routine] = {}
        uses = Counter(
            h
            for g in graph.graphs()
            for n in g.nodes()
            if isinstance(n, CNode)
            for h in graphs_of(n.callee)
        )
        todo = [graph]
        while todo:
            g = todo.pop()
            if not self.routine(g).instructions:
                layout = _Layout(self, self.routine(g), uses)
                todo += layout.called
        self.main = self.routine(graph)
        self.types = [p.abstract for p in graph.parameters]
        self.is_sized = any(symbols_of(self.types))
        self.constants = {
            id(v) for r in self.routines.values() for v in r.slots if isinstance(v, np.ndarray)
        }
        self.owns_all = self._owns_all()

    def _owns_all(self) -> bool:
        """True if every array that a run returns is one that kernels made, and returned once."""
        *steps, last = self.main.instructions
        output = self.graph.output.abstract
        kinds = output.items if isinstance(output, AbstractTuple) else (output,)
        arrays = [
            i
            for i, kind in zip(last.inputs, kinds, strict=True)
            if isinstance(kind, AbstractTensor)
        ]
        made = {i for s in steps if s.do is kernels for i in s.outputs}
        others = {i for s in steps if s.do is not kernels for i in s.outputs}
        once = len(set(arrays)) == len(arrays)
        return once and STACK not in kinds and made - others >= set(arrays)

    def routine(self, graph: FuncGraph) -> Routine:
        """The routine of a graph; its instructions may be laid out later."""
        return self.routines.setdefault(graph, Routine(graph))

    def run(self, inputs: Sequence[Any]) -> tuple:
        """The outputs: the items of a tuple output, else the one value.

        Args:
            inputs: one ndarray or Python number per parameter (None for a Token or empty Stack).
                They are not changed.

        The arrays among the outputs belong to the caller: they share memory with no input, constant
        or other output.  An exception carries the user's line as a note.
        """
        if len(inputs) != len(self.graph.parameters):
            expected = len(self.graph.parameters)
            raise TypeError(f"{self.graph.name} takes {expected} inputs, not {len(inputs)}")
        sizes = sizes_of(self.types, inputs) if self.is_sized else {}
        with np.errstate(all="ignore"):
            values = _Run(self.main, inputs, sizes).to_the_end()
        if self.owns_all:
            return tuple(values)
        taken = self.constants.union(map(id, inputs), map(id, _arrays_in((*inputs, *values))))
        return tuple([_owned(v, taken) for v in values])

    def listing(self) -> str:
        """The instructions of all routines, numbered, with the users' lines."""
        return "\n\n".join(map(_list_routine, self.routines.values()))


def _arrays_in(stacks: Iterable[Any]) -> Iterator[np.ndarray]:
    """The arrays in the Stacks among some values."""
    for stack in stacks:
        while isinstance(stack, tuple) and stack:
            value, stack = stack
            if isinstance(value, np.ndarray):
                yield value
            elif isinstance(value, tuple):
                yield from _arrays_in([value])


def _owned(value: Any, taken: set[int]) -> Any:
    """`value`, or a copy of an array that someone else has; it is taken from now on."""
    if not isinstance(value, np.ndarray):
        return value
    if id(value) in taken or not (value.base is None or isinstance(value.base, Room)):
        value = np.array(value, order="C")
    taken.add(id(value))
    return value


# ---------------------------------------------------------------------------------- the layout


class _Layout:
    """Lays out the instructions of one routine.

    `called`: the graphs that it calls.  Slots 0, 1 ... are the parameters.
    """

    def __init__(self, plan: Executable, routine: Routine, uses: Counter[FuncGraph]):
        self.plan, self.routine, self.uses = plan, routine, uses
        self.instructions = routine.instructions
        self.called: list[FuncGraph] = []
        self.open: list[FuncGraph] = []  # the graphs that are being laid out, outermost first
        self.last_read: dict[int, int] = {}  # slot -> instruction
        self.constants: dict[Any, int] = {}  # key of a constant -> slot
        graph = routine.graph
        parameters = [self.new_slots(p.abstract) for p in graph.parameters]
        self.region(graph, parameters, lambda result: self.emit(leave, result), parameters)

    def emit(
        self, do: Callable, inputs: Slots = (), outputs: Slots = (), **more: Any
    ) -> Instruction:
        instruction = Instruction(do, inputs, outputs, **more)
        for i in inputs:
            self.last_read[i] = len(self.instructions)
        self.instructions.append(instruction)
        return instruction

    def new_slots(self, abstract: Abstract) -> Slots:
        """A new slot, or one for each item of a tuple."""
        count = len(abstract.items) if isinstance(abstract, AbstractTuple) else 1
        first = len(self.routine.slots)
        self.routine.slots += [None] * count
        return tuple(range(first, first + count))

    def region(
        self,
        graph: FuncGraph,
        operands: Sequence[Slots],
        finish: Callable[[Slots], Any],
        owned: Sequence[Slots] = (),
    ) -> None:
        """The nodes of a graph on operands, then what `finish` emits for its result.

        The slots of the nodes, and those `owned`, are freed after the step that reads them last: an
        instruction, or a whole Switch or While.
        """
        self.open.append(graph)
        places: dict[Node, Slots] = dict(zip(graph.parameters, operands, strict=True))
        starts: list[int] = []  # the first instruction of each step
        mine = [i for slots in owned for i in slots]
        order = execution_order(graph)
        for node in split(order, graph.output) if self.plan.has_kernels else order:
            if isinstance(node, ParameterNode):
                continue
            starts.append(len(self.instructions))
            new = len(self.routine.slots)
            if isinstance(node, Segment):
                mine += self.segment(node, places)
                continue
            places[node] = self.place(node, places)
            if isinstance(node, CNode) and not is_call_of(node, "MakeTuple"):
                mine += [i for i in places[node] if i >= new]
        starts.append(len(self.instructions))
        finish(places[graph.output])
        self.open.pop()
        self.free(mine, starts)

    def free(self, slots: list[int], starts: list[int]) -> None:
        """Free each slot at the end of the step that reads it last (or, unread, writes it)."""
        written = {i: n for n in range(starts[0], len(self.instructions))
                   for i in self.instructions[n].outputs}  # fmt: skip
        ends = [*starts[1:], len(self.instructions)]
        for slot in slots:
            at = self.last_read.get(slot, written.get(slot))
            if at is not None:
                step = self.instructions[ends[bisect_right(starts, at) - 1] - 1]
                step.free += (slot,)

    def place(self, node: Node, places: dict[Node, Slots]) -> Slots:
        """Emit a node; where its value will be."""
        if isinstance(node, ValueNode):
            return self.constant(node)
        assert isinstance(node, CNode)
        index = item_index(node)
        if index is not None:
            return places[node.inputs[0]][index : index + 1]
        inputs = tuple(i for operand in node.inputs for i in places[operand])
        if is_call_of(node, "MakeTuple"):
            return inputs
        callee = node.callee
        if isinstance(callee, Grad):
            raise ValueError(f"{self.routine.graph.name} has a Grad: expand it before planning")
        outputs = self.new_slots(node.abstract)
        if isinstance(callee, Primitive) and callee.symbols:
            self.emit(resize, inputs, outputs, function=(callee, node.abstract), node=node)
        elif isinstance(callee, Primitive):
            do = unpack if isinstance(node.abstract, AbstractTuple) else compute
            self.emit(do, inputs, outputs, function=_function(callee, node.abstract), node=node)
        elif isinstance(callee, FuncGraph):
            self.call(callee, inputs, outputs, node)
        elif isinstance(callee, Switch):
            self.switch(node, callee, inputs, outputs)
        else:
            self.loop(node, callee, inputs, outputs)
        return outputs

    def segment(self, segment: Segment, places: dict[Node, Slots]) -> Slots:
        """Emit a piece of the graph that runs as kernels."""
        inputs = tuple(i for node in segment.inputs for i in places[node])
        outputs: Slots = ()
        for node in segment.outputs:
            places[node] = self.new_slots(node.abstract)
            outputs += places[node]
        for node in segment.tokens:
            places[node] = self.new_slots(node.abstract)
        self.emit(kernels, inputs, outputs, function=segment)
        return outputs

    def constant(self, node: ValueNode) -> Slots:
        """The slot of a constant; equal ones share it."""
        key = constant_key(node)
        if key not in self.constants:
            (slot,) = self.new_slots(node.abstract)
            self.routine.slots[slot] = node.value
            self.constants[key] = slot
        return (self.constants[key],)

    def call(self, graph: FuncGraph, inputs: Slots, outputs: Slots, node: Node) -> None:
        self.called.append(graph)
        self.emit(call, inputs, outputs, function=self.plan.routine(graph), node=node)

    def enter(self, graph: FuncGraph, inputs: Slots, finish: Callable, node: Node) -> None:
        """A graph in place, if this is its only use; else a call of it; then `finish`."""
        if self.uses[graph] == 1 and graph not in self.open and graph is not self.plan.graph:
            self.region(graph, [(i,) for i in inputs], finish)
        else:
            outputs = self.new_slots(graph.output.abstract)
            self.call(graph, inputs, outputs, node)
            finish(outputs)
            self.instructions[-1].free = outputs

    def switch(self, node: CNode, switch: Switch, inputs: Slots, outputs: Slots) -> None:
        """Choose, then the arms one after the other; each ends with a move and a jump."""
        choice = self.emit(choose, inputs[:1], function=switch, node=node)
        jumps = []
        for arm in switch.graphs:
            choice.targets.append(len(self.instructions))
            self.enter(arm, inputs[1:], lambda result: self.emit(move, result, outputs), node)
            jumps.append(self.emit(jump))
        for step in jumps:
            step.targets.append(len(self.instructions))
        self.emit(forget)

    def loop(self, node: CNode, loop: While, inputs: Slots, outputs: Slots) -> None:
        """The carry lives in the slots of the result: test, leave or go on, next carry, back."""
        self.emit(move, inputs[loop.n_const :], outputs)
        start = len(self.instructions)
        operands = (*inputs[: loop.n_const], *outputs)
        exits: list[Instruction] = []
        self.enter(
            loop.cond, operands, lambda result: exits.append(self.emit(unless, result)), node
        )
        self.enter(loop.body, operands, lambda result: self.emit(move, result, outputs), node)
        self.emit(jump, targets=[start])
        exits[0].targets.append(len(self.instructions))
        self.emit(forget)


def _function(prim: Primitive, abstract: Abstract) -> Callable[..., Any]:
    """A primitive's eval, with its result as the node's type says."""
    evaluate = prim.eval
    if isinstance(abstract, AbstractTensor):
        dtype = abstract.dtype.numpy

        def compute(*operands: Any) -> Any:
            value = evaluate(*operands)
            if type(value) is np.ndarray and value.dtype == dtype:
                return value
            return as_abstract(value, abstract)

        return compute
    if isinstance(abstract, AbstractTuple):
        return lambda *operands: as_abstract(evaluate(*operands), abstract)
    return evaluate


# --------------------------------------------------------------------------------- the listing


def _list_routine(routine: Routine) -> str:
    graph = routine.graph
    inputs = ", ".join(f"s{i} {p.name}" for i, p in enumerate(graph.parameters))
    lines = [f"routine @{graph.name}({inputs}): {len(routine.slots)} slots"]
    for slot, value in enumerate(routine.slots):
        if value is not None:
            lines.append(f"  s{slot} = {_constant_text(value)}")
    for number, step in enumerate(routine.instructions):
        where = step.node.origin.where if step.node is not None else None
        freed = f"  free {_names(step.free)}" if step.free and step.do is not forget else ""
        lines.append(f"{number:4}  {step_text(step)}{freed}" + (f"  # {where}" if where else ""))
        if step.do is kernels:
            names = [f"s{i}" for i in (*step.inputs, *step.outputs)]
            lines += ["    " + line for line in step.function.listing(names)]
    return "\n".join(lines)


def _constant_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return write_constant(value, constant_node(value).abstract, full=False)
    return repr(value)


def step_text(step: Instruction) -> str:
    """An instruction as listings have it."""
    inputs, outputs = _names(step.inputs), _names(step.outputs)
    targets = ", ".join(map(str, step.targets))
    if step.do in (compute, unpack, resize):
        assert isinstance(step.node, CNode) and isinstance(step.node.callee, Primitive)
        return f"{outputs} = {step.node.callee.name}({inputs})"
    if step.do is kernels:
        return f"{outputs} = kernels({inputs})"
    if step.do is call:
        return f"{outputs} = call @{step.function.graph.name}({inputs})"
    if step.do is move:
        return f"move {outputs} = {inputs}"
    if step.do is unless:
        return f"unless {inputs} jump {targets}"
    if step.do is choose:
        return f"choose {inputs}: {targets}"
    if step.do is jump:
        return f"jump {targets}"
    return f"return {inputs}" if step.do is leave else f"free {_names(step.free)}"


def _names(slots: Slots) -> str:
    return ", ".join(f"s{i}" for i in slots)

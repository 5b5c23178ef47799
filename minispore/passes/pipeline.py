"""The pipeline: which passes run, in which order, until none of them changes anything.

    opt_a   while equal layers are still calls of one graph
    opt_b   on everything as one graph

(MindSpore's stages of these names; its own list is longer, for it also serves devices.)  A pipeline
can be changed and given to ``jit``:

    twice = Rule("twice", "x + x -> x * 2", lambda x: x + x, lambda x: x * 2)
    pipeline = default_pipeline().with_rules(twice).without("cse")

    @ms.jit(passes=pipeline)
    def f(x): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from minispore.ir.interp import debugging
from minispore.ir.node import FuncGraph
from minispore.ir.verify import IRError, verify
from minispore.passes.algebra import AFTER_GRAD, EXACT
from minispore.passes.combine import combine_like_graphs
from minispore.passes.control import SWITCH_RULES, TUPLE_RULES
from minispore.passes.cse import cse
from minispore.passes.dead_code import dead_code
from minispore.passes.fastmath import FAST
from minispore.passes.fold import FOLD_RULES
from minispore.passes.inline import inline, lazy_inline
from minispore.passes.loops import LOOP_RULES
from minispore.passes.parameters import parameter_eliminate
from minispore.passes.pattern import Rule
from minispore.passes.rewrite import Function, Log, NodeRule, rewrite

MAX_ROUNDS = 10

Callback = Callable[[str, FuncGraph, FuncGraph], None]


@dataclass(frozen=True)
class Pass:
    """A named step: a graph and the log in, a graph out (the same object if nothing changed).

    `is_users`: written outside the package, so that what it makes is verified.
    """

    name: str
    description: str
    run: Callable[[FuncGraph, Log], FuncGraph]
    is_users: bool = True


@dataclass(frozen=True)
class Pipeline:
    """Steps, run in order, again and again, until nothing changes.

    A step is a Pass, or a Pipeline of its own (a stage).
    """

    steps: tuple[Pass | Pipeline, ...]
    max_rounds: int = MAX_ROUNDS
    name: str = ""

    # ------------------------------------------------------------------------------- running

    def run(
        self, graph: FuncGraph, log: Log | None = None, callback: Callback | None = None
    ) -> FuncGraph:
        """The optimised graph.

        Args:
            graph: stays as it is.
            log: gets every Fire, with the pass and the round.
            callback: called as (pass, before, after) for every pass that ran; `after is before`
                if it changed nothing.

        Raises:
            IRError: a user's pass made a graph that breaks a rule of the IR.
        """
        return self._run(graph, log, callback, {})

    def _run(
        self, graph: FuncGraph, log: Log | None, callback: Callback | None,
        idle: dict[Pass, FuncGraph],
    ) -> FuncGraph:  # fmt: skip
        """``run``; `idle` are the graphs on which passes had nothing to do."""
        for number in range(1, self.max_rounds + 1):
            start = graph
            for step in self.steps:
                if isinstance(step, Pipeline):
                    graph = step._run(graph, log, callback, idle)
                elif idle.get(step) is not graph:
                    before, graph = graph, _run_pass(step, number, graph, log, callback)
                    if graph is before:
                        idle[step] = graph
            if graph is start:
                break
        return graph

    @property
    def passes(self) -> list[Pass]:
        """The passes of all stages, each once."""
        return list(dict.fromkeys(p for p, _ in self._walk()))

    def _walk(self) -> Iterator[tuple[Pass, Pipeline]]:
        for step in self.steps:
            if isinstance(step, Pipeline):
                yield from step._walk()
            else:
                yield step, self

    # ------------------------------------------------------------------------------- changing

    def with_rules(self, *rules: NodeRule, name: str = "user_rules") -> Pipeline:
        """The pipeline with a pass more, at the end of every stage, that tries these rules."""
        return self.with_pass(rule_pass(name, "; ".join(r.law for r in rules), rules))

    def with_pass(self, new: Pass, after: str | None = None) -> Pipeline:
        """The pipeline with a pass more: after the pass called `after`, or at the end.

        In every stage.  ValueError if there is no such pass.
        """
        if after is not None:
            self._check(after)

        def place(steps: tuple[Pass | Pipeline, ...]) -> tuple[Pass | Pipeline, ...]:
            if after is None:
                return (*steps, new)
            return tuple(s for p in steps for s in ((p, new) if p.name == after else (p,)))

        return self._changed(place)

    def without(self, *names: str) -> Pipeline:
        """The pipeline without some of its passes; ValueError if there are no such."""
        self._check(*names)
        return self._changed(lambda steps: tuple(s for s in steps if s.name not in names))

    def _changed(self, change: Callable[[tuple], tuple]) -> Pipeline:
        """The pipeline with the passes of each stage changed."""
        stages = [s for s in self.steps if isinstance(s, Pipeline)]
        if stages:
            return replace(self, steps=tuple(s._changed(change) for s in stages))
        return replace(self, steps=change(self.steps))

    def _check(self, *names: str) -> None:
        known = [p.name for p in self.passes]
        for name in names:
            if name not in known:
                raise ValueError(f"there is no pass '{name}'; there are {', '.join(known)}")

    def __str__(self) -> str:
        width = max(len(p.name) for p in self.passes)
        lines: list[str] = []
        stage = None
        for step, home in self._walk():
            if home is not stage and home.name:
                lines.append(f"{home.name}:")
            stage, indent = home, "  " if home.name else ""
            lines.append(f"{indent}{step.name:<{width}}  {step.description}")
        return "\n".join(lines)


def _run_pass(
    step: Pass, number: int, before: FuncGraph, log: Log | None, callback: Callback | None
) -> FuncGraph:
    """The graph after one pass, which is verified, logged and shown."""
    fires: Log = []
    after = step.run(before, fires)
    if after is not before and (step.is_users or debugging()):
        try:
            verify(after)
        except IRError as error:
            error.add_note(f"The pass {step.name} made this graph.")
            raise
    if log is not None:
        log.extend(replace(f, pass_name=step.name, round=number) for f in fires)
    if callback is not None:
        callback(step.name, before, after)
    return after


def rule_pass(name: str, description: str, rules: tuple[NodeRule, ...]) -> Pass:
    """A pass that is one sweep of rules."""
    return Pass(name, description, lambda graph, log: rewrite(graph, rules, log))


def _arithmetic(fastmath: bool) -> Callable[[FuncGraph, Log], FuncGraph]:
    rules = (*EXACT, *FAST) if fastmath else EXACT

    def run(graph: FuncGraph, log: Log) -> FuncGraph:
        return rewrite(graph, rules if graph.has_grad() else (*rules, *AFTER_GRAD), log)

    return run


def default_pipeline(fastmath: bool = False) -> Pipeline:
    """What every compiled function goes through; `fastmath` adds the laws of fastmath.py."""

    def rules(name: str, description: str, table: tuple[NodeRule, ...]) -> Pass:
        return replace(rule_pass(name, description, table), is_users=False)

    step = partial(Pass, is_users=False)
    simplify = (
        rules("switch_simplify", "control flow whose way is known is gone", SWITCH_RULES),
        rules("tuple_transform", "tuples that are taken apart again are gone", TUPLE_RULES),
        step("arithmetic_simplify", "laws of arithmetic and of shapes", _arithmetic(fastmath)),
        rules("constant_folding", "what only constants decide is computed", FOLD_RULES),
        step("parameter_eliminate", "what every call passes is in the graph", parameter_eliminate),
        rules(
            "loop_invariant", "what every turn of a loop computes alike is before it", LOOP_RULES
        ),
        step("cse", "what is computed twice is computed once", cse),
        step("dead_code", "what no one reads is neither computed nor passed on", dead_code),
    )
    early = step("inline", "calls of small graphs, and single calls, become bodies", inline)
    late = step("lazy_inline", "calls of all graphs become their bodies", lazy_inline)
    opt_a = Pipeline((early, *simplify), name="opt_a")
    return Pipeline((opt_a, Pipeline((late, *simplify), name="opt_b")), 1, "default")


_COMBINE = Pass(
    "combine_like_graphs", "equal functions and layers are one graph", combine_like_graphs, False
)
BEFORE_GRAD = Pipeline((_COMBINE,), 1, "before grad")


def pipeline_of(passes: Any, fastmath: bool = False) -> Pipeline:
    """The pipeline that ``jit(passes=...)`` means: None, a Pipeline, or what is added to the
    default one: a rule, a Pass, or a list or tuple of them.  TypeError for anything else.

    `fastmath`: the default one has laws that are not exact.
    """
    if isinstance(passes, Pipeline):
        return passes
    pipeline = default_pipeline(fastmath)
    for item in passes if isinstance(passes, (list, tuple)) else (passes,):
        if isinstance(item, Pass):
            pipeline = pipeline.with_pass(item)
        elif isinstance(item, (Rule, Function)):
            pipeline = pipeline.with_rules(item, name=item.name)
        elif item is not None:
            raise TypeError(
                f"passes are a Pipeline, or rules and passes to add, not {type(item).__name__}"
            )
    return pipeline


def optimize(
    graph: FuncGraph, log: Log | None = None, callback: Callback | None = None
) -> FuncGraph:
    """Run the default pipeline; see ``Pipeline.run``."""
    return default_pipeline().run(graph, log, callback)

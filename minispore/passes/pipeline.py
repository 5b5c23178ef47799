"""The passes by name, and their order: repeated until a whole round changes nothing.

Names and order follow MindSpore's (``opt_a``).  A pass takes a graph and returns a graph; with
MINISPORE_DEBUG=1 in the environment each result is verified.  Gradients are made before: afterwards
StopGradient, Assign and the gradients of Cells' own are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from minispore.ir.interp import debugging
from minispore.ir.node import FuncGraph
from minispore.ir.verify import verify
from minispore.passes.algebra import AFTER_GRAD, EXACT, FAST
from minispore.passes.control import SWITCH_RULES, TUPLE_RULES
from minispore.passes.cse import cse
from minispore.passes.dead_code import dead_code
from minispore.passes.fold import FOLD_RULES
from minispore.passes.inline import has_late, inline
from minispore.passes.parameters import parameter_eliminate
from minispore.passes.rewrite import Log, NodeRule, rewrite

MAX_ROUNDS = 10

Callback = Callable[[str, FuncGraph, FuncGraph], None]


@dataclass(frozen=True)
class Pass:
    """A named step: a graph and the log in, a graph out (the same object if nothing changed)."""

    name: str
    description: str
    run: Callable[[FuncGraph, Log], FuncGraph]


@dataclass(frozen=True)
class Pipeline:
    """Passes, run in order, again and again, until nothing changes."""

    passes: tuple[Pass, ...]
    max_rounds: int = MAX_ROUNDS

    def run(
        self, graph: FuncGraph, log: Log | None = None, callback: Callback | None = None
    ) -> FuncGraph:
        """The optimised graph.

        Args:
            graph: stays as it is.
            log: gets every Fire, with the pass and the round.
            callback: called as (pass, before, after) for every pass that ran; `after is before`
                if it changed nothing.
        """
        idle: dict[str, FuncGraph] = {}  # pass -> the graph that it had nothing to do on
        for number in range(1, self.max_rounds + 1):
            start = graph
            for step in self.passes:
                if idle.get(step.name) is graph:
                    continue
                fires: Log = []
                before, graph = graph, step.run(graph, fires)
                if graph is before:
                    idle[step.name] = graph
                elif debugging():
                    verify(graph)
                if log is not None:
                    log.extend(replace(f, pass_name=step.name, round=number) for f in fires)
                if callback is not None:
                    callback(step.name, before, graph)
            if graph is start:
                break
        return graph

    def __str__(self) -> str:
        width = max(len(p.name) for p in self.passes)
        return "\n".join(f"{p.name:<{width}}  {p.description}" for p in self.passes)


def rule_pass(name: str, description: str, rules: tuple[NodeRule, ...]) -> Pass:
    """A pass that is one sweep of rules."""
    return Pass(name, description, lambda graph, log: rewrite(graph, rules, log))


def _arithmetic(fastmath: bool) -> Callable[[FuncGraph, Log], FuncGraph]:
    rules = (*EXACT, *FAST) if fastmath else EXACT

    def run(graph: FuncGraph, log: Log) -> FuncGraph:
        return rewrite(graph, rules if graph.has_grad() else (*rules, *AFTER_GRAD), log)

    return run


def default_pipeline(fastmath: bool = False) -> Pipeline:
    """What every compiled function goes through; `fastmath` adds rules that are not exact."""
    return Pipeline(
        (
            Pass("inline", "calls of graphs become their bodies", inline),
            rule_pass("switch_simplify", "control flow whose way is known is gone", SWITCH_RULES),
            rule_pass("tuple_transform", "tuples that are taken apart again are gone", TUPLE_RULES),
            Pass("arithmetic_simplify", "laws of arithmetic and of shapes", _arithmetic(fastmath)),
            rule_pass("constant_folding", "what only constants decide is computed", FOLD_RULES),
            Pass(
                "parameter_eliminate", "what every call passes is in the graph", parameter_eliminate
            ),
            Pass("cse", "what is computed twice is computed once", cse),
            Pass("dead_code", "what no one reads is neither computed nor passed on", dead_code),
        )
    )


LATE_INLINE = Pass(
    "lazy_inline",
    "calls of Cells that asked to be inlined last become their bodies",
    partial(inline, late=True),
)


def optimize(
    graph: FuncGraph, log: Log | None = None, callback: Callback | None = None
) -> FuncGraph:
    """Run the default pipeline (again, when Cells are inlined late); see ``Pipeline.run``."""
    pipeline = default_pipeline()
    graph = pipeline.run(graph, log, callback)
    if not has_late(graph):
        return graph
    return replace(pipeline, passes=(LATE_INLINE, *pipeline.passes)).run(graph, log, callback)

"""What the compiler did with a call: ``ms.explain(fn, *args)``.

A Report holds the source, its desugared form, the graph of every stage as text and drawing with
what changed, the rules that fired with their laws, node counts and times, what was captured from
outside, the guards, and the plan.  In a notebook it displays itself (plain HTML with folds, which
shows in untrusted notebooks too, since pictures are images); in a terminal ``print`` it; ``save``
writes it to a folder.  (MindSpore: ``save_graphs`` and MindInsight's graph page.)
"""

from __future__ import annotations

import base64
import functools
import html
import inspect
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from minispore.compile import JitFunction, after_compiling
from minispore.context import get_context
from minispore.files import write_whole
from minispore.frontend.desugar import source_of
from minispore.frontend.source import code_of
from minispore.ir.draw import draw, draw_difference
from minispore.ir.finite import NonFinite, find_non_finite
from minispore.ir.node import FuncGraph
from minispore.ir.render import Drawing
from minispore.ir.text import to_text
from minispore.parameter import Parameter
from minispore.passes.pipeline import BEFORE_GRAD
from minispore.program import Compiled, Stage, python_function
from minispore.random import drawn_again
from minispore.shortcut import Shortcut, shortcut_for
from minispore.tensor import Tensor
from minispore.views.fusion import Traffic, draw_kernels, traffic_of
from minispore.views.kernels import KernelInfo, kernels_of
from minispore.views.memory import Memory, memory_of
from minispore.views.plan_stepper import PlanStepper
from minispore.views.profile import Profile, profile_plan
from minispore.views.stepper import Stepper

_DESCRIPTIONS = {
    "evaluate": "the source, evaluated: one node per operation, one graph per function",
    "grad": "each gradient asked for became a forward and a backward graph (J)",
    "optimized": "what runs",
}
KERNELS = "kernels"  # what comes after the last stage
_SLOTS = 's0 s1 ...  slots, a value each: the parameters first; "free" empties them'
_ROWS = """\
kernels    all rows below run in one native call: each is a kernel, or a jump to a row
m0 m1 ...  places in memory that only the kernels of one call see (the arena)
c0 c1 ...  constants of more than one element
x = kernel(y, z): Add Mul  one loop nest that reads y and z and computes these nodes into x
# file:12   the line of source that made the node (of a kernel: its last one)"""


class Report:
    """How one call was compiled; see ``explain``.

    `values` are those of the graph's inputs, for who runs it; `find` finds it, as a call does.
    `parameters`: which of them are Parameters.  `args` are the call's, if they are all it has.
    """

    def __init__(
        self, name: str, function: Callable, compiled: Compiled, values: Sequence[Any] = (),
        find: Callable[[], Any] | None = None, parameters: Collection[int] = (),
        args: tuple | None = None,
    ):  # fmt: skip
        self.name = name
        self._parameters = parameters
        self._find = find
        self._args = args
        self.function = function
        self.compiled = compiled
        self.values = values

    # ------------------------------------------------------------------------------- the parts

    @property
    def stages(self) -> list[Stage]:
        """The stages that changed the graph, in order."""
        return self.compiled.history

    @property
    def source(self) -> str:
        """The user's source."""
        fn = python_function(self.function)
        return inspect.getsource(fn) if fn is not None else ""

    @property
    def desugared(self) -> str:
        """The source in the simpler syntax that is evaluated."""
        fn = python_function(self.function)
        return source_of(code_of(fn).node) + "\n" if fn is not None else ""

    @property
    def guards(self) -> str:
        """The generated function that decides whether a later call may use this graph."""
        return self.compiled.guarded.source

    @property
    def inputs(self) -> list[str]:
        """The graph's inputs: arguments first, then what was captured from outside."""
        return [f"{p.name}: {p.abstract}" for p in self.graph().parameters]

    @property
    def plan(self) -> str:
        """The instructions that run, and what the names in them mean."""
        legend = f"{_SLOTS}\n{_ROWS}" if self.kernels else _SLOTS
        return f"{self.compiled.function.plan.listing()}\n\n{legend}"

    @functools.cached_property
    def kernels(self) -> list[KernelInfo]:
        """The kernels that run, in order: source, nodes, lines, bytes; none at jit_level "O0"."""
        return kernels_of(self.compiled.function.plan)

    @functools.cached_property
    def traffic(self) -> Traffic:
        """How many bytes nodes would move one by one, and how many their kernels move."""
        return traffic_of(self.compiled.function.plan)

    @functools.cached_property
    def memory(self) -> Memory:
        """The bytes that a run needs, and a timeline for each call of kernels; nothing is run."""
        plan = self.compiled.function.plan
        shortcut = self._shortcut()
        segment = shortcut.direct.segment if shortcut and self.compiled.writes else None
        return memory_of(plan, self.values, self._parameters, segment)

    def graph(self, stage: str = "optimized") -> FuncGraph:
        """The graph of a stage; ValueError if there is no such stage."""
        return self.compiled.graph(stage)

    def text(self, stage: str = "optimized") -> str:
        """The text of a stage's graph."""
        return to_text(self.graph(stage))

    def drawing(self, stage: str = "optimized", **options: Any) -> Drawing:
        """The picture of a stage; what its pass made is marked.

        ``kernels`` is drawn too: which kernel computes which nodes, and the bytes that it moves.

        Args:
            options: those of ``draw``; ``collapse``, ``expand``, ``legend`` and ``limit`` for
                kernels (fusion.py).

        Raises:
            ValueError: there is no such stage.
        """
        if stage == KERNELS:
            return draw_kernels(self.compiled.function.plan, **options)
        if stage not in self.compiled.stages:
            known = ", ".join([*self.compiled.stages, KERNELS])
            raise ValueError(f"there is no stage '{stage}'; there are {known}")
        before = self._before(stage)
        if before is None:
            return draw(self.graph(stage), **options)
        return draw_difference(before, self.graph(stage), **options)

    def difference(self, before: str, after: str, **options: Any) -> Drawing:
        """Two stages side by side."""
        return draw_difference(self.graph(before), self.graph(after), side_by_side=True, **options)

    def step(self, stage: str = "grad") -> Stepper:
        """Walk the graph of a stage node by node, with values and source lines.

        It runs on what the call was given, in the interpreter; nothing outside is written.  In a
        terminal: ``report.step().interact()``.
        """
        return Stepper(self.graph(stage), self.values, self.name)

    def step_plan(self) -> PlanStepper:
        """Walk what really runs: the plan's instructions, and its kernels one by one.

        Each step has what it read and wrote, by the names of ``plan``; nothing outside is written.
        """
        return PlanStepper(self.compiled.function.plan, self.values, self.name)

    def profile(self, runs: int = 20) -> Profile:
        """Time every kernel, every operation of NumPy, and the plan as a whole.

        It runs on what the call was given; nothing outside is written, and what the graph prints is
        not shown.

        Args:
            runs: how often each is timed; medians count.

        Raises:
            TypeError: `runs` is no int.
            ValueError: `runs` is less than 1.
            What the graph raises on these values.
        """
        plan, shortcut = self.compiled.function.plan, self._shortcut()
        compared = shortcut.compared if shortcut else None
        return profile_plan(plan, self.values, self.name, runs, self._find, compared)

    def find_nan(self, inf: bool = True, stage: str = "grad") -> NonFinite | None:
        """The first node that makes a nan or inf out of finite numbers, forward or backward.

        Args:
            inf: False looks for nan only: an inf may be meant, and masked later.
            stage: the graph that is run, on what the call was given.

        Returns:
            What was found, with its line, values and calls (print it); None if there is none.
        """
        return find_non_finite(self.graph(stage), self.values, inf)

    def _shortcut(self) -> Shortcut | None:
        """The shortcut that calls like this one take, made anew: nothing is run; None: no such."""
        if self._args is None:
            return None
        with drawn_again():
            return shortcut_for(self.compiled, self._args)

    def _before(self, stage: str) -> FuncGraph | None:
        """The graph that a pass was given; None for stages that are no passes."""
        names = list(self.compiled.stages)
        self.graph(stage)  # the error for an unknown name
        if not stage.startswith("optimize_") and stage not in [p.name for p in BEFORE_GRAD.passes]:
            return None
        return self.graph(names[names.index(stage) - 1])

    def _description(self, stage: str) -> str:
        name = stage.split("_", 2)[-1] if stage.startswith("optimize_") else stage
        passes = [*BEFORE_GRAD.passes, *self.compiled.function.pipeline.passes]
        return (_DESCRIPTIONS | {p.name: p.description for p in passes}).get(name, "")

    # ------------------------------------------------------------------------------- as text

    def table(self) -> str:
        """A line per stage: nodes, milliseconds, how many rules fired.

        The time of kernels is that of making the plan: generating their code, or finding it in the
        cache, and once in a process what compiling needs itself.
        """
        lines = [f"{'stage':<36} {'nodes':>6} {'ms':>8}  rules"]
        for stage in self.stages:
            fired = _counted(stage)
            milliseconds = stage.seconds * 1e3
            lines.append(f"{stage.name:<36} {stage.graph.count():>6} {milliseconds:>8.2f}  {fired}")
        if self.kernels:
            ms = self.compiled.function.planning * 1e3
            lines.append(f"{KERNELS:<36} {len(self.kernels):>6} {ms:>8.2f}  {self.traffic}")
        return "\n".join(lines)

    def passes(self) -> str:
        """What the passes did: a line per pass and one per rule, and how many nodes there were.

        A pass may run several times, in both stages, until no pass changes anything; `nodes` is by
        how much it made the graph larger or smaller (calls that become bodies make it larger).
        """
        counts = {stage.name: stage.graph.count() for stage in self.stages}
        lines = [f"{counts['evaluate']} nodes evaluated, {counts['grad']} with gradients, "
                 f"{counts['optimized']} optimized",
                 f"{self.traffic}" if self.kernels else ""]  # fmt: skip
        lines.append(f"{'pass':<22} {'runs':>5} {'changed':>8} {'fires':>6} {'nodes':>7} {'ms':>8}")
        for name in dict.fromkeys(run.name for run in self.compiled.runs):
            runs = [run for run in self.compiled.runs if run.name == name]
            changed = [run for run in runs if run.after is not run.before]
            nodes = sum(run.after.count() - run.before.count() for run in changed)
            fires, ms = sum(len(run.fires) for run in runs), sum(run.seconds for run in runs) * 1e3
            lines.append(
                f"{name:<22} {len(runs):>5} {len(changed):>8} {fires:>6} {nodes:>+7} {ms:>8.2f}"
            )
        fired = Counter((f.rule, f.law) for run in self.compiled.runs for f in run.fires)
        lines += ["", f"{'rule':<28} {'fires':>6}  law"]
        for (rule, law), n in fired.most_common():
            lines.append(f"{rule:<28} {n:>6}  {law}")
        return "\n".join(lines)

    def laws(self) -> str:
        """Every rule that fired: its law, how often, and the lines of source where."""
        found: dict[tuple[str, str], list[str]] = {}
        for stage in self.stages:
            for fire in stage.fires:
                found.setdefault((fire.rule, fire.law), []).append(str(fire.where or ""))
        lines = []
        for (rule, law), places in found.items():
            where = ", ".join(sorted(set(filter(None, places))))
            lines.append(f"{rule} ({len(places)}x): {law}" + (f"  at {where}" if where else ""))
        return "\n".join(lines)

    def __str__(self) -> str:
        parts = [
            ("source", self.source),
            ("inputs", "\n".join(self.inputs)),
            ("stages", self.table()),
            ("rules that fired", self.laws()),
            ("optimized graph", to_text(self.graph())),
        ]
        return "\n\n".join(f"== {title} ==\n{text.rstrip()}" for title, text in parts if text)

    def __repr__(self) -> str:
        return f"<Report of {self.name}: {len(self.stages)} stages; print() or .save(folder) it>"

    # ------------------------------------------------------------------------------- as HTML

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": str(self)}

    def html(self) -> str:
        """A fragment of plain HTML with folds: no scripts, pictures as images."""
        sections = [
            _fold("Source", _pre(self.source)),
            _fold("Desugared", _pre(self.desugared)),
            _fold("Inputs: arguments and captured state", _pre("\n".join(self.inputs))),
            _fold("Stages", _pre(self.table()), is_open=True),
            *(self._stage_html(stage) for stage in self.stages),
            _fold("Passes", _pre(self.passes())),
            _fold("Rules that fired", _pre(self.laws())),
            _fold("Guards", _pre(self.guards)),
            _fold("Plan", _pre(self.plan)),
            _fold("Nodes in kernels", self._fusion_html()),
            _fold(f"Kernels ({len(self.kernels)})", self._kernels_html()),
            _fold("Memory", self._memory_html()),
        ]
        return f'<div class="minispore-report">{_STYLE}<h3>{html.escape(self.name)}</h3>' + (
            "\n".join(s for s in sections if s) + "</div>"
        )

    def _stage_html(self, stage: Stage) -> str:
        description = html.escape(self._description(stage.name))
        body = f"<p>{description}</p>" + _picture(self.drawing(stage.name))
        body += _fold("text", _pre(to_text(stage.graph)))
        if stage.fires:
            body += _fold("rules", _pre("\n".join(map(str, stage.fires))))
        title = f"{stage.name} ({stage.graph.count()} nodes)"
        return _fold(title, body, is_open=stage.name == "optimized")

    def _memory_html(self) -> str:
        """The numbers, and a picture with its table for each call of kernels."""
        parts = [_pre(str(self.memory))]
        for timeline in self.memory.timelines:
            if timeline.arena:
                parts += [_image(timeline.svg(), "arena"), _fold("places", _pre(timeline.text))]
        return "".join(parts)

    def _fusion_html(self) -> str:
        """The picture of kernels, and its numbers."""
        if not self.kernels:
            return ""
        drawing = self.drawing(KERNELS)
        return f"<p>{html.escape(str(self.traffic))}</p>{_picture(drawing)}" + _fold(
            "bytes of each kernel", _pre(drawing.text)
        )

    def _kernels_html(self) -> str:
        """A fold for each kernel; a source that was there before is not shown again."""
        shown: dict[str, str] = {}
        folds = []
        for info in self.kernels:
            first = shown.setdefault(info.source, info.name)
            text = str(info)
            if first != info.name:
                text = text.replace(info.source.rstrip(), f"the source of kernel {first}")
            folds.append(_fold(f"{info.name}  {info.title}", _pre(text)))
        return "".join(folds)

    def page(self) -> str:
        """The report as one self-contained page."""
        title = html.escape(f"{self.name}: how it was compiled")
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"</head>\n<body>{self.html()}</body></html>\n"
        )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``report.html``, and per stage its text (.ir), drawing (.svg) and DOT (.dot).

        Files are numbered and named after the stages; each is written whole or not at all.

        Raises:
            OSError: the folder cannot be written.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        _remove_stages(target)  # of another function: it may have had more stages
        write_stages(self, target)
        write_whole(target / "report.html", self.page())
        write_whole(target / "report.txt", str(self) + "\n")
        return target


def _remove_stages(folder: Path) -> None:
    for old in folder.iterdir():
        if re.fullmatch(r"\d\d_[a-z_]+\.(ir|dot|svg)", old.name):
            old.unlink()


def write_stages(report: Report, folder: Path) -> None:
    """The numbered files of all stages (``save_graphs`` writes these)."""
    for number, stage in enumerate(report.stages):
        name = stage.name.split("_", 2)[-1] if stage.name.startswith("optimize_") else stage.name
        base = folder / f"{number:02d}_{name}"
        write_whole(base.with_suffix(".ir"), to_text(stage.graph) + "\n")
        _write_drawing(base, report.drawing(stage.name))
    if report.kernels:
        base = folder / f"{len(report.stages):02d}_{KERNELS}"
        _write_drawing(base, report.drawing(KERNELS))


def _write_drawing(base: Path, drawing: Drawing) -> None:
    """Its DOT text, and its SVG where there is Graphviz."""
    write_whole(base.with_suffix(".dot"), drawing.dot)
    svg = drawing.svg()
    if svg is not None:
        write_whole(base.with_suffix(".svg"), svg)


_saved = itertools.count(1)  # numbers the compilations of this program that were saved


def _save_graphs(jitted: JitFunction, compiled: Compiled) -> None:
    """What ``set_context(save_graphs=True, save_graphs_path=...)`` asks for.

    Each compilation has a folder of its own, numbered and named after the function.
    """
    if get_context("save_graphs"):
        name = re.sub(r"\W+", "", jitted.__name__) or "function"
        folder = Path(get_context("save_graphs_path")) / f"{next(_saved):03d}_{name}"
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stages(folder)  # of an earlier run of the program
        write_stages(Report(jitted.__name__, jitted, compiled), folder)


after_compiling.append(_save_graphs)


def _counted(stage: Stage) -> str:
    counts = Counter(fire.rule for fire in stage.fires)
    return ", ".join(f"{rule} {n}x" if n > 1 else rule for rule, n in counts.most_common())


def _fold(title: str, body: str, is_open: bool = False) -> str:
    state = " open" if is_open else ""
    summary = f"<summary>{html.escape(title)}</summary>"
    return f"<details{state}>{summary}{body}</details>" if body else ""


def _pre(text: str) -> str:
    return f"<pre>{html.escape(text.rstrip())}</pre>" if text.strip() else ""


def _picture(drawing: Drawing) -> str:
    """An image that shows in untrusted notebooks too; nothing where Graphviz is missing."""
    svg = drawing.svg()
    if svg is None:
        return ""
    return _image(svg, "graph")


def _image(svg: str, alt: str) -> str:
    data = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    return f'<img alt="{alt}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'


_STYLE = (
    "<style>.minispore-report{font-family:system-ui,sans-serif}"
    ".minispore-report details{margin:.3em 0 .3em .6em}"
    ".minispore-report summary{cursor:pointer}"
    ".minispore-report pre{overflow-x:auto;font-family:monospace;font-size:85%}</style>"
)


def explain(function: Callable, *args: Any, **kwargs: Any) -> Report:
    """How a function, method or Cell is compiled for these arguments; nothing is run.

    Args:
        function: what to compile; a jitted function's own compilation is shown.
        args, kwargs: arguments of a call.

    Returns:
        A Report, which displays itself in a notebook and has ``save(folder)``.

    Raises:
        What compiling raises: the error points at the user's line.
    """
    jitted = function if isinstance(function, JitFunction) else JitFunction(function)
    with drawn_again():
        compiled, inputs = jitted.find(args, kwargs)
        values = [x._data if isinstance(x, Tensor) else x for x in inputs]
        parameters = {i for i, x in enumerate(inputs) if isinstance(x, Parameter)}
    return Report(
        jitted.__name__, function, compiled, values, lambda: jitted.find(args, kwargs), parameters,
        None if kwargs else args,
    )  # fmt: skip

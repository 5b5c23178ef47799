"""The program ``minispore``: train, run, draw and step, time, open the book.

A mistake is told in one sentence.  Exit codes: 0; 2 for a wrong option, value or file; 130 for
Ctrl-C.
"""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from minispore import __version__
from minispore.abstract import Abstract, AbstractScalar, AbstractTensor
from minispore.autodiff.transform import expand_grad
from minispore.commands import bench, book, cache
from minispore.commands.draw import DrawError, arguments, draw_to, explained, load
from minispore.dataset import DataError
from minispore.dtype import ALL, bool_
from minispore.ir.interp import interpret
from minispore.ir.node import FuncGraph, ParameterNode
from minispore.ir.text import ParseError, parse, to_text
from minispore.ir.verify import IRError, verify
from minispore.passes import optimize
from minispore.train.digits import JobError, Network, Settings, make_step, train
from minispore.train.outputs import OutputError
from minispore.views.report import explain

WRONG, INTERRUPTED = 2, 130


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program with `arguments` (default: the process's own); returns the exit code."""
    parser = _parser()
    options, more = parser.parse_known_args(
        _joined(sys.argv[1:] if arguments is None else arguments)
    )
    if more and not hasattr(options, "more"):
        options.parser.error(f"unrecognized arguments: {' '.join(more)}{_hint(options, more)}")
    options.more = more
    try:
        code = options.command(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("minispore: interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    except MemoryError:
        print("minispore: there is not enough memory", file=sys.stderr)
        return WRONG
    except BrokenPipeError:  # the reader of our output, for example `head`, has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, a folder that vanished
        print(f"minispore: {error.strerror or error}", file=sys.stderr)
        return WRONG


def _joined(arguments: Sequence[str]) -> list[str]:
    """With --shape -3,2 as --shape=-3,2: argparse would take the sizes for an option."""
    found: list[str] = []
    for argument in arguments:
        if found and found[-1] == "--shape" and re.match(r"-\d", argument):
            found[-1] += f"={argument}"
        else:
            found.append(argument)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="minispore", description="MindSpore's programming model, made readable.")
    parser.add_argument("--version", action="version", version=f"minispore {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_train(commands)
    _add_run(commands)
    _add_draw(commands)
    _add_step(commands)
    _add_passes(commands)
    book.add_to(commands)
    cache.add_to(commands)
    bench.add_to(commands, __version__)
    return parser


def _hint(options: argparse.Namespace, unknown: Sequence[str]) -> str:
    """What may be meant by arguments that no command knows."""
    known = list(options.parser._option_string_actions)
    meant = [m for u in unknown for m in difflib.get_close_matches(u.split("=")[0], known, 1)]
    if meant:
        return f"; did you mean {', '.join(meant)}?"
    sizes = getattr(options, "shape", []) and all(re.fullmatch(r"\d+,?", u) for u in unknown)
    return "; sizes are joined by commas, --shape 2,3" if sizes else ""


# -------------------------------------------------------------------------------------- train


def _add_train(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "train",
        help="train the main example on handwritten digits",
        description="Train the documents' network (three Dense layers) on handwritten digits. "
        "Leaves checkpoint.ckpt, curve.svg and train_step.ir in a folder; files of these names "
        "that are there already are replaced.",
    )
    add = parser.add_argument
    # fmt: off
    add("--mode", choices=("graph", "pynative"),
        help="graph compiles the training step; pynative runs it op by op (default: %(default)s)")
    add("--data", type=Path, metavar="DIR",
        help="folder of MNIST's four IDX files (default: the 5,000 digits that ship with it)")
    add("--epochs", type=_positive_int, metavar="N",
        help="passes over the training images (default: %(default)s)")
    add("--batch-size", type=_positive_int, metavar="N",
        help="images per step (default: %(default)s)")
    add("--lr", type=_positive_float, metavar="X",
        help="learning rate of Adam (default: %(default)s)")
    add("--seed", type=_seed, metavar="N",
        help="the same seed gives the same losses (default: %(default)s)")
    add("--out", type=Path, metavar="DIR", help="folder of the results (default: %(default)s)")
    # fmt: on
    parser.set_defaults(command=_train, parser=parser, **asdict(Settings()))


def _train(options: argparse.Namespace) -> int:
    settings = Settings(**{f.name: getattr(options, f.name) for f in fields(Settings)})
    try:
        train(settings, report=lambda line: print(line, flush=True))
    except (DataError, JobError, OutputError) as error:
        return _fail("train", str(error))
    return 0


# ---------------------------------------------------------------------------------------- run


def _add_run(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "run",
        help="run a graph from its text",
        description="Run the graph in a text file and print its outputs.",
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE.ir", help="a graph as text")
    add("--input", nargs="+", action="extend", type=Path, metavar="X.npy", default=[],
        help="one array per parameter (default: random ones of the declared types)")  # fmt: skip
    add("--seed", type=_seed, default=0, metavar="N", help="of the random inputs (default: 0)")
    add("--optimized", action="store_true",
        help="print the text of the graph after all passes instead of running it")  # fmt: skip
    add("--import", dest="modules", action="append", default=[], metavar="MODULE",
        help="a module of yours that defines primitives which the graph uses")  # fmt: skip
    parser.set_defaults(command=_run, parser=parser)


def _run(options: argparse.Namespace) -> int:
    try:
        for module in options.modules:
            load(module)
        graph = _read_graph(options.file)
        if options.optimized:
            print(_optimized_text(graph), end="")
            return 0
        inputs = _inputs(graph, options.input, options.seed)
    except (_WrongFile, DrawError) as error:
        return _fail("run", str(error))
    try:
        outputs = interpret(graph, inputs)
    except Exception as error:  # whatever the graph itself raises
        notes = getattr(error, "__notes__", ())
        where = "".join(f" ({' '.join(note.split())})" for note in notes)
        return _fail("run", f"'{options.file}' raised {type(error).__name__}: {error}{where}")
    for i, (node, value) in enumerate(zip(graph.outputs(), outputs, strict=True)):
        print(f"output {i}: {node.abstract}\n{value!s}")
    return 0


class _WrongFile(Exception):
    """A file cannot be read or does not fit, in one sentence."""


def _read_graph(path: Path) -> FuncGraph:
    """The graph in a text file, read and verified."""
    try:
        graph = parse(path.read_text(encoding="utf-8"))
        verify(graph)
        return graph
    except OSError as error:
        raise _WrongFile(f"cannot read '{path}': {error.strerror}") from error
    except (UnicodeDecodeError, ParseError, IRError) as error:
        hint = ""
        if "expected a primitive" in str(error):
            hint = "\nA primitive of your own is known with --import MODULE, which defines it."
        elif path.suffix == ".py":
            hint = f"\nTo see how a function is compiled: minispore draw {path.stem}:FUNCTION."
        raise _WrongFile(f"'{path}' is no graph: {error}{hint}") from error


def _optimized_text(graph: FuncGraph) -> str:
    return to_text(optimize(expand_grad(graph)), full=True)


def _inputs(graph: FuncGraph, paths: Sequence[Path], seed: int) -> list:
    """A value per parameter of a graph: from files, or random."""
    if not paths:
        rng = np.random.default_rng(seed)
        return [_random_value(p.abstract, rng) for p in graph.parameters]
    if len(paths) != len(graph.parameters):
        raise _WrongFile(
            f"the graph takes {len(graph.parameters)} inputs, but {len(paths)} files are given"
        )
    return [_file_value(p, path) for p, path in zip(graph.parameters, paths, strict=True)]


def _random_value(abstract: Abstract, rng: np.random.Generator) -> Any:
    """Standard normal floats, ints from 0 to 9, or bools; None for a Token or an empty Stack."""
    if not isinstance(abstract, (AbstractScalar, AbstractTensor)):
        return None
    shape = abstract.shape if isinstance(abstract, AbstractTensor) else ()
    if abstract.dtype.is_float:
        array = np.asarray(rng.standard_normal(shape))
    else:
        array = np.asarray(rng.integers(0, 2 if abstract.dtype is bool_ else 10, shape))
    if isinstance(abstract, AbstractScalar):
        return abstract.kind(array)
    return array.astype(abstract.dtype.numpy)


def _file_value(parameter: ParameterNode, path: Path) -> Any:
    """The array in a .npy file, or the number in it; it must be exactly what is declared."""
    abstract = parameter.abstract
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except OSError as error:
        raise _WrongFile(f"cannot read '{path}': {error.strerror}") from error
    except ValueError as error:
        raise _WrongFile(f"'{path}' is no .npy file: {error}") from error
    if isinstance(abstract, AbstractScalar) and array.shape == () and array.dtype == abstract.kind:
        return abstract.kind(array)
    if isinstance(abstract, AbstractTensor):
        dtype = abstract.dtype.numpy
        if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
            array = array.view(dtype)  # the file format does not know bfloat16
        if abstract.takes(array.shape) and array.dtype == dtype:
            return array
    found = f"{array.dtype} of shape {array.shape}"
    raise _WrongFile(f"'{path}' holds {found}, but {parameter.name} is a {abstract}")


# --------------------------------------------------------------------------------------- draw


def _add_draw(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "draw",
        help="draw how a function of yours is compiled",
        description="Compile a function or Cell and write its graphs, stage by stage, as pictures, "
        "text and one HTML page.",
    )
    _add_function(parser)
    parser.add_argument("--out", type=Path, default=Path("minispore-draw"), metavar="FOLDER",
                        help="folder of the results (default: %(default)s)")  # fmt: skip
    parser.set_defaults(command=_draw, parser=parser)


def _add_function(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """The function that a command is about, and its arguments."""
    add = parser.add_argument
    example = "for example train:loss, model:Net"
    # fmt: off
    if default is None:
        add("function", metavar="MODULE:FUNCTION", help=example)
    else:
        add("function", metavar="MODULE:FUNCTION", nargs="?",
            help=f"{example} (default: {default})")
    add("--shape", action="append", type=_shape, default=[], metavar="2,3",
        help="the shape of an argument, once per argument; () for a number")
    add("--dtype", action="append", default=[], choices=tuple(d.name for d in ALL), metavar="NAME",
        help="one for all arguments, or one for each (default: float32)")
    # fmt: on


def _draw(options: argparse.Namespace) -> int:
    try:
        tensors = arguments(options.shape, options.dtype)
        report = draw_to(options.function, tensors, options.out)
    except DrawError as error:
        return _fail("draw", str(error))
    print(report.table())
    print(f"open {options.out / 'report.html'} in a browser")
    return 0


def _add_step(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "step",
        help="walk the graph of a function of yours node by node",
        description="Compile a function or Cell, and run its graph node by node, forward and back, "
        "with values and source lines.  Commands: n(ext), b(ack), s(tep into), u(p), l(ine) "
        "NUMBER, p(rint), e(nd), h(elp), q(uit).",
    )
    _add_function(parser)
    parser.add_argument("--plan", action="store_true",
                        help="walk what runs: instructions, and kernels one by one")  # fmt: skip
    parser.set_defaults(command=_step, parser=parser)


def _step(options: argparse.Namespace) -> int:
    try:
        report = explained(options.function, arguments(options.shape, options.dtype))
    except DrawError as error:
        return _fail("step", str(error))
    (report.step_plan() if options.plan else report.step()).interact()
    return 0


# ------------------------------------------------------------------------------------- passes


def _add_passes(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "passes",
        help="tell what each optimiser pass did to a function of yours",
        description="Compile a function or Cell and print what each pass and each rule did, and "
        "how long it took.",
    )
    _add_function(parser, "the step of minispore train")
    parser.set_defaults(command=_passes, parser=parser)


def _passes(options: argparse.Namespace) -> int:
    try:
        if options.function is None:
            step = make_step(Network(), Settings().lr)
            images, labels = arguments([(50, 1, 28, 28), (50,)], ["float32", "int32"])
            report = explain(step, images, labels)
        else:
            report = explained(options.function, arguments(options.shape, options.dtype))
    except DrawError as error:
        return _fail("passes", str(error))
    print(report.passes())
    return 0


def _shape(text: str) -> tuple[int, ...]:
    inner = text.strip().strip("()")
    try:
        sizes = tuple(int(part) for part in inner.split(",") if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be sizes like 2,3, not {text!r}") from None
    if any(size < 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"a size cannot be negative, as in {text!r}")
    return sizes


# ------------------------------------------------------------------------------------ options


def _fail(command: str, sentence: str) -> int:
    print(f"minispore {command}: {sentence}", file=sys.stderr)
    return WRONG


def _positive_int(text: str) -> int:
    value = _int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return value


def _seed(text: str) -> int:
    value = _int(text)
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 0 to 2**32 - 1, not {text!r}"
        )
    return value


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None


def _positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a positive number, not {text!r}")
    return value

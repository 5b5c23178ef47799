"""The main job: train the documents' network on handwritten digits.

    Flatten -> Dense 784-512 -> ReLU -> Dense 512-512 -> ReLU -> Dense 512-10

One training step is one function: loss, gradients, update.  In Graph mode ``jit`` compiles it
whole; in PyNative mode the same function runs op by op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from minispore import nn
from minispore.autodiff.api import value_and_grad
from minispore.compile import jit
from minispore.dataset import Digits, load_digits
from minispore.dtype import int32
from minispore.ir.text import to_text
from minispore.random import set_seed
from minispore.tensor import Tensor
from minispore.train.outputs import whole_files
from minispore.train.serialization import save_checkpoint


class JobError(ValueError):
    """The job's settings do not fit its data, or the training went astray."""


@dataclass(frozen=True)
class Settings:
    """What to train, and where the results go.

    `mode` is "graph" or "pynative"; `data` a folder with MNIST's files, or None for the digits that
    ship with minispore.
    """

    mode: str = "graph"
    data: Path | None = None
    epochs: int = 10
    batch_size: int = 50
    lr: float = 0.001
    seed: int = 0
    out: Path = Path("minispore-train")


@dataclass
class History:
    """Per epoch: the mean loss of its steps, and then the share of test images recognised."""

    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)


class Network(nn.Cell):
    """The documents' network: images (N, 1, 28, 28) to logits (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(
            nn.Dense(28 * 28, 512), nn.ReLU(), nn.Dense(512, 512), nn.ReLU(), nn.Dense(512, 10)
        )

    def construct(self, x: Any) -> Any:
        return self.dense_relu_sequential(self.flatten(x))


def make_step(network: nn.Cell, lr: float) -> Callable:
    """``step(images, labels) -> loss``, which also updates the network's parameters."""
    loss_fn = nn.CrossEntropyLoss()
    optimizer = nn.Adam(network.trainable_params(), learning_rate=lr)

    def forward(images: Any, labels: Any) -> Any:
        return loss_fn(network(images), labels)

    grad_fn = value_and_grad(forward, None, optimizer.parameters)

    def train_step(images: Any, labels: Any) -> Any:
        loss, grads = grad_fn(images, labels)
        optimizer(grads)
        return loss

    return train_step


def train(settings: Settings, report: Callable[[str], None] = print) -> History:
    """Run the job; `report` gets a line per epoch.

    Leaves in ``settings.out``: ``checkpoint.ckpt`` (the parameters), ``curve.svg`` (loss and
    accuracy) and ``train_step.ir`` (the graph of a training step, after all passes).

    Raises:
        DataError: the data folder is incomplete or damaged.
        JobError: a batch is larger than the data; or the loss is no finite number any more.
        OutputError: the results cannot be written.
    """
    digits = load_digits(settings.data)
    n_train, n_test = len(digits.train_images), len(digits.test_images)
    if settings.batch_size > n_train:
        raise JobError(
            f"a batch of {settings.batch_size} is larger than the {n_train} training images"
        )
    report(f"{n_train} training and {n_test} test images, {settings.mode} mode")
    with whole_files(settings.out) as scratch:
        set_seed(settings.seed)
        network = Network()
        step, predict = make_step(network, settings.lr), network.construct
        if settings.mode == "graph":
            step, predict = jit(step), jit(network.construct)
        history = _fit(step, predict, digits, settings, report)
        save_checkpoint(network, str(scratch / "checkpoint.ckpt"))
        draw_curve(history, scratch / "curve.svg")
        text = graph_text(step, *_batch(digits, slice(settings.batch_size)))
        (scratch / "train_step.ir").write_text(text, encoding="utf-8")
    report(f"checkpoint.ckpt, curve.svg and train_step.ir are in {settings.out}")
    return history


def _fit(
    step: Callable, predict: Callable, digits: Digits, settings: Settings, report: Callable
) -> History:
    """Train for all epochs and test after each."""
    history = History()
    rng = np.random.default_rng(settings.seed)
    test_images = to_input(digits.test_images)
    for epoch in range(1, settings.epochs + 1):
        losses = []
        for images, labels in _batches(digits, settings.batch_size, rng, f"epoch {epoch}"):
            losses.append(float(step(images, labels)))
            if not isfinite(losses[-1]):
                raise JobError(f"the loss became {losses[-1]} in epoch {epoch}; try a smaller --lr")
        guess = predict(test_images).asnumpy().argmax(axis=1)
        history.loss.append(sum(losses) / len(losses))
        history.accuracy.append(float((guess == digits.test_labels).mean()))
        report(
            f"epoch {epoch}/{settings.epochs}  loss {history.loss[-1]:.4f}  "
            f"accuracy {history.accuracy[-1]:.2%}"
        )
    return history


def _batches(
    digits: Digits, size: int, rng: np.random.Generator, label: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """The training images in a new order, in batches of one size; a rest is left out.

    A progress bar goes to stderr if that is a terminal.
    """
    order = rng.permutation(len(digits.train_images))
    n_batches = len(order) // size
    for rows in tqdm(
        order[: n_batches * size].reshape(n_batches, size), label, leave=False, disable=None
    ):
        yield _batch(digits, rows)


def _batch(digits: Digits, rows: Any) -> tuple[Tensor, Tensor]:
    return to_input(digits.train_images[rows]), Tensor(digits.train_labels[rows], int32)


def to_input(images: np.ndarray) -> Tensor:
    """Grey images (N, 28, 28) as the network takes them: float32, (N, 1, 28, 28), 0 to 1."""
    return Tensor((images[:, None] / 255).astype(np.float32))


def graph_text(step: Callable, images: Tensor, labels: Tensor) -> str:
    """The text of a training step's graph after all passes, which ``minispore run`` can read."""
    compiled = jit(step)
    compiled.compile(images, labels)  # in Graph mode it is compiled already
    return to_text(compiled.graph(stage="optimized"), full=True)


def draw_curve(history: History, path: Path) -> None:
    """Draw loss and accuracy over the epochs, as SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    epochs = range(1, len(history.loss) + 1)
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    left = figure.subplots()
    right = left.twinx()
    left.plot(epochs, history.loss, "o-", color="tab:blue", label="loss (training)")
    right.plot(epochs, history.accuracy, "s-", color="tab:orange", label="accuracy (test)")
    left.set(xlabel="epoch", ylabel="loss")
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set(ylabel="accuracy")
    figure.legend(loc="outside upper center", ncols=2)
    with rc_context({"svg.hashsalt": "minispore"}):  # the same history, the same bytes
        figure.savefig(path, format="svg", metadata={"Date": None})

"""Make the reference figures of the tests with MindSpore itself.

Run with a Python that has MindSpore 2.10 (it is no dependency of this project):

    python tests/data/make_mindspore_figures.py

It writes, beside itself,

    mindspore_mlp.npz      50 training steps of a small MLP with three optimizers
    mindspore_optim.npz    four steps of one parameter under many settings of the optimizers
    mindspore_layers.npz   values and gradients of layers and losses
    mindspore_norm.npz     normalization and embedding, in training or not; training with them
    mindspore_ckpt.npz     the bytes of a checkpoint with a Tensor of each dtype
"""

import tempfile
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn

HERE = Path(__file__).parent
SIZES = (20, 16, 16, 5)
STEPS, BATCHES, BATCH = 50, 4, 32
rng = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


# ------------------------------------------------------------------------------------------ MLP


def weights_of_an_mlp() -> dict[str, np.ndarray]:
    found = {}
    for layer, (inputs, outputs) in enumerate(zip(SIZES, SIZES[1:], strict=False)):
        found[f"{2 * layer}.weight"] = floats(outputs, inputs) / np.float32(inputs**0.5)
        found[f"{2 * layer}.bias"] = 0.1 * floats(outputs)
    return found


def losses(make_optimizer, weights: dict, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The losses of all steps from the given weights on; batch after batch, in turn."""
    a, b, c = (nn.Dense(i, o) for i, o in zip(SIZES, SIZES[1:], strict=False))
    net = nn.SequentialCell(a, nn.ReLU(), b, nn.ReLU(), c)
    for p in net.get_parameters():
        p.set_data(Tensor(weights[p.name]))
    loss_fn, optimizer = nn.CrossEntropyLoss(), make_optimizer(net.trainable_params())
    net.set_train()
    grad_fn = ms.value_and_grad(lambda x, y: loss_fn(net(x), y), None, optimizer.parameters)
    found = []
    for step in range(STEPS):
        loss, grads = grad_fn(Tensor(x[step % BATCHES]), Tensor(labels[step % BATCHES]))
        optimizer(grads)
        found.append(loss.asnumpy())
    return np.array(found)


def make_mlp() -> None:
    weights = weights_of_an_mlp()
    x = floats(BATCHES, BATCH, SIZES[0])
    labels = rng.integers(0, SIZES[-1], (BATCHES, BATCH)).astype(np.int32)
    optimizers = {
        "sgd": lambda p: nn.SGD(p, 0.1),
        "momentum": lambda p: nn.Momentum(p, 0.05, 0.9),
        "adam": lambda p: nn.Adam(p, 0.01),
    }
    results = {f"losses.{n}": losses(make, weights, x, labels) for n, make in optimizers.items()}
    np.savez_compressed(HERE / "mindspore_mlp.npz", x=x, labels=labels, **weights, **results)


# ----------------------------------------------------------------------------------- optimizers

SETTINGS = [
    ("SGD", {}),
    ("SGD", {"weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "loss_scale": 2.0}),
    ("Momentum", {"momentum": 0.9}),
    ("Momentum", {"momentum": 0.9, "weight_decay": 0.1, "loss_scale": 2.0}),
    ("Momentum", {"momentum": 0.9, "use_nesterov": True}),
    ("Adam", {}),
    ("Adam", {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3}),
    ("Adam", {"weight_decay": 0.1, "loss_scale": 2.0}),
    ("Adam", {"use_nesterov": True}),
    ("Adam", {"use_amsgrad": True}),
    ("AdamWeightDecay", {"weight_decay": 0.1}),
]


def make_optim() -> None:
    """`w`: (setting, step, element), the values after each step; `g`: (step, element)."""
    start, g = floats(6), floats(4, 6)
    trails = []
    for name, settings in SETTINGS:
        w = Parameter(Tensor(start), name="w")
        optimizer = getattr(nn, name)([w], learning_rate=0.1, **settings)
        trail = []
        for gradient in g:
            optimizer((Tensor(gradient),))
            trail.append(w.asnumpy().copy())
        trails.append(trail)
    described = np.array([repr(setting) for setting in SETTINGS])
    found = {"settings": described, "start": start, "g": g, "w": np.array(trails)}
    np.savez_compressed(HERE / "mindspore_optim.npz", **found)


# ----------------------------------------------------------------------------- layers and losses


def make_layers() -> None:
    """For each cell: its inputs, its output, and the gradients of the output's weighted sum."""
    x, y = floats(3, 4), floats(3, 4)
    unit = 1 / (1 + np.exp(-x))
    hot = (y > 0).astype(np.float32)
    classes = np.array([1, 3, 0], np.int32)
    class_weight = np.array([0.5, 1.0, 2.0, 3.0], np.float32)
    weight = Tensor(class_weight)
    cases = {
        "ReLU()": (x,), "Sigmoid()": (x,), "Tanh()": (x,), "GELU()": (x,), "GELU(False)": (x,),
        "SiLU()": (x,), "LeakyReLU()": (x,), "LeakyReLU(0.5)": (x,), "ELU()": (x,),
        "Softmax()": (x,), "Softmax(0)": (x,), "LogSoftmax()": (x,), "LogSoftmax(0)": (x,),
        "MSELoss()": (x, y), "MSELoss('sum')": (x, y), "MSELoss('none')": (x, y),
        "L1Loss()": (x, y), "L1Loss('none')": (x, y),
        "BCELoss()": (unit, hot), "BCELoss(reduction='none')": (unit, hot),
        "BCEWithLogitsLoss()": (x, hot), "BCEWithLogitsLoss('sum')": (x, hot),
        "CrossEntropyLoss()": (x, classes), "CrossEntropyLoss(reduction='none')": (x, classes),
        "CrossEntropyLoss(weight)": (x, classes),
        "CrossEntropyLoss(ignore_index=3)": (x, classes),
        "CrossEntropyLoss(label_smoothing=0.1)": (x, classes),
        "CrossEntropyLoss(reduction='sum')": (x, hot),
        "NLLLoss()": (np.log(unit), classes), "NLLLoss(weight, 3, 'sum')": (np.log(unit), classes),
    }  # fmt: skip
    found = {"class_weight": class_weight}
    for text, inputs in cases.items():
        cell = eval(f"nn.{text}", {"nn": nn, "weight": weight})
        tensors = [Tensor(v) for v in inputs]
        out = cell(*tensors)
        sens = floats(*out.shape)
        grad_fn = ms.ops.GradOperation(sens_param=True)(cell)
        gradient = grad_fn(*tensors, Tensor(sens.astype(np.float32)))
        for i, value in enumerate(inputs):
            found[f"{text} input {i}"] = value
        found[f"{text} output"] = out.asnumpy()
        found[f"{text} sens"] = np.asarray(sens)
        found[f"{text} gradient"] = gradient.asnumpy()
    np.savez_compressed(HERE / "mindspore_layers.npz", **found)


# ------------------------------------------------------------------ normalization and embedding

NORMS = {
    "BatchNorm1d(3)": (4, 3),
    "BatchNorm1d(3, 1e-3, 0.5)": (4, 3, 2),
    "BatchNorm1d(3, use_batch_statistics=True)": (4, 3),
    "BatchNorm1d(3, use_batch_statistics=False)": (4, 3),
    "BatchNorm2d(3)": (2, 3, 2, 4),
    "BatchNorm2d(2, momentum=0.0)": (3, 2, 1, 1),
    "LayerNorm((4,))": (3, 4),
    "LayerNorm([4], epsilon=1e-2)": (2, 3, 4),
    "LayerNorm((3, 4), 1, 1)": (2, 3, 4),
    "LayerNorm((4,), 1, -1)": (2, 3, 4),
}


def make_norm() -> None:
    """For each cell, in training and not: a call with one input, then gradients with another."""
    global rng
    rng = np.random.default_rng(1)
    found = {}
    for text, shape in NORMS.items():
        for training in (False, True):
            found |= figures_of(f"{text} {training}", eval(f"nn.{text}"), training, shape)
    for text in ("Embedding(6, 3)", "Embedding(6, 3, True)"):
        cell, ids = eval(f"nn.{text}"), np.array([[1, 5], [0, 1]], np.int32)
        table, sens = floats(6, 3), floats(2, 2, 3)
        cell.embedding_table.set_data(Tensor(table))
        grad_fn = ms.ops.GradOperation(get_by_list=True, sens_param=True)
        (gradient,) = grad_fn(cell, cell.trainable_params())(Tensor(ids), Tensor(sens))
        figures = {"ids": ids, "table": table, "sens": sens, "gradient": gradient.asnumpy()}
        figures["output"] = cell(Tensor(ids)).asnumpy()
        found |= {f"{text} {key}": value for key, value in figures.items()}
    np.savez_compressed(HERE / "mindspore_norm.npz", **found, **trained_with_norms())


def figures_of(prefix: str, cell: nn.Cell, training: bool, shape: tuple[int, ...]) -> dict:
    """`start` and `end` are all Parameters before and after, flattened, in their order."""
    for p in cell.get_parameters():
        p.set_data(Tensor(np.abs(floats(*p.shape)) + np.float32(0.1)))
    cell.set_train(training)
    start = [p.asnumpy().copy().ravel() for p in cell.get_parameters()]
    x1, x2, sens = floats(*shape), floats(*shape) * 2 + np.float32(1), floats(*shape)
    output = cell(Tensor(x1)).asnumpy()
    grad_fn = ms.ops.GradOperation(get_all=True, get_by_list=True, sens_param=True)
    (dx,), (dgamma, dbeta) = grad_fn(cell, cell.trainable_params())(Tensor(x2), Tensor(sens))
    end = [p.asnumpy().ravel() for p in cell.get_parameters()]
    figures = {
        "x1": x1, "x2": x2, "sens": sens, "output": output, "dx": dx.asnumpy(),
        "dgamma": dgamma.asnumpy(), "dbeta": dbeta.asnumpy(), "start": np.concatenate(start),
        "end": np.concatenate(end),
    }  # fmt: skip
    return {f"{prefix} {key}": value for key, value in figures.items()}


def trained_with_norms() -> dict:
    """The losses of 20 steps of a net with both kinds of normalization, then what it predicts."""
    x, labels = floats(20, 16, 6), rng.integers(0, 3, (20, 16)).astype(np.int32)
    net = nn.SequentialCell(
        nn.Dense(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.LayerNorm((8,)), nn.Dense(8, 3)
    )
    for p in net.trainable_params():
        if p.ndim == 2 or "bias" in p.name:
            p.set_data(Tensor(floats(*p.shape) / 2))
    start = {f"start {p.name}": p.asnumpy().copy() for p in net.trainable_params()}
    loss_fn, optimizer = nn.CrossEntropyLoss(), nn.Momentum(net.trainable_params(), 0.05, 0.9)
    net.set_train()
    grad_fn = ms.value_and_grad(lambda x, y: loss_fn(net(x), y), None, optimizer.parameters)
    losses = []
    for inputs, targets in zip(x, labels, strict=True):
        loss, grads = grad_fn(Tensor(inputs), Tensor(targets))
        optimizer(grads)
        losses.append(loss.asnumpy())
    predicted = net.set_train(False)(Tensor(x[0])).asnumpy()
    moving = {f"end {p.name}": p.asnumpy() for p in net.untrainable_params()}
    figures = {"x": x, "labels": labels, "losses": np.array(losses), "predicted": predicted}
    return start | moving | figures


# ---------------------------------------------------------------------------------- checkpoint

DTYPES = ("float16", "float32", "float64", "bfloat16", "bool_", "int8", "int16", "int32", "int64",
          "uint8", "uint16", "uint32", "uint64")  # fmt: skip


def make_checkpoint() -> None:
    rows = [{"name": n, "data": Tensor([[0, 1, 2], [3, 4, 5]], getattr(ms, n))} for n in DTYPES]
    rows.append({"name": "scalar", "data": Tensor(1.5, ms.float32)})
    settings = {"epoch": 3, "rate": 0.5, "done": True, "note": "abc"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.ckpt"
        ms.save_checkpoint(rows, str(path), append_dict=settings)
        content = np.frombuffer(path.read_bytes(), np.uint8)
    np.savez_compressed(HERE / "mindspore_ckpt.npz", content=content)


if __name__ == "__main__":
    ms.set_context(mode=ms.PYNATIVE_MODE)
    make_mlp()
    make_optim()
    make_layers()
    make_checkpoint()
    make_norm()

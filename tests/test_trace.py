"""capture_mode="trace": Python runs the function, and what it reads is guarded all the same."""

import functools
import logging
import random
import time
import types
from time import perf_counter

import numpy as np
import pytest
from differential import points_at
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.frontend.errors import UnsupportedError

X = Tensor([1.0, 2.0])
FACTOR = 2
WEIGHT = Tensor([3.0, 4.0])
TABLE = {"scale": [2, {"by": 3}]}
LOG = []


def trace(function):
    return ms.jit(function, capture_mode="trace", jit_level="O0")  # to the last bit


def refuses(function, error, match, *args):
    """Assert that tracing fails so, at a line of this file, and changes nothing outside."""
    with pytest.raises(error, match=match) as caught:
        trace(function)(*(args or (X,)))
    assert points_at(caught.value, __file__), caught.value.__notes__
    return caught.value


def follows(function, change, restore, args=(X,)):
    """Assert that a traced function gives Python's result before and after a change, and back."""
    compiled = trace(function)
    for step in (lambda: None, change, restore):
        step()
        for _ in range(2):
            assert repr(compiled(*args)) == repr(function(*args))
    return compiled.compile_count


# ------------------------------------------------------------------------------------ what runs


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 2)
        self.dropout = nn.Dropout(p=0.5)
        self.w = Parameter(Tensor([1.0, 2.0]), name="w")
        self.scale = 2

    def construct(self, x):
        return self.dropout(self.fc(x)) * self.w * self.scale


def branches(x):
    total = x * 0
    for k in range(3):
        if k % 2:
            total = total + x * k
        else:
            total = total - helper(x)
    return {"total": total, "pair": (x, [total, total.shape, total.dtype])}


def helper(x):
    return ops.sin(x) * FACTOR


@pytest.mark.parametrize(
    "function",
    [
        branches,
        lambda x: x,
        lambda x: None,
        lambda x: (WEIGHT, x * WEIGHT),
        lambda x: ms.grad(helper)(x),
        lambda x: ms.grad(lambda y: (branches(y)["total"] ** 2).sum())(x),
        lambda x: ms.value_and_grad(ms.grad(helper))(x),
        lambda x: ms.jit(helper)(x) + 1,
        lambda x: ops.stack([x, x]).max(0)[0],
        lambda x: x.sum().item() * 2 + 1,
        lambda x: Tensor([1.0, 2.0]) + x,
        helper,
        ops.sin,
        ops.Neg(),
        functools.partial(lambda x, k: x * k, k=3),
        nn.Dense(2, 3),
    ],
)
def test_the_same_as_python(function):
    compiled = trace(function)
    for _ in range(2):
        assert repr(compiled(X)) == repr(function(X))
    assert compiled.compile_count == 1


def test_no_source_is_needed():
    scope = {"ops": ops}
    exec("def f(x):\n    return ops.sin(x) * 2", scope)
    assert_same(trace(scope["f"])(X), scope["f"](X))


def test_python_runs_once_for_each_graph():
    seen = []

    class Noted:
        def __init__(self, value):
            seen.append(value)  # a list that the function does not name

        def apply(self, x):
            return x * 2

    def run(x):
        return Noted(1).apply(x)

    with pytest.raises(UnsupportedError, match="'seen' is older"):
        trace(run)(X)
    assert seen == []


def test_lines_and_cells_are_known():
    net = Net()

    def f(x):
        y = net(x)
        return ops.sin(y)

    compiled = trace(f)
    compiled(Tensor([[1.0, 2.0]]))
    text = str(compiled.graph("evaluate"))
    first = f.__code__.co_firstlineno
    assert f"Sin(%1) : Tensor[Float32, (1, 2)]  # test_trace.py:{first + 2} in f" in text
    assert "call @Net(" in text and "call @Dense(" in text
    assert "basic.py" in text and "scope Net/fc" in text
    multiply = next(n for n in compiled.graph("evaluate").graphs()[1].nodes()
                    if n.origin.where and n.origin.where.file == __file__)  # fmt: skip
    shown = multiply.origin.where.shown()
    assert "self.dropout(self.fc(x)) * self.w" in shown and "^^^" in shown


def test_a_cell_s_own_gradient_is_used():
    class Own(nn.Cell):
        def construct(self, x):
            return x * 2

        def bprop(self, x, out, dout):
            return (dout * 10,)

    own = Own()
    gradient = trace(lambda x: ms.grad(lambda y: own(y).sum())(x))
    assert_same(gradient(X), np.array([10, 10], np.float32))


def test_writes_to_tensors_are_seen():
    w = Parameter(Tensor([1.0, 1.0]), name="w")

    @trace
    def f(x, y):
        nonlocal w
        x[0] = 5.0
        y += 1
        w += x
        ops.assign_add(w, x)
        return w * 1, y

    x, y = Tensor([1.0, 2.0]), Tensor([0.0, 0.0])
    first, second = f(x, y)
    found = [t.asnumpy().tolist() for t in (first, w, x, y, second)]
    assert found == [[11, 5], [11, 5], [5, 2], [0, 0], [1, 1]]


def test_random_ops_draw_the_same_numbers():
    def f(x):
        return x * ops.rand(2)

    compiled = trace(f)
    ms.set_seed(3)
    expected = f(X), f(X)
    ms.set_seed(3)
    for e in expected:
        assert_same(compiled(X), e)


# ------------------------------------------------------------------------------ what is guarded


def test_globals(monkeypatch):
    def run(x):
        return helper(x) * TABLE["scale"][1]["by"] + WEIGHT

    for name, value in (
        ("FACTOR", 5),
        ("WEIGHT", Tensor([7.0, 8.0])),
        ("TABLE", {"scale": [2, {"by": 9}]}),
        ("helper", lambda x: x * 100),
    ):
        old = globals()[name]
        count = follows(
            run,
            lambda name=name, value=value: monkeypatch.setitem(globals(), name, value),
            lambda name=name, old=old: monkeypatch.setitem(globals(), name, old),
        )
        assert count == (1 if name == "WEIGHT" else 2), name


def test_items_in_place():
    inner = TABLE["scale"][1]
    count = follows(
        lambda x: x * TABLE["scale"][1]["by"],
        lambda: inner.update(by=4),
        lambda: inner.update(by=3),
    )
    assert count == 2


def test_attributes_flags_and_properties():
    class Config:
        rate = 2

        def __init__(self):
            self.k = 3
            self.child = None

        @property
        def doubled(self):
            return self.k * 2

        def times(self, x):
            return x * self.doubled * self.rate

    config, net = Config(), Net()
    config.child = Config()

    def run(x):
        return config.child.times(x) + net.fc(x.reshape(1, 2)) * net.scale

    assert follows(
        run, lambda: setattr(config.child, "k", 4), lambda: setattr(config.child, "k", 3)
    )
    assert follows(run, lambda: setattr(Config, "rate", 5), lambda: setattr(Config, "rate", 2))
    assert follows(run, lambda: setattr(net, "scale", 5), lambda: setattr(net, "scale", 2)) == 2
    follows(run, lambda: net.fc.weight.set_data(Tensor(np.ones((2, 2), np.float32))), lambda: None)


def test_train_flags_of_cells():
    net = Net()
    compiled = trace(net)
    x = Tensor([[1.0, 2.0]])
    still = compiled(x)
    net.set_train()
    assert "Dropout" in str(compiled.last and (compiled(x), compiled.graph("evaluate"))[1])
    net.set_train(False)
    assert_same(compiled(x), still)
    assert compiled.compile_count == 2


def test_closures_and_defaults():
    k = 2

    def f(x, m=[1]):  # noqa: B006
        return x * k * m[0]

    def change():
        nonlocal k
        k = 3

    def restore():
        nonlocal k
        k = 2

    assert follows(f, change, restore) == 2
    default = f.__defaults__[0]
    assert follows(f, lambda: default.append(2), default.pop) == 2


# ------------------------------------------------------------------------------ what is refused


def deciding(x):
    y = x * 2
    if y.sum() > 0:
        return y
    return x


def test_an_if_on_a_tensor_is_a_clear_error():
    error = refuses(
        deciding, TypeError, "the truth of a Tensor .* capture_mode='ast' reads its source, and"
    )
    assert "if y.sum() > 0" in error.__notes__[0]
    assert_same(ms.jit(deciding)(X), X * 2)


def test_the_place_is_that_of_all_calls():
    def outer(x):
        return deciding(x) + 1

    notes = refuses(outer, TypeError, "the truth").__notes__[0]
    assert notes.index("in outer") < notes.index("in deciding")


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda x: x[int(x[0])], TypeError, r"int\(\) of a Tensor"),
        (lambda x: [x for _ in range(x.sum())], TypeError, "range|integer"),
        (lambda x: x.asnumpy(), RuntimeError, r"asnumpy\(\) of this Tensor"),
        (lambda x: x * WEIGHT.asnumpy(), RuntimeError, r"asnumpy\(\) of this Tensor"),
        (lambda x: x * float(WEIGHT[0]), TypeError, r"float\(\) of a Tensor"),
        (lambda x: x if x.sum().item() > 0 else -x, TypeError, "the truth of a bool"),
        (lambda x: x @ Tensor([[1.0, 2.0, 3.0]]), RuntimeError, "matmul of shapes"),
        (lambda x: LOG.append(x) or x, UnsupportedError, "'LOG' is older than the compiled call"),
        (lambda x: print(x) or x, UnsupportedError, "'print' in '<lambda>' would act only while"),
        (lambda x: x * time.time(), UnsupportedError, "'time.time' would be called only while"),
        (lambda x: x * perf_counter(), UnsupportedError, "'time.perf_counter' would be called"),
        (lambda x: x * random.random(), UnsupportedError, "random numbers of Python or NumPy"),
        (lambda x: x * np.random.rand(), UnsupportedError, "random numbers of Python or NumPy"),
        (lambda x: helper, UnsupportedError, "cannot return a function"),
        (lambda x: Held(x), UnsupportedError, "cannot return an object of type Held"),
    ],
)
def test_what_python_would_do_only_once(function, error, match):
    states = [random.getstate(), np.random.get_state()[1].tolist()]
    refuses(function, error, match)
    assert LOG == []
    random.setstate(states[0])
    assert states[1] == np.random.get_state()[1].tolist() or "random" in match


def draws(x):
    noise = ops.uniform((), Tensor(0.0), Tensor(1.0))
    return x * noise + random.gauss(0, 1)


def draws_in_numpy(x):
    x = x + 1
    return [x * np.random.standard_normal() for _ in range(2)]


@pytest.mark.parametrize(
    ("function", "line"), [(draws, "random.gauss(0, 1)"), (draws_in_numpy, "standard_normal()")]
)
def test_random_numbers_are_refused_where_they_are_drawn(function, line):
    note = refuses(function, UnsupportedError, "random numbers of Python or NumPy").__notes__[0]
    assert line in note and "def " not in note


class Held:
    def __init__(self, x):
        self.x = x


def test_attributes_and_globals_stay_as_they_were():
    net = Net()

    def attribute(x):
        net.kept = x
        return x

    def number(x):
        net.scale += 1
        return x

    def variable(x):
        global FACTOR
        FACTOR = FACTOR + 1
        return x

    def argument(x, items):
        items["new"] = x
        return x

    for function in (attribute, number):
        refuses(function, UnsupportedError, "'net' is older than the compiled call")
    refuses(variable, UnsupportedError, "'FACTOR' is older")
    items = {}
    refuses(argument, UnsupportedError, "'an argument' is older", X, items)
    assert (hasattr(net, "kept"), net.scale, FACTOR, items) == (False, 2, 2, {})


class Slots:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k


class Times(nn.Cell):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def construct(self, x):
        return x * self.k


def test_what_objects_of_every_kind_hold():
    slots, space, cells = Slots(2.0), types.SimpleNamespace(k=[2.0]), nn.CellList([Times(2.0)])
    bound = functools.partial(lambda x, k: x * k, k=2.0)

    def own(x):
        return x * own.k

    def all_cells(x):
        for cell in cells:
            x = cell(x)
        return x

    own.k = 2.0
    programs = [
        (lambda x: x * slots.k, lambda: setattr(slots, "k", 3.0)),
        (lambda x: x * space.k[0], lambda: space.k.__setitem__(0, 3.0)),
        (lambda x: x * space.k[0], lambda: setattr(space, "k", [4.0])),
        (lambda x: bound(x), lambda: bound.keywords.update(k=3.0)),
        (own, lambda: setattr(own, "k", 3.0)),
        (all_cells, lambda: cells.__setitem__(0, Times(3.0))),
    ]
    for function, change in programs:
        compiled = trace(function)
        for _ in range(3):
            compiled(X)
        change()
        for _ in range(3):
            assert_same(compiled(X), function(X))
        assert compiled.compile_count == 2


def test_slots_and_attributes_of_functions_stay_as_they_were():
    slots = Slots(2.0)

    def write(x):
        slots.k += 1
        return x

    def count(x):
        count.calls += 1
        return x

    count.calls = 0
    refuses(write, UnsupportedError, "'slots' is older than the compiled call")
    refuses(count, UnsupportedError, "'count' is older than the compiled call")
    assert (slots.k, count.calls) == (2.0, 0)


def test_a_cell_that_python_cannot_see_through():
    def caught(x):
        try:
            return x if x.sum() > 0 else -x
        except Exception:
            return x * 5

    refuses(caught, UnsupportedError, "'try' cannot be traced")

    def managed(x):
        with ms.context.using(max_call_depth=10):
            return x * 2

    assert_same(trace(managed)(X), X * 2)


def test_what_may_change_without_notice():
    import collections

    queue = collections.deque([2])
    refuses(lambda x: x * queue[0], UnsupportedError, "'queue' is a deque, whose content")
    logger = logging.getLogger("test_trace")

    def logs(x):
        logger.debug("tracing")
        return x * 2

    assert_same(trace(logs)(X), X * 2)

"""jit: the forms it takes, what a graph is kept for, what a call returns, and threads."""

import collections
import copy
import functools
import gc
import inspect
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest
from differential import agree, refuses
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.compile import JitFunction

X = Tensor([1.0, 2.0, 3.0])


@pytest.fixture
def graph_mode():
    with ms.context.using(mode=ms.GRAPH_MODE):
        yield


class Scaled(nn.Cell):
    """x * w, by a plain construct."""

    def __init__(self, w=2.0):
        super().__init__()
        self.w = Parameter(Tensor([w, w, w]), name="w")

    def construct(self, x, k=1, *, shift=0):
        return x * self.w * k + shift


class Jitted(Scaled):
    @ms.jit
    def construct(self, x):
        return x * self.w

    @ms.jit
    def other(self, x, k=2):
        return x + self.w * k

    @staticmethod
    @ms.jit
    def static(x):
        return x * 5

    @ms.jit
    @staticmethod
    def static_too(x):
        return x * 6

    @classmethod
    @ms.jit
    def of_class(cls, x):
        return x * 7

    @property
    @ms.jit
    def doubled(self):
        return self.w * 2


@ms.jit
def add_one(x):
    """Adds one."""
    return x + 1


class Callable11:
    def __call__(self, x):
        return x * 11


# ------------------------------------------------------------------------------- forms


@pytest.mark.parametrize(
    ("compiled", "expected"),
    [
        (add_one, [2, 3, 4]),
        (ms.jit()(lambda x: x * 3), [3, 6, 9]),
        (ms.jit(jit_level="O1", fullgraph=True)(lambda x: x * 3), [3, 6, 9]),
        (ms.jit(lambda x: x * 4), [4, 8, 12]),
        (ms.jit(Scaled()), [2, 4, 6]),
        (ms.jit(Scaled().construct), [2, 4, 6]),
        (ms.jit(Jitted().construct), [2, 4, 6]),
        (ms.jit(functools.partial(lambda x, y: x * y, y=3)), [3, 6, 9]),
        (ms.jit(Callable11()), [11, 22, 33]),
        (ms.jit(ops.square), [1, 4, 9]),
        (ms.jit(ops.Neg()), [-1, -2, -3]),
        (ms.jit(abs), [1, 2, 3]),
        (ms.jit(ms.grad(lambda x: (x * x).sum())), [2, 4, 6]),
        (Jitted().construct, [2, 4, 6]),
        (Jitted(), [2, 4, 6]),
        (Jitted().other, [5, 6, 7]),
        (functools.partial(Jitted.other, Jitted()), [5, 6, 7]),
        (Jitted.static, [5, 10, 15]),
        (Jitted().static, [5, 10, 15]),
        (Jitted().static_too, [6, 12, 18]),
        (Jitted.of_class, [7, 14, 21]),
        (Jitted().of_class, [7, 14, 21]),
    ],
)
def test_every_form(compiled, expected):
    assert_same(compiled(X), np.array(expected, np.float32))
    assert_same(compiled(X), np.array(expected, np.float32))


def test_a_jitted_property():
    assert_same(Jitted().doubled, np.array([4, 4, 4], np.float32))


def test_a_method_of_a_tensor():
    x = Tensor([1.0, 2.0])
    total = ms.jit(x.sum)
    assert float(total()) == 3
    x[0] = 5.0
    assert float(total()) == 7


def test_a_cell_class_compiles_its_instances():
    class Own(Scaled):
        def construct(self, x):
            return x * self.w

    class Inherited(Scaled):
        pass

    for kind in (Own, Inherited, Jitted):
        assert ms.jit(kind) is kind
        net = kind()
        before = kind.construct.compile_count
        assert_same(net(X), np.array([2, 4, 6], np.float32))
        assert kind.construct.compile_count == before + 1
    assert not isinstance(Scaled.construct, JitFunction)


def test_nested_jit_is_absorbed():
    net = Jitted()

    @ms.jit
    def outer(x):
        return add_one(x) + net(x) + net.other(x) + Jitted.static(x)

    before = add_one.compile_count, net.construct.compile_count
    assert_same(outer(X), np.array([14, 23, 32], np.float32))
    assert outer.compile_count == 1
    assert (add_one.compile_count, net.construct.compile_count) == before


def test_what_is_no_function_is_returned_unchanged():
    for value in (3, "a", X, [1]):
        assert ms.jit(value) is value
    assert ms.jit(add_one) is add_one


def test_it_looks_like_the_function():
    assert (add_one.__name__, add_one.__doc__) == ("add_one", "Adds one.")
    assert (add_one.__module__, add_one.__qualname__) == (__name__, "add_one")
    assert list(inspect.signature(add_one).parameters) == ["x"]
    assert "x + 1" in inspect.getsource(add_one)
    assert "add_one" in repr(add_one)
    assert ms.jit(Scaled()).__name__ == "Scaled"


def test_copies_and_pickles():
    assert pickle.loads(pickle.dumps(add_one)) is add_one
    assert copy.deepcopy(add_one) is add_one


def test_arguments_by_python_s_rules():
    @ms.jit
    def f(x, /, y=2, *more, z=3, **rest):
        return x * y + z + len(more) + rest.get("w", 0)

    plain = f.__wrapped_function__
    for args, kwargs in (
        ((X,), {}), ((X, 3), {}), ((X, 3, 1, 1), {}), ((X,), {"z": 5}), ((X,), {"y": X, "w": 9}),
    ):  # fmt: skip
        assert_same(f(*args, **kwargs), plain(*args, **kwargs))
    with pytest.raises(TypeError, match="'x'"):
        f(y=1)
    with pytest.raises(TypeError, match="add_one"):
        add_one(X, X)
    with pytest.raises(TypeError, match="'q'"):
        add_one(X, q=1)


def test_no_arguments():
    assert_same(ms.jit(lambda: Tensor([1.0]) * 2)(), np.array([2], np.float32))


async def coroutine(x):
    return x


def generator(x):
    yield x


@pytest.mark.parametrize("function", [coroutine, generator])
def test_functions_that_no_graph_can_be(function):
    refuses(function, X, error=RuntimeError, match="async|yield")


def test_jit_can_be_turned_off(monkeypatch):
    monkeypatch.setenv("MS_JIT", "0")
    seen = []

    @ms.jit
    def f(x):
        seen.append(x)
        return Tensor(x.asnumpy() * 2)

    assert_same(f(X), np.array([2, 4, 6], np.float32))
    assert seen == [X]
    assert f.compile_count == 0


def test_graph_mode_does_not_depend_on_jit_being_on(monkeypatch, graph_mode):
    monkeypatch.setenv("MS_JIT", "0")
    net = Scaled()
    assert_same(net(X), np.array([2, 4, 6], np.float32))
    assert_same(ms.grad(net)(X), np.array([2, 2, 2], np.float32))


def test_graph_mode(graph_mode):
    net = Scaled()
    assert_same(net(X), np.array([2, 4, 6], np.float32))
    assert_same(net(X, 2, shift=1), np.array([5, 9, 13], np.float32))
    assert_same(net(X, k=3), np.array([6, 12, 18], np.float32))
    assert_same(Jitted()(X), np.array([2, 4, 6], np.float32))
    assert_same(add_one(X), np.array([2, 3, 4], np.float32))
    assert_same(ms.jit(net)(X), np.array([2, 4, 6], np.float32))


def test_a_graph_can_be_looked_at():
    f = ms.jit(lambda x: x * 2 + 1)
    with pytest.raises(RuntimeError, match="call it first"):
        f.graph()
    f(X)
    assert f.graph().count() == 2
    assert list(f.stages)[0] == "evaluate"
    assert list(f.stages)[-1] == "optimized"
    with pytest.raises(ValueError, match="there is no stage 'x'; there are evaluate"):
        f.graph("x")


def test_compile_runs_nothing():
    w = Parameter(Tensor([0.0]), name="w")

    @ms.jit
    def f(x):
        ops.assign_add(w, x)
        return w

    f.compile(Tensor([1.0]))
    assert (f.compile_count, float(w)) == (1, 0)
    f(Tensor([1.0]))
    assert (f.compile_count, float(w)) == (1, 1)


def test_compile_draws_no_random_numbers():
    def f(x):
        return nn.Dense(3, 2)(x)

    ms.set_seed(4)
    expected = f(X)
    ms.set_seed(4)
    compiled = ms.jit(f)
    compiled.compile(X)
    assert_same(compiled(X), expected)


# ------------------------------------------------------------------------------- signatures


def counted(function, *calls):
    """The number of graphs after each of some calls."""
    compiled = ms.jit(function)
    counts = []
    for args in calls:
        compiled(*args)
        counts.append(compiled.compile_count)
    return counts


def test_new_values_use_the_same_graph():
    assert counted(lambda x: x * 2, (X,), (Tensor([4.0, 5.0, 6.0]),), (X + 1,)) == [1, 1, 1]


def test_dtypes_and_shapes_have_graphs_of_their_own():
    values = [Tensor(1.0), Tensor(2.0), Tensor(1), Tensor([1.0]), Tensor(True), Tensor(3)]
    assert counted(lambda x: x, *((v,) for v in values)) == [1, 1, 2, 3, 4, 4]


NAN = float("nan")
Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024  # typing's would not show more


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([1, 2, 1, 1.0, True, 1], [1, 2, 2, 3, 4, 4]),
        ([0.0, -0.0, 0.0, NAN, float("nan"), False, 0], [1, 2, 2, 3, 3, 4, 5]),
        ([None, "", b"", "a", "a", ..., None], [1, 2, 3, 4, 4, 5, 5]),
        ([(1, 2), (1, 2), [1, 2], [1, 2], (1, 2.0), (1, True)], [1, 1, 2, 2, 3, 4]),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 2}], [1, 2, 2]),
        ([{1: 0}, {True: 0}, {1.0: 0}, {1: 0}], [1, 2, 3, 3]),
        ([(1, (2, [3])), (1, (2, [3])), (1, (2, [4]))], [1, 1, 2]),
        ([Pair(1, 2), Pair(1, 2), (1, 2), Pair(1, 3)], [1, 1, 2, 3]),
        ([slice(1, 2), slice(1, 2), slice(1, 3), range(3), range(3)], [1, 1, 2, 3, 3]),
        ([{1, 2}, {2, 1}, {1, 3}, frozenset({1}), frozenset({1})], [1, 1, 2, 3, 3]),
        ([np.float32(1), np.float32(1), np.float64(1), np.int32(1)], [1, 1, 2, 3]),
        ([np.arange(3), np.arange(3), np.arange(3.0), np.arange(1, 4)], [1, 1, 2, 3]),
        ([ms.float32, ms.float32, ms.int32, int, int], [1, 1, 2, 3, 3]),
        ([2**70, 2**70, 2**70 + 1], [1, 1, 2]),
        ([ops.exp, ops.exp, ops.sin], [1, 1, 2]),
    ],
)
def test_constants_are_told_apart_by_type_and_bits(values, counts):
    assert counted(lambda x, v: x, *((X, v) for v in values)) == counts


def test_the_graph_of_equal_constants_gives_the_right_ones():
    keys = ms.jit(lambda x, d: list(d)[0])
    assert [type(keys(X, {k: X})) for k in (1, True, 1.0)] == [int, bool, float]
    signs = ms.jit(lambda x, z: ops.atan2(x * z, -x))
    assert float(signs(X, 0.0)[0]) == -float(signs(X, -0.0)[0])


def test_containers_of_tensors_are_arguments():
    def f(pair, table):
        return pair[0] * table["k"] + pair[1]

    a, b = Tensor([1.0]), Tensor([2.0])
    assert counted(f, ([a, b], {"k": a}), ([b, a], {"k": b}), ((a, b), {"k": a})) == [1, 1, 2]
    agree(f, [a, b], {"k": Tensor([5.0])})


def first_written(x, y):
    x.add_(1)
    return y * 1


def test_one_tensor_given_twice_is_a_graph_of_its_own():
    x, y = Tensor([1.0]), Tensor([1.0])
    compiled = ms.jit(first_written)
    assert float(compiled(x, y)) == 1
    assert float(compiled(x, x)) == 3
    assert float(compiled(y, x)) == 3
    assert float(compiled(y, y)) == 3
    assert compiled.compile_count == 2
    items = ms.jit(lambda items: first_written(*items))
    assert float(items([x, y])) == 3
    assert float(items([y, y])) == 4


GLOBAL = Tensor([1.0])
OTHER = Tensor([1.0])


def test_a_captured_tensor_given_as_argument(monkeypatch):
    monkeypatch.setitem(globals(), "GLOBAL", Tensor([1.0]))
    monkeypatch.setitem(globals(), "OTHER", Tensor([1.0]))

    @ms.jit
    def f(x):
        x.add_(1)
        return GLOBAL * 10 + OTHER

    assert float(f(Tensor([0.0]))) == 11
    assert float(f(GLOBAL)) == 21
    assert float(f(OTHER)) == 22
    assert float(f(Tensor([0.0]))) == 22
    assert f.compile_count == 3
    monkeypatch.setitem(globals(), "OTHER", GLOBAL)
    assert float(f(Tensor([0.0]))) == 22
    assert float(f(GLOBAL)) == 33


def test_parameters_as_arguments():
    p, w = Parameter(Tensor([1.0]), name="p"), Parameter(Tensor([2.0]), name="w")

    @ms.jit
    def f(q):
        q += 1
        return w * 1

    assert float(f(p)) == 2
    assert float(f(w)) == 3  # the argument is what is captured
    assert float(f(p)) == 3
    assert (float(p), float(w)) == (3, 3)
    assert f.compile_count == 2
    plain = Tensor([1.0])
    f(plain)
    assert float(plain) == 1  # += writes a Parameter, and makes a new Tensor


def test_flags_and_names_of_parameter_arguments(capsys):
    @ms.jit
    def f(p):
        print(p, p.name)
        return p * 2 if p.requires_grad else p * 3

    a = Parameter(Tensor([1.0]), name="a")
    b = Parameter(Tensor([1.0]), name="b", requires_grad=False)
    assert [float(f(p)) for p in (a, b, a)] == [2, 3, 2]
    assert capsys.readouterr().out == f"{a} a\n{b} b\n{a} a\n"
    a.name, a.requires_grad = "renamed", False
    assert float(f(a)) == 3
    assert capsys.readouterr().out == f"{a} renamed\n"


# ------------------------------------------------------------------------------- results


def test_arguments_and_parameters_are_returned_themselves():
    w = Parameter(Tensor([1.0]), name="w")
    f = ms.jit(lambda x, items: (x, [w, {"k": items[1]}], items[0]))
    y = Tensor([2.0])
    for _ in range(2):
        x, (p, table), again = f(X, (X, y))
        assert x is X
        assert again is X
        assert p is w
        assert table["k"] is y


def test_a_written_argument_is_returned_itself():
    x = Tensor([1.0, 2.0])

    def write(x):
        x[0] = 5.0
        return x

    f = ms.jit(write)
    assert f(x) is x
    assert_same(x, np.array([5, 2], np.float32))


def test_one_tensor_returned_twice_is_one_object():
    def f(x):
        y = x * 2
        return y, [y], {"k": y.value()}, y * 1

    for _ in range(2):
        a, (b,), table, other = ms.jit(f)(X)
        assert a is b is table["k"]
        assert other is not a


@pytest.mark.parametrize(
    "function",
    [
        lambda x: None,
        lambda x: (),
        lambda x: (x + 1, None, 3, 2.5, True, "text", b"bytes", [], {}, ...),
        lambda x: {"b": x * 2, "a": [x + 1, (x.sum(), {})], 3: None},
        lambda x: Pair(x * 2, [1, x]),
        lambda x: (x.sum().item(), int(x[0]), float(x[1]), bool(x[0] > 0), x.shape, x.dtype),
        lambda x: (Tensor([1, 2]), Tensor(3.0), ops.zeros((2,), ms.int32)),
        lambda x: [x[i] for i in range(3)],
    ],
)
def test_results_of_every_kind(function):
    compiled = ms.jit(function)
    for _ in range(2):
        assert repr(compiled(X)) == repr(function(X))


def test_results_share_no_memory():
    constant = Tensor([7.0, 8.0])

    def f(x):
        return (
            x + 0, x.reshape(3, 1), x[0:2], x.T, x.copy(), ops.identity(x), Tensor([0.0, 1.0]),
            constant + 0, ops.stop_gradient(x), x.squeeze(), ops.broadcast_to(x, (2, 3)),
        )  # fmt: skip

    compiled = ms.jit(f)
    expected = [v.asnumpy().copy() for v in f(X)]
    for _ in range(2):
        results = compiled(X)
        for r, e in zip(results, expected, strict=True):
            assert_same(r, e)
        for i, r in enumerate(results):
            r.asnumpy()[...] = 99
            assert not any((v.asnumpy() == 99).any() for v in results[i + 1 :])
    assert_same(X, np.array([1, 2, 3], np.float32))
    assert_same(constant, np.array([7, 8], np.float32))


class Thing:
    pass


def new_thing(x):
    thing = Thing()
    thing.value = x * 2
    return thing


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda x: lambda y: x, "cannot return a function"),
        (lambda x: ops.exp, "cannot return a function"),
        (lambda x: {x: 1}, "cannot return an object of type Tensor"),
        (lambda x: ({"a": {x * 2: 1}},), "cannot return an object of type Tensor"),
        (lambda x: {1, 2}, "of type set"),
        (lambda x: np.arange(3), "of type ndarray"),
        (lambda x: iter([1]), "of type iterator"),
        (new_thing, "of type Thing"),
        (lambda x: Parameter(x, name="p"), "Parameter"),
    ],
)
def test_results_that_no_graph_gives(function, match):
    refuses(function, X, error=RuntimeError, match=match)


# ------------------------------------------------------------------------------- life and threads


def is_freed(make):
    obj = make()
    ref = weakref.ref(obj)
    del obj
    gc.collect()
    return ref() is None


def used(obj, *args):
    obj(*args)
    return obj


def in_graph_mode(run):
    with ms.context.using(mode=ms.GRAPH_MODE):
        return run()


def with_gradient(net):
    ms.grad(net)(X)
    return net


@pytest.mark.parametrize(
    "make",
    [
        lambda: used(ms.jit(lambda x: x * 2), X),
        lambda: used(Jitted(), X),
        lambda: in_graph_mode(lambda: used(Scaled(), X)),
        lambda: in_graph_mode(lambda: with_gradient(Scaled())),
        lambda: add_one(Tensor([1.0, 2.0])),
    ],
)
def test_graphs_keep_nothing_alive(make):
    assert is_freed(make)


def test_copies_of_a_cell_have_graphs_of_their_own(graph_mode):
    for net in (used(Scaled(), X), used(Jitted(), X)):
        for twin in (copy.deepcopy(net), copy.copy(net)):
            twin.w = Parameter(Tensor([5.0, 5.0, 5.0]), name="w")
            assert_same(twin(X), np.array([5, 10, 15], np.float32))
            assert_same(net(X), np.array([2, 4, 6], np.float32))


def in_eight_threads(call):
    """What call(0), ... call(7) return, if they begin at the same time."""
    n = 8
    barrier, results = threading.Barrier(n), [None] * n

    def run(i):
        barrier.wait()
        results[i] = call(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # the threads take turns often
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    return results


@pytest.mark.parametrize(
    "make", [lambda: ms.jit(lambda x: (x * 2).sum()), lambda: ms.jit(Scaled())]
)
def test_eight_threads_call_a_function_for_the_first_time(make):
    compiled = make()
    results = in_eight_threads(lambda i: compiled(X + i))
    assert compiled.compile_count == 1
    for i, r in enumerate(results):
        assert_same(r, compiled(X + i))


def nested(x, n):
    return x if n == 0 else nested(x, n - 1) + 1


def test_threads_that_compile_deep_programs():
    """Each needs a deeper stack than Python allows; all together leave the limit as it was."""
    limit, n = sys.getrecursionlimit(), 4
    results = []

    def call():
        results.append(ms.jit(lambda x: nested(x, 200))(X))

    threads = [threading.Thread(target=call) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == n
    assert sys.getrecursionlimit() == limit


def test_threads_that_write_one_parameter_lose_no_update():
    w = Parameter(Tensor([0.0]), name="w")

    @ms.jit
    def step(x):
        ops.assign_add(w, x)
        return w * 1

    n, times = 8, 20

    def call():
        for _ in range(times):
            step(Tensor([1.0]))

    threads = [threading.Thread(target=call) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert float(w) == n * times


@pytest.mark.parametrize("wrap", [lambda f: f, ms.jit], ids=["eager", "jit"])
def test_threads_that_differentiate_with_respect_to_the_same_weights(wrap):
    net = ms.nn.Dense(3, 2)
    gradient = ms.grad(wrap(lambda x: net(x).square().sum()), 0, net.trainable_params())
    second = ms.grad(lambda x: gradient(x)[1][0].sum(), 0, net.trainable_params())
    wanted = [(gradient(X + i), second(X + i)) for i in range(8)]
    for _ in range(5):
        results = in_eight_threads(lambda i: (gradient(X + i), second(X + i)))
        assert_same(results, wanted)


def test_threads_that_find_out_which_sizes_differ():
    for _ in range(20):
        f = ms.jit(lambda *xs: xs[0] + 1, dynamic=1)

        def call(i, f=f):
            for k in range(4):
                xs = [Tensor(np.zeros((1 + (i * 7 + k * 3 + j) % 5,) * 3)) for j in range(8)]
                assert_same(f(*xs), xs[0] + 1)
            return True

        assert in_eight_threads(call) == [True] * 8

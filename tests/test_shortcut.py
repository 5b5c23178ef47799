"""Calls that take the shortcut (shortcut.py): the same values, the long way if anything changed.

Each program is called until its shortcut is there; then the world changes.
"""

import gc
import os
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from helpers import training_step

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.engine.kernels.direct import DONE
from minispore.engine.native import layout_is_known
from minispore.watch import Watch, dicts_tell

pytestmark = pytest.mark.skipif(
    not (layout_is_known() and dicts_tell()), reason="this Python keeps no versions of dicts"
)
X = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))


def shortcut_of(jitted):
    return jitted.last.shortcuts.shortcut


def warm(jitted, *args):
    """Call until the shortcut is there and has been taken; the last result."""
    for _ in range(4):
        found = jitted(*args)
    assert shortcut_of(jitted).direct.hits >= 1
    return found


def hits(jitted):
    return shortcut_of(jitted).direct.hits


def misses(jitted, *args):
    """The result of a call that goes the long way."""
    before = jitted._graphs.shortcut
    now = before and before.direct.hits
    found = jitted(*args)
    assert before is None or before.direct.hits == now
    return found


def network():
    net = nn.SequentialCell(nn.Dense(3, 4), nn.ReLU(), nn.Dense(4, 2))
    opt = nn.Adam(net.trainable_params(), 1e-2)
    return net, opt, training_step(net, opt)


Y = Tensor(np.array([0, 1], np.int32))


# ------------------------------------------------------------------------------- values


def test_a_training_step():
    ms.set_seed(0)
    net, opt, step = network()
    ms.set_seed(0)
    net2, opt2, step2 = network()
    jitted, exact = ms.jit(step), ms.jit(step2, jit_level="O0")
    for _ in range(20):
        np.testing.assert_allclose(jitted(X, Y).asnumpy(), exact(X, Y).asnumpy(), rtol=1e-5)
    assert hits(jitted) == 18
    for p, q in zip(opt.get_parameters(), opt2.get_parameters(), strict=True):
        np.testing.assert_allclose(p.asnumpy(), q.asnumpy(), rtol=1e-4, atol=1e-6)
    assert opt.global_step.asnumpy() == 20


def test_results_and_arrays_that_someone_keeps_never_change():
    net, opt, step = network()
    jitted = ms.jit(step)
    weight = net.trainable_params()[0]
    kept = []
    for _ in range(12):
        loss = jitted(X, Y)
        view = weight.asnumpy()[1:]
        kept.append((loss, loss.asnumpy().copy(), view, view.copy()))
    assert hits(jitted) >= 9
    for loss, value, view, before in kept:
        assert loss.asnumpy() == value
        np.testing.assert_array_equal(view, before)
    assert len({float(value) for _, value, _, _ in kept}) == 12


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("size", [5, 5001, 50_001])
def test_views_of_results_that_are_gone_never_change(by_name, size):
    @ms.jit
    def f(x):
        return x * 2

    kept = []
    for i in range(8):
        x = Tensor(np.full(size, i, np.float32))
        found = f(x=x) if by_name else f(x)
        kept.append(found.asnumpy()[1:].reshape(2, -1)[:, 1:])
        del found
    for i, view in enumerate(kept):
        assert (view == 2 * i).all()


@pytest.mark.parametrize("size", [6, 40_000])
def test_memory_that_must_not_be_written_is_not_taken_again(size):
    given = np.ones(size, np.float32)
    given.flags.writeable = False
    w = Tensor(np.zeros(size, np.float32))

    @ms.jit
    def f(x):
        w.add_(x)
        return w * 2

    one = Tensor(np.ones(size, np.float32))
    for _ in range(4):
        f(one)
    w._take_array(Tensor.from_numpy(given)._data)
    del given
    for turn in range(6):
        assert f(one).asnumpy()[-1] == 2 * (turn + 2)
        assert w._data.flags.writeable


@pytest.mark.filterwarnings("ignore:Setting")  # newer NumPys advise against it
def test_what_is_done_to_the_array_of_a_result():
    @ms.jit
    def f(x):
        return x * 2

    warm(f, X)
    for change in [("shape", (6,)), ("dtype", np.int32)]:
        for _ in range(4):
            setattr(f(X).asnumpy(), *change)
        np.testing.assert_array_equal(f(X).asnumpy(), X.asnumpy() * 2)
    for _ in range(4):
        f(X).asnumpy().flags.writeable = False
    assert f(X).asnumpy().flags.writeable


def test_every_kind_of_result():
    w = Parameter(np.ones(3, np.float32), name="w")

    @ms.jit
    def f(x):
        return {"a": (x * 2, x), "w": w, "k": [1, "text"], "again": x + 1}

    warm(f, X)
    found = f(X)
    np.testing.assert_array_equal(found["a"][0].asnumpy(), X.asnumpy() * 2)
    assert found["a"][1] is X
    assert found["w"] is w
    assert found["k"] == [1, "text"]
    np.testing.assert_array_equal(found["again"].asnumpy(), X.asnumpy() + 1)


def test_writes_are_seen_by_the_next_call():
    p = Parameter(np.zeros(3, np.float32), name="p")

    @ms.jit
    def count(x):
        p.set_data(p + x)
        return p * 2

    one = Tensor(np.ones(3, np.float32))
    warm(count, one)
    p.set_data(Tensor(np.full(3, 10, np.float32)))
    now = hits(count)
    np.testing.assert_array_equal(count(one).asnumpy(), [22, 22, 22])
    assert hits(count) == now + 1
    np.testing.assert_array_equal(p.asnumpy(), [11, 11, 11])


def test_a_tensor_that_is_written_is_another_value_for_tapes():
    p = Parameter(np.ones(3, np.float32), name="p")

    @ms.jit
    def double(x):
        p.set_data(p * 2)
        return x + 1

    key = p._key
    warm(double, X)
    assert p._key != key


# ----------------------------------------------------------------------------- written in place

BIG = 200  # a matrix of so many rows and columns is written in place


def big_network():
    ms.set_seed(0)
    net = nn.SequentialCell(nn.Dense(3, BIG), nn.ReLU(), nn.Dense(BIG, BIG), nn.ReLU(),
                            nn.Dense(BIG, 2))  # fmt: skip
    opt = nn.Adam(net.trainable_params(), 1e-2)
    return net, opt, training_step(net, opt)


def test_large_parameters_are_written_in_place():
    net, opt, step = big_network()
    net2, opt2, step2 = big_network()
    jitted, long_way = ms.jit(step), ms.jit(step2)
    for _ in range(8):
        assert jitted(X, Y).asnumpy() == long_way(x=X, y=Y).asnumpy()
    assert shortcut_of(long_way) is None
    big = [p for p in opt.get_parameters() if p.size == BIG * BIG]
    assert len(big) == 3  # a weight, its two moments
    direct = shortcut_of(jitted).direct
    assert {id(t) for t in direct.owned} == {id(p) for p in big}
    assert not direct.unlocks  # another thread would see them half written
    for p, q in zip(opt.get_parameters(), opt2.get_parameters(), strict=True):
        np.testing.assert_array_equal(p.asnumpy(), q.asnumpy())
    before = [p._data for p in big]
    assert hits(jitted) == 6
    jitted(X, Y)
    assert hits(jitted) == 7
    assert all(a is not p._data for a, p in zip(before, big, strict=True))  # as we have them
    del before
    before = [p._data.ctypes.data for p in big]
    jitted(X, Y)
    assert [p._data.ctypes.data for p in big] == before


def test_arrays_of_parameters_that_someone_has_are_left_alone():
    net, opt, step = big_network()
    jitted = ms.jit(step)
    weight = net.trainable_params()[2]
    given = np.random.default_rng(0).normal(size=(BIG, BIG)).astype(np.float32)
    warm(jitted, X, Y)
    kept = []
    for _ in range(4):
        view = weight.asnumpy()[1:]
        kept.append((view, view.copy()))
        jitted(X, Y)
    for view, value in kept:
        np.testing.assert_array_equal(view, value)
    assert not np.array_equal(kept[0][1], kept[1][1])
    shared = Tensor.from_numpy(given)
    before = given.copy()
    weight.set_data(shared)
    jitted(X, Y)
    np.testing.assert_array_equal(given, before)


def test_a_check_that_fails_comes_before_what_is_written_in_place():
    net, opt, step = big_network()
    jitted = ms.jit(step)
    warm(jitted, X, Y)
    assert shortcut_of(jitted).direct.owned
    before = [p.asnumpy().copy() for p in opt.get_parameters()]
    for _ in range(2):
        with pytest.raises((ValueError, IndexError)):
            jitted(X, Tensor(np.array([0, 7], np.int32)))
        for p, value in zip(opt.get_parameters(), before, strict=True):
            np.testing.assert_array_equal(p.asnumpy(), value)


def test_what_is_read_after_the_update():
    w = Parameter(np.ones((BIG, BIG), np.float32), name="w")
    m = Parameter(np.zeros((BIG, BIG), np.float32), name="m")

    @ms.jit
    def f(x):
        old = w * 1
        w.set_data(w * 0.5 + x)
        m.set_data(ops.transpose(w, (1, 0)) + old)
        assert w.max() < 1e6, "large"
        return w.sum() + m.sum() * 2 + old.sum() * 3

    values = np.ones((BIG, BIG), np.float32)
    for i in range(6):
        x = np.random.default_rng(i).normal(size=(BIG, BIG)).astype(np.float32)
        new = values * np.float32(0.5) + x
        total = new.sum() + (new.T + values).sum() * 2 + values.sum() * 3
        np.testing.assert_allclose(f(Tensor(x)).asnumpy(), total, rtol=1e-4, atol=1)
        np.testing.assert_allclose(w.asnumpy(), new, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(m.asnumpy(), new.T + values, rtol=1e-5, atol=1e-6)
        values = new
    assert hits(f) == 4


def test_an_argument_that_is_written():
    @ms.jit
    def f(x):
        x.add_(1)
        return x * 2

    a, b = Tensor(np.zeros(3, np.float32)), Tensor(np.zeros(3, np.float32))
    for _ in range(5):
        f(a)
    for i in range(3):
        np.testing.assert_array_equal(f(b).asnumpy(), np.full(3, 2 * (i + 1)))
    np.testing.assert_array_equal(a.asnumpy(), [5, 5, 5])
    np.testing.assert_array_equal(b.asnumpy(), [3, 3, 3])


# ------------------------------------------------------------------- what makes a call miss


def test_other_arguments():
    @ms.jit
    def f(x):
        return x * 2 + 1

    warm(f, X)
    others = [
        X.asnumpy()[:1], X.asnumpy().reshape(3, 2), X.asnumpy().astype(np.float64), X.asnumpy()[0],
        X.asnumpy().astype(np.int32), np.float32(3),
    ]  # fmt: skip
    for other in others:
        found = misses(f, Tensor(other))
        np.testing.assert_array_equal(found.asnumpy(), other * 2 + 1)
        assert found.asnumpy().dtype == other.dtype
    assert f(3) == 7
    np.testing.assert_array_equal(f(Parameter(X)).asnumpy(), X.asnumpy() * 2 + 1)
    np.testing.assert_array_equal(f(x=X).asnumpy(), X.asnumpy() * 2 + 1)
    with pytest.raises(TypeError):
        f()
    with pytest.raises(TypeError):
        f(X, None)
    with pytest.raises(AttributeError):
        f(Tensor.__new__(Tensor))  # which has no array


def test_one_tensor_twice():
    @ms.jit
    def f(x, y):
        x.add_(1)
        return x * y

    a, b = Tensor(np.ones(3, np.float32)), Tensor(np.full(3, 2, np.float32))
    for _ in range(4):
        f(a, b)
    np.testing.assert_array_equal(a.asnumpy(), [5, 5, 5])
    np.testing.assert_array_equal(misses(f, a, a).asnumpy(), [36, 36, 36])


def test_a_captured_tensor_as_an_argument():
    p = Parameter(np.ones(3, np.float32), name="p")

    @ms.jit
    def f(x):
        p.set_data(p + 1)
        return x * 10

    warm(f, Tensor(np.ones(3, np.float32)))
    p.set_data(Tensor(np.ones(3, np.float32)))
    np.testing.assert_array_equal(f(p).asnumpy(), [20, 20, 20])


def _attribute(net):
    net.scale = 3.0


def _own_dict(net):
    net.__dict__["scale"] = 3.0


def _other_dict(net):
    net.__dict__ = {**net.__dict__, "scale": 3.0}


def _list_item(net):
    net.factors[1] = 3.0


def _list_grows(net):
    net.factors.append(2.0)


def _dict_item(net):
    net.table["a"] = 3.0


def _hook(net):
    net.register_forward_hook(lambda cell, args, out: out * 3)


def _class(net):
    type(net).construct = lambda self, x: x * 77


def _class_attribute(net):
    type(net).shift = 5.0


def _instance_method(net):
    net.construct = lambda x: x * 55


def _bases(net):
    type(net).__bases__ = (type("Other", (nn.Cell,), {"shift": 9.0}),)


def _weight(net):
    net.weight = Parameter(np.full(3, 7, np.float32), name="weight")


CHANGES = [
    _attribute, _own_dict, _other_dict, _list_item, _list_grows, _dict_item, _hook, _class,
    _class_attribute, _instance_method, _bases, _weight,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("as_method", [False, True])
def test_what_a_cell_holds(change, as_method):
    def construct(self, x):
        total = self.factors[0] + self.factors[1] + self.table["a"]
        for factor in self.factors:
            total = total * factor
        return x * self.scale * self.weight * total + self.shift

    def init(self):
        nn.Cell.__init__(self)
        self.scale, self.factors, self.table = 2.0, [1.0, 2.0], {"a": 1.0}
        self.weight = Parameter(np.arange(3, dtype=np.float32), name="weight")

    made = ms.jit(construct) if as_method else construct
    Base = type("Base", (nn.Cell,), {"shift": 1.0})
    Net = type("Net", (Base,), {"__init__": init, "construct": made})
    net = Net()
    f = net if as_method else ms.jit(lambda x: net(x))
    for _ in range(4):
        f(X)
    change(net)
    if as_method and change in (_hook, _class, _instance_method):
        net2 = net  # these change what runs before the compiled function
        expected = net2(X)
    else:
        plain = type("Plain", (nn.Cell,), {"shift": type(net).shift, "construct": construct})()
        plain.__dict__.update(net.__dict__)
        if change is _class:
            type(plain).construct = type(net).construct
        expected = plain(X)
    for _ in range(4):
        np.testing.assert_allclose(f(X).asnumpy(), expected.asnumpy(), rtol=1e-6)


class Made:
    """A descriptor that makes its value anew."""

    value = 2.0

    def __get__(self, obj, kind=None):
        return self.value


class MadeAlways(Made):
    def __delete__(self, obj):
        raise AttributeError


def _descriptor(cls, meta):
    Made.value = 5.0


def _class_itself(cls, meta):
    cls.own = 5.0


def _base(cls, meta):
    cls.__mro__[1].base = 5.0


def _metaclass(cls, meta):
    meta.own = property(lambda cls: 5.0)


@pytest.mark.parametrize("change", [_descriptor, _class_itself, _base, _metaclass])
def test_what_a_class_holds(change, monkeypatch):
    monkeypatch.setattr(Made, "value", 2.0)
    meta = type("Meta", (type,), {})
    scope = {}
    exec("class Base:\n    base = 2.0", scope)  # its module is that of the builtins
    cls = meta("Holds", (scope["Base"],), {"made": Made(), "always": MadeAlways(), "own": 2.0})
    obj = cls()

    def f(x):
        return x * cls.made * 10 + x * cls.own * 100 + x * obj.base * 1000 + x * obj.always

    jitted = ms.jit(f)
    warm(jitted, X)
    change(cls, meta)
    for _ in range(3):
        np.testing.assert_allclose(jitted(X).asnumpy(), f(X).asnumpy(), rtol=1e-6)


def test_another_object_at_the_address_of_one_that_is_gone():
    factors, shift = [float("1.5")], float("2.5")

    def put(value):
        nonlocal shift
        factors[0] = shift = value

    @ms.jit
    def f(x):
        return x * factors[0] + shift

    warm(f, X)
    watch = Watch(f.last.guarded)
    assert any(kept is factors[0] for kept in watch.kept)
    assert any(kept is shift for kept in watch.kept)
    for value in (3.5, 4.5, 5.5):  # memory of a number is used again at once
        put(0)
        put(value)
        np.testing.assert_allclose(f(X).asnumpy(), X.asnumpy() * value + value)


GLOBAL = 2.0


def test_globals_and_closures(monkeypatch):
    factor = 3.0

    def change(value):
        nonlocal factor
        factor = value

    @ms.jit
    def f(x):
        return x * factor + GLOBAL

    np.testing.assert_array_equal(warm(f, X).asnumpy(), X.asnumpy() * 3 + 2)
    change(4.0)
    np.testing.assert_array_equal(f(X).asnumpy(), X.asnumpy() * 4 + 2)
    warm(f, X)
    monkeypatch.setitem(globals(), "GLOBAL", 5.0)
    np.testing.assert_array_equal(f(X).asnumpy(), X.asnumpy() * 4 + 5)


def test_another_captured_tensor_of_the_same_type():
    w = Tensor(np.ones(3, np.float32))

    def other():
        nonlocal w
        w = Tensor(np.full(3, 9, np.float32))

    @ms.jit
    def f(x):
        return x + w

    warm(f, X)
    other()
    np.testing.assert_array_equal(f(X).asnumpy(), X.asnumpy() + 9)
    warm(f, X)
    w.asnumpy()[:] = 4
    np.testing.assert_array_equal(f(X).asnumpy(), X.asnumpy() + 4)


def test_settings(monkeypatch):
    @ms.jit
    def f(x):
        return x / (x - x)

    warm(f, X)
    monkeypatch.setenv("MS_JIT", "0")
    misses(f, X)
    monkeypatch.delenv("MS_JIT")
    f(X)
    ms.set_context(check_finite=True)
    with pytest.raises(FloatingPointError):
        f(X)
    ms.set_context(check_finite=False)
    assert np.isnan(f(X).asnumpy()[0, 0])


def test_gradients_of_a_call():
    p = Parameter(np.full(3, 2, np.float32), name="p")

    @ms.jit
    def f(x):
        return (x * p * p).sum()

    warm(f, X)
    found = ms.grad(f)(X)
    np.testing.assert_array_equal(found.asnumpy(), np.full((2, 3), 4))
    (by_p,) = ms.grad(f, None, [p])(X)
    np.testing.assert_array_equal(by_p.asnumpy(), 4 * X.asnumpy().sum(0))


# ------------------------------------------------------------------------- when it cannot go on


def test_a_check_that_fails_raises_and_leaves_what_the_long_way_leaves():
    p = Parameter(np.zeros((), np.float32), name="p")

    @ms.jit
    def f(x):
        p.set_data(p + 1)
        assert x.sum() > 0, "not positive"
        return x * p

    bad = Tensor(-np.ones((2, 3), np.float32))
    warm(f, X)
    p.set_data(Tensor(np.float32(0)))
    with pytest.raises(AssertionError, match="not positive"):
        f(bad)
    assert p.asnumpy() == 1  # written before it failed, as in Python
    np.testing.assert_array_equal(f(X).asnumpy(), X.asnumpy() * 2)


def test_a_label_out_of_range():
    net, opt, step = network()
    jitted = ms.jit(step)
    warm(jitted, X, Y)
    before = [p.asnumpy().copy() for p in opt.get_parameters()]
    with pytest.raises((ValueError, IndexError)):
        jitted(X, Tensor(np.array([0, 7], np.int32)))
    for p, value in zip(opt.get_parameters(), before, strict=True):
        np.testing.assert_array_equal(p.asnumpy(), value)


def test_ctrl_c_stops_a_loop_and_the_next_call_is_right(interrupts):
    @ms.jit
    def f(x, n):
        i = Tensor(0)
        while i < n:
            x = x * 0.5 + 1
            i = i + 1
        return x

    few = Tensor(3)
    value = warm(f, X, few).asnumpy().copy()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.time()
    with pytest.raises(KeyboardInterrupt):
        f(X, Tensor(10**12))
    assert time.time() - start < 20
    now = hits(f)
    np.testing.assert_array_equal(f(X, few).asnumpy(), value)
    assert hits(f) == now + 1


@pytest.mark.parametrize("when", ["before its end", "at its end"])
def test_ctrl_c_between_two_stretches_of_a_loop(monkeypatch, when):
    @ms.jit
    def f(x, n):
        i = Tensor(0)
        while i < n:
            x = x * 0.5 + 1
            i = i + 1
        return x

    few, many = Tensor(3), Tensor(25_000)  # three stretches
    value = warm(f, X, few).asnumpy().copy()
    direct, now = shortcut_of(f).direct, hits(f)
    held = sys.getrefcount(X._data)
    go_on = direct.go_on

    def interrupted(args, status):
        if when == "at its end":
            go_on(args, status)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(direct, "go_on", interrupted)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                f(X, many)
    more = sys.getrefcount(X._data) - held
    assert more == 0
    np.testing.assert_array_equal(f(X, few).asnumpy(), value)
    assert hits(f) == now + (4 if when == "at its end" else 1)


def test_a_call_from_within_a_call():
    p = Parameter(np.zeros(3, np.float32), name="p")

    @ms.jit
    def f(x):
        p.set_data(p + 1)
        return x * 2, x * 3

    class CallsAtItsEnd:
        def __init__(self):
            self.itself = self

        def __del__(self):
            f(other)

    one, other = (Tensor(np.full(3, v, np.float32)) for v in (1, 5))
    warm(f, one)
    p.set_data(Tensor(np.zeros(3, np.float32)))
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)  # with each new object, such as those of the results
    try:
        for _ in range(50):
            CallsAtItsEnd()
            double, triple = f(one)
            assert double.asnumpy()[0] == 2
            assert triple.asnumpy()[0] == 3
    finally:
        gc.set_threshold(*before)
    gc.collect()
    np.testing.assert_array_equal(p.asnumpy(), [100, 100, 100])


@pytest.mark.parametrize("size", [3, 40_000])  # one lets other threads run meanwhile
def test_threads_write_one_after_the_other(size):
    p = Parameter(np.zeros(size, np.float32), name="p")

    @ms.jit
    def f(x):
        p.set_data(p + x)
        return p.sum()

    one = Tensor(np.ones(size, np.float32))
    warm(f, one)
    p.set_data(Tensor(np.zeros(size, np.float32)))
    workers = [threading.Thread(target=lambda: [f(one) for _ in range(50)]) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    np.testing.assert_array_equal(p.asnumpy(), np.full(size, 200, np.float32))


def test_a_function_lets_go_of_what_it_has_read():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.weight = Parameter(np.ones(3, np.float32), name="weight")

        @ms.jit
        def construct(self, x):
            return x * self.weight

    net = Net()
    for _ in range(5):
        net(X)
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_no_call_leaks_memory():
    net, opt, step = network()
    jitted = ms.jit(step)
    warm(jitted, X, Y)
    before = [sys.getrefcount(p._data) for p in opt.get_parameters()]
    none, array = sys.getrefcount(None), sys.getrefcount(X._data)
    for _ in range(2000):
        jitted(X, Y)
    after = [sys.getrefcount(p._data) for p in opt.get_parameters()]
    more = sys.getrefcount(X._data) - array
    assert after == before
    assert more == 0
    assert abs(sys.getrefcount(None) - none) < 500


# ------------------------------------------------------------------------------- what is watched


def test_a_step_is_watched_by_words_alone():
    net, opt, step = network()
    jitted = ms.jit(step)
    warm(jitted, X, Y)
    watch = Watch(jitted.last.guarded)
    assert watch.rest == []
    assert 20 < len(watch.words) < 200
    assert shortcut_of(jitted).call(X, Y) == DONE

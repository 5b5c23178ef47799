"""data_sink: many steps in one go."""

import numpy as np
import pytest
from helpers import training_step

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.engine.native import layout_is_known
from minispore.jit_options import JitConfig
from minispore.watch import dicts_tell


def batches(count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(8, 3)).astype(np.float32), rng.integers(0, 2, 8).astype(np.int32))
        for _ in range(count)
    ]


def training():
    ms.set_seed(3)
    net = nn.SequentialCell(nn.Dense(3, 5), nn.Tanh(), nn.Dense(5, 2))
    opt = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    return net, training_step(net, opt)


def parameters(net):
    return [p.asnumpy().copy() for p in net.trainable_params()]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("sizes", [[1] * 12, [5, 5, 2], [12], [-1, -1]])
def test_the_same_as_a_loop(compiled, sizes):
    data = batches(6)
    net, step = training()
    process = ms.data_sink(ms.jit(step) if compiled else step, data, sink_size=sizes[0])
    if len(set(sizes)) > 1:  # one size for a function: make its calls by hand
        process = None
    other, plain = training()
    losses = []
    for x, y in data * 2:
        losses.append(plain(Tensor(x), Tensor(y)).asnumpy())
    if process is None:
        process = ms.data_sink(ms.jit(step) if compiled else step, data, sink_size=4)
        sizes = [4, 4, 4]
    for _ in sizes:
        last = process()
    np.testing.assert_allclose(last.asnumpy(), losses[-1], rtol=1e-4)
    for a, b in zip(parameters(net), parameters(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(not (layout_is_known() and dicts_tell()), reason="no shortcuts here")
def test_most_steps_are_made_in_one_go():
    data = batches(40)
    net, step = training()
    jitted = ms.jit(step)
    ms.data_sink(jitted, data, sink_size=-1)()
    assert jitted.last.shortcuts.long_ways == 2
    assert jitted.last.shortcuts.shortcut.direct.hits == 38


def test_what_an_iterator_gives_is_copied():
    def refilled():
        buffer = np.zeros(3, np.float32)
        for i in range(20):
            buffer[:] = i
            yield (buffer,)

    total = Parameter(np.zeros(3, np.float32), name="total")

    @ms.jit
    def add(x):
        total.set_data(total + x)
        return total * 2

    class Data:
        def __iter__(self):
            return refilled()

    last = ms.data_sink(add, Data(), sink_size=20)()
    np.testing.assert_array_equal(total.asnumpy(), np.full(3, 190))
    np.testing.assert_array_equal(last.asnumpy(), np.full(3, 380))


def test_arrays_of_the_caller_are_never_changed():
    data = [np.ones(3, np.float32) for _ in range(8)]

    @ms.jit
    def write(x):
        x.add_(1)
        return x * 2

    process = ms.data_sink(write, data, sink_size=8)
    for _ in range(2):
        np.testing.assert_array_equal(process().asnumpy(), [4, 4, 4])
    assert all((a == 1).all() for a in data)


def test_batches_of_several_shapes():
    data = [np.full((n, 2), n, np.float32) for n in (3, 3, 3, 3, 2, 3, 3, 1)]
    seen = []

    @ms.jit
    def f(x):
        return x.sum()

    process = ms.data_sink(f, data, sink_size=1)
    for _ in range(16):
        seen.append(float(process().asnumpy()))
    assert seen == [float(a.sum()) for a in data] * 2
    assert float(ms.data_sink(f, data, sink_size=-1)().asnumpy()) == 2


def test_an_error_names_the_step_s_line_and_keeps_the_steps_before():
    done = Parameter(np.zeros((), np.float32), name="done")

    @ms.jit
    def f(x):
        assert x.sum() < 10, "too much"
        done.set_data(done + 1)
        return x

    data = [np.float32([1.0])] * 7 + [np.float32([11.0])] + [np.float32([1.0])]
    process = ms.data_sink(f, data, sink_size=9)
    with pytest.raises(AssertionError, match="too much") as caught:
        process()
    assert "test_data_sink.py" in "".join(caught.value.__notes__)
    assert done.asnumpy() == 7


def test_data_of_other_kinds():
    class Rows:
        def create_tuple_iterator(self):
            return iter([(Tensor([1.0]),), (Tensor([2.0]),)])

    process = ms.data_sink(lambda x: x + 1, Rows())
    assert [float(process().asnumpy()[0]) for _ in range(5)] == [2, 3, 2, 3, 2]
    once = ms.data_sink(lambda x: x + 1, iter([[1.0], [2.0]]))
    once(), once()
    with pytest.raises(ValueError, match="only once"):
        once()


def test_compiled_by_its_options():
    def f(x):
        return ops.exp(x)

    for options in ({"jit_config": JitConfig("O1")}, {"input_signature": Tensor([1.0])}):
        process = ms.data_sink(f, [np.float32([1.0])] * 3, sink_size=3, **options)
        np.testing.assert_allclose(process().asnumpy(), [np.e], rtol=1e-6)
        assert process.__name__ == "f"
    with pytest.raises(ValueError, match="input_signature|shape"):
        ms.data_sink(f, [np.ones(5, np.float32)], input_signature=Tensor([1.0]))()


def test_what_cannot_be():
    for size in (0, -2, 1.5, True):
        with pytest.raises(ValueError, match="sink_size"):
            ms.data_sink(ops.exp, [np.ones(3)], sink_size=size)
    with pytest.raises(TypeError, match="iterable"):
        ms.data_sink(ops.exp, 3)
    with pytest.raises(ValueError, match="no batch"):
        ms.data_sink(ops.exp, [])()
    for fn in (3, None, "step"):
        with pytest.raises(TypeError, match="fn must be a function or a Cell, not"):
            ms.data_sink(fn, [np.ones(3)])
    for config in ("O1", {"jit_level": "O1"}, JitConfig):
        with pytest.raises(TypeError, match=r"such as JitConfig\(jit_level='O1'\), not"):
            ms.data_sink(ops.exp, [np.ones(3)], jit_config=config)
    for fn in (ops.exp, ms.jit(ops.exp)):
        with pytest.raises(TypeError, match="an array, or a tuple of arrays, not a dict"):
            ms.data_sink(fn, [{"x": np.ones(3)}])()


# ------------------------------------------------------------------------------- errors


def counting():
    p = Parameter(np.zeros((), np.float32), name="p")

    @ms.jit
    def count(x):
        assert x.sum() > 0, "not positive"
        p.set_data(p + x.sum())
        return p * 1

    return p, count


@pytest.mark.parametrize("compiled", [False, True])
def test_an_error_of_the_data_comes_after_the_steps_before_it(compiled):
    def data():
        yield from [np.ones(3, np.float32)] * 13
        raise OSError("no more")

    p, count = counting()
    process = ms.data_sink(count if compiled else count.__wrapped_function__, data(), 100)
    with pytest.raises(OSError, match="no more"):
        process()
    assert p.asnumpy() == 39
    p, count = counting()
    broken = [np.ones(3, np.float32)] * 13 + ["text"] + [np.ones(3, np.float32)] * 5
    process = ms.data_sink(count if compiled else count.__wrapped_function__, broken, 18)
    with pytest.raises(TypeError):
        process()
    assert p.asnumpy() == 39


@pytest.mark.parametrize("compiled", [False, True])
def test_after_an_error_of_a_step_the_next_batch_is_next(compiled):
    data = [np.full(3, -1 if i == 13 else 1, np.float32) for i in range(20)]
    p, count = counting()
    process = ms.data_sink(count if compiled else count.__wrapped_function__, data, 18)
    with pytest.raises(AssertionError, match="not positive"):
        process()
    assert p.asnumpy() == 39
    process = ms.data_sink(count if compiled else count.__wrapped_function__, data, 13)
    process()
    with pytest.raises(AssertionError):
        process()
    process()  # six more of the first round, seven of the second
    assert p.asnumpy() == 3 * (13 + 13 + 13)


def test_a_list_with_an_iterator_of_its_own():
    class Counts(list):
        def __iter__(self):
            buffer = np.zeros(3, np.float32)
            for i in range(20):
                buffer[:] = i + 1
                yield buffer

    p, count = counting()
    ms.data_sink(count, Counts(), 20)()
    assert p.asnumpy() == 3 * 210

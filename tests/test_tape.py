"""The tape: what it records, what it saves, and the cotangents it finds."""

import numpy as np
import pytest
from helpers import assert_same

import minispore as ms
from minispore import ops
from minispore.abstract import AbstractTuple
from minispore.autodiff.tape import StandIns, Tape, pause_tapes, record_custom, vjp_of
from minispore.ir.draw import draw_tape
from minispore.ir.picture import LOOKS
from minispore.ops.gradient import binop_grad_common
from minispore.primitive import Primitive, apply, bprop_getters
from minispore.tensor import Tensor, tapes


class Cube(Primitive, register=False):
    """x ** 3, an op of this test, with two outputs: the cube and the square."""

    name = "Cube"

    def infer(self, x):
        return AbstractTuple((x, x))

    def eval(self, x):
        return x**3, x**2

    def vjp(self, inputs, out, dout):
        (x,), (cube, square) = inputs, dout
        parts = []
        if cube is not None:
            parts.append(3 * x * x * cube)
        if square is not None:
            parts.append(2 * x * square)
        return (parts[0] if len(parts) == 1 else parts[0] + parts[1],)


def f64(*values):
    return Tensor(np.array(values if len(values) > 1 else values[0], np.float64))


def gradients(fn, *inputs, seed=None):
    """The cotangents of the inputs of a function of Tensors, by a tape."""
    with Tape() as tape:
        keys = [tape.watch(x) for x in inputs]
        out = fn(*inputs)
    return tape.backward([out], [seed or ops.ones_like(out)], keys)


def test_chain_and_repeated_argument():
    x, y = f64(0.3, -1.2), f64(0.7, 2.0)
    dx, dy = gradients(lambda x, y: ops.sin(x * x) * y + x, x, y)
    a, b = x.asnumpy(), y.asnumpy()
    assert_same(dx, 2 * a * np.cos(a * a) * b + 1)
    assert_same(dy, np.sin(a * a))


def test_broadcast_and_unused():
    x, y, z = f64(1.0, 2.0), Tensor(np.ones((3, 2))), f64(1.0)
    dx, dy, dz = gradients(lambda x, y, z: x * y, x, y, z)
    assert_same(dx, np.array([3.0, 3.0]))
    assert_same(dy, np.tile([1.0, 2.0], (3, 1)))
    assert dz is None


def test_the_output_itself_can_be_watched():
    x = f64(2.0)
    (dx,) = gradients(lambda x: x, x)
    assert_same(dx, np.array(1.0))


def test_only_what_depends_on_watched_values_is_kept():
    x, y = f64(2.0), f64(3.0)
    with Tape() as tape:
        tape.watch(x)
        y2 = y * y
        z = x * y2
        _ = ops.greater(z, 0)  # Bool: nothing flows through it
        w = ops.stop_gradient(z) * y
        _ = ops.exp(w)
    assert [entry.name for entry in tape.entries] == ["Mul"]
    (entry,) = tape.entries
    assert entry.inputs[0]._data is x._data and entry.outputs[0]._data is z._data


def test_entries_are_readable():
    x, v = f64(2.0), f64(1.0, 2.0)
    with Tape() as tape:
        tape.watch(x)
        y = ops.sin(x)
        _ = y * x * 3 + v
    assert str(tape).splitlines() == [
        "%2 = Sin(%1)",
        "%3 = Mul(%2, %1)",
        "%4 = Mul(%3, 3.0)",
        "%5 = Add(%4, Tensor[Float64, (2)])",
    ]
    assert [(e.name, len(e.inputs), len(e.outputs)) for e in tape.entries[:2]] == [
        ("Sin", 1, 1),
        ("Mul", 2, 1),
    ]


def test_integers_are_watched_on_their_way_through_integers():
    n, x = Tensor(np.array([1, 2])), f64(1.5, 2.5)
    found = gradients(lambda n, x: n * n * x, n, x)  # n * n gets x as integers, [1, 2]
    assert_same(found, [np.array([2, 8]), np.array([1.0, 4.0])])
    assert gradients(lambda x: x.astype(ms.int32) * 2.0, x) == [None]


def test_casts_carry_the_dtype():
    x = Tensor(np.array([1.0, 2.0], np.float16))
    (dx,) = gradients(lambda x: x * f64(3.0, 4.0), x)
    assert_same(dx, np.array([3.0, 4.0], np.float16))


def test_writes_do_not_change_what_was_saved():
    x = f64(2.0, 3.0)

    def f(x):
        y = x * 1
        z = y * y
        y[0] = 100.0  # y*y saved the old y
        return z + y

    (dx,) = gradients(f, x)
    assert_same(dx, np.array([2 * 2.0 + 0, 2 * 3.0 + 1]))


def test_a_write_to_another_cell_changes_nothing():
    x, y = f64(2.0, 3.0), f64(5.0, 7.0)

    def f(x):
        z = x * y
        y[:] = 0.0
        return z

    (dx,) = gradients(f, x)
    assert_same(dx, np.array([5.0, 7.0]))


def test_a_stand_in_is_written_for_its_argument():
    x = f64(2.0, 3.0)
    own = x * 1
    with Tape() as tape:
        tape.stand_ins = StandIns([(own, x)])
        y = x * 1
        y[0] = 5.0
        with pytest.raises(RuntimeError, match="written in place; copy it first"):
            x[0] = 5.0
        own[0] = 7.0
        with pytest.raises(RuntimeError, match="written in place; copy it first"):
            x * 1
    assert_same(x, np.array([2.0, 3.0]))
    tape.stand_ins.hand_back()
    assert_same(x, np.array([7.0, 3.0]))


def test_several_outputs():
    x = f64(2.0)
    prim = Cube()
    (dx,) = gradients(lambda x: apply(prim, x)[0], x)
    assert_same(dx, np.array(12.0))
    (dx,) = gradients(lambda x: apply(prim, x)[1], x)
    assert_same(dx, np.array(4.0))
    (dx,) = gradients(lambda x: apply(prim, x)[0] * apply(prim, x)[1], x)
    assert_same(dx, np.array(5 * 2.0**4))


def test_gradients_of_gradients():
    x = f64(0.6)

    def derivative(fn):
        return lambda x: gradients(fn, x)[0]

    fn, expected = ops.sin, [np.sin, np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin]
    for reference in expected:
        assert_same(fn(x), np.asarray(reference(0.6)), factor=10)
        fn = derivative(fn)


def test_a_tape_knows_what_backward_passes_left_on_it():
    x = f64(2.0)
    with Tape() as outer:
        outer.watch(x)
        with Tape() as inner:
            key = inner.watch(x)
            y = x * x
        (dx,) = inner.backward([y], [ops.ones_like(y)], [key])
        dx * x
    n = len(outer.entries)
    assert outer.walks == [range(1, n - 1)] and inner.walks == []
    operations = draw_tape(outer).dot.split("subgraph")[1]
    assert operations.count(LOOKS["backward"]["fillcolor"]) == n - 2


def test_inner_tape_sees_outer_variables():
    x, y = f64(2.0), f64(3.0)

    def outer(x):
        return gradients(lambda y: x * y * y, y)[0]  # 2 x y

    (dx,) = gradients(outer, x)
    assert_same(dx, np.array(6.0))


def test_backward_may_be_repeated_and_deep():
    x = f64(1.0)
    with Tape() as tape:
        key = tape.watch(x)
        y = x
        for _ in range(3000):
            y = y * 1.001
    for seed in (1.0, 2.0):
        (dx,) = tape.backward([y], [f64(seed)], [key])
        np.testing.assert_allclose(dx.asnumpy(), seed * 1.001**3000, rtol=1e-9)


def test_tapes_stop_recording_at_the_end_and_on_errors():
    x = f64(1.0)
    with pytest.raises(ZeroDivisionError), Tape() as tape:
        tape.watch(x)
        raise ZeroDivisionError
    _ = x * x
    assert tape.entries == [] and tapes.active == []


def test_pause():
    x = f64(1.0)
    with Tape() as tape:
        tape.watch(x)
        with pause_tapes():
            hidden = x * x
        _ = hidden * x
    assert [e.name for e in tape.entries] == ["Mul"]
    assert tapes.active == []


class Doubled:
    """A custom call: the identity forward, ten times the cotangent backward."""

    name = "Doubled"

    def __init__(self, result=None):
        self.result = result
        self.seen = None

    def vjp(self, inputs, out, dout):
        self.seen = dout
        return (10 * dout[0] + dout[1],) if self.result is None else self.result


def test_custom_calls_are_recorded_as_one():
    x, rule = f64(2.0), Doubled()

    def f(x):
        with pause_tapes():
            y = x * x
        a, b = record_custom(rule, (x,), (x, y))
        assert a is not x
        return a * x

    (dx,) = gradients(f, x)
    assert_same(dx, np.array(10 * 2.0 + 2.0))
    assert_same(rule.seen, (np.array(2.0), np.array(0.0)))  # a missing cotangent is zeros


def test_custom_calls_have_second_order():
    x = f64(3.0)

    class Squared:
        name = "Squared"

        def vjp(self, inputs, out, dout):
            return (dout * inputs[0] * 5,)

    def f(x):
        with pause_tapes():
            y = x * x
        return record_custom(Squared(), (x,), y)

    assert_same(gradients(f, x)[0], np.array(15.0))
    assert_same(gradients(lambda x: gradients(f, x)[0], x)[0], np.array(5.0))


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        (None, TypeError, "returned None; return a tuple"),
        ((), RuntimeError, r"returned 0 gradient\(s\) for 1 input\(s\)"),
        ((f64(1.0), f64(1.0)), RuntimeError, r"returned 2 gradient\(s\) for 1 input\(s\)"),
        ((1.0,), TypeError, "gradient 0 of Rule must be a Tensor or None, not float"),
        ((f64(1.0, 2.0),), ValueError, r"has shape \(2,\), its input \(\)"),
        ((Tensor(1.0),), TypeError, "is Float32, its input Float64"),
    ],
)
def test_errors_of_rules(result, error, text):
    class Rule:
        name = "Rule"

        def vjp(self, inputs, out, dout):
            return result

    with pytest.raises(error, match=text):
        vjp_of(Rule(), (f64(1.0),), f64(1.0), f64(1.0))


def test_rules_may_give_none_a_bare_tensor_and_what_integers_ignore():
    class Rule:
        name = "Rule"

        def __init__(self, result):
            self.result = result

        def vjp(self, inputs, out, dout):
            return self.result

    x, n = f64(1.0), Tensor(np.array([1, 2]))
    assert vjp_of(Rule(x), (x,), x, x) == (x,)
    assert vjp_of(Rule((None, None)), (x, n), x, x) == (None, None)
    assert vjp_of(Rule((x, "no Tensor")), (x, n), x, x) == (x, None)
    assert_same(vjp_of(Rule((x, x)), (x, Tensor(3)), x, x)[1], np.array(1))


def test_registered_rules_win_and_can_be_undone():
    x, y = f64(2.0), Tensor(np.ones((3,)))
    seen = []

    @bprop_getters.register(ops.Mul)
    def get_bprop_mul(self):
        mul = ops.Mul()

        def bprop(x, y, out, dout):
            seen.append(out)
            return binop_grad_common(x, y, mul(y, dout) * 7, mul(x, dout))

        return bprop

    try:
        dx, dy = gradients(lambda x, y: ops.mul(x, y), x, y)
    finally:
        bprop_getters.unregister(ops.Mul)
    assert_same(dx, np.array(21.0))
    assert_same(dy, np.full(3, 2.0))
    assert len(seen) == 1
    assert_same(gradients(ops.mul, x, y)[0], np.array(3.0))


def test_registered_rule_of_an_op_with_several_outputs_gets_zeros():
    calls = []

    @bprop_getters.register(ops.Split)
    def get_bprop(self):
        def bprop(x, out, dout):
            calls.append(tuple(d.asnumpy() for d in dout))
            return (ops.concat(dout, 0),)

        return bprop

    x = f64(1.0, 2.0, 3.0, 4.0)
    try:
        (dx,) = gradients(lambda x: ops.split(x, 2)[1] * 3, x)
    finally:
        bprop_getters.unregister("Split")
    assert_same(dx, np.array([0.0, 0.0, 3.0, 3.0]))
    assert_same(calls, [(np.zeros(2), np.full(2, 3.0))])


def test_an_op_without_gradient_says_so():
    class NoGradient(Primitive, register=False):
        name = "NoGradient"

        def infer(self, x):
            return x

        def eval(self, x):
            return x + 1

    with pytest.raises(TypeError, match="NoGradient has no gradient"):
        gradients(lambda x: apply(NoGradient(), x), f64(1.0))

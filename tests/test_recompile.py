"""explain_recompile, and the warning of a function that keeps being compiled."""

import re
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.recompile import MANY

X = Tensor([1.0, 2.0])
FACTOR = 2


def plain(x, k=1, *more, items=None, **rest):
    return x * (k if isinstance(k, (int, float)) else 1)


def caused(compiled, *calls):
    """The causes of the last graph, as (sentence, kind)."""
    for args, kwargs in calls:
        compiled(*args, **kwargs)
    found = compiled.explain_recompile()
    assert found.number == compiled.compile_count
    return [(cause.sentence, cause.kind) for cause in found.causes]


@pytest.mark.parametrize(
    ("first", "second", "sentence", "kind"),
    [
        (((X,), {}), ((Tensor([1.0]),), {}), "the shape of x is (1,), and was (2,)", "shape"),
        (((X,), {}), ((Tensor([1, 2]),), {}), "the dtype of x is Int64, and was Float32", "dtype"),
        (((X, 2), {}), ((X, 3), {}), "k is 3 (int), and was 2 (int)", "number"),
        (((X, 2), {}), ((X, 2.0), {}), "k is 2.0 (float), and was 2 (int)", "number"),
        (((X, "a"), {}), ((X, "b"), {}), "k is 'b', and was 'a'", "constant"),
        (((X, 2), {}), ((X, X), {}), "k is a Tensor, and was 2 (int)", "kind"),
        (((X,), {}), ((X, 2), {}), "k is 2 (int), and was not given", "number"),
        (((X,), {"k": 3}), ((X,), {}), "k is not given, and was 3 (int)", "number"),
        (((X, 1), {}), ((X, 1, 5), {}), "more[0] is 5 (int), and was not given", "number"),
        (((X, ms.mutable(2)), {}), ((X, ms.mutable(2.0)), {}),
         "k is a mutable float, and was a mutable int", "kind"),
        (((X, ms.mutable(2)), {}), ((X, 2), {}), "k is 2 (int), and was a mutable int", "kind"),
        (((X,), {"items": [X, 3]}), ((X,), {"items": [X, 4]}),
         "items[1] is 4 (int), and was 3 (int)", "number"),
        (((X,), {"items": [X, 3]}), ((X,), {"items": [X]}),
         "items is a list with length 1, and was a list with length 2", "size"),
        (((X,), {"items": {"a": [1]}}), ((X,), {"items": {"b": [1]}}),
         "items is a dict with the keys ['b'], and was a dict with the keys ['a']", "size"),
        (((X,), {"items": {"a": [1]}}), ((X,), {"items": {"a": [2]}}),
         "items['a'][0] is 2 (int), and was 1 (int)", "number"),
        (((X,), {"rest": X}), ((X,), {"rest": X + 1}),
         "the identity of rest is its own, and was that of x", "same"),
        (((X,), {"rest": nn.ReLU()}), ((X,), {"rest": nn.ReLU()}), "rest is another ReLU()",
         "object"),
        (((X,), {"rest": ops.sin}), ((X,), {"rest": plain}),
         "rest is function plain (test_recompile.py:18), and was function sin (common.py:128)",
         "object"),
        (((X,), {"rest": Parameter(X, "w")}), ((X,), {"rest": X}),
         "rest is a Tensor, and was a Parameter", "object"),
    ],
)  # fmt: skip
def test_arguments(first, second, sentence, kind):
    found = caused(ms.jit(plain), first, second)
    sentence = re.sub(r"common.py:\d+", "common.py", sentence)
    assert [(re.sub(r"common.py:\d+", "common.py", s), k) for s, k in found] == [(sentence, kind)]


def test_several_causes_and_the_nearest_graph():
    compiled = ms.jit(plain)
    for args in ((X, 1), (Tensor([1.0]), 2), (X, 3), (Tensor([1]), 3)):
        compiled(*args)
    found = compiled.explain_recompile()
    assert (found.number, found.compared) == (4, 3)
    assert [c.what for c in found.causes] == ["the dtype of x", "the shape of x"]
    text = str(found)
    assert text.startswith("plain: graph 4 was compiled, because this call differs from graph 3:\n")
    assert "    each dtype has a graph of its own: cast before the call" in text
    assert repr(found) == text


def test_the_first_graph():
    compiled = ms.jit(plain)
    with pytest.raises(RuntimeError, match="plain has not been compiled yet: call it first"):
        compiled.explain_recompile()
    compiled(X)
    compiled(X)
    assert str(compiled.explain_recompile()) == (
        "plain: graph 1 is the first one for this function or object"
    )


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.scale = 2
        self.rate = 1.5
        self.table = {"a": [1, 2]}
        self.shift = Tensor([1.0, 1.0])
        self.w = Parameter(Tensor([1.0, 2.0]), name="w")
        self.act = ops.sin

    def construct(self, x):
        y = x * self.scale + self.shift
        return self.act(y) * self.table["a"][1] * self.w * self.rate * FACTOR


@pytest.mark.parametrize(
    ("name", "value", "sentence", "kind"),
    [
        ("scale", 3, "Net.scale is 3 (int), and was 2 (int)", "captured number"),
        ("rate", 2.5, "Net.rate is 2.5 (float), and was 1.5 (float)", "captured number"),
        ("shift", Tensor([1.0]), "shape of Net.shift is (1,), and was (2,)", "shape"),
        ("shift", Tensor([1, 1]), "dtype of Net.shift is int64, and was float32", "dtype"),
        ("table", {"a": [1, 3]}, "Net.table['a'][1] is 3 (int), and was 2 (int)",
         "captured number"),
        ("table", {"a": [1, 2, 3]}, "length of Net.table['a'] is 3 (int), and was 2 (int)", "size"),
        ("table", {"b": 1, "a": [1, 2]}, "keys of Net.table is ('b', 'a'), and was ('a',)", "size"),
        ("table", {"a": (1, 2)}, "Net.table['a'] is tuple, and was list", "object"),
        ("w", Parameter(Tensor([1.0, 2.0]), name="v"), "Net.w is Parameter v, and was Parameter w",
         "object"),
    ],
)  # fmt: skip
def test_what_is_read_from_outside(name, value, sentence, kind):
    net = Net()
    compiled = ms.jit(net)
    compiled(X)
    setattr(net, name, value)
    assert caused(compiled, ((X,), {})) == [(sentence, kind)]
    cause = compiled.explain_recompile().causes[0]
    assert cause.where.file == __file__
    line = "y = x * self" if name in ("scale", "shift") else "return self.act(y)"
    assert line in str(cause) and "^" in str(cause)


def test_globals_functions_and_what_is_gone(monkeypatch):
    net = Net()
    compiled = ms.jit(net)
    compiled(X)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert caused(compiled, ((X,), {})) == [
        ("FACTOR is 5 (int), and was 2 (int)", "captured number")
    ]
    net.act = ops.cos
    (sentence, _), *_ = caused(compiled, ((X,), {}))
    assert re.fullmatch(r"Net.act is function cos \(.*\), and was function sin \(.*\)", sentence)
    assert [n for n, _ in compiled.explain_recompile().others] == [1]

    def attribute(x):
        return x * (net.extra if hasattr(net, "extra") else 1)

    compiled = ms.jit(attribute)
    net.extra = 3
    compiled(X)
    del net.extra
    (sentence, kind), *_ = caused(compiled, ((X,), {}))
    assert (sentence, kind) == ("net.extra is False, and was True", "captured")


def test_the_path_to_a_value_is_gone():
    holder = [[1]]
    compiled = ms.jit(lambda x: x * holder[0][0])
    compiled(X)
    holder[0] = 3
    with pytest.raises(TypeError):
        compiled(X)
    assert "holder[0]" in str(compiled.explain_recompile())


def test_shared_tensors_and_rules():
    a, b = Tensor([1.0]), Tensor([1.0])
    box = [a, b]
    compiled = ms.jit(lambda x: x + box[0] * box[1])
    compiled(X)
    assert caused(compiled, ((a,), {}))[0][0] == "the shape of x is (1,), and was (2,)"
    box[1] = a
    assert caused(compiled, ((X,), {})) == [("two Tensors are one is not as it was", "captured")]


def test_levels_and_objects():
    net = Net()
    with ms.context.using(mode=ms.GRAPH_MODE):
        net(X)
        assert "the first one" in str(net.explain_recompile())
        net.set_jit_config(ms.JitConfig(jit_level="O0"))
        net(X)
        assert str(net.explain_recompile()).split("\n")[1:] == [
            "  jit_level is O0, and was O1", "    the options are part of the key",
        ]  # fmt: skip

    class Jitted(nn.Cell):
        @ms.jit
        def construct(self, x, k):
            return x * k

    first, second = Jitted(), Jitted()
    first(X, 1)
    second(X, 2)
    assert "the first one for this function or object" in str(Jitted.construct.explain_recompile())
    first(X, 2)
    assert "k is 2 (int), and was 1 (int)" in str(Jitted.construct.explain_recompile())


def test_gradients_and_functions_without_a_signature():
    compiled = ms.jit(ms.grad(plain))
    assert caused(compiled, ((X, 1), {}), ((X, 2), {})) == [
        ("k is 2 (int), and was 1 (int)", "number")
    ]
    compiled = ms.jit(max)
    assert caused(compiled, ((1, 2), {}), ((1, 3), {})) == [
        ("args[1] is 3 (int), and was 2 (int)", "number")
    ]


def test_explaining_draws_no_random_numbers():
    def f(x, k):
        return nn.Dense(2, 2)(x) * k

    ms.set_seed(1)
    expected = [f(X.reshape(1, 2), k) for k in (1, 2)]
    ms.set_seed(1)
    compiled = ms.jit(f)
    for k, e in zip((1, 2), expected, strict=True):
        np.testing.assert_allclose(compiled(X.reshape(1, 2), k).asnumpy(), e.asnumpy(), rtol=1e-6)


# ------------------------------------------------------------------------------- the warning


@contextmanager
def warned():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_a_function_that_keeps_being_compiled_is_named_once():
    compiled = ms.jit(plain)
    with warned() as caught:
        for k in range(MANY - 1):
            compiled(X, k)
        assert not caught
        for k in range(MANY, 3 * MANY):
            compiled(X, k)
    (warning,) = caught
    assert warning.category is RuntimeWarning
    assert warning.filename == __file__
    assert str(warning.message) == (
        "plain has been compiled 8 times because of k: now k is 8 (int), and was 6 (int); a Python "
        "number is a constant of the graph: pass a Tensor, or mutable(k). "
        "plain.explain_recompile() tells more"
    )


def test_the_warning_names_what_is_read_from_outside():
    net = Net()
    compiled = ms.jit(net)
    with warned() as caught:
        for k in range(MANY):
            net.scale = k
            compiled(X)
    assert "because of Net.scale: now Net.scale is 7" in str(caught[0].message)


def test_different_reasons_are_no_repetition():
    compiled = ms.jit(plain)
    with warned() as caught:
        for i in range(MANY):
            compiled(Tensor(np.ones(i + 1)), i)
        assert not caught
        for i in range(MANY):
            compiled(Tensor(np.ones(i + 1)), 100)
    assert "because of the shape of x" in str(caught[0].message)


# ---------------------------------------------------------------------- sizes, mutable numbers


def test_a_size_that_varies():
    @ms.jit(dynamic=1)
    def f(x, y=None):
        return x + 1 if x.shape[0] > 3 else x

    assert caused(f, ((X,), {}), ((Tensor([1.0, 2.0, 3.0, 4.0]),), {})) == [
        ("the shape of x is (None,), and was (2,)", "shape")
    ]
    found = caused(f, ((Tensor([1.0]),), {}))
    assert found == [("sizes of arguments: x.shape[0] - 3 > 0 does not hold", "sizes")]
    assert "decide this in the same way" in str(f.explain_recompile())
    assert caused(f, ((Tensor([1]),), {})) == [
        ("the dtype of x is Int64, and was Float32", "dtype"),
        ("the shape of x is (1,), and was (None,)", "shape"),
    ]


def test_mutable_numbers_that_are_one():
    k = ms.mutable(2)
    found = caused(ms.jit(plain), ((k, k), {}), ((k, ms.mutable(3)), {}))
    assert found == [("the identity of k is its own, and was that of x", "same")]

"""Every row of the book's table of differences from MindSpore: minispore does what it says.

A check is registered under the row's first cell, word for word.
"""

import contextlib
import io
import math
import re
import time
from pathlib import Path

import numpy as np
import pytest
from differential import agree
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.ops.gradient import bprop_getters

PAGE = Path(__file__).parent.parent / "book" / "differences.md"
CHECKS = {}
NAN = math.nan
SCALE = 2  # a global that compiled functions read


def row(title):
    """Register the check of a row."""

    def register(check):
        assert title not in CHECKS, f"two checks of '{title}'"
        CHECKS[title] = check
        return check

    return register


def titles():
    found = re.findall(r"^\* - (.*(?:\n    .*)*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [" ".join(title.split()) for title in found if title != "what"]


def test_every_row_has_a_check_and_every_check_a_row():
    assert sorted(titles()) == sorted(CHECKS)


def both(fn):
    """A function as it is, and compiled."""
    return fn, ms.jit(fn)


def raises(error, match, fn, *args):
    """Assert that a function fails so, as it is and compiled."""
    for run in both(fn):
        with pytest.raises(error, match=match):
            run(*args)


def refused(error, match, fn, *args):
    """Assert that compiling fails so, and points at a line."""
    with pytest.raises(error, match=match) as caught:
        ms.jit(fn)(*args)
    assert "test_differences.py" in "".join(getattr(caught.value, "__notes__", ()))


def floats(*values):
    return Tensor(list(values), ms.float32)


# -------------------------------------------------------------------------- values and memory


@row("A Parameter that is returned")
def _():
    p = Parameter(floats(2), name="p")
    for run in both(lambda x: p):
        assert run(floats(1)) is p
    for run in both(lambda x: p if x > 0 else p * x):
        assert_same(run(floats(1)), p.value())
        assert_same(run(floats(-3)), floats(-6))


@row("Basic slices, `reshape` and `.T`")
def _():
    def f(x):
        x = x * 1
        y, z, t = x[0:2], x.reshape(2, 2), x.reshape(2, 2).T
        x[0] = 9.0
        return y, z, t

    _, z, t = agree(f, floats(1, 2, 3, 4))
    assert z.asnumpy()[0, 0] == t.asnumpy()[0, 0] == 1


@row("A gradient after a write in place")
def _():
    def f(x):
        y = x * 1
        z = y * y
        y[0] = 5.0
        return z

    for gradient in both(ms.grad(f)):
        assert_same(gradient(floats(1, 2)), floats(2, 4))


@row("Memory shared with NumPy")
def _():
    array = np.ones(2, np.float32)
    for tensor, shared in (
        (ms.from_numpy(array), array),
        (ms.from_dlpack(array), array),
        ((new := floats(1, 1)), new.asnumpy()),
    ):
        shared[0] = 5
        assert_same(tensor, floats(5, 1))
        tensor[1] = 7.0
        assert_same(tensor, floats(5, 7))
        assert list(shared) == [5, 1]


@row("`np.from_dlpack(tensor)`")
def _():
    x = floats(1, 2)
    array = np.from_dlpack(x)
    assert_same(array, x) and np.shares_memory(array, x.asnumpy())


@row("`ndarray + Tensor`")
def _():
    array = np.array([1, 2], np.float32)
    assert_same(array + floats(1, 2), floats(2, 4))
    assert_same(ms.grad(lambda x: array * x)(floats(1, 1)), floats(1, 2))


@row("`x[0] = v` on an argument")
def _():
    def f(x):
        x[0] = 9.0

    for run in both(f):
        x = floats(1, 2)
        run(x)
        assert_same(x, floats(9, 2))


@row("`x += 1` on an argument")
def _():
    def f(x):
        x += 1
        return x

    for run in both(f):
        x = floats(1, 2)
        assert_same(run(x), floats(2, 3))
        assert_same(x, floats(1, 2))


@row("`q = p; q += x` for a Parameter `p`")
def _():
    for run in range(2):
        p = Parameter(floats(1), name="p")

        def f(x, p=p):
            q = p
            q += x

        both(f)[run](floats(2))
        assert p.asnumpy() == 3


# ------------------------------------------------------------------------------------ numbers


@row("Integer `x // 0` and `x % 0`")
def _():
    raises(ZeroDivisionError, "by zero", lambda x, y: x // y, Tensor([3]), Tensor([0]))
    raises(ZeroDivisionError, "by zero", lambda x, y: x % y, Tensor([3]), Tensor([0]))


@row("Integers to negative integer powers")
def _():
    raises(ValueError, "float", lambda x, y: x**y, Tensor([2]), Tensor([-1]))
    assert_same(Tensor([2]) ** -1.0, floats(0.5))


@row("`exp`, `sigmoid`, `softmax` ... of integers")
def _():
    for fn in (ops.exp, ops.sigmoid, ops.softmax):
        assert_same(fn(Tensor([1, 2])), fn(floats(1, 2)))


@row("Subtraction and ReLU of Bool Tensors")
def _():
    raises(TypeError, "Bool", lambda x: x - x, Tensor([True]))
    raises(TypeError, "Bool", ops.relu, Tensor([True]))


@row("nan in `sign`, `maximum`, `amax`, `argmax`, `clamp`, `sort`")
def _():
    x = floats(1, NAN, 2)
    assert_same(ops.sign(x), floats(1, NAN, 1))
    assert_same(ops.maximum(x, floats(NAN, 1, 1)), floats(NAN, NAN, 2))
    assert math.isnan(ops.amax(x)) and ops.argmax(x) == 1
    assert_same(ops.clamp(x, 0.0, 1.5), floats(1, NAN, 1.5))
    assert_same(ops.sort(x)[0], floats(1, 2, NAN))


@row("`amax` along an empty axis")
def _():
    raises(ValueError, "no elements", lambda x: ops.amax(x, 0), Tensor(np.zeros((0, 3))))


@row("`ops.full((2,), 3.0)`")
def _():
    assert_same(ops.full((2,), 3.0), floats(3, 3))
    assert_same(ops.full(2, 3), Tensor([3, 3]))


@row("`ops.max(x)` without an axis")
def _():
    value, index = ops.max(Tensor([[1.0, 2.0], [5.0, 4.0]]))
    assert (value, index) == (5, 2)


@row("UInt16, UInt32 and UInt64 with other integers")
def _():
    for left, right, common in (
        (ms.uint16, ms.int16, ms.int32),
        (ms.uint32, ms.uint8, ms.uint32),
        (ms.uint64, ms.int64, ms.int64),
    ):
        assert (Tensor([1], left) + Tensor([1], right)).dtype is common


@row("`ops.RealDiv()` of integers")
def _():
    assert_same(ops.RealDiv()(Tensor([3, -3]), Tensor([2, 2])), floats(1.5, -1.5))


@row("The gradient of `cumprod` where an element is 0")
def _():
    gradient = ms.grad(lambda x: ops.cumprod(x, 0))
    assert_same(gradient(floats(0, 2, 3)), floats(1 + 2 + 6, 0, 0))


@row("The gradient of `binary_cross_entropy` at p = y = 1")
def _():
    def loss(p, y):
        return ops.binary_cross_entropy(p, y, reduction="sum")

    assert_same(ms.grad(loss)(floats(1, 0), floats(1, 0)), floats(-1, 1))


@row("Complex numbers")
def _():
    with pytest.raises(TypeError, match="complex"):
        Tensor(1j)
    with pytest.raises(TypeError):
        Tensor([1.0]) + 1j


@row("Positions out of range: `gather`, `x[tensor]`, labels")
def _():
    x, five = floats(1, 2), Tensor([5])
    raises(IndexError, "out of range", lambda x, i: ops.gather(x, i, 0), x, five)
    raises(IndexError, "out of range", lambda x, i: x[i], x, five)
    raises(IndexError, "out of range", ops.cross_entropy, x.reshape(1, 2), five)


@row("Int64 labels in `nn.CrossEntropyLoss`")
def _():
    scores, loss = Tensor([[1.0, 2.0]]), nn.CrossEntropyLoss()
    assert_same(loss(scores, Tensor([1], ms.int64)), loss(scores, Tensor([1], ms.int32)))


@row("Integers beyond 64 bits")
def _():
    raises(OverflowError, "64 bits", lambda x: x * 2**70, Tensor(1))


# ------------------------------------------------------------------------------------- errors


@row("When an eager operation fails")
def _():
    with pytest.raises(IndexError):
        ops.gather(floats(1, 2), Tensor([5]), 0)  # its result is not used


@row("Errors while compiling")
def _():
    def f(x):
        return x[7]

    with pytest.raises(IndexError) as caught:
        ms.jit(f)(floats(1, 2))
    (note,) = caught.value.__notes__
    assert len(f"{caught.value}\n{note}".splitlines()) < 7
    assert "return x[7]" in note and note.endswith("^^^^\n  x is Tensor[Float32, (2)]")


@row("Python's own errors in compiled code")
def _():
    def callee(a):
        return a

    for error, fn in (
        (KeyError, lambda x: {"a": x}["b"]),
        (ZeroDivisionError, lambda x: 1 // 0),
        (TypeError, lambda x: callee(b=x)),
        (ValueError, unpack_three),
    ):
        raises(error, ".", fn, Tensor(1.0))


def unpack_three(x):
    a, b = (x, 2, 3)
    return a, b


# ------------------------------------------------------------------ Python in compiled functions


@row("Two names of one list or dict")
def _():
    def callee(a):
        a.append(4)

    def f(x):
        a = [1, 2]
        b = a
        b.append(x)
        callee(a)
        c = {}
        d = c
        d["k"] = x
        return a, c

    agree(f, Tensor(3.0))


@row("`list.sort`, `list.remove`, `dict.setdefault`")
def _():
    def f(x):
        a, d = [3, 1, 2], {}
        a.sort()
        a.remove(2)
        d.setdefault("k", x)
        return a, d

    agree(f, Tensor(1.0))


@row("Python floats")
def _():
    for run in both(lambda x: (0.1 + 0.2, 0.1 + 0.2 == 0.3)):
        assert run(Tensor(1.0)) == (0.1 + 0.2, False)


@row("Python integers")
def _():
    def doubled(x):
        n = 1
        while x > 0:
            n, x = n * 2, x - 1
        return n

    assert ms.jit(lambda x: (2**63, 2**-1))(Tensor(1.0)) == (2**63, 0.5)
    compiled = ms.jit(doubled)
    assert compiled(Tensor(62)) == 2**62
    with pytest.raises(OverflowError, match="64-bit"):
        compiled(Tensor(63))


@row("Closures")
def _():
    def f(x):
        functions = []
        for i in range(3):
            functions.append(lambda: x * i)  # noqa: B023
        return functions[0](), [lambda: x * j for j in range(3)][0]()  # noqa: B023

    assert agree(f, Tensor(7.0))[0] == 14


@row("`x is x`")
def _():
    for run in both(lambda x: x is x):
        assert run(Tensor(1.0)) is True


@row("Writing what is older than the call: a global, a list, a number in an attribute")
def _():
    class Counter(nn.Cell):
        def __init__(self):
            super().__init__()
            self.n, self.total = 0, Tensor(0.0)

        def construct(self, x):
            self.n += 1
            return x

        def add(self, x):
            self.total = self.total + x

    items, cell, x = [], Counter(), Tensor(1.0)

    def write_global(x):
        global SCALE
        SCALE = 3
        return x

    refused(RuntimeError, "'SCALE'", write_global, x)
    assert SCALE == 2
    for _ in range(2):
        ms.jit(cell.add)(x)
        ms.jit(cell)(x)
        ms.jit(lambda: items.append(cell.n))()
    assert cell.total == 2
    assert (cell.n, items) == (2, [1, 2])


@row("`print`")
def _():
    def f(x):
        print("a", x, True, [x, 1], {"k": 2}, sep="|", end=".")

    printed = []
    for run in both(f):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            run(Tensor(1.0))
        printed.append(out.getvalue())
    tensor = "Tensor(shape=[], dtype=Float32, value= 1)"
    assert printed == ["a|1.0|True|[" + tensor + ", 1]|{'k': 2}."] * 2


@row(
    "Nested comprehensions, sets, `del`, `:=`, `nonlocal`, `for`-`else`, `while`-`else`",
)
def _():
    def f(x):
        n = 0

        def g():
            nonlocal n
            n = len({1, 2})

        g()
        a = [x * i * j for i in (1, 2) for j in (3, 4)]
        del a[0]
        if (k := n + 1) > 2:
            x = x * k
        for _ in range(2):
            x = x + 1
        else:
            x = x * 2
        while x < 30:
            x = x + 1
        else:
            x = x * 3
        return a, x, n

    agree(f, Tensor(7.0))


@row("Positional-only parameters")
def _():
    def f(x):
        def g(a, /, b):
            return a * b

        return g(x, b=x)

    agree(f, Tensor(3.0))


@row("Several lambdas in one statement")
def _():
    double, triple = ms.jit(lambda x: x * 2), ms.jit(lambda x: x * 3)
    assert (double(Tensor(1.0)), triple(Tensor(1.0))) == (2, 3)


@row("A Tensor as index of a list or CellList of Cells")
def _():
    cells = [nn.ReLU(), nn.Tanh(), nn.Sigmoid()]
    for held in (cells, nn.CellList(cells)):
        for index in (Tensor(0), Tensor(-1, ms.int32), Tensor([1], ms.int64)):
            found = agree(lambda x, i, held=held: held[i](x), floats(2), index)
            assert_same(found, cells[int(index)](floats(2)))


@row("Long constant loops")
def _():
    def f(x):
        for i in range(500):
            x = x * 0.5 + i
        return x

    compiled = ms.jit(f)
    assert_same(compiled(Tensor(1.0)), f(Tensor(1.0)))
    graph = compiled.graph()
    assert "While" in str(graph) and sum(len(g.nodes()) for g in graph.graphs()) < 150


@row("`while True` with a counter and a `break` that a Tensor decides")
def _():
    def f(x):
        n = 0
        while True:
            x = x * 2
            n = n + 1
            if x > 50:
                break
        return x, n

    assert agree(f, Tensor(1.0)) == (64, 6)


@row("What a graph cannot compute, such as `x.asnumpy()`")
def _():
    def f(x):
        return Tensor(np.sin(x.asnumpy()))

    refused(RuntimeError, "asnumpy", f, Tensor(1.0))


@row("`class`, `import`, `yield`")
def _():
    def with_class(x):
        class A:
            pass

        return x

    def with_import(x):
        import math

        return x * math.pi

    def with_yield(x):
        yield x

    for fn in (with_class, with_import, with_yield):
        word = fn.__name__.removeprefix("with_")
        refused(RuntimeError, f"'{word}' cannot be part of a compiled graph: ", fn, Tensor(1.0))


@row("`ops.cond`")
def _():
    agree(lambda x: ops.cond(x > 0, ops.sqrt, ops.neg, x), Tensor(4.0))


@row("`WhileLoop`, `ForiLoop` and `Scan` whose value changes its type, or whose function fails")
def _():
    def changes(x):
        return ops.WhileLoop()(lambda v: x > 0, lambda v: v + 0.5, 1)

    def fails(x):
        return ops.ForiLoop()(0, 2, lambda i, v: v + {}["k"], x)

    raises(TypeError, "was given int and returned float", changes, floats(1))
    raises(KeyError, "k", fails, floats(1))


@row("Two arms of an `if` with different shapes")
def _():
    def f(x):
        y = x if x.sum() > 0 else x[0:1]
        return y

    with pytest.raises(TypeError, match="depends on a Tensor"):
        ms.jit(f)(floats(1, 2))


@row("A Tensor that is one of two, written in place")
def _():
    def f(x, y):
        z = x if x.sum() > 0 else y
        z[0] = 5.0

    refused(TypeError, "one of two", f, floats(1), floats(2))


# -------------------------------------------------------------------------------- compilation


@row("`set_data` and `load_param_into_net` after compiling")
def _():
    net = nn.Dense(1, 1, weight_init=2.0, has_bias=False)
    compiled, x = ms.jit(lambda x: net(x)), Tensor([[1.0]])
    assert compiled(x) == 2
    net.weight.set_data(Tensor([[3.0]]))
    assert compiled(x) == 3
    ms.load_param_into_net(net, {"weight": Parameter(Tensor([[4.0]]), name="weight")})
    assert compiled(x) == 4
    assert compiled.compile_count == 1


@row("A changed global, attribute or function, or another Tensor under its name")
def _(monkeypatch):
    class Box:
        pass

    box = Box()
    box.factor, box.function, box.tensor = 1, ops.sin, Tensor(1.0)
    compiled, x = ms.jit(lambda x: box.function(x * box.factor * SCALE) * box.tensor), Tensor(1.0)

    def check():
        assert_same(compiled(x), box.function(x * box.factor * SCALE) * box.tensor)

    check()
    box.factor = 7
    check()
    box.function = ops.cos
    check()
    box.function = lambda x: ops.tanh(x)
    check()
    monkeypatch.setitem(globals(), "SCALE", 5)
    check()
    assert compiled.compile_count == 5
    box.tensor = Tensor(2.0)
    check()
    assert compiled.compile_count == 5


@row("Equal tuples and lists as arguments")
def _():
    compiled = ms.jit(lambda x, t: x * t[0])
    for t in ((1, 2), tuple([1, 2]), [1, 2], list((1, 2))):
        compiled(Tensor(1.0), t)
    assert compiled.compile_count == 2  # one for tuples, one for lists


@row("A function that is compiled again and again")
def _():
    compiled = ms.jit(lambda x, k: x * k)
    with pytest.warns(RuntimeWarning, match="compiled 8 times because of k") as caught:
        for k in range(20):
            compiled(Tensor(1.0), k)
    assert len(caught) == 1
    assert "k is 19 (int), and was 18 (int)" in str(compiled.explain_recompile())


@row("A nan or inf that an operation makes")
def _():
    for run in both(lambda x: ops.log(x)):
        assert run(Tensor(0.0)) == -math.inf
        with ms.context.using(check_finite=True), pytest.raises(FloatingPointError, match="Log"):
            run(Tensor(0.0))


@row("Unknown options of `jit` and `JitConfig`")
def _():
    for take in (lambda **options: ms.jit(ops.sin, **options), ms.JitConfig):
        with pytest.raises(ValueError, match="no option 'speed'"):
            take(speed=3)


@row('`jit(fullgraph=False)`, `jit_syntax_level="LAX"`')
def _():
    def f(x):
        return Tensor(np.sin(x.asnumpy()))

    for options in ({"fullgraph": False}, {"fullgraph": True}, {"jit_syntax_level": "LAX"}):
        with pytest.raises(RuntimeError, match="asnumpy"):
            ms.jit(f, **options)(Tensor(1.0))


@row("`jit(capture_mode=...)`")
def _():
    for mode in ("ast", "trace"):
        assert ms.jit(ops.sin, capture_mode=mode)(Tensor(0.0)) == 0
    with pytest.raises(ValueError, match="capture_mode"):
        ms.jit(ops.sin, capture_mode="bytecode")


@row('What a function reads of Python under `capture_mode="trace"`')
def _(monkeypatch):
    compiled = ms.jit(lambda x: x * SCALE, capture_mode="trace")
    for scale in (2, 5, 2):
        monkeypatch.setitem(globals(), "SCALE", scale)
        assert compiled(Tensor(1.0)) == scale
    seen = []
    for f in (lambda x: print(x), lambda x: x * time.time(), lambda x: seen.append(x)):
        with pytest.raises(RuntimeError, match="only while tracing"):
            ms.jit(f, capture_mode="trace")(Tensor(1.0))
    assert seen == []


@row('`jit(jit_level="O2")`')
def _():
    for level in ("O0", "O1", "O2"):
        assert ms.jit(ops.sin, jit_level=level)(Tensor(0.0)) == 0
        assert ms.JitConfig(jit_level=level).jit_config_dict["jit_level"] == level
        with ms.context.using(jit_level=level):
            assert ms.get_context("jit_level") == level


@row("`jit_level`, if nothing is said")
def _():
    assert ms.JitConfig().options().jit_level == "O1"
    plans = [
        ms.explain(ms.jit(lambda x: ops.exp(x) * 2, **level), Tensor([1.0, 2.0])).plan
        for level in ({}, {"jit_level": "O0"})
    ]
    assert ["kernel" in plan for plan in plans] == [True, False]


@row("`data_sink(..., sink_size=-1)`")
def _():
    seen = ms.data_sink(ops.neg, [floats(1), floats(2), floats(3)], sink_size=-1)()
    assert_same(seen, floats(-3))


@row("`jit(backend=...)`")
def _():
    assert ms.jit(ops.sin, backend="ms_backend")(Tensor(0.0)) == 0
    with pytest.raises(ValueError, match="backend"):
        ms.jit(ops.sin, backend="GE")


@row("`set_jit_config`, called again or with something else")
def _():
    net = nn.ReLU()
    for level in ("O1", "O2"):
        net.set_jit_config(ms.JitConfig(jit_level=level))
        assert net.jit_config_dict["jit_level"] == level
    with pytest.raises(TypeError, match="takes a JitConfig"):
        net.set_jit_config("O1")


@row("A Tensor as argument of a `constexpr`")
def _():
    two = ms.constexpr(lambda x: 2)
    raises(TypeError, "takes constants, and argument 1 is", lambda x: x * two(x), Tensor(1.0))


@row("A list that a `constexpr` changes")
def _():
    grow = ms.constexpr(lambda items: items.append(1))

    def f(x):
        items = [0]
        grow(items)
        return x, items

    assert f(Tensor(1.0))[1] == [0, 1]
    refused(RuntimeError, "must not change its arguments", f, Tensor(1.0))


# ---------------------------------------------------------------------------------- gradients


@row("One Tensor given twice, `grad(f, 0)(x, x)`, or captured too")
def _():
    x = Tensor(3.0)

    def twice(u):
        return ms.grad(lambda a, b: a * a * b, 0)(u, u)

    def captured(u):
        return ms.grad(lambda a: a * u)(u)

    for f, expected in ((twice, 18.0), (captured, 3.0)):
        for run in both(f):
            assert_same(run(x), Tensor(expected))


@row("The gradient of `u = x / y` at `y = 0`, where the arm that returns `u` is not taken")
def _():
    def plain(x, y, c):
        u = x / y
        return u if c > 0 else x * 2

    def of_an_if(x, y, c):
        u = x / y if c < 1 else x
        return u if c > 0 else x * 2

    def of_a_loop(x, y, c):
        u, i = x, c + 1
        while i > 0:
            u, i = u / y, i - 1
        return u if c > 0 else x * 2

    def arm_of_a_loop(x, y, c):
        u, a, i = x / y, x * 2, c + 2
        while i > 0:
            a, i = (a + u if i > 5 else a), i - 1
        return a

    for f in (plain, of_an_if, of_a_loop, arm_of_a_loop):
        eager, compiled = both(lambda *args, f=f: ms.grad(f)(*args))
        args = Tensor(3.0), Tensor(0.0), Tensor(0.0)
        assert_same(eager(*args), Tensor(2.0))
        assert_same(compiled(*args), Tensor(2.0 if f is plain else NAN))


@row("A gradient through a cast to integers")
def _():
    for gradient in both(ms.grad(lambda x: x.astype(ms.int32) * 2.5 + x)):
        assert_same(gradient(floats(2)), floats(1))


@row("`p += x`, `p.mul_(x)` of a Parameter `p`, differentiated")
def _():
    class Net(nn.Cell):
        def __init__(self, write):
            super().__init__()
            self.p, self.write = Parameter(floats(2), name="p"), write

        def construct(self, x):
            self.write(self.p, x)
            return self.p * x

    def adds(p, x):
        p += x

    for write, result in ((adds, 5), (ops.assign, 3), (lambda p, x: p.mul_(x), 6)):
        for compiled in (lambda fn: fn, ms.jit):
            net = Net(write)
            gradient = compiled(ms.grad(net, 0, net.p))
            assert_same(gradient(floats(3)), (floats(result), floats(3)))


@row("`self.t = x * x` of a Tensor `t`, then `self.t * x`, differentiated")
def _():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.t = floats(1)

        def construct(self, x):
            self.t = x * x
            return self.t * x

    for gradient in both(ms.grad(Net())):
        assert_same(gradient(floats(5)), floats(75))


@row("Weights with `requires_grad=False`, given to `vjp`")
def _():
    w = Parameter(floats(2), name="w", requires_grad=False)
    for call in both(lambda x: ms.vjp(lambda x: x * w, x, weights=w)[1](x)):
        assert_same(call(floats(3)), ((floats(6),), floats(0)))


@row("`jvp`, `jacrev`, `jacfwd` of results in lists, dicts or tuples of tuples")
def _():
    def nested(x):
        return x * x, [x * 3, {"k": x}]

    for call in both(lambda x: ms.jvp(nested, x, x)[1]):
        tangent, (second, third) = call(floats(2))
        assert_same((tangent, second, third["k"]), (floats(8), floats(6), floats(2)))
    for jacobian in (ms.jacrev, ms.jacfwd):
        for call in both(jacobian(nested)):
            assert_same(call(Tensor(2.0)), (Tensor(4.0), Tensor(3.0), Tensor(1.0)))


@row("A Jacobian of a Jacobian in a compiled function: `jacfwd(jacrev(f))(x)`")
def _():
    for call in both(lambda x: ms.jacfwd(ms.jacrev(lambda x: (x * x * x).sum()))(x)):
        assert_same(call(floats(1, 2)), Tensor([[6.0, 0.0], [0.0, 12.0]]))


@row("A tuple or list of Tensors as one input of `vjp`")
def _():
    for inputs in (lambda x: (x, x), lambda x: [x, x]):
        call = lambda x, inputs=inputs: ms.vjp(lambda p: p[0] * p[1], inputs(x))[0]  # noqa: E731
        raises(TypeError, "inputs must be Tensors", call, floats(1))


@row("A cotangent or direction of another shape")
def _():
    for call in (
        lambda x: ms.vjp(ops.sin, x)[1](x[:1]),
        lambda x: ms.vjp(ops.sin, x)[1](2.0),
        lambda x: ms.jvp(ops.sin, x, x[:1]),
    ):
        raises(RuntimeError, "they must be equal", call, floats(1, 2))


@row("`register_hook` of a Tensor while nothing is differentiated")
def _():
    with pytest.raises(RuntimeError, match="inside the function that grad differentiates"):
        floats(2).register_hook(lambda g: g)


@row("Backward hooks of a Cell (`register_backward_hook`) in a compiled function")
def _():
    cell = nn.ReLU()
    cell.register_backward_hook(lambda cell, inputs, outputs: None)
    ms.grad(cell)(floats(2))
    with pytest.raises(RuntimeError, match="in PyNative mode only"):
        ms.jit(lambda x: cell(x))(floats(2))


@row("Results of a Cell's `bprop`")
def _():
    class Net(nn.Cell):
        def __init__(self, wrong):
            super().__init__()
            self.wrong = wrong

        def construct(self, x):
            return x * 2

        def bprop(self, x, out, dout):
            return self.wrong(dout)

    for error, wrong in (
        (TypeError, lambda dout: (dout.astype(ms.float16),)),
        (ValueError, lambda dout: (dout.sum(),)),
        (RuntimeError, lambda dout: (dout, dout)),
        (RuntimeError, lambda dout: ()),
    ):
        raises(error, "gradient", ms.grad(Net(wrong)), floats(1, 2))


@row("A registered `bprop` for a built-in primitive")
def _():
    @bprop_getters.register(ops.Mul)
    def get_bprop(self):
        return lambda x, y, out, dout: (dout * y * 100, dout * x * 100)

    try:
        for gradient in both(ms.grad(lambda x: x * floats(3))):
            assert gradient(floats(2)) > 200
    finally:
        bprop_getters.unregister(ops.Mul)


# ------------------------------------------------------------------ Cells, Parameters, optimizers


class Leaf(nn.Cell):
    """A Cell with nothing in it."""


def names(cell):
    return [p.name for p in cell.get_parameters()]


@row("`set_data` with another shape")
def _():
    p = Parameter(floats(1, 2), name="p")
    with pytest.raises(ValueError, match="shape"):
        p.set_data(floats(1, 2, 3))


@row("A Parameter added to a Cell that is a child already")
def _():
    net = Leaf()
    net.a = Leaf()
    net.a.w = Parameter(floats(1))
    assert names(net) == ["a.w"]


@row("Containers that are filled after they became attributes")
def _():
    net = Leaf()
    net.l, net.s = nn.CellList(), nn.SequentialCell()
    net.l.append(nn.Dense(1, 1))
    net.s.append(nn.Dense(1, 1))
    assert names(net) == ["l.0.weight", "l.0.bias", "s.0.weight", "s.0.bias"]


@row("`cell.child = None`")
def _():
    net = Leaf()
    net.child = nn.Dense(1, 1)
    net.child = None
    assert net.child is None
    assert (repr(net), list(net.cells()), names(net)) == ("Leaf()", [], [])


@row("`CellList(a, b)`")
def _():
    with pytest.raises(TypeError, match="one list"):
        nn.CellList(Leaf(), Leaf())


@row("`Momentum.momentum`")
def _():
    optimizer = nn.Momentum([Parameter(floats(1), name="p")], 0.1, 0.9)
    assert optimizer.momentum == 0.9 and type(optimizer.momentum) is float


@row("Batch normalization in training, with one value per channel")
def _():
    layer = nn.BatchNorm1d(2).set_train()
    with pytest.raises(ValueError, match="the variance of one value is unknown"):
        layer(floats(1, 2).reshape((1, 2)))
    assert_same(layer.moving_variance, Tensor([1.0, 1.0]))


@row("`nn.Embedding(..., dtype=float16)`")
def _():
    assert nn.Embedding(3, 2, dtype=ms.float16).embedding_table.dtype is ms.float16


@row("`print(nn.LayerNorm((3,)))`")
def _():
    assert "gamma=Parameter (name=gamma" in str(nn.LayerNorm((3,)))


# ------------------------------------------------------------------------------ random numbers


@row("`set_seed` after compiling")
def _():
    def draw():
        return ops.rand(3), ops.dropout(floats(1, 2, 3))

    compiled = ms.jit(draw)
    compiled()
    for seed in (3, 4):
        ms.set_seed(seed)
        expected = draw()
        ms.set_seed(seed)
        assert_same(compiled(), expected)


@row("`ops.randperm(n)`, called again")
def _():
    assert len({tuple(ops.randperm(9).tolist()) for _ in range(5)}) == 5


@row("`multinomial` of weights that are negative or all 0")
def _():
    for weights in (floats(-1, 2), floats(0, 0)):
        agree(lambda w: ops.multinomial(w, 2), weights)
        with pytest.raises(ValueError, match="must not be negative, nor all 0"):
            ops.multinomial(weights, 2)


@row("Dropout of inf and nan")
def _():
    found = ops.dropout(floats(*[math.inf, NAN] * 30)).tolist()
    assert {str(v) for v in found} == {"0.0", "inf", "nan"}


# -------------------------------------------------------------------------------- checkpoints


@row("Empty Tensors")
def _(tmp_path):
    empty = Tensor(np.zeros((0, 3), np.float32))
    ms.save_checkpoint([{"name": "a", "data": empty}], str(tmp_path / "e.ckpt"))
    assert ms.load_checkpoint(str(tmp_path / "e.ckpt"))["a"].shape == (0, 3)


@row("Two Parameters of one name")
def _(tmp_path):
    same = [{"name": "a", "data": floats(1)}, {"name": "a", "data": floats(2)}]
    with pytest.raises(ValueError, match="two parameters are called 'a'"):
        ms.save_checkpoint(same, str(tmp_path / "d.ckpt"))


# ------------------------------------------------------------------------------------ not yet


# ----------------------------------------------------------------------- surprising, and kept


def test_what_may_surprise_and_is_kept():
    assert ms.get_context("mode") == ms.PYNATIVE_MODE
    assert_same(~Tensor([1, 0]), Tensor([False, True]))
    assert_same(Tensor([1, 2]).mean(), Tensor(1))
    assert_same(Tensor([2**62, 2**62]).sum(), Tensor(-(2**63)))
    assert (Tensor([1, 2]) == [1, 2]) is False
    with pytest.raises(IndexError):
        floats(1, 2)[np.array([0])]
    assert (ops.argmax(floats(1)).dtype, ops.argmin(floats(1)).dtype) == (ms.int64, ms.int32)
    assert ms.grad(lambda x: x * 2.0)(3.0) == ()
    assert float(nn.GELU()(Tensor(1.0))) != float(ops.gelu(Tensor(1.0)))


def test_arguments_are_written_under_grad():
    def f(x):
        x[0] = x[0] * 5.0
        return x

    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        x = floats(1, 2)
        with ms.context.using(mode=mode):
            assert_same(ms.grad(f)(x), floats(5, 1))
        assert_same(x, floats(5, 2))


def test_nesterov_of_momentum_changes_nothing():
    results = []
    for nesterov in (False, True):
        p = Parameter(floats(1), name="p")
        optimizer = nn.Momentum([p], 0.1, 0.9, use_nesterov=nesterov)
        for _ in range(3):
            optimizer((floats(1),))
        results.append(p.asnumpy())
    assert_same(results[0], results[1])


@pytest.mark.parametrize("title", list(CHECKS))
def test_row(title, request):
    check = CHECKS[title]
    wanted = check.__code__.co_varnames[: check.__code__.co_argcount]
    check(**{name: request.getfixturevalue(name) for name in wanted})

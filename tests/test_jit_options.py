"""The options of jit, JitConfig, and what a program tells the compiler of its own code."""

import inspect

import numpy as np
import pytest
from differential import agree, points_at
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.ir.compare import same_graph
from minispore.ir.node import LATE
from minispore.ir.text import parse, to_text

X = Tensor([[1.0, 2.0]])


def double(x):
    return x * 2


# ------------------------------------------------------------------------------------- options


def test_the_arguments_are_mindspore_s():
    parameters = inspect.signature(ms.jit).parameters
    assert list(parameters) == [
        "function", "capture_mode", "jit_level", "dynamic", "fullgraph", "backend", "options",
    ]  # fmt: skip
    defaults = [p.default for p in parameters.values()][1:-1]
    assert defaults == ["ast", "O1", 0, False, ""]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"capture_mode": "bytecode"}, ValueError, "capture_mode must be one of 'ast', 'trace'"),
        ({"capture_mode": None}, ValueError, "not None"),
        ({"jit_level": "O9"}, ValueError, "jit_level must be one of 'O0', 'O1', 'O2', not 'O9'"),
        ({"jit_level": 0}, ValueError, "not 0"),
        ({"dynamic": 2}, ValueError, "dynamic must be one of 0, 1"),
        ({"dynamic": True}, TypeError, "dynamic must be an int, not bool"),
        ({"dynamic": 1.0}, TypeError, "not float"),
        ({"fullgraph": 1}, TypeError, "fullgraph must be a bool, not int"),
        ({"check_finite": "yes"}, TypeError, "check_finite must be a bool"),
        ({"backend": "GE"}, ValueError, "backend must be one of '', 'ms_backend'"),
        ({"exc_mode": "sync"}, ValueError, "exc_mode must be one of 'auto', 'sink', 'no_sink'"),
        ({"debug_level": "debug"}, ValueError, "debug_level"),
        ({"infer_boost": True}, ValueError, "infer_boost"),
        ({"jit_syntax_level": "lax"}, ValueError, "jit_syntax_level"),
        ({"input_signature": (X, 3)}, TypeError, "input_signature must be a Tensor, or .* not int"),
        ({"jit_lvl": "O1"}, ValueError, "jit has no option 'jit_lvl'; it knows capture_mode, jit_"),
    ],
    ids=lambda v: str(v) if isinstance(v, dict) else "",
)
def test_options_are_checked(options, error, match):
    for given in ((double,), ()):
        with pytest.raises(error, match=match):
            ms.jit(*given, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"jit_level": "O2"}, {"dynamic": 1}, {"fullgraph": True}, {"backend": "ms_backend"},
        {"exc_mode": "sink"}, {"jit_syntax_level": "LAX"}, {"jit_syntax_level": "STRICT"},
        {"infer_boost": "on"}, {"debug_level": "DEBUG"}, {"capture_mode": "trace"},
        {"input_signature": X}, {"check_finite": True},
    ],
    ids=str,
)  # fmt: skip
def test_options_that_leave_results_as_they_are(options):
    for compiled in (ms.jit(double, **options), ms.jit(**options)(double)):
        assert_same(compiled(X), double(X))
        assert {k: getattr(compiled.options, k) for k in options} == options


def test_python_never_steps_in():
    def out_to_numpy(x):
        return Tensor(x.asnumpy() * 2)

    for options in ({}, {"fullgraph": False}, {"jit_syntax_level": "LAX"}):
        with pytest.raises(RuntimeError, match="known only when the graph runs"):
            ms.jit(out_to_numpy, **options)(X)


def test_debug_level_shows_all_frames_and_verifies(monkeypatch):
    monkeypatch.delenv("MINISPORE_DEBUG", raising=False)

    def wrong(x):
        return x @ x

    def depth(error):
        traceback, count = error.__traceback__, 0
        while traceback is not None:
            traceback, count = traceback.tb_next, count + 1
        return count

    found = []
    for level in ("RELEASE", "DEBUG"):
        with pytest.raises(RuntimeError, match="impossible") as caught:
            ms.jit(wrong, debug_level=level)(X)
        assert points_at(caught.value, __file__)
        found.append(depth(caught.value))
    assert found[0] < 5 < found[1]
    verified = []
    monkeypatch.setattr("minispore.compile.verify", verified.append)
    compiled = ms.jit(double, debug_level="DEBUG")
    compiled(X)
    compiled(X)
    assert verified == [*compiled.stages.values()]


# ----------------------------------------------------------------------------- input_signature


def test_input_signature():
    calls = []

    @ms.jit(input_signature=(Tensor([[0.0, 0.0]]), (Tensor(0), Tensor([0.0]))))
    def f(x, pair):
        calls.append  # noqa: B018  # nothing runs here
        return x * pair[0] + pair[1]

    good = (X, (Tensor(3), Tensor([1.0])))
    assert_same(f(*good), np.array([[4, 7]], np.float32))
    for args, error, match in (
        ((X,), TypeError, r"f takes 3 Tensors \(input_signature\), not 1"),
        (
            (X, (Tensor(3.0), Tensor([1.0]))),
            TypeError,
            "Tensor 2 .* is Float32, .* says Int64",
        ),
        ((X.T, good[1]), ValueError, r"Tensor 1 .* has shape \(2, 1\), .* says \(1, 2\)"),
    ):
        with pytest.raises(error, match=match):
            f(*args)
    with pytest.raises(TypeError, match="by position only"):
        f(X, pair=good[1])
    assert f.compile_count == 1


def test_input_signature_with_sizes_that_vary():
    @ms.jit(input_signature=(Tensor(shape=[None, 2], dtype=ms.float32), Tensor(0.0)))
    def f(x, y):
        return x.mean(0) * y, x.shape

    for n in (3, 5, 8):
        mean, shape = f(ops.ones((n, 2), ms.float32), Tensor(2.0))
        assert_same(mean, np.full(2, 2, np.float32))
        assert shape == (n, 2)
    assert f.compile_count == 1
    with pytest.raises(ValueError, match=r"has shape \(3, 3\), .* says \(None, 2\)"):
        f(ops.ones((3, 3), ms.float32), Tensor(2.0))


def test_check_finite_where_sizes_vary():
    @ms.jit(input_signature=Tensor(shape=[None], dtype=ms.float32), check_finite=True)
    def f(x):
        chosen = ops.masked_select(x, x > 0)
        return ops.log(chosen - 1) * chosen.shape[0], x.sum() / x.shape[0]

    assert_same(f(Tensor([2.0, -2.0]))[1], np.float32(0))
    with pytest.raises(FloatingPointError, match=r"Log made -inf at \[1\]"):
        f(Tensor([2.0, -2.0, 1.0]))
    assert f.compile_count == 1


# -------------------------------------------------------------------------------- levels, Cells


class Net(nn.Cell):
    def construct(self, x):
        return x * 2


def test_levels_are_part_of_the_key():
    net = Net()
    assert net.jit_config_dict == {}
    with ms.context.using(mode=ms.GRAPH_MODE):
        net(X)
        jitted = net._graphs.of["call"]
        assert (jitted.compile_count, jitted.options.jit_level) == (1, "O1")
        with ms.context.using(jit_level="O0"):
            assert ms.get_context("jit_config") == {"jit_level": "O0"}
            net(X)
            assert (jitted.compile_count, jitted.options.jit_level) == (2, "O0")
        net(X)
        assert jitted.compile_count == 2
        net.set_jit_config(ms.JitConfig(jit_level="O2"))
        net(X)
        assert (jitted.compile_count, jitted.options.jit_level) == (3, "O2")
        assert_same(ms.grad(net)(X), np.array([[2, 2]], np.float32))
    assert net.jit_config_dict["jit_level"] == "O2"


def test_jit_config():
    config = ms.JitConfig("O0", debug_level="DEBUG", fullgraph=True)
    assert repr(config) == "JitConfig(jit_level='O0', debug_level='DEBUG', fullgraph=True)"
    assert config.jit_config_dict == {
        "jit_level": "O0", "exc_mode": "auto", "jit_syntax_level": "", "debug_level": "DEBUG",
        "infer_boost": "off", "fullgraph": True,
    }  # fmt: skip
    assert config.options().debug_level == "DEBUG"
    for wrong, match in (("jit_level", "jit_level"), ("exc_mode", "exc_mode"), ("x", "option 'x'")):
        with pytest.raises(ValueError, match=match):
            ms.JitConfig(**{wrong: "O7"})
    with pytest.raises(TypeError, match="set_jit_config takes a JitConfig, not dict"):
        Net().set_jit_config({"jit_level": "O1"})


def test_context_settings():
    for settings, error, match in (
        ({"jit_level": "O7"}, ValueError, "O0, O1, O2"),
        ({"jit_config": 3}, TypeError, "jit_config must be a dict"),
        ({"jit_config": {"x": 3}}, ValueError, "jit_config has no key 'x'"),
        ({"check_finite": 1}, TypeError, "check_finite must be a bool"),
    ):
        with pytest.raises(error, match=match):
            ms.set_context(**settings)
    ms.set_context(jit_config={"jit_level": "O2"})
    assert ms.get_context("jit_level") == "O2"
    ms.set_context(jit_level="")
    assert ms.get_context("jit_config") == {}


def test_recursion_limit():
    def deep(x, n):
        return x if n == 0 else deep(x, n - 1) + 1

    try:
        ms.set_recursion_limit(20)
        assert ms.get_context("max_call_depth") == 20
        assert_same(ms.jit(deep)(X, 10), X + 10)
        with pytest.raises(RecursionError, match="20 deep"):
            ms.jit(deep)(X, 30)
    finally:
        ms.set_recursion_limit()
    assert ms.get_context("max_call_depth") == 1000
    for wrong, error in ((0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError)):
        with pytest.raises(error):
            ms.set_recursion_limit(wrong)


# ----------------------------------------------------------------------------------- jit_class


@ms.jit_class
class Scale:
    factor = 3

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by * self.factor


def test_jit_class():
    outside = Scale(2)
    assert Scale.__ms_class__ is True
    agree(lambda x: outside(x) + Scale(5)(x), X)
    for wrong, match in ((3, "a class, not int"), (double, "function"), (Net, "Net is a Cell")):
        with pytest.raises(TypeError, match=match):
            ms.jit_class(wrong)


# ----------------------------------------------------------------------------------- constexpr

calls = []


@ms.constexpr
def half(shape, plus=0):
    try:
        calls.append(shape)
        return int(np.prod(shape)) // 2 + plus
    finally:
        pass


def test_constexpr_runs_while_compiling():
    def f(x):
        return x * half(x.shape) + half((4,), plus=1)

    agree(f, X)
    for options in ({}, {"capture_mode": "trace"}):
        compiled = ms.jit(f, **options)
        compiled(X)
        calls.clear()
        assert_same(compiled(X), f(X))
        assert calls == [(1, 2), (4,)]  # those of f itself
    assert (half.name, repr(half), half((6,))) == ("half", "Prim[half]<constexpr_prim=True>", 3)
    assert ms.ops.constexpr is ms.constexpr


@pytest.mark.parametrize(
    "value",
    [3, 2.5, True, "text", None, (1, (2, 3)), [1, 2], {"a": 1}, slice(1), ms.float32,
     Tensor([1.0, 2.0]), (Tensor(3), [Tensor([True])])],
    ids=repr,
)  # fmt: skip
def test_what_a_constexpr_returns(value):
    make = ms.constexpr(lambda: value)
    result = ms.jit(lambda: (make(), 0))()
    assert repr(result) == repr((value, 0))


def test_each_call_of_a_constexpr_gives_its_own_list():
    make = ms.constexpr(lambda n: [0] * n)

    def f(x):
        first, second = make(2), make(2)
        first.append(1)
        return x, first, second

    agree(f, X)


def test_a_constexpr_takes_constants_only():
    for fn in (lambda x: half(x), lambda x: half((1,), plus=x.sum().item())):
        for options in ({}, {"capture_mode": "trace"}):
            with pytest.raises(TypeError, match="takes constants, and (argument 1|plus) is") as e:
                ms.jit(fn, **options)(X)
            assert points_at(e.value, __file__)
    with pytest.raises(TypeError, match="argument 1 is Tensor"):
        half(X)


def test_what_a_constexpr_must_not_do():
    grow = ms.constexpr(lambda items: items.append(1))
    function = ms.constexpr(lambda: double)

    def grows(x):
        items = [0]
        grow(items)
        return x

    for fn, match in (
        (grows, "must not change its arguments"),
        (lambda x: function()(x), "must return numbers, strings or Tensors"),
    ):
        with pytest.raises(RuntimeError, match=match):
            ms.jit(fn)(X)
    with pytest.raises(TypeError, match="decorates a function, not int"):
        ms.constexpr(3)


def test_errors_of_a_constexpr_are_the_user_s():
    @ms.constexpr(name="lookup")
    def find(key):
        return {"a": 1}[key]

    for run in (lambda x: x * find("b"), ms.jit(lambda x: x * find("b"))):
        with pytest.raises(KeyError, match="b"):
            run(X)


NUMBER = 3


def test_a_constexpr_that_is_computed_again(monkeypatch):
    @ms.constexpr(reuse_result=False, get_instance=False, check=False)
    def number(k):
        return NUMBER * k

    reused = ms.constexpr(lambda k: NUMBER * k)
    compiled, once = ms.jit(lambda x: x * number()(2)), ms.jit(lambda x: x * reused(2))
    for value, expected, count in ((3, 6, 1), (4, 8, 2), (3, 6, 2)):
        monkeypatch.setitem(globals(), "NUMBER", value)
        assert_same(compiled(X), X * expected)
        assert compiled.compile_count == count
        assert_same(once(X), X * 6)


# --------------------------------------------------------------------------------- lazy_inline


class Block(nn.Cell):
    @ms.lazy_inline
    def __init__(self, size=2):
        super().__init__()
        self.fc = nn.Dense(size, size)

    def construct(self, x):
        return ops.tanh(self.fc(x))


class Early(Block):
    @ms.lazy_inline(policy="front", attrs="size")
    def __init__(self, size=2):
        super().__init__(size)


class Stack(nn.Cell):
    def __init__(self, kind):
        super().__init__()
        self.a, self.b = kind(), kind()

    def construct(self, x):
        return self.b(self.a(x)).sum()


def test_lazy_inline_keeps_calls_until_late():
    net = Stack(Block)
    gradient = ms.grad(net, None, net.trainable_params())
    agree(gradient, X)
    compiled = ms.jit(gradient)
    compiled(X)
    names = list(compiled.stages)
    late = next(n for n in names if n.endswith("lazy_inline"))
    for name, graph in compiled.stages.items():
        kinds = {g.scope_kind for g in graph.graphs()}
        assert (LATE in kinds) == (names.index(name) < names.index(late)), name
        assert same_graph(parse(to_text(graph, full=True)), graph)
    assert len(compiled.graph().graphs()) == 1


def test_policy_front_inlines_at_once():
    compiled = ms.jit(Stack(Early))
    compiled(X)
    assert not [n for n in compiled.stages if n.endswith("lazy_inline")]


@pytest.mark.parametrize(
    ("run", "match"),
    [
        (lambda: ms.lazy_inline(double), "the __init__ of a Cell, not double"),
        (lambda: ms.lazy_inline(Block), "not Block"),
        (lambda: ms.lazy_inline(policy="back"), "policy must be None or 'front'"),
        (lambda: ms.lazy_inline(attrs=3), "attrs must be a list or a str"),
    ],
)
def test_lazy_inline_is_checked(run, match):
    with pytest.raises(ValueError, match=match):
        run()


def test_a_block_with_a_parameter_of_its_own_trains_alike():
    class Own(nn.Cell):
        @ms.lazy_inline
        def __init__(self):
            super().__init__()
            self.w = Parameter(Tensor([2.0, 3.0]), name="w")

        def construct(self, x):
            self.w += 1.0
            return x * self.w

    net = Own()
    agree(lambda x: net(x) + net(x), X, state=[net.w])

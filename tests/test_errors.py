"""What an error shows: the user's lines, one caret, the operands and where they were made."""

import time
import traceback

import pytest

import minispore as ms
from minispore import Tensor, nn, ops
from minispore.frontend.errors import locate
from minispore.ir.node import Location, shown_frames

X = Tensor([[1.0, 2.0]])


def raised(function, *args):
    """The error of a compiled function, and the lines of its note."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # each test looks at it
        ms.jit(function)(*(args or (X,)))
    (note,) = caught.value.__notes__
    return caught.value, note.split("\n")


def at(function, offset):
    return f"test_errors.py:{function.__code__.co_firstlineno + offset}"


def product(a, b):
    c = a * 2
    return c @ b


def test_the_user_s_calls_one_caret_and_the_operands():
    def outer(x):
        return product(x, x)

    error, lines = raised(outer)
    assert type(error) is RuntimeError and "matmul of shapes (1, 2) and (1, 2)" in str(error)
    first = outer.__code__.co_firstlineno + 1
    assert lines == [
        "While compiling the graph:",
        f'  File "{__file__}", line {first}, in outer',
        "    return product(x, x)",
        f'  File "{__file__}", line {product.__code__.co_firstlineno + 2}, in product',
        "    return c @ b",
        "           ^^^^^",
        f"  c is Tensor[Float32, (1, 2)] ({at(product, 1)})",
        "  b is Tensor[Float32, (1, 2)]",
    ]


def in_place(x):
    y = x * 1
    y += Tensor([1.0, 2.0, 3.0])


def compared(x):
    return x < Tensor([1.0, 2.0, 3.0])


def item(x):
    return x[0, 5]


def set_item(x):
    x[0] = Tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda x: ops.matmul(x, x), ["x is Tensor[Float32, (1, 2)]"]),
        (lambda x: x.reshape(3, 4), ["x is Tensor[Float32, (1, 2)]"]),
        (lambda x: ops.reshape(x, shape="a"), ["x is Tensor[Float32, (1, 2)]", "shape is str 'a'"]),
        (lambda x: ops.MatMul()(x, x), ["x is Tensor[Float32, (1, 2)]"]),
        (
            lambda x: ops.concat([x, x.T]),
            ["[x, x.T] is a list of Tensor[Float32, (1, 2)], Tensor[Float32, (2, 1)] (HERE)"],
        ),
        (lambda x: ops.matmul(*[x, x]), ["argument 1 is Tensor[Float32, (1, 2)]",
                                         "argument 2 is Tensor[Float32, (1, 2)]"]),
        (lambda x: x + None, ["x is Tensor[Float32, (1, 2)]"]),
        (lambda x: ~(x.sum().item() * 0.5), ["x.sum().item() * 0.5 is float (HERE)"]),
        (in_place, [f"y is Tensor[Float32, (1, 2)] ({at(in_place, 1)})",
                    f"Tensor([1.0, 2.0, 3.0]) is Tensor[Float32, (3)] ({at(in_place, 2)})"]),
        (compared, ["x is Tensor[Float32, (1, 2)]",
                    f"Tensor([1.0, 2.0, 3.0]) is Tensor[Float32, (3)] ({at(compared, 1)})"]),
        (item, ["x is Tensor[Float32, (1, 2)]"]),
        (set_item, ["x is Tensor[Float32, (1, 2)]",
                    f"value is Tensor[Float32, (3)] ({at(set_item, 1)})"]),
    ],
)  # fmt: skip
def test_operands(function, operands):
    _, lines = raised(function)
    assert sum("^" in line for line in lines) == 1
    caret = next(i for i, line in enumerate(lines) if "^" in line)
    assert lines[caret + 1 :] == [f"  {o.replace('HERE', at(function, 0))}" for o in operands]


def test_errors_of_constants_say_no_operands():
    for function in (lambda x: {"a": 1}["b"], lambda x: 1 // 0, lambda x: len(3)):
        _, lines = raised(function)
        assert "^" in lines[-1]


def test_operands_are_those_of_the_innermost_operation():
    _, lines = raised(lambda x: ops.relu(ops.matmul(x, x)))
    assert lines[-1] == "  x is Tensor[Float32, (1, 2)]" and len(lines) == 5


def test_lines_of_the_package_are_hidden(monkeypatch):
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc = nn.SequentialCell(nn.ReLU(), nn.Dense(3, 2))

        def construct(self, x):
            return self.fc(x)

    for setting, hidden in (("0", True), ("1", False)):
        monkeypatch.setenv("MINISPORE_DEBUG", setting)
        error, lines = raised(Net())
        assert "in_channels=3" in str(error)
        assert ("return self.fc(x)" in lines[2]) and ("basic.py" not in "".join(lines)) is hidden
        assert sum("^" in line for line in lines) == 1
    monkeypatch.setenv("MINISPORE_DEBUG", "0")
    _, lines = raised(nn.Dense(3, 2))  # where there is no line of the user's
    assert "basic.py" in lines[1]
    assert shown_frames([]) == []


def test_calls_that_repeat_are_shown_once():
    def even(n):
        return odd(n + 1)

    def odd(n):
        return even(n + 1)

    def endless(n):
        return endless(n + 1)

    _, lines = raised(lambda x: even(0))
    assert [line.strip() for line in lines if "File" not in line] == [
        "While compiling the graph:", "_, lines = raised(lambda x: even(0))",
        "return odd(n + 1)", "return even(n + 1)", "[Previous 2 calls repeated 498 more times]",
        "return odd(n + 1)", "^^^^^^^^^^",
    ]  # fmt: skip
    _, lines = raised(lambda x: endless(0))
    assert lines[-2:] == ["           ^^^^^^^^^^^^^^", "  [Previous call repeated 998 more times]"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("abc", "a b c"),
        ("aabb", "a*2 b*2"),
        ("xababababy", "x ab*4 y"),
        ("aabaab", "aab*2"),
        ("abcabcab", "abc*2 a b"),
    ],
)
def test_cycles_of_calls(text, found):
    frames = [Location("nowhere.py", 1, function=c) for c in text]
    lines = shown_frames(frames)
    parts = [line.partition("in ")[2].split("\n") for line in lines]
    shown = "".join(name + ("|" if more else "") for name, *more in parts)
    expected = "".join(part[:-2] + "|" if "*" in part else part for part in found.split())
    assert shown == expected
    times = [line.partition("repeated ")[2] for line in lines if "repeated" in line]
    assert [t.split()[0] for t in times] == [
        str(int(part[-1]) - 1) for part in found.split() if "*" in part
    ]


def test_a_deep_stack_is_shown_in_part():
    error = RecursionError()
    locate(error, [Location("nowhere.py", i) for i in range(100)])
    (note,) = error.__notes__
    assert "... 85 more calls ..." in note and note.count("\n") == 16
    assert "line 4," in note and "line 5," not in note and "line 90," in note


def test_an_append_in_a_loop_is_to_blame():
    def grows(items, x):
        items.append(x)

    def fn(x):
        steps = []
        while x.sum() < 100:
            x = x * 2
            grows(steps, x)
        return steps

    error, lines = raised(fn)
    assert "changes the number of items of a list: give it all of them before" in str(error)
    assert [line.strip() for line in lines if "File" not in line] == [
        "While compiling the graph:", "grows(steps, x)", "items.append(x)", "^^^^^^^^^^^^^^^",
    ]  # fmt: skip


def test_a_function_without_source_says_what_to_do():
    scope = {}
    exec("def f(x):\n    return x * 2", scope)
    made = scope["f"]
    with pytest.raises(OSError, match="the source of f cannot be found in <string>.*trace it with"):
        ms.jit(made)(X)
    error, lines = raised(lambda x: made(x))
    assert type(error) is OSError and lines[-1].strip() == "^^^^^^^"
    assert ms.jit(made, capture_mode="trace")(X).asnumpy().tolist() == [[2.0, 4.0]]


def one_attribute(net, x):
    y, z = x * 1, x * 2
    net.one = y
    net.other = y if x.sum() > 0 else z
    return x


def handled(net, x):
    try:
        y = x[x.sum().astype(ms.int32)]
        return y * 2
    except IndexError:
        return x


def over_a_dict(net, x):
    table = {"a": x}
    for key in table:
        table[key + "b"] = x
    return x


def keyed(net, x):
    return [1, {x.sum().item(): 2}]


@pytest.mark.parametrize(
    ("function", "blamed"),
    [
        (one_attribute, "net.other"),
        (handled, "x[x.sum().astype(ms.int32)]"),
        (over_a_dict, "table"),
        (keyed, "x.sum().item()"),
    ],
)
def test_the_caret_is_where_it_happens(function, blamed):
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.one = self.other = None

        def construct(self, x):
            return function(self, x)

    _, lines = raised(Net())
    place = next(i for i, line in enumerate(lines) if set(line) == {" ", "^"})
    start, end = lines[place].index("^"), len(lines[place])
    assert lines[place - 1][start:end] == blamed


def test_carets_while_tracing():
    def reads(x):
        y = x * 2
        return y * time.time()

    def catches(x):
        try:
            return x * 2
        except ValueError:
            return x

    for function, blamed in ((reads, "time"), (catches, "ValueError")):
        with pytest.raises(RuntimeError) as caught:
            ms.jit(function, capture_mode="trace")(X)
        *_, line, caret = caught.value.__notes__[0].split("\n")
        assert blamed in line[caret.index("^") : len(caret)]


def test_frames_of_the_package_ask_to_be_hidden(monkeypatch):
    """IPython and pytest look for the name."""
    monkeypatch.setenv("MINISPORE_DEBUG", "0")

    def frames(run):
        with pytest.raises(RuntimeError) as caught:
            run()
        trace, found = caught.value.__traceback__, []
        while trace is not None:
            found.append(trace.tb_frame)
            trace = trace.tb_next
        return found[1:]

    class Net(nn.Cell):
        def construct(self, x):
            return x @ x

    for run in (lambda: ms.jit(product)(X, X), in_graph_mode(Net())):
        own = [f for f in frames(run) if "minispore" in f.f_globals["__name__"]]
        assert 0 < len(own) <= 3
        assert all(f.f_locals.get("__tracebackhide__") for f in own)


def in_graph_mode(net):
    def run():
        with ms.context.using(mode=ms.GRAPH_MODE):
            net(X)

    return run


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        (ops, "mathmul", "; did you mean matmul?"),
        (ops, "Relu", "; did you mean ReLU, relu?"),
        (nn, "Dens", "; did you mean Dense?"),
        (nn, "relu", "; did you mean ReLU?"),
        (ops, "no_such_thing", ""),
        (ops, "_matmul", ""),
    ],
)
def test_a_misspelt_name(module, name, hint):
    """The same hint in both modes, and no second one that Python adds to a traceback."""
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    text = f"module '{module.__name__}' has no attribute '{name}'{hint}"
    shown = "".join(traceback.format_exception_only(caught.value))
    assert shown == f"AttributeError: {text}\n"
    namespace = {"module": module}
    exec(f"def fn(x):\n    return module.{name}", namespace)  # so that its name is in its code
    with pytest.raises(AttributeError) as caught:
        ms.jit(namespace["fn"], capture_mode="trace")(X)
    assert str(caught.value) == text
    assert not hasattr(module, name)


def test_a_misspelt_op_in_a_compiled_function():
    error, lines = raised(lambda x: ops.mathmul(x, x))
    assert str(error).endswith("; did you mean matmul?")
    assert lines[-1].strip() == "^^^^^^^^^^^"

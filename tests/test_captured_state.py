"""What a compiled function reads of the Python world: the next call sees every change.

What it writes is in test_writes.py.
"""

import collections
import dataclasses
import enum
import functools
import io
import random
import types
from typing import NamedTuple

import numpy as np
import pytest
from differential import assert_result, refuses
from helpers import assert_same, vector

import minispore as ms
from minispore import Parameter, ParameterTuple, Tensor, nn, ops


def outcome(run):
    try:
        return run()
    except Exception as error:
        return error


def sees(fn, *changes, args=lambda: (vector(),), compiles=None):
    """Assert that a compiled function gives what the plain one gives, after each change."""
    compiled = ms.jit(fn, jit_level="O0")  # to the last bit
    for change in (lambda: None, *changes):
        change()
        actual = outcome(lambda: compiled(*args()))
        expected = outcome(lambda: fn(*args()))
        if isinstance(expected, Exception):
            assert type(actual) is type(expected), actual
        else:
            if isinstance(actual, Exception):
                raise actual
            assert_result(actual, expected, 1.0)
    if compiles is not None:
        assert compiled.compile_count == compiles


def put(obj, **attributes):
    """A change: attributes of an object."""

    def change():
        for name, value in attributes.items():
            setattr(obj, name, value)

    return change


# ------------------------------------------------------------------------------- globals

G = None  # the global that the functions below read


def bind(value):
    """A change: the global G is another object."""
    return lambda: globals().update(G=value)


@pytest.fixture(autouse=True)
def a_global():
    yield
    globals().update(G=None)


def times_global(x):
    return x * G


def test_numbers():
    bind(2)()
    sees(
        times_global, *map(bind, [3, 3.0, True, 1, 1.0, 3, np.float32(2), np.int32(2)]), compiles=8
    )


def test_zeros_and_nan():
    bind(0.0)()
    sees(
        lambda x: ops.atan2(x * G, -x),
        *map(bind, [-0.0, float("nan"), float("nan"), 0.0]),
        compiles=3,
    )


def test_none_bool_text_and_dtypes():
    bind(None)()
    sees(lambda x: x if G is None else {str(G): x}, *map(bind, [True, "a", None, "b"]), compiles=4)
    bind(ms.float32)()
    sees(lambda x: x.astype(G), *map(bind, [ms.float16, ms.int32, ms.float32]), compiles=3)
    bind(slice(0, 2))()
    sees(lambda x: x[G], *map(bind, [slice(0, 1), slice(0, 2), 1]), compiles=3)


def test_lists():
    items = [1, 2]
    bind(items)()
    sees(
        lambda x: x * sum(G) + len(G),
        lambda: items.append(3), lambda: items.__setitem__(0, 9), items.pop, bind((1, 2)),
        bind([1, 2.0]), bind([1, 2.0]), compiles=6,
    )  # fmt: skip


def test_nested_lists_of_tensors():
    items = [[vector()], {"k": (vector(), 2)}]
    bind(items)()
    sees(
        lambda x: x * G[0][0] + G[1]["k"][0] * G[1]["k"][1],
        lambda: items[0][0].__setitem__(0, 9.0), lambda: items[0].__setitem__(0, vector(4, 5, 6)),
        lambda: items[1].update(k=(vector(), 3)), lambda: items.__setitem__(0, [vector(1, 1, 1)]),
        compiles=2,
    )  # fmt: skip


def listed(x):
    for key in G:
        x = x * 2 + G[key]
    return x, list(G)


def test_dicts():
    table = {"a": 1, "b": 2}
    bind(table)()
    sees(
        listed,
        lambda: table.update(c=3), lambda: table.pop("a"), lambda: table.update(a=1),
        bind({"b": 2, "c": 3, "a": 1}), bind({"c": 3, "b": 2, "a": 1}),
        bind(collections.OrderedDict(a=1, b=2)), bind({1: 1}), bind({True: 1}), bind({1.0: 1}),
        compiles=9,
    )  # fmt: skip


class Settings(dict):
    """A dict whose items are attributes too."""

    factor = 10

    def __getattr__(self, name):
        return self[name]

    def scaled(self, x):
        return x * self["rate"] * self.factor


def test_subclasses_of_containers():
    settings = Settings(rate=2)
    bind(settings)()
    sees(
        lambda x: G.scaled(x) + G.rate,
        lambda: settings.update(rate=3), put(Settings, factor=20), put(settings, factor=30),
    )  # fmt: skip
    del settings.factor
    Settings.factor = 10
    table = collections.defaultdict(int, a=1)
    bind(table)()
    sees(lambda x: x * len(G) + G["a"], lambda: table.update(b=2), lambda: table.update(a=5))
    bind(collections.Counter("aab"))()
    sees(lambda x: x * G["a"] + G["z"], lambda: G.update("zzz"))


def test_sets():
    items = {1, 2}
    bind(items)()
    sees(
        lambda x: x * len(G) + sum(sorted(G)),
        lambda: items.add(10), lambda: items.discard(1), bind({2, 10}), bind(frozenset({2, 10})),
        compiles=4,
    )  # fmt: skip


def test_large_containers():
    numbers, table = list(range(100)), {str(i): float(i) for i in range(100)}
    bind((numbers, table))()
    sees(
        lambda x: x * G[0][5] + G[1]["7"],
        lambda: numbers.__setitem__(5, True), lambda: numbers.__setitem__(5, 1),
        lambda: numbers.append(1), lambda: table.update({"7": -0.0}),
        lambda: table.update({"7": 0.0}), lambda: numbers.__setitem__(99, vector()), compiles=7,
    )  # fmt: skip


def test_tensors_that_no_path_leads_to():
    t = Tensor(1)
    for value, read in (
        (t.item, lambda x: x * G()),
        (t.add, lambda x: G(x)),
        (frozenset([t]), lambda x: x * [v.item() for v in G][0]),
        ({t}, lambda x: [x + v for v in G]),
        (types.SimpleNamespace(t=t), lambda x: x * G.t.item()),
        (functools.partial(ops.add, t), lambda x: G(x)),
        (collections.OrderedDict(t=t), lambda x: [x + v for v in G.values()]),
    ):
        bind(value)()
        sees(read, lambda: t.add_(1), lambda: t.copy_(Tensor(7)), compiles=1)


def test_what_is_not_used_may_be_anything():
    bind({"a": 1, "queue": collections.deque([1]), "file": io.StringIO()})()
    sees(lambda x: x * G["a"], lambda: G["queue"].append(2), lambda: G.update(a=2), compiles=2)
    refuses(
        lambda x: len(G["queue"]), vector(), error=RuntimeError, match="'G..queue..' is a deque"
    )
    items = [1]
    items.append(items)
    bind(items)()
    refuses(lambda x: x * G[0], vector(), error=RuntimeError, match="contains itself")


def test_arrays_changed_in_place():
    array = np.array([1.0, 2.0, 3.0])
    bind(array)()
    sees(
        lambda x: x * Tensor(G.astype(np.float32)) + G[0] + float(G.sum()),
        lambda: array.__setitem__(0, 50.0), lambda: array.sort(), bind(array.copy()),
        bind(array * 2), bind(array.astype(np.int32)), compiles=5,
    )  # fmt: skip


def test_named_tuples_dataclasses_and_enums():
    class Pair(NamedTuple):
        a: int
        b: Tensor

        def summed(self):
            return self.a + self.b

    bind(Pair(1, vector()))()
    sees(lambda x: x * G.a + G.summed(), bind(Pair(2, vector())), lambda: G.b.add_(1), compiles=2)

    @dataclasses.dataclass
    class Options:
        a: int
        items: list

    bind(Options(1, [2]))()
    sees(lambda x: x * G.a + G.items[0], lambda: put(G, a=4)(), lambda: G.items.insert(0, 7))

    class Colour(enum.Enum):
        RED = 1
        BLUE = 2

    bind(Colour.RED)()
    sees(lambda x: x * G.value if G is Colour.RED else -x, bind(Colour.BLUE), compiles=2)


def test_tensors():
    bind(vector())()
    sees(
        lambda x: x + G,
        bind(vector(5, 5, 5)), lambda: G.__setitem__(0, 7.0), lambda: G.add_(1),
        bind(Tensor([1, 2, 3])), bind(Tensor([[1.0], [2.0]])),
        bind(Parameter(vector(), name="p")), bind(Parameter(vector(), name="p")), bind(2.0),
        bind(vector()), compiles=6,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:.* has been compiled 8 times")
def test_functions_of_all_kinds():
    def double(x):
        return x * 2

    bind(double)()
    others = [
        lambda x: x * 9, ops.exp, ops.sin, nn.ReLU(), ms.jit(lambda x: x - 1), nn.Tanh(),
        functools.partial(lambda x, y: x * y, y=3), ops.Neg(), ms.grad(lambda x: (x * x).sum()),
        double, vector().add, Tensor.sum,
    ]  # fmt: skip
    sees(lambda x: G(x), *map(bind, others), compiles=12)


def test_functions_that_differ_in_their_closure_only():
    def scale(k):
        return lambda x: x * k

    bind(scale(2))()
    sees(lambda x: G(x), bind(scale(3)), compiles=2)


def test_the_parts_of_a_partial():
    bind(functools.partial(lambda a, b: a * b, b=3))()
    sees(lambda x: G(x), lambda: G.keywords.update(b=6), compiles=2)


def test_a_global_that_appears_and_vanishes():
    sees(
        lambda x: x * MISSING,  # noqa: F821
        lambda: globals().update(MISSING=2),
        lambda: globals().pop("MISSING"),
        lambda: globals().update(MISSING=3),
        lambda: globals().pop("MISSING"),
    )


def test_a_global_that_hides_a_builtin():
    sees(
        lambda x: x * len("abc"),
        lambda: globals().update(len=lambda text: 100),
        lambda: globals().pop("len"),
    )


def test_attributes_of_modules():
    module = types.ModuleType("module")
    module.k = 2
    bind(module)()
    sees(lambda x: x * G.k, put(module, k=3), put(module, k=vector()), compiles=3)


def test_the_context():
    def by_mode(x):
        return x * 2 if ms.get_context("max_call_depth") > 500 else x * 3

    old = ms.get_context("max_call_depth")
    try:
        sees(by_mode, lambda: ms.set_context(max_call_depth=400))
    finally:
        ms.set_context(max_call_depth=old)


# ------------------------------------------------------------------------------- functions


def test_closure_variables():
    k = 2

    def read(x):
        return x * k

    def write(value):
        nonlocal k
        k = value

    sees(
        read,
        *(functools.partial(write, v) for v in (3, 3.0, vector(), vector(2, 2, 2))),
        compiles=4,
    )


def test_default_arguments():
    def read(x, k=2, *, items=[1, 2], t=vector()):  # noqa: B006, B008
        return x * k + items[0] + t

    defaults = read.__kwdefaults__
    sees(
        read,
        put(read, __defaults__=(5,)), lambda: defaults["items"].__setitem__(0, 8),
        lambda: defaults["t"].__setitem__(0, 3.0), lambda: defaults.update(items=[3]), compiles=4,
    )  # fmt: skip


# ------------------------------------------------------------------------------- Cells


class Net(nn.Cell):
    K = 3

    def __init__(self, w=2.0):
        super().__init__()
        self.w = Parameter(vector(w, w, w), name="w")
        self.scale = 2
        self.t = vector()
        self.items = [1, 2]
        self.options = {"a": 1}
        self.act = nn.ReLU()
        self.plain = [nn.ReLU(), nn.Tanh()]
        self.cells_ = nn.CellList([nn.ReLU(), nn.Tanh()])

    @property
    def twice(self):
        return self.scale * 2

    @staticmethod
    def shifted(x):
        return x + 1

    @classmethod
    def times_k(cls, x):
        return x * cls.K

    def helper(self, x):
        return x * 1

    def construct(self, x):
        y = self.act(x * self.w * self.scale + self.t * self.items[0] + self.options["a"])
        for cell in self.plain:
            y = cell(y)
        for cell in self.cells_:
            y = cell(y)
        return self.helper(self.shifted(self.times_k(y) + self.twice)) + self.training


class Sevenfold(nn.Cell):
    def construct(self, x):
        return x * 7


def test_every_attribute_of_a_cell():
    net = Net()
    sees(
        lambda x: net(x),
        put(net, scale=3), put(net, scale=3.0), put(net, t=vector(5, 5, 5)),
        lambda: net.t.__setitem__(0, 9.0), lambda: net.items.__setitem__(0, 5),
        lambda: net.options.update(a=7), put(net, act=nn.Tanh()),
        lambda: net.plain.append(Sevenfold()), lambda: net.cells_.append(Sevenfold()),
        lambda: net.cells_.insert(0, Sevenfold()), net.set_train, lambda: net.set_train(False),
        put(net, K=20), lambda: delattr(net, "K"), lambda: delattr(net, "t"), put(net, t=vector()),
    )  # fmt: skip


def test_parameters_of_a_cell():
    net = Net()
    saved = {"w": Parameter(vector(4, 4, 4), name="w")}
    sees(
        lambda x: net(x),
        lambda: net.w.set_data(vector(9, 9, 9)), lambda: ms.load_param_into_net(net, saved),
        lambda: ops.assign(net.w, vector()), lambda: net.w.__setitem__(0, 5.0),
        put(net, w=vector(3, 3, 3)), compiles=1,
    )  # fmt: skip
    sees(lambda x: net(x), put(net, w=Parameter(vector(8, 8, 8), name="w")), compiles=2)


def test_a_cell_replaced_by_an_equal_one():
    bind(Net())()
    sees(lambda x: G(x), bind(Net()), lambda: G.w.set_data(vector(9, 9, 9)), compiles=2)
    net = Net()
    net.inner = Sevenfold()
    sees(lambda x: net.inner(x), put(net, inner=Sevenfold()), put(net, inner=nn.ReLU()), compiles=3)


def test_frozen_parameters():
    p = Parameter(vector(), name="p")
    sees(
        lambda x: ms.grad(lambda y: (y * p).sum(), None, p)(x),
        put(p, requires_grad=False),
        put(p, requires_grad=True),
        compiles=2,
    )
    net = Net()
    sees(
        lambda x: ms.grad(net, None, net.trainable_params())(x),
        put(net.w, requires_grad=False),
        compiles=2,
    )


def test_what_a_class_gives():
    class Base(Net):
        pass

    class Sub(Base):
        pass

    net = Sub()
    sees(
        lambda x: net(x),
        put(Base, K=10), put(Sub, K=11), put(Base, helper=lambda self, x: x * 100),
        put(Sub, helper=lambda self, x: x * 50), lambda: delattr(Sub, "helper"),
        lambda: object.__setattr__(net, "helper", lambda x: x * 5), lambda: delattr(net, "helper"),
        put(Base, twice=property(lambda self: 11)), put(Sub, twice=12),
        put(Sub, shifted=staticmethod(lambda x: x + 50)),
        put(Sub, times_k=classmethod(lambda cls, x: x * cls.K * 2)),
        put(Sub, construct=lambda self, x: self.helper(x)),
        put(Sub, helper=ms.jit(lambda self, x: x * 12)),
        lambda: object.__setattr__(net, "construct", lambda x: x * 99),
    )  # fmt: skip


def test_methods_reached_through_super():
    class Base(nn.Cell):
        def construct(self, x):
            return x * 2

    class Sub(Base):
        def construct(self, x):
            return super().construct(x) + 1

    net = Sub()
    sees(lambda x: net(x), put(Base, construct=lambda self, x: x * 3), compiles=2)


def test_the_package_s_own_cells_too():
    relu = nn.ReLU()
    sees(lambda x: relu(-x), lambda: object.__setattr__(relu, "construct", lambda x: x * 9))


def test_hooks_registered_and_removed():
    net, handles = Net(), []

    def hook(register, fn):
        return lambda: handles.append(register(fn))

    sees(
        lambda x: net(x),
        hook(net.register_forward_hook, lambda cell, args, out: out * 2),
        hook(net.act.register_forward_pre_hook, lambda cell, args: (args[0] * 3,)),
        lambda: handles[0].remove(), lambda: handles[1].remove(),
    )  # fmt: skip


def test_a_bprop_that_comes_changes_and_goes():
    class Square(nn.Cell):
        def construct(self, x):
            return x * x

    net = Square()
    sees(
        lambda x: ms.grad(net)(x),
        put(Square, bprop=lambda self, x, out, dout: (dout * 100,)),
        put(Square, bprop=lambda self, x, out, dout: (dout * 200,)),
        lambda: delattr(Square, "bprop"),
        compiles=3,
    )


def test_registered_gradient_rules():
    from minispore.ops._grad.grad_base import bprop_getters

    def register():
        bprop_getters.register(ops.Square)(lambda prim: lambda x, out, dout: (dout * 1000,))

    sees(
        lambda x: (ms.grad(ops.square)(x), x * 2),
        register,
        lambda: bprop_getters.unregister(ops.Square),
        compiles=3,
    )


def test_lists_of_parameters():
    net = Net()
    sees(lambda x: x * len(net.trainable_params()), put(net, v=Parameter(vector(), name="v")))
    sees(lambda x: sorted(net.parameters_dict()), put(net, u=Parameter(vector(), name="u")))
    params = ParameterTuple([Parameter(vector(), name="a"), Parameter(vector(), name="b")])
    bind(params)()
    sees(lambda x: G[0] + G[1], lambda: params[0].set_data(vector(7, 7, 7)), bind(params[1:]))


# ------------------------------------------------------------------------------- plain objects


class Number:
    unit = 1

    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return self.v + other

    def __call__(self, x):
        return x * self.v

    def __getitem__(self, i):
        return self.v * i

    def __len__(self):
        return self.v

    def __bool__(self):
        return self.v > 2

    def __contains__(self, other):
        return self.v == other


def test_objects_and_their_special_methods():
    number = Number(2)
    bind(number)()
    old = {n: vars(Number)[n] for n in ("__add__", "__len__", "__bool__")}
    try:
        sees(
            lambda x: ((G + 1) * x + G(x) + G[3] + len(G) + G.unit, bool(G), 2 in G),
            put(number, v=3), bind(Number(3)), put(Number, __add__=lambda self, k: 1000),
            put(Number, __len__=lambda self: 5000), put(Number, __bool__=lambda self: False),
            put(number, unit=2), put(Number, unit=7),
        )  # fmt: skip
    finally:
        put(Number, unit=1, **old)()


def test_attributes_that_are_missing():
    class Lazy:
        def __getattr__(self, name):
            return 5

    bind(Lazy())()
    sees(lambda x: x * G.v, lambda: put(G, v=2)(), lambda: delattr(G, "v"), put(Lazy, v=3))
    number = Number(2)
    bind(number)()
    sees(
        lambda x: x * (number.w if hasattr(number, "w") else 10) + getattr(number, "u", 0),
        put(number, w=2), put(number, u=3), lambda: delattr(number, "w"),
    )  # fmt: skip


def test_slots_and_descriptors():
    class Point:
        __slots__ = ("x",)

    class Doubled:
        def __get__(self, obj, owner=None):
            return obj.base * 2

    class Holder:
        value = Doubled()

        def __init__(self):
            self.base = 4

    point, holder = Point(), Holder()
    point.x = 3
    sees(lambda x: x * point.x + holder.value, put(point, x=4), put(holder, base=5))


def test_printed_parameters_cells_and_objects(capsys):
    p, net, number = Parameter(vector(), name="p"), nn.SequentialCell(nn.Dense(3, 2)), Number(2)

    def show(x):
        print(p, [p], {"k": (p, 1)}, f"{p} {p!r}", str(p))
        print(net, f"{net}")
        print(type(number).__name__)

    compiled = ms.jit(show)
    for change in (
        lambda: None, put(p, name="q"), put(p, requires_grad=False), lambda: net.append(nn.Tanh()),
    ):  # fmt: skip
        change()
        show(vector())
        expected = capsys.readouterr().out
        compiled(vector())
        assert capsys.readouterr().out == expected
    error = "use an f-string"
    refuses(lambda x: print("%s" % p), vector(), error=RuntimeError, match=error)  # noqa: UP031
    refuses(lambda x: print("{}".format(p)), vector(), error=RuntimeError, match=error)  # noqa: UP032


# ------------------------------------------------------------------------------- refused

STREAM = random.Random(0)
BUFFER = io.StringIO()
DEQUE = collections.deque([1, 2])
ITERATOR = iter([1, 2])
ARRAY = np.array([1.0, 2.0])
ITEMS = [1]
TABLE = {"a": 1}
NAMES = {"a"}


def writes_to_array(x):
    ARRAY[0] = 5.0
    return x


def writes_a_global(x):
    global ITEMS
    ITEMS = 3
    return x


def writes_text(x):
    BUFFER.write("text")
    return x


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (writes_to_array, TypeError, "'ARRAY' is older than the compiled call"),
        (writes_a_global, RuntimeError, "the global 'ITEMS' cannot be written"),
        (writes_text, RuntimeError, "'BUFFER' is a StringIO, whose content may change"),
        (lambda x: x * STREAM.random(), RuntimeError, "'Random.random' has no Python source"),
        (lambda x: x * random.random(), RuntimeError, "'Random.random' has no Python source"),
        (lambda x: x * np.random.rand(), RuntimeError, "rand' has no Python source"),
        (lambda x: x * len(DEQUE), RuntimeError, "'DEQUE' is a deque, whose content may change"),
        (lambda x: x * next(ITERATOR), RuntimeError, "'ITERATOR' is a list_iterator"),
        (lambda x: ms.set_seed(1), RuntimeError, "'set_seed' acts on the program"),
        (lambda x: ms.set_context(mode=0), RuntimeError, "'set_context' acts on the program"),
    ],
)
def test_hidden_state_is_refused_by_name(function, error, match):
    refuses(function, vector(), error=error, match=match)
    assert (ITEMS, TABLE, NAMES, list(DEQUE), BUFFER.getvalue()) == (
        [1],
        {"a": 1},
        {"a"},
        [1, 2],
        "",
    )
    assert_same(ARRAY, np.array([1.0, 2.0]))


def test_arrays_given_as_arguments_cannot_be_written():
    def write_array(x, array):
        array[0] = 1
        return x

    array = np.zeros(2)
    with pytest.raises(TypeError, match="is older than the compiled call"):
        ms.jit(write_array)(vector(), array)
    assert array[0] == 0


def test_arrays_and_sets_given_as_arguments_are_read_anew():
    array, items = np.array([1.0, 2.0]), {1, 2}
    sees(
        lambda x, a, s: x * float(a[0]) + len(s),
        lambda: array.__setitem__(0, 9.0),
        lambda: items.add(3),
        args=lambda: (vector(), array, items),
    )


FACTOR = 2.0


def test_a_wrapper_that_goes_by_the_name_of_what_it_wraps():
    wrappers = []
    for wrapped in (ops.relu, np.negative, functools.reduce):

        @functools.wraps(wrapped, updated=())
        def wrapper(x):
            return x * FACTOR

        wrappers.append(wrapper)
    assert wrappers[0].__module__.startswith("minispore.")

    def change(value):
        globals()["FACTOR"] = value

    for wrapper in wrappers:
        sees(lambda x, f=wrapper: f(x), lambda: change(3.0), lambda: change(2.0), compiles=2)


def test_new_code_in_an_old_function():  # as IPython's autoreload puts it there
    def scaled(x, k=2.0):
        return x * k

    def shifted(x, k=2.0):
        return x + k

    old = scaled.__code__
    changes = (put(scaled, __code__=shifted.__code__), put(scaled, __code__=old))
    sees(lambda x: scaled(x), *changes, compiles=2)
    sees(scaled, *changes, compiles=2)


def test_an_object_of_another_class():
    def of(value):
        return type("Kind", (), {"k": property(lambda self: value)})

    obj = of(1.0)()
    sees(lambda x: x * obj.k, *[put(obj, __class__=of(v)) for v in (2.0, 3.0)], compiles=3)


def test_descriptors_come_before_what_an_object_holds():
    class Times:
        def __init__(self, factor):
            self.factor = factor

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, obj, kind=None):
            return obj.__dict__[self.name] * self.factor

        def __set__(self, obj, value):
            obj.__dict__[self.name] = value

    class Holds:
        k = Times(2.0)

        def __init__(self, k):
            self.k = k

    obj, other = Holds(3.0), Times(5.0)
    other.name = "k"
    sees(lambda x: x * obj.k, put(obj, k=5.0), put(Holds, k=other), compiles=3)

    def write(x):
        obj.k = 7.0
        return x * obj.k

    with pytest.raises(TypeError, match="is older than the compiled call"):
        ms.jit(write)(vector())

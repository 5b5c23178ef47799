"""What a compiled function writes of the Python world: what PyNative mode writes, in program order,
also if the call fails half-way; what no graph can write is refused.

The asserts below are part of compiled programs: PYTEST_DONT_REWRITE.
"""

import contextlib
import io
import types

import numpy as np
import pytest
from differential import Outcome
from helpers import assert_same, vector

import minispore as ms
from minispore import Parameter, Tensor, nn, ops

# ------------------------------------------------------------------------------- writes


class State(nn.Cell):
    def __init__(self):
        super().__init__()
        self.p = Parameter(vector(), name="p")
        self.q = Parameter(vector(10, 20, 30), name="q")
        self.h = vector(0, 0, 0)
        self.tensors = [vector(1, 1, 1)]
        self.optimizer = nn.Momentum([self.p], 0.5, 0.9)

    def tensors_now(self):
        found = {k: v for k, v in vars(self).items() if isinstance(v, Tensor)}
        optimizer = self.optimizer.get_parameters()
        return {**found, "list": self.tensors[0], **{f"o.{p.name}": p for p in optimizer}}


class Run(Outcome):
    """Two calls of ``body(state, x)`` with what they left."""

    def __init__(self, body, compiled, x):
        self.net, self.x = State(), x.copy()
        call = lambda x: body(self.net, x)  # noqa: E731
        call = ms.jit(call) if compiled else call
        self.outcomes = []
        for _ in range(2):
            outcome = Outcome(lambda: call(self.x), ())
            now = self.net.tensors_now()
            outcome.state = [self.x.asnumpy().copy(), *(t.asnumpy().copy() for t in now.values())]
            self.outcomes.append((outcome, [(k, type(t)) for k, t in now.items()]))


def writes_alike(body, x=None):
    """Assert that both modes return, print, raise and leave the same."""
    x = vector() if x is None else x
    runs = [Run(body, compiled, x) for compiled in (True, False)]
    for (actual, kinds), (expected, expected_kinds) in zip(
        *(r.outcomes for r in runs), strict=True
    ):
        actual.assert_like(expected, 1.0)
        assert_same(actual.state, expected.state)
        assert kinds == expected_kinds
    return runs[0]


def assigns(net, x):
    ops.assign(net.p, x)
    return net.p * 2


def adds(net, x):
    net.p += x
    q = net.q
    q -= 1
    return net.p * 1 + q


def writes_items(net, x):
    net.p[0] = 9.0
    y = net.p * 1
    net.p[1] = x[2]
    return y


def sets_data(net, x):
    net.p.set_data(x)
    net.q.data = x * 2
    return net.p * net.q


def sets_attributes(net, x):
    net.p = x * 2
    net.h = x * 3
    net.fresh = net.h + 1
    net.h[0] = 100.0
    return net.h + net.fresh


def optimizes(net, x):
    net.optimizer((x,))
    net.optimizer((x * 2,))
    return net.p * 1


def writes_arguments(net, x):
    x[0] = 5.0
    y = x * 2
    x.add_(1)
    x.mul_(y)
    x.copy_(x + 1)
    return y


def writes_in_containers(net, x):
    net.tensors[0][0] = 55.0
    for p in [net.p, net.q]:
        p += x
    return net.tensors[0] * 1


def swaps(net, x):
    old = net.p * 1
    ops.assign(net.p, net.q)
    ops.assign(net.q, old)
    return net.p - net.q


def writes_one_tensor_by_two_names(net, x):
    y = net.h
    y[0] = 1.0
    net.h[1] = y[0] + 1
    net.h = net.h + x
    y[2] = 7.0
    return y * 1


def shares_what_it_writes(net, x):
    y = x * 2
    net.h = y
    net.fresh = y
    return y


def stores_its_argument(net, x):
    net.h = x
    x[0] = 3.0
    return net.h


def stores_a_parameter(net, x):
    net.h = net.q
    net.h += 1
    return net.q * 1


def stores_a_parameter_and_writes_it_by_assignment(net, x):
    before = net.h
    net.h = net.q
    net.h = before
    return net.q * 1


def leaves_a_parameter_to_the_next_call(net, x):
    net.h = x * 2
    net.h = net.q


def writes_and_reads_itself_in_a_loop(net, x):
    net.h = x
    for _ in range(int(x.sum())):
        net.h = net.h
    x.add_(1.0)
    return net.h * 2


def replaces_a_parameter(net, x):
    net.p = net.q
    net.p += x
    return net.p


def writes_in_an_arm(net, x):
    if x.sum() > 5:
        net.p += 1
        net.h = x * 2
        x[0] = 9.0
    else:
        net.q += 1
        net.h = net.h - 1
    return net.h * x


def writes_in_one_arm(net, x):
    if x.sum() < 5:
        net.h = x * 2
    elif x.sum() > 100:
        net.q += x
    return net.h + net.q


def writes_in_a_loop(net, x):
    i = x[0] * 1
    while i < 5:
        net.p += i
        i = i + 1
        net.h = net.h + net.p
        x[1] = x[1] + i
    return i


def writes_in_a_long_loop(net, x):
    for i in range(40):
        net.p += i
        net.h = net.h + x
    return net.p * 1


def writes_in_a_loop_that_is_left(net, x):
    for _ in range(30):
        net.p += x
        if net.p.sum() > 50:
            net.q += 1
            break
        net.h = net.h + 1
    return net.h


def prints_between(net, x):
    print(net.p.value(), x)
    net.p += 1
    print(net.p, net.p.value())
    net.h = x
    net.p[0] = 0
    print(net.h, net.p * 1)
    return x


def returns_what_it_wrote(net, x):
    return ops.assign_add(net.p, x), net.q, net.p


def reads_old_values_later(net, x):
    a = net.p * 2
    net.p += 1
    b = net.p * 2
    net.p.zero_()
    return a, b, net.p * 2


@pytest.mark.parametrize(
    "body",
    [
        assigns, adds, writes_items, sets_data, sets_attributes, optimizes, writes_arguments,
        writes_in_containers, swaps, writes_one_tensor_by_two_names, shares_what_it_writes,
        stores_its_argument, stores_a_parameter, replaces_a_parameter, writes_in_an_arm,
        stores_a_parameter_and_writes_it_by_assignment, writes_and_reads_itself_in_a_loop,
        leaves_a_parameter_to_the_next_call,
        writes_in_one_arm, writes_in_a_loop, writes_in_a_long_loop, writes_in_a_loop_that_is_left,
        prints_between, returns_what_it_wrote, reads_old_values_later,
    ],
)  # fmt: skip
def test_writes(body):
    writes_alike(body)
    writes_alike(body, vector(-1, -2, -3))
    writes_alike(body, vector(100, 1, 1))


def test_what_is_written_and_returned_is_one_object():
    net, x = State(), vector()
    result = ms.jit(lambda x: shares_what_it_writes(net, x))(x)
    assert result is net.h is net.fresh
    assert ms.jit(lambda x: stores_its_argument(net, x))(x) is x is net.h
    assert ms.jit(lambda x: stores_a_parameter(net, x))(x) is not net.q
    assert net.h is net.q
    ms.jit(lambda x: replaces_a_parameter(net, x))(x)
    assert net.p is net.q


def test_an_attribute_that_is_a_parameter_is_written_by_cells_only():
    """Any other object forgets the Parameter."""
    for compiled in (False, True):
        holder = types.SimpleNamespace(p=Parameter(vector(), name="p"))
        p, x = holder.p, vector(7, 7, 7)

        def f(x, holder=holder):
            holder.p = x

        (ms.jit(f) if compiled else f)(x)
        assert holder.p is x
        assert_same(p, vector())


def test_what_is_written_shares_no_memory():
    net, x = State(), vector()

    @ms.jit
    def f(x):
        ops.assign(net.p, x)
        ops.assign(net.q, net.p)
        net.h = x + 0
        return net.p * 1

    result = f(x)
    for i, t in enumerate([x, net.p, net.q, net.h, result]):
        t.asnumpy()[...] = i
    assert [float(t[0]) for t in (x, net.p, net.q, net.h, result)] == [0, 1, 2, 3, 4]


def test_setters_are_called():
    class Model:
        def __init__(self):
            self._h = vector()
            self.log = {}

        @property
        def h(self):
            return self._h * 10

        @h.setter
        def h(self, value):
            self._h = value + 1

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value if name != "g" else value * 100)

    def step(model, x):
        model.h = x
        model.g = x
        return model.h + model.g

    models = Model(), Model()
    compiled = ms.jit(step)
    for _ in range(2):
        assert_same(compiled(models[0], vector()), step(models[1], vector()))
        assert_same(models[0].h, models[1].h)
        assert_same(models[0].g, models[1].g)


def test_set_item_reached_through_a_cell_s_list_and_module():
    module = types.ModuleType("module")
    module.t = vector()

    def f(x):
        module.t[0] = x[1]
        return module.t * 1

    assert_same(ms.jit(f)(vector()), np.array([2, 2, 3], np.float32))
    assert_same(module.t, np.array([2, 2, 3], np.float32))


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (lambda net, x: setattr(net, "n", "a"), "'n' of State is older"),
        (lambda net, x: setattr(net, "h", None), "'h' of State is older"),
        (lambda net, x: setattr(net, "h", (x, x)), "'h' of State is older"),
        (lambda net, x: setattr(net, "tensors", [x]), "'tensors' of State is older"),
        (lambda net, x: setattr(net, "child", nn.ReLU()), "'child' of State is older"),
        (lambda net, x: setattr(net, "p", None), "'p' of State is older"),
        (lambda net, x: setattr(net, "optimizer", x), "'optimizer' of State is older"),
        (lambda net, x: setattr(State, "shared", x), "'shared' of State"),
        (
            lambda net, x: setattr(net.p, "requires_grad", False),
            "'requires_grad' of Parameter optim",
        ),
        (lambda net, x: setattr(net.p, "name", "z"), "'name' of Parameter optimizer.p"),
        (lambda net, x: setattr(net.p, "tag", 3), "'tag' of Parameter optimizer.p"),
        (lambda net, x: net.__dict__.update(h=x), "is older"),
        (lambda net, x: object.__setattr__(net, "n", "a"), "'n' of State is older"),
        (lambda net, x: net.set_train(), "'phase' of State is older"),
    ],
)
def test_writes_that_no_graph_can_do(body, match):
    net, x = State(), vector()
    before = dict(vars(net)), [t.asnumpy().copy() for t in net.tensors_now().values()]

    def f(x):
        net.p += 1
        net.h = x
        return body(net, x)

    with pytest.raises(TypeError, match=match) as caught:
        ms.jit(f)(x)
    assert __file__ in "".join(caught.value.__notes__)
    assert dict(vars(net)) == before[0]
    assert_same([t.asnumpy() for t in net.tensors_now().values()], before[1])
    assert (net.p.name, net.p.requires_grad, net.training) == ("optimizer.p", True, False)
    assert not hasattr(State, "shared")


def writes_a_new_attribute_in_one_arm(net, x):
    if x.sum() > 5:
        net.fresh = x
    return x


def writes_two_types(net, x):
    if x.sum() > 5:
        net.h = x[:2]
    return x


def writes_a_new_attribute_in_a_loop(net, x):
    i = x[0] * 1
    while i < 5:
        net.fresh = i
        i = i + 1
    return i


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (writes_a_new_attribute_in_one_arm, "'fresh' is new, and written in one arm only"),
        (writes_two_types, "State.h"),
        (writes_a_new_attribute_in_a_loop, "'fresh' is new, and written in one arm only"),
    ],
)
def test_attributes_whose_type_a_tensor_decides(body, match):
    net = State()
    with pytest.raises(TypeError, match=match) as caught:
        ms.jit(lambda x: body(net, x))(vector())
    assert __file__ in "".join(caught.value.__notes__)
    assert not hasattr(net, "fresh")


# ------------------------------------------------------- one Tensor or another, as a Tensor decides


def reads_the_chosen_one(net, x):
    p = net.p if x.sum() > 0 else net.q
    t = x * 1
    u = t
    if x.sum() > 0:
        t = x * 5
    before = t * 2
    u.add_(1)
    return p * x, before, u


def copies_the_chosen_one(net, x):
    t = x * 1
    u = t
    if x.sum() > 0:
        t = x * 5
    t = t.copy()
    u.add_(1)
    t.add_(2)
    return t, u


def writes_in_one_arm_what_another_made(net, x):
    if x.sum() < 0:
        print(x)
    else:
        net.h -= x * 0.5
    net.h = net.h + 1
    return net.h * 1


def writes_in_an_arm_what_is_chosen(net, x):
    t = x * 1
    u = t
    if x.sum() > 0:
        t.add_(1)
    else:
        t = x * 5
        t.add_(2)
    return t, u


def returns_from_an_arm_what_it_wrote(net, x):
    if x.sum() > 0:
        x.add_(1)
        return x * 1
    return x * 2


def one_new_tensor_with_two_names(net, x):
    if x.sum() > 0:
        t = u = x * 1
    else:
        t = u = x * 2
    u.add_(1)
    return t, u


def stores_what_a_loop_made(net, x):
    h = net.h
    i = x[0] * 1
    while i < 3:
        h = h + i
        i = i + 1
    net.h.copy_(h)
    return net.h * 1


def assigns_in_a_loop(net, x):
    w = net.p
    i = x[0] * 1
    while i < 3:
        w = w * 2
        ops.assign(net.p, w)
        i = i + 1
    return net.p * 1


def reads_before_it_writes_in_a_loop(net, x):
    i, t, y = x[0] * 1, x * 1, x * 0
    while i < 4:
        y = y + t
        net.h.add_(1)
        t = net.h
        i = i + 1
    return y


@pytest.mark.parametrize(
    "body",
    [
        reads_the_chosen_one, copies_the_chosen_one, writes_in_one_arm_what_another_made,
        writes_in_an_arm_what_is_chosen,
        returns_from_an_arm_what_it_wrote, one_new_tensor_with_two_names, stores_what_a_loop_made,
        assigns_in_a_loop, reads_before_it_writes_in_a_loop,
    ],
)  # fmt: skip
def test_chosen_tensors(body):
    writes_alike(body)
    writes_alike(body, vector(-1, -2, -3))
    writes_alike(body, vector(1, 0, -5))


def adds_to_a_chosen_parameter(net, x):
    p = net.p if x.sum() > 0 else net.q
    p += 1
    return p * 1


def adds_to_a_parameter_or_tensor(net, x):
    p = net.p if x.sum() > 0 else x
    p += 1
    return p


def adds_to_a_carried_parameter(net, x):
    p = net.p
    i = x[0] * 1
    while i < 3:
        p = net.q
        i = i + 1
    p += 1
    return p * 1


def writes_one_of_two(net, x):
    t = x * 1
    u = t
    if x.sum() > 0:
        t = x * 5
    u.add_(1)
    return t


def writes_a_partner(net, x):
    if x.sum() > 0:
        t = u = x * 1
    else:
        t, u = x * 2, x * 3
    t.add_(1)
    return u


def writes_the_other_partner(net, x):
    if x.sum() > 0:
        t = u = x * 1
    else:
        t, u = x * 2, x * 3
    u.add_(1)
    return t


def reads_after_it_writes_in_a_loop(net, x):
    i, t, y = x[0] * 1, x * 1, x * 0
    while i < 4:
        net.h.add_(1)
        y = y + t
        t = net.h
        i = i + 1
    return y


def reads_a_loop_s_tensor_after_its_source_is_written(net, x):
    h = net.h
    i = x[0] * 1
    while i < 3:
        h = h + i
        i = i + 1
    net.h.add_(1)
    return h


def returns_one_of_two_from_a_function(net, x):
    def inner(v):
        if v.sum() > 0:
            return net.h
        return v * 1

    y = inner(x)
    net.h.add_(1)
    return y


def differentiates_by_one_of_two(net, x):
    y = net.p if x.sum() > 0 else net.q
    return ms.grad(lambda v: (v * net.p * y).sum(), 0, net.p)(x)


def differentiates_by_what_is_chosen(net, x):
    y = net.p if x.sum() > 0 else net.q
    return ms.grad(lambda v: v * y, None, y)(x)


def writes_what_a_loop_stored_in_a_list(net, x):
    b, items, i = x * 2, [x * 1, x * 3], x[0] * 1
    while i < 5:
        if b.sum() > 0:
            items[1] = b
        i = i + 1
    b.add_(1)
    return items[1] * 1


def stores_what_is_chosen(net, x):
    net.h = x if x.sum() > 0 else net.q
    return x * 1


def stores_a_parameter_or_not(net, x):
    if x.sum() > 0:
        net.p = net.q
    return x * 1


def stores_one_new_tensor_twice_or_not(net, x):
    if x.sum() > 0:
        net.h = net.k = x * 2
    return x * 1


def writes_what_an_inner_arm_chose(net, x):
    u = x * 1
    if x.sum() > 0:
        t = u if x.sum() > 1 else x * 2
    else:
        t = x * 3
    t.add_(1)
    return t, u


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (adds_to_a_chosen_parameter, "is one of two"),
        (adds_to_a_parameter_or_tensor, "is one of two"),
        (adds_to_a_carried_parameter, "is carried round a loop"),
        (writes_one_of_two, "may be another one"),
        (writes_a_partner, "may be another one"),
        (writes_the_other_partner, "is one of two"),
        (reads_after_it_writes_in_a_loop, "may be another one"),
        (writes_what_a_loop_stored_in_a_list, "may be another one"),
        (writes_what_an_inner_arm_chose, "is one of two"),
        (stores_what_is_chosen, "older than the compiled call depends on a Tensor"),
        (
            stores_one_new_tensor_twice_or_not,
            "whether the attribute 'k' is the Tensor that another",
        ),
        (stores_a_parameter_or_not, "which Parameter 'p' is depends on a Tensor"),
        (reads_a_loop_s_tensor_after_its_source_is_written, "may be another one"),
        (returns_one_of_two_from_a_function, "may be another one"),
        (differentiates_by_one_of_two, "which grad differentiates by"),
        (differentiates_by_what_is_chosen, "which Parameter to differentiate by"),
    ],
)
def test_writes_that_might_be_seen_by_another_name_are_refused(body, match):
    """Where a Tensor decides which of two Tensors a name means, a graph has no common memory."""
    net = State()
    net.k = vector()
    with pytest.raises(TypeError, match=match) as caught:
        ms.jit(lambda x: body(net, x))(vector())
    assert __file__ in "".join(caught.value.__notes__)


def stores_its_argument_or_not(net, x):
    if x.sum() < 0:
        return x
    net.h = x
    return x * 2


def stores_one_of_two(net, x):
    if x.sum() > 5:
        net.h = x
    elif x.sum() > 0:
        net.h = net.tensors[0]


def stores_a_new_tensor_or_not(net, x):
    if x.sum() > 5:
        net.h = x * 5
    assert x.sum() < 5


def stores_in_a_loop_or_not(net, x):
    i = x[0] * 1
    while i < 4:
        if i > 2:
            net.h = x
        i = i + 1


def swaps_or_not(net, x):
    net.k = net.tensors[0]
    if x.sum() > 0:
        net.h, net.k = net.k, net.h


@pytest.mark.parametrize(
    "body",
    [
        stores_its_argument_or_not, stores_one_of_two, stores_a_new_tensor_or_not,
        stores_in_a_loop_or_not, swaps_or_not,
    ],
)  # fmt: skip
@pytest.mark.parametrize("values", [(1, 2, 3), (-1, -2, -3), (1, 0, 0), (7, 1, 1)])
def test_an_attribute_is_the_very_tensor_that_was_assigned(body, values):
    """Also if a Tensor decides which, and if the call fails afterwards."""
    found = []
    for compiled in (False, True):
        net, x = State(), vector(*values)
        old, call = net.h, (lambda x, net=net: body(net, x))
        outcome = Outcome(lambda: (ms.jit(call) if compiled else call)(x), ())  # noqa: B023
        same = [t is net.h for t in (x, old, net.tensors[0])]
        found.append((same, net.h.asnumpy().tolist(), type(outcome.error)))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("ask", "error", "match"),
    [
        (print, RuntimeError, "which Parameter is printed depends on a Tensor"),
        (lambda p: p.name, AttributeError, "which Parameter's 'name' this is depends on a Tensor"),
        (lambda p: isinstance(p, Parameter), TypeError, "whether this is a Parameter depends"),
        (lambda p: isinstance(p, (str, Parameter)), TypeError, "whether this is a Parameter"),
        (lambda p: type(p) is Tensor, TypeError, "whether this is a Parameter depends"),
    ],
)
def test_what_tells_a_chosen_parameter_from_others_is_refused(ask, error, match):
    net = State()
    with pytest.raises(error, match=match):
        ms.jit(lambda x: ask(net.p if x.sum() > 0 else x))(vector())
    is_tensor = ms.jit(lambda x: isinstance(net.p if x.sum() > 0 else x, (Tensor, str)))
    assert is_tensor(vector()) is True


# --------------------------------------------------------------- failures while the graph runs


def asserts(net, x):
    net.p += 1
    print("before")
    assert x.sum() < 0, "the sum is positive"
    print("after")
    net.q += 1
    return x


def raises(net, x):
    net.p += 1
    if x.sum() > 0:
        net.h = x
        raise ValueError("the sum is", x.sum())
    net.q += 1
    return x


def indexes(net, x):
    net.h = x * 2
    net.fresh = x
    y = x[Tensor([7])]
    net.h = x * 3
    return y


def divides(net, x):
    net.p += 1
    n = int(x[0]) - 1
    m = 5 // n
    net.q += m
    return x


def divides_for_nothing(net, x):
    net.p += 1
    1.0 / (float(x[0]) - 1)
    print("after")
    net.q += 1
    return x


def makes_an_int(net, x):
    net.p += 1
    int(x[0] * float("inf"))
    net.q += 1
    return x


def divides_ints(net, x):
    net.p += 1
    y = x.astype(ms.int32) // 0
    net.q += 1
    return y


def raises_in_an_unrolled_loop(net, x):
    for i in range(3):
        net.p += 1
        if x[0] + i > 2:
            raise RuntimeError("stop")
        net.q += 1
    return x


def raises_in_a_loop(net, x):
    i = x[0] * 1
    while i < 10:
        net.p += 1
        net.h = net.h + i
        assert i < 4, f"{i} is too much"
        net.q += 1
        i = i + 1
    return x


def raises_in_a_called_function(net, x):
    def inner(v):
        net.p += v
        assert v.sum() < 0
        return v

    net.q += 1
    y = inner(x)
    net.q += 1
    return y


def raises_under_grad(net, x):
    def inner(v):
        net.h = net.h + 1
        y = v * net.p
        assert v.sum() < 0
        return y

    net.q += 1
    dx, dp = ms.grad(inner, 0, net.p)(x)
    net.p -= dp
    return dx


def raises_after_grad(net, x):
    net.p += 1
    dp = ms.grad(lambda v: v * net.p * net.p, None, net.p)(x)
    net.p -= dp
    assert x.sum() < 0
    net.p += 100
    return dp


def raises_in_nested_arms(net, x):
    net.p += 1
    if x.sum() > 0:
        net.q += 1
        if x.sum() > 1:
            net.q += 5
            raise KeyError("nested")
        net.q += 7
    return x


def raises_with_a_written_argument(net, x):
    x[0] = 9.0
    net.h = x
    assert x.sum() < 0
    x[1] = 9.0
    return x


@pytest.mark.parametrize(
    "body",
    [
        asserts, raises, indexes, divides, divides_for_nothing, makes_an_int, divides_ints,
        raises_in_an_unrolled_loop, raises_in_a_loop, raises_in_a_called_function,
        raises_under_grad, raises_after_grad, raises_in_nested_arms, raises_with_a_written_argument,
    ],
)  # fmt: skip
def test_what_was_written_before_a_failure_stays(body):
    run = writes_alike(body)
    for outcome, _ in run.outcomes:
        assert __file__ in "".join(outcome.error.__notes__)  # the user's line


def test_the_attribute_is_the_argument_after_a_failure_too():
    net, x = State(), vector()
    with pytest.raises(AssertionError):
        ms.jit(lambda x: raises_with_a_written_argument(net, x))(x)
    assert net.h is x


# --------------------------------------------------------------- evaluation touches nothing


class Recorder(nn.Cell):
    """Everything that an evaluation might touch."""

    def __init__(self):
        super().__init__()
        self.p = Parameter(vector(), name="p")
        self.h = vector()
        self.items = [1, [vector()]]
        self.table = {"a": {"b": 1}}


def test_a_failed_compilation_leaves_nothing_behind():
    net, x = Recorder(), vector()
    before = [net.p.asnumpy().copy(), net.h.asnumpy().copy(), x.asnumpy().copy()]

    @ms.jit
    def f(x):
        net.p += 1
        net.h = x
        x[0] = 5.0
        print("never")
        net.items[1][0].add_(1)
        items = list(net.items)
        items.append(net.h)
        if x.sum() > 0:
            net.p[0] = 7.0
        for _ in range(20):
            net.p += 1
        return x.no_such_method()

    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(AttributeError):
        f(x)
    assert out.getvalue() == ""
    assert f.compile_count == 0
    assert_same([net.p.asnumpy(), net.h.asnumpy(), x.asnumpy()], before)
    assert net.items[0] == 1 and len(net.items) == 2 and net.table == {"a": {"b": 1}}
    assert_same(net.items[1][0], np.array([1, 2, 3], np.float32))


def test_a_trial_that_is_given_up_leaves_nothing_behind():
    """A loop that is tried as a While, and unrolled after all."""
    net = State()

    @ms.jit
    def f(x):
        sizes = []
        for i in range(20):
            net.p += i
            net.fresh = net.p * 1
            sizes.append(x[: i % 3].shape)
        return sizes

    assert f(vector()) == [(i % 3,) for i in range(20)]
    assert_same(net.p, np.array([191, 192, 193], np.float32))
    assert_same(net.fresh, net.p)


# ------------------------------------------------------------------- attributes that are numbers


class Counts(nn.Cell):
    def __init__(self):
        super().__init__()
        self.n, self.scale, self.seen = 1, 0.5, False

    def construct(self, x):
        self.n = self.n + 1
        if x > 2:
            self.scale *= 2
            self.seen = True
        while x > 0:
            self.n += 10
            x = x - 1
        self.last = self.n * 2
        assert self.n < 70, "too many"
        self.n += 100
        return x * self.n + self.scale


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_attributes_that_are_numbers(mode):
    net, left = Counts(), []
    with ms.context.using(mode=mode):
        for value in (1, 3, 5):
            net.n %= 100
            with contextlib.suppress(AssertionError):
                net(Tensor(value))
            left.append((net.n, net.scale, net.seen, net.last))
    assert left == [(112, 0.5, False, 24), (143, 1.0, True, 86), (94, 2.0, True, 188)]
    assert [type(v) for v in left[0]] == [int, float, bool, int]


def test_attributes_that_are_numbers_under_grad():
    net = Counts()

    def f(x):
        net.scale = net.scale * 3
        return x * x * net.scale

    assert_same(ms.jit(ms.grad(f))(Tensor(2.0)), Tensor(6.0))
    assert net.scale == 1.5


def test_what_no_attribute_may_become():
    net = Counts()
    net.p = Parameter(vector(), name="p")

    def text(x):
        net.n = "a"
        return x

    def parameter(x):
        net.p = 3
        return x

    def depends(x):
        if x.sum() > 0:
            net.n = x
        return x

    for f, match in ((text, "not str"), (parameter, "not int"), (depends, "make the arms agree")):
        with pytest.raises(TypeError, match=match):
            ms.jit(f)(vector())
    assert net.n == 1


# ----------------------------------------------------------------------- lists, dicts and sets


class Holder(nn.Cell):
    def __init__(self):
        super().__init__()
        self.items, self.table = [1], {"a": Tensor(1.0)}

    def construct(self, x):
        self.items.append(2)
        self.items += [x]
        self.table["a"] = self.table["a"] + x
        self.table.setdefault("b", []).append([x, len(self.items)])
        return x * len(self.items)


def fills(x, items, table):
    items.append(x * 2)
    items[0] = items[0] + 1
    table["new"] = [items[0]]
    table["old"].clear()
    return items, table, len(items)


def decides(x, items):
    if x > 2:
        items[0] = x
    while x > 0:
        items[1] = items[1] + x
        x = x - 1
    return items[0] * 2


def sorts(x, items):
    items.sort(reverse=True)
    items.extend(range(2))
    del items[1]
    return x


def differentiates(x, items):
    def f(x):
        items.append(x * 2)
        return x * x

    return ms.grad(f)(x)


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (lambda x, holder: holder(x), lambda: [Holder()]),
        (fills, lambda: [[1, 2], {"old": {"a": 1}}]),
        (decides, lambda: [[Tensor(5), Tensor(6)]]),
        (sorts, lambda: [[3, 1, 2]]),
        (differentiates, lambda: [[1.0]]),
    ],
)
def test_containers_are_written_as_by_python(function, make):
    results = []
    for run in (function, ms.jit(function)):
        given = make()
        found = [run(Tensor(3), *given) for _ in range(2)]
        state = [vars(g)["items"] if isinstance(g, Holder) else g for g in given]
        results.append((found, state))
        assert_alike(results[-1], results[0])


def assert_alike(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            assert_alike(f, e)
    elif isinstance(expected, Tensor):
        assert_same(found, expected)
    else:
        assert found == expected


ITEMS, TABLE, NAMES, KEPT = [1], {}, {1}, Tensor(1.0)


def test_globals_that_are_containers():
    @ms.jit
    def f(x):
        ITEMS.append(3)
        TABLE["items"], TABLE["kept"], TABLE["f"] = ITEMS, KEPT, len
        NAMES.add(5)
        return ITEMS, KEPT

    for n in (2, 3):
        items, kept = f(vector())
        assert items is TABLE["items"] is ITEMS
        assert kept is TABLE["kept"] is KEPT
        assert ITEMS == [1, 3, 3][:n]
        assert NAMES == {1, 5}
        assert TABLE["f"] is len


def test_containers_are_those_of_the_call():
    f = ms.jit(lambda x, items: items.append(x) or items)
    x, first, second = vector(), [1], [1]
    assert f(x, first) is first
    assert f(x, second) is second
    assert f.compile_count == 1
    assert len(first) == len(second) == 2
    assert first[1] is x


def test_one_container_reached_in_two_ways():
    f = ms.jit(lambda a, b: a.append(1) or len(b))
    a = [1]
    assert f(a, [1]) == 1
    assert a == [1, 1]
    for call in (lambda: f(a, a), lambda: ms.jit(lambda a: a.append(len(ITEMS)))(ITEMS)):
        with pytest.raises(TypeError, match="reached in two ways"):
            call()
    assert a == [1, 1]


def test_containers_that_no_graph_can_write():
    def depends(x, items):
        if x.sum() > 0:
            items.append(1)

    def function(x, items):
        items.append(lambda: x)

    def names(x, items):
        NET.__dict__["a"] = 1

    for f, match in (
        (depends, "the same items in every arm"),
        (function, "type function"),
        (names, "is older"),
    ):
        with pytest.raises((TypeError, RuntimeError), match=match):
            ms.jit(f)(vector(), [1])
    assert not hasattr(NET, "a")


NET = Counts()


def test_a_container_keeps_what_it_held_if_the_call_fails():
    items = [1]

    @ms.jit
    def f(x):
        items.append(2)
        assert x.sum() < 0

    with pytest.raises(AssertionError):
        f(vector())
    assert items == [1]

"""Python inside a graph: PyNative == every stage of the graph == execution.

Values, objects, functions and strings behave as Python's own, errors included; what a graph cannot
hold is refused with an error at the program's line.
"""

import collections
import contextlib
import dataclasses
import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from differential import Programs, Refusals

import minispore as ms
from minispore import Tensor, ops

PROGRAMS = Programs()
REFUSALS = Refusals()
SIGNS = (1.0, -1.0)

# ------------------------------------------------------------------------------------- numbers


@PROGRAMS.on(1.0)
def numbers_are_pythons(x):
    print(
        0.1 + 0.2, 2**100, 2**-1, -7 // 2, -7 % 3, 7.5 // 2, divmod(-7, 2), round(2.5), 10**20 // 3
    )
    print(
        round(2.675, 2), 1e308 * 10, 0.1 + 0.2 == 0.3, 1 / 3, True + True, min(1, 2.0), max(3, 2.5)
    )
    print(int(3.9), int(-3.9), int("12"), float("1.5"), 7 & 3, 7 | 8, 7 ^ 2, ~7, 1 << 70, -1 >> 1)
    print(pow(2, 10, 7), abs(-3), sum([1, 2.5]), chr(97), ord("a"), bin(5), 7 / 2, 16777217 * 1.0)
    return x * (0.1 + 0.2)


@PROGRAMS.on((1.0, 5), (1.0, -2), (2.6, 7))
def numbers_known_at_run_time(x, n):
    k, f = int(n), float(x * 2.5)
    print(k + 1, k - 1, k * 3, k / 2, k // 2, k % 3, k**2, -k, +k, abs(k), k == 5, k != 5, k < 0)
    print(7 - k, 7 / k, 7 // k, 7 % k, 2 ** abs(k), float(k), bool(k), k & 3, k | 8, k ^ 1, ~k)
    print(round(f), round(f, 1), int(f), f // 1, f % 1, divmod(k, 3), divmod(17, k), k >= 5, not k)
    return max(k, 3), min(k, 0), sum([k, 1, k]), max([x, x * n]), min(0.5, f), k < 6 < f


@PROGRAMS.on(1.0)
def constant_division_by_zero(x):
    return x + 7 // 0


@PROGRAMS.on((1.0, 0), (1.0, 2))
def division_by_zero(x, n):
    return x + 7 // int(n)


@PROGRAMS.on((1.0, 0), (1.0, 2))
def division_by_a_float_zero(x, n):
    return x + 7 / float(n)


@PROGRAMS.on((1.0, 0), (1.0, 2))
def guarded_division(x, n):
    k = int(n)
    if k != 0:
        return x + 7 / k
    return x + 7 % (k + 1)


@PROGRAMS.on((1.0, 5))
def operator_that_does_not_fit(x, n):
    return int(n) + "a"


# ---------------------------------------------------------------------------------- containers


@PROGRAMS.on(*SIGNS)
def aliases_of_lists(x):
    a = [1, 2]
    b = a
    b.append(3)
    a[0] = x
    c = a[:]
    c.append(9)
    return a, b, c, len(a), a is b, a is c


def added(items, value):
    items.append(value)
    return items


@PROGRAMS.on(*SIGNS)
def list_written_in_a_called_function(x):
    a = []
    b = added(added(a, x), x + 1)
    a[0] += 5
    return a, b, a is b


@PROGRAMS.on(*SIGNS)
def methods_of_lists(x):
    a = [3, 1, 2]
    a.sort()
    b = sorted(a, reverse=True)
    a.reverse()
    a.insert(1, 4)
    a.extend([7, 8])
    last, first = a.pop(), a.pop(0)
    a.remove(7)
    a += [9]
    a *= 2
    del a[0]
    c = [1, 2, 3] * 2 + [4]
    c[1:3] = [x, x, x]
    d = c.copy()
    d.clear()
    pairs = [(2, "b"), (1, "c"), (3, "a")]
    pairs.sort(key=lambda p: p[1])
    print(a.index(2), a.count(9), [1] == [1], (1, 2) < (1, 3), sorted(pairs, key=lambda p: -p[0]))
    print([x, 1, x].index(1, 1), [1, x][:1].count(1), [1, 2, 3, 4][::-2], "hello"[::-1])
    return a, b, last, first, c, c[::-1], c[-2:], d


@PROGRAMS.on(*SIGNS)
def methods_of_dicts(x):
    d = dict(a=1, b=2)
    d.update({"c": 3})
    d.update(z=x)
    y, z, w = d.pop("a"), d.setdefault("q", 7), d.get("none", x)
    e = d.copy()
    e["b"] = x
    print(list(d), "b" in d, "a" in d, len(d), list(dict.fromkeys("ab", 0)), {**{"k": 1}, "m": 2})
    del d["b"]
    return d, e, y, z, w, list(d.values()), list(d.items()), dict(zip("ab", (x, 1))), d | {"k": 2}  # noqa: B905


@PROGRAMS.on(*SIGNS)
def other_containers(x):
    ordered = collections.OrderedDict(a=x, b=1)
    ordered.move_to_end("a")
    groups = collections.defaultdict(list)
    groups["k"].append(x)
    s = {1, 2} | {3}
    s.discard(2)
    s.update([5])
    return list(ordered), groups["k"], len(groups), sorted(s), 3 in s, s & {1, 9} == {1}


@PROGRAMS.on([1.0, 2.0], [2.0, 1.0])
def membership(x):
    a, b, k = x[0], x[1], int(x[0])
    return (
        a in [1.0, 2.0],
        a in {a},
        a in {1.0, 2.0},
        a in {a: 1},
        1.0 in x,
        k in {1, 3},
        k in (b, 1),
    )


@PROGRAMS.on(*SIGNS)
def unpacking(x):
    a, (b, c), *d = 1, (x, 3), 4, 5, 6
    *e, f = [1, 2]
    [g, h] = x, 2
    i = j = [1]
    (m,) = [x]
    a, b = b, a
    n, *o, p = range(5)
    return a, b, c, d, e, f, g, h, i is j, m, n, o, p


@PROGRAMS.on([1.0, 2.0, 3.0])
def unpacked_tensor(x):
    a, b, c = x
    d, *e = x
    return a + b * c, e, d


@PROGRAMS.on(1.0)
def too_many_values(x):
    a, b = (1, 2, 3)
    return a, b


@PROGRAMS.on(1.0)
def not_enough_values(x):
    a, b, *c = (1,)
    return a, b, c


@PROGRAMS.on(1.0)
def unpacked_number(x):
    a, b = 3
    return a, b


@PROGRAMS.on(1.0)
def missing_key(x):
    return {"a": x}["b"]


@PROGRAMS.on(1.0)
def missing_item(x):
    return [x][3]


@PROGRAMS.on([1.0, 2.0, 3.0, 4.0])
def slices(x):
    y = x[1:] * 2
    return x[::2], x[-1], x[1:3] * 2, x[None].shape, x[..., 0], x[[0, 2]], y[::-1], slice(1, 3).stop


# ----------------------------------------------------------------------------------- iterators


def shown(value):
    print("shown", value)
    return value


@PROGRAMS.on(*SIGNS)
def iterators_are_used_up(x):
    z = zip([1, 2], [3, x])  # noqa: B905
    a, b = list(z), list(z)
    it = iter([x, 2, 3])
    first = next(it)
    rest = [v for v in it]
    e = enumerate("ab", 1)
    next(e)
    return a, b, first, rest, list(e), next(it, "end"), list(reversed([1, x])), list(map(abs, [x]))


@PROGRAMS.on(*SIGNS)
def iterators_are_lazy(x):
    m = map(shown, [1, x])
    print("made")
    g = (shown(v) * 2 for v in (3, x) if v is not None)
    f = filter(shown, [0, 1, 2])
    print(next(f), next(g), list(m), list(g), any(shown(v) > 1 for v in (1, 2, 3)))
    return next(v for v in (1, 2, 3) if v > 1) + x


@PROGRAMS.on(*SIGNS)
def lists_that_grow_while_they_are_iterated_over(x):
    items = [1]
    for v in items:
        if v < 5:
            items.append(v + 1)
    d = {"a": 1}
    for k in list(d):
        d[k + "b"] = x
    return items, d


@PROGRAMS.on(1.0)
def dict_that_grows_while_it_is_iterated_over(x):
    d = {"a": x}
    for k in d:
        d[k + "b"] = x


@PROGRAMS.on(1.0)
def nothing_left(x):
    return next(iter([]))


@PROGRAMS.on(1.0)
def zip_of_unequal_lengths(x):
    return list(zip([1, 2], [x], strict=True))


@PROGRAMS.on(*SIGNS)
def comprehensions(x):
    i = 100
    squares = [i * i for i in range(3)]
    late = [lambda: i for i in range(3)]  # noqa: B023
    table = [[i * j for j in range(i)] for i in range(4)]
    products = [a * b for a in (1, 2, 3) for b in (x, 2) if a != 2 if b is not None]
    y = [z := x + 1, z * 2]
    walrus = [last := v for v in (1, 2)]
    return (
        i,
        squares,
        [f() for f in late],
        table,
        products,
        {k: x for k in "ab"},
        y,
        z,
        last,
        walrus,
    )


@PROGRAMS.on(*SIGNS)
def conditional_expression_in_a_comprehension(x):
    return [v if v > 0 else -v for v in (x, x + 1, -x)]


@PROGRAMS.on(*SIGNS)
def functions_of_the_standard_library(x):
    print(math.sqrt(2), math.floor(2.7), functools.reduce(lambda a, b: a + b, [1, 2, 3]))
    print(max([1, 2, 3], key=shown), sorted([3, 1], key=shown), list(itertools.accumulate([1, 2])))
    product = functools.reduce(lambda a, b: a * b, [x, 2, x])
    chained = list(itertools.chain([x], [2])) + list(itertools.islice([1, 2, 3], 2))
    return product, chained, list(itertools.product([1, x], "ab")), functools.partial(added, [])(x)


# ----------------------------------------------------------------------------------- functions


@PROGRAMS.on(*SIGNS)
def closures_capture_late(x):
    late, early = [], []
    for i in range(3):
        late.append(lambda: x * i)  # noqa: B023
        early.append(lambda i=i: x * i)

    def current():
        return x

    x = x + 1
    before = current()
    x = x * 10
    return [f() for f in late], [f() for f in early], before, current()


@PROGRAMS.on(*SIGNS)
def nonlocal_names(x):
    n, total = 0, x * 0

    def count(k=1):
        nonlocal n, total
        n += k
        total = total + x
        return n

    count()
    count(5)
    if x > 0:
        count(10)
    else:
        count(20)
    return n, total


def keywords(a, b=2, *args, c, d=4, **more):
    return a, b, args, c, d, more


def by_position(a, /, b, *, c=3):
    return a, b, c


@PROGRAMS.on(*SIGNS)
def arguments(x):
    items, named = (x, 2), dict(c=1)
    print(keywords(*items, **named)[1:], keywords(1, *[2, 3], c=1, **{"d": 9, "z": 0}))
    return (
        keywords(x, c=1),
        keywords(1, 2, 3, c=x, e=5, f=x),
        keywords(a=x, c=1),
        by_position(1, b=x),
    )


WRONG_CALLS = {
    "missing_keyword": lambda x: keywords(1, 2),
    "missing_all": lambda x: by_position(),
    "too_many": lambda x: by_position(1, 2, 3),
    "position_by_name": lambda x: by_position(a=1, b=2),
    "unknown_name": lambda x: by_position(1, 2, z=2),
    "twice": lambda x: by_position(1, 2, b=2),
    "twice_by_name": lambda x: keywords(1, c=1, **{"c": 2}),
    "no_mapping": lambda x: keywords(1, **[("c", 1)]),
    "no_function": lambda x: x.dtype(3),
    "called_tensor": lambda x: x(3),
    "missing_attribute": lambda x: x.nothing,
    "missing_name": lambda x: nothing,  # noqa: F821
    "str_and_int": lambda x: "a" + 1,
    "none_and_tensor": lambda x: None + x,
    "index_of_a_number": lambda x: len([x])[0],
    "no_iterable": lambda x: [v for v in 3],
    "no_iterator": lambda x: next([x]),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_an_error_is_of_pythons_class_at_the_users_line(name):
    PROGRAMS.run(WRONG_CALLS[name], (1.0,))


y = 5


@PROGRAMS.on(1.0)
def local_name_that_hides_a_global(x):
    if x is None:
        y = 1
    return x + y


@PROGRAMS.on(1.0)
def local_name_that_hides_a_builtin(x):
    if x is None:
        max = 1
    return max(1, 2)


@PROGRAMS.on(1.0)
def deleted_name(x):
    a = 1
    del a
    return a  # noqa: F821


@PROGRAMS.on(*SIGNS)
def deleted_and_set_again(x):
    a, items = 1, [1, 2, 3]
    del a, items[0], items[-1:]
    a = x
    return a, items


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def doubled(n, x):
    return x if n == 0 else doubled(n - 1, x + 1)


def is_even(n):
    return n == 0 or is_odd(n - 1)


def is_odd(n):
    return n != 0 and is_even(n - 1)


@PROGRAMS.on(1.0)
def recursion_on_constants(x):
    print(factorial(30), fibonacci(10), is_even(17))
    return doubled(150, x)


class Announced:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __enter__(self):
        print("enter", self.name)
        return self.log

    def __exit__(self, kind, error, trace):
        self.log.append((self.name, kind))
        print("leave", self.name)


@PROGRAMS.on(1.0, -1.0, 9.0)
def contexts(x):
    log = []
    with Announced("a", log) as one, Announced("b", log), contextlib.nullcontext(x) as three:
        one.append(0)
        if x > 5:
            return three * 2, log
        y = x + 1
    for i in range(3):
        with Announced("c", []):
            if x > i:
                break
            y = y * 2
    return y, log


@dataclasses.dataclass
class Move:
    step: Any
    times: int = 1


class Named:
    name = "n"


@PROGRAMS.on(1.0)
def patterns(x):  # noqa: C901
    subjects = [0, 1, "a", "b", None, (1, 2), [3, 4, 5], [], range(2), {"k": x, "z": 1}, {"z": 2},
                2.5, Move(x, 4), Move(x), Named(), True, b"y", (x, (1, [x]))]  # fmt: skip
    found = []
    for subject in subjects:
        match subject:
            case True:
                found.append("true")
            case 0 | 1 as n:
                found.append(n)
            case None:
                found.append("none")
            case str(s) if s == "b":
                found.append("the b")
            case str():
                found.append("text")
            case (u, (int(v), [w])):
                found.append((u, v, w))
            case (a, b):
                found.append(a + b)
            case [first, *rest, last]:
                found.append((first, rest, last))
            case []:
                found.append("nothing")
            case {"k": value, **others}:
                found.append((value, others))
            case {}:
                found.append("a dict")
            case Move(step, times=4):
                found.append(step)
            case Move(step, times):
                found.append((step, times))
            case Named(name=("m" | "n") as which):
                found.append(which)
            case float():
                found.append("a float")
            case _:
                found.append("else")
    return found


@PROGRAMS.on(1.0, 2.0, 7.0, -3.0)
def patterns_that_a_tensor_matches(x):
    match x:
        case 1 | 4:
            y = x * 10
        case 2:
            return x
        case z if z > 0:
            y = z + 1
        case other:
            y = -other
    match int(y):
        case 10:
            return y, "ten"
        case n:
            return y * n, "other"


@functools.lru_cache
def cached(n):
    return n * y


@PROGRAMS.on(1.0)
def jitted_cached_and_decorated(x):
    @ms.jit
    def doubled(v):
        return v * 2 if v > 0 else v

    def twice(f):
        @functools.wraps(f)
        def g(v):
            return f(f(v))

        return g

    @twice
    def plus(v):
        """Documented."""
        w: Any = v + cached(2)
        return w

    return doubled(x) + doubled(x - 2), plus(x)


# ------------------------------------------------------------------------------------- objects


class Point(NamedTuple):
    x: Any
    y: Any


@PROGRAMS.on(*SIGNS)
def named_tuples(x):
    p = Point(x, 2)
    q = p._replace(y=x + 1)
    a, b = p
    r = Point(x, 1.0) if x > 0 else Point(x * 2, 1.0)
    print(p, [q], p._fields, isinstance(r, tuple), len(p), p == Point(p.x, 2))
    return p, q, a, b, p.x, p[1], r


@dataclasses.dataclass
class Data:
    a: Any
    b: Any = 3
    c: list = dataclasses.field(default_factory=list)

    def total(self):
        return self.a + self.b


@dataclasses.dataclass(frozen=True, slots=True)
class Derived:
    a: Any
    twice: Any = None

    def __post_init__(self):
        print("made", self.a)
        object.__setattr__(self, "twice", self.a * 2)


@PROGRAMS.on(*SIGNS)
def data_classes(x):
    d, e = Data(x), Data(1, 2)
    d.b = 4
    d.c.append(x)
    if x > 0:
        d.a = x * 2
    print(d, [e], f"{e}", Data(1, 2) == e, Data(1) == e)
    return d.a, d.b, d.c, d.total(), e.c, Derived(x).twice


class Number:
    """Defines all that Python lets a class define."""

    factor = 3

    def __init__(self, v):
        self.v = v

    def scaled(self):
        return self.v * self.factor

    @property
    def double(self):
        return self.v * 2

    @double.setter
    def double(self, value):
        self.v = value / 2

    @functools.cached_property
    def once(self):
        print("computing")
        return self.v + 1

    @staticmethod
    def plus_one(v):
        return v + 1

    @classmethod
    def next(cls, v):
        return cls(v + 1)

    def __call__(self, w):
        return self.v + w

    def __add__(self, other):
        if other.v > 0:
            return type(self)(self.v + other.v)
        return type(self)(self.v - other.v)

    def __radd__(self, other):
        print("reflected")
        return other + self.v

    def __imul__(self, other):
        self.v = self.v * other
        return self

    def __neg__(self):
        return Number(-self.v)

    def __lt__(self, other):
        return self.v < other.v

    def __eq__(self, other):
        return isinstance(other, Number) and self.v == other.v

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return self.v * i

    def __setitem__(self, i, value):
        self.v = value + i

    def __iter__(self):
        return iter([self.v, self.factor])

    def __contains__(self, item):
        return item == 3

    def __bool__(self):
        return bool(self.v > 0)

    def __repr__(self):
        return f"Number({self.v})"

    def __format__(self, spec):
        return f"<{self.v}|{spec}>"


class Scaled(Number):
    factor = 5

    def __init__(self, v, offset=1):
        super().__init__(v)
        self.offset = offset

    def scaled(self):
        return super().scaled() + self.offset


@PROGRAMS.on(*SIGNS)
def methods_and_attributes(x):
    n, s = Number(x), Scaled(x, offset=2)
    n.double = x * 8
    t = Scaled.next(x)
    print(isinstance(t, Scaled), isinstance(t, Number), type(t) is Scaled, n.factor, Scaled.factor)
    print(
        hasattr(n, "v"),
        hasattr(n, "w"),
        getattr(n, "w", 5),
        callable(n),
        issubclass(Scaled, Number),
    )
    setattr(n, "w" + "", x)
    return n.scaled(), s.scaled(), t.scaled(), n.double, Number.plus_one(4), n.once, n.once, n.w


@PROGRAMS.on(*SIGNS)
def operators_of_a_class(x):
    n = Number(x)
    total = n + Number(1.0)
    added = n
    added += Number(x)
    scaled = n
    scaled *= 3
    print(len(n), 3 in n, 4 in n, 1 + Number(2.0))
    n[1] = x
    return total.v, added.v, n.v, scaled is n, n(3), (-n).v, 1 + n, n[3], [*n], Number(x) > n


class Reflecting:
    def __init__(self, v):
        self.v = v

    def __iter__(self):
        return iter([1, 2])

    def __radd__(self, other):
        return "sum", other, self.v

    __rmul__ = __radd__


@PROGRAMS.on(*SIGNS)
def operators_of_a_class_beside_sequences(x):
    items, r = [x], Reflecting(x)
    items += r
    return items, [1] + r, (1,) * r, "a" + r


@PROGRAMS.on(*SIGNS)
def truth_and_equality_of_objects(x):
    n = Number(x)
    a = 1 if n else 2
    b = 3 if n == Number(x * 2) else 4
    return a, b, not n, n != Number(x), n == 3


@PROGRAMS.on(*SIGNS)
def text_of_objects(x):
    n, m = Number(1), Number(x)
    print(n, [n], (n, {"k": m}), m, str(n), repr(m))
    n.v = 2
    print(n, f"{n} {n!r} {n:>4}")
    return x


# ------------------------------------------------------------------------------- in-place writes


@PROGRAMS.on([1.0, 2.0], [-1.0, 2.0])
def writes_seen_through_aliases(x):
    y = x * 1
    z = y
    before = y[1]
    y[0] = 5.0

    def double(t):
        t.mul_(2.0)

    double(z)
    items = {"y": [y]}
    items["y"][0].add_(1.0)
    if x.sum() > 2:
        y[1] = 9.0
    else:
        z[0] = 3.0
    return y, z, before


@PROGRAMS.on([1.0, 2.0])
def written_argument(x):
    x[0] = 5.0
    x.add_(1.0)
    return x * 2


@PROGRAMS.on([1.0, 2.0])
def augmented_assignments(x):
    items, n, d, t = [x, 1], Number(x), {"a": 1}, (1,)
    items[1] += 2
    items[0] += 1
    n.v -= 1
    n.v *= 3
    d["a"] += x
    t += (2,)
    y = x
    y += 1
    return items, n.v, d, t, x, y


# --------------------------------------------------------------------------------------- strings


@PROGRAMS.on(*SIGNS)
def strings(x):
    n = 3
    print(f"{n:03d} {n!r} {'a'!r:>5} {1.5:.2f} {{}} {n=} {x} v={x + 1} {n:>{n + 2}} {[x, n]}")
    print(
        "%d %s %r" % (n, "q", "q"),  # noqa: UP031
        "{} {a:>4}".format(1, a=2),  # noqa: UP032
        "x".join(["a", "b"]),
        "a,b".split(","),
    )
    print("abc"[1:], "b" in "abc", len("abc"), "abc".upper(), "a" * 3, "a" < "b", "abc".find("c"))
    return x


@PROGRAMS.on(*SIGNS)
def strings_known_at_run_time(x):
    k, f, b = int(x * 3), float(x) / 3, bool(x > 0)
    print(f"{k} {f:.3f} {b} {k:5d}|{f!r}|{x!r}|{k:>{k + 9}}", str(k), repr(f), [f"{k}", x, b])
    print("%d and %s" % (k, x), "%s" % x, "{} {:>4} {q!r}".format(k, f, q=b), "a" + str(k) + "b")  # noqa: UP031, UP032
    print(
        f"a{k}b".upper(), f"{k}" * 2, " ".join([str(k), "c"]), repr(x), format(f, ".2f"), ascii(k)
    )
    text = f"{k}"
    text += "!"
    print(text, [text], {"a": text}, (text,), sep=";", end="?")
    return x


@PROGRAMS.on(*SIGNS)
def returned_strings(x):
    name = "positive" if x > 0 else "negative"
    return (
        f"{x}",
        [name, f"{name} {int(x)}"],
        {"k": None if x > 0 else x},
        (name, 1) if x > 0 else None,
    )


@PROGRAMS.on(*SIGNS)
def prints(x):
    print()
    print(1, 2, sep="")
    print("a", end=";")
    print("b", x, sep=",", end="!\n", flush=True)
    print([1, "a", None, 2.5, x], {"a": x, 1: 2}, (x,), None, True, *[1, 2], sep=None)
    s = {1}
    print(s, [s], np.float32(2.5), ms.float32, collections.OrderedDict(a=1))
    s.add(2)
    print(s, len(s))
    return x


@PROGRAMS.on(*SIGNS)
def types_and_builtins(x):
    print(
        isinstance(x, Tensor), isinstance(1, (int, str)), isinstance(True, int), type(x) is Tensor
    )
    print(isinstance(int(x), int), isinstance(float(x), float), isinstance(float(x), (int, Tensor)))
    print(type(int(x)) is int, isinstance(f"{x}", str), callable(abs), type("a") == str, type(None))  # noqa: E721, UP003
    print(list(range(3)), tuple([1]), any([False, 1]), all([]), round(3.7), hash(3), slice(1, 2))
    return abs(x), sum([x, x]), max(x, x + 1), min([x, 0.0 - x]), pow(x, 2), ops.sum(x)


@pytest.mark.parametrize("fn, args", PROGRAMS)
def test_program(fn, args):
    PROGRAMS.run(fn, args)


# ------------------------------------------------------------------- what no graph can hold


@REFUSALS.on(OverflowError, "does not fit the 64-bit ints", 5)
def large_number_known_at_run_time(n):
    k = int(n)
    for _ in range(10):
        k = k * 100000
    return k


@REFUSALS.on(RuntimeError, "a deque cannot be part", 1.0)
def deque(x):
    return len(collections.deque([x]))


@REFUSALS.on(RuntimeError, "the items of a ndarray cannot be written", 1.0)
def array_written(x):
    a = np.zeros(3)
    a[0] = 1
    return x + float(a[0])


@REFUSALS.on(RuntimeError, "an endless iterator", 1.0)
def endless_iterator(x):
    return [i for i, _ in zip(itertools.count(), [x], strict=False)]


@REFUSALS.on(RuntimeError, "use the function of minispore.ops", 1.0)
def numpy_on_a_tensor(x):
    return np.exp(x)


@REFUSALS.on(RuntimeError, "may have hidden state", 1.0)
def random_numbers(x):
    return x + np.random.rand()


@REFUSALS.on(RuntimeError, "'open' cannot be part", 1.0)
def context_of_the_outside(x):
    with open("x"):
        return x


@REFUSALS.on(RuntimeError, "would have to run if the body of 'with' fails", 1.0)
def context_whose_body_may_fail(x):
    with Announced("a", []):
        assert x > 0
    return x


@REFUSALS.on(TypeError, "does not support the context manager protocol", 1.0)
def no_context(x):
    with 3:
        return x


@REFUSALS.on(TypeError, "accepts 0 positional sub-patterns", 1.0)
def pattern_of_too_many_parts(x):
    match x:
        case Tensor(1):
            return x


@REFUSALS.on(RuntimeError, "'yield' cannot be part", 1.0)
def generator_function(x):
    yield x


@REFUSALS.on(RuntimeError, "'import' cannot be part", 1.0)
def import_statement(x):
    import os

    return x + len(os.sep)


@REFUSALS.on(RuntimeError, "the global 'y' cannot be written", 1.0)
def global_written(x):
    global y
    y = 6
    return x


@REFUSALS.on(RecursionError, "endless is called 1000 deep", 1.0)
def endless_recursion(x):
    def endless(n):
        return endless(n + 1)

    return endless(0)


@REFUSALS.on(TypeError, "what list.index finds among Tensors", 1.0)
def index_of_a_tensor(x):
    return [x, 1].index(1)


@REFUSALS.on(TypeError, "the order of a list that is sorted by Tensors", 1.0)
def sorted_tensors(x):
    return sorted([x, x + 1])


@REFUSALS.on(TypeError, "the length of a comprehension", 1.0)
def filtered_by_a_tensor(x):
    return [v for v in (1, 2) if x > v]


@REFUSALS.on(RuntimeError, "use an f-string", 1.0)
def object_formatted_by_percent(x):
    print("%s" % Number(x))  # noqa: UP031


@REFUSALS.on(RuntimeError, "cannot return a function", 1.0)
def returned_function(x):
    return lambda: x


@pytest.mark.parametrize("fn, args, error, match", REFUSALS)
def test_refusal(fn, args, error, match):
    REFUSALS.run(fn, args, error, match)


# ------------------------------------------------------------------------------- where it points


def test_an_error_shows_every_call_on_the_way():
    def inner(v):
        return v.nothing

    def outer(x):
        return inner(x) + 1

    with pytest.raises(AttributeError) as caught:
        ms.jit(outer)(Tensor(1.0))
    (note,) = caught.value.__notes__
    assert note.startswith("While compiling the graph:\n")
    assert note.index("return inner(x) + 1") < note.index("return v.nothing")
    assert note.endswith("return v.nothing\n           ^^^^^^^^^")


def test_a_caret_counts_characters_not_bytes():
    def fn(x):
        return ("größer", x.nothing)

    with pytest.raises(AttributeError) as caught:
        ms.jit(fn)(Tensor(1.0))
    assert caught.value.__notes__[0].endswith('("größer", x.nothing)\n' + " " * 22 + "^" * 9)

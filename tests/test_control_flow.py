"""Control flow that Tensors decide: PyNative == every stage of the graph == execution.

Each program is run on several inputs, which take different paths.  What a graph cannot hold is
refused with an error at the program's line.
"""

import enum

import assertions
import numpy as np
import pytest
from differential import Programs, Refusals, agree
from helpers import assert_same

import minispore as ms
from minispore import Tensor, ops

PROGRAMS = Programs()
REFUSALS = Refusals()
SIGNS = (1.0, -1.0, 0.0)
PAIRS = ((1.0, 2.0), (-1.0, 2.0), (1.0, -2.0), (-1.0, -1.0), (0.0, 0.0))
SIZES = (1.0, 10.0, 100.0)


def is_positive(value, name):
    print("asked", name)
    return value > 0


# ------------------------------------------------------------------------------------------ if


@PROGRAMS.on(*SIGNS)
def string_in_each_arm(x):
    if x > 0:
        name = "positive"
    elif x < 0:
        name = "negative"
    else:
        name = "zero"
    print(name, x)
    return x * 2


@PROGRAMS.on(*SIGNS, 7.0)
def nested_with_early_returns(x):
    if x > 0:
        if x > 5:
            return x * 3
        y = x + 1
    else:
        if x == 0:
            return x - 10
        y = x - 1
    return y * y


@PROGRAMS.on(*SIGNS)
def number_in_one_arm(x):
    y = 1.0
    if x > 0:
        y = 2.0
    return x * y, y


@PROGRAMS.on(*SIGNS)
def name_of_the_arm_that_goes_on(x):
    if x > 0:
        y = x * 2
    else:
        return x
    return y


@PROGRAMS.on(*SIGNS)
def tensor_or_none(x):
    y = None
    if x > 0:
        y = x * 2
    if y is None:
        return x - 100
    return y


@PROGRAMS.on(*SIGNS)
def none_in_both_arms(x):
    if x > 0:
        y = None
    else:
        y = None
    return x if y is None else x + 1


@PROGRAMS.on(*SIGNS)
def call_that_may_return_nothing(x):
    def doubled(v):
        if v > 0:
            return v * 2

    found = doubled(x)
    if found is not None:
        return found + 1
    return x


@PROGRAMS.on(*SIGNS)
def function_chosen_by_a_tensor(x):
    def squared(v):
        return v * v

    def twice(v):
        return v + v

    f = squared if x > 0 else twice
    return f(x) + f(x + 1)


@PROGRAMS.on(*SIGNS)
def op_lambda_or_builtin(x):
    if x > 0:
        f = ops.exp
    elif x < 0:
        f = lambda v: v * 3  # noqa: E731
    else:
        f = abs
    return f(x)


@PROGRAMS.on(*SIGNS)
def the_same_test_twice(x):
    y = None
    if x > 0:
        y = x * 2
    z = x
    if x > 0:
        z = y + 1  # not None here: the test is the one above
    return z


@PROGRAMS.on(*SIGNS)
def the_same_test_of_a_long_formula(x):
    def far(x):
        for _ in range(12):
            x = x * 2 - 1
        return x > -5000

    if far(x):
        return x * 2 if far(x) else "never"
    return x


@PROGRAMS.on(1.0, 9.0, 13.0, 17.0, 40.0)
def chosen_again_and_again(x):
    found, name = None, "a"
    for i in range(40):
        if x > i:
            name = name if x > 2 * i else "b"
        elif x > 15:
            found = found if x > 16 else x * i
            name = "c"
    print(name, found is None)
    return x if found is None else found


@PROGRAMS.on(*SIGNS, 9.0, 30.0)
def a_tuple_or_a_tensor_chosen_again_and_again(x):
    y = (x, 1)
    for i in range(40):
        if x > i:
            y = x * i
        elif x < 0:
            y = (x * 2, i)
    return y


@PROGRAMS.on(*SIGNS)
def conditional_expressions(x):
    number = 1 if x > 0 else (2 if x < 0 else 3)
    return (x + 1 if x > 0 else x - 1) * (2 if x < 0 else 3), number


@PROGRAMS.on(*SIGNS)
def strings_are_chosen_compared_and_joined(x):
    name = "a" if x > 0 else "b"
    other = name + "z" if name == "a" else name.upper()
    print(other, name * 2, len(other), [name], {"k": name}, f"<{name:>3}>", name in ("b", "c"))
    return x + {"a": 1, "b": 2}[name], x + (name in "abc")


@PROGRAMS.on(*SIGNS)
def string_or_none_is_printed(x):
    name = None if x > 0 else "z"
    print(name, [1, name], (name,))
    return x


@PROGRAMS.on(*SIGNS)
def appended_string(x):
    names = []
    names.append("a" if x > 0 else "b")
    names.extend(["c"])
    print(names[0], names)
    return x


@PROGRAMS.on(*SIGNS)
def objects_of_two_classes(x):
    shape = Square(x) if x > 0 else Cube(x)
    return shape.volume(), shape.name


@PROGRAMS.on(*SIGNS)
def objects_of_one_class(x):
    shape = Square(x) if x > 0 else Square(x * 3)
    shape.side = shape.side + 1
    return shape.volume()


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@PROGRAMS.on(*SIGNS)
def enumeration_chosen_by_a_tensor(x):
    color = Color.RED if x > 0 else Color.BLUE
    print(color, color.name, color is Color.RED)
    return x + color.value


def first_above(limit, items):
    for i, item in enumerate(items):
        if item > limit:
            return i


@PROGRAMS.on([1.0, 5.0, 3.0], [5.0, 1.0, 2.0], [0.0, 0.0, 0.0])
def result_that_may_be_none(x):
    return first_above(2, x)


@PROGRAMS.on([1.0, 5.0, 3.0], [5.0, 1.0, 2.0], [0.0, 0.0, 0.0])
def int_list_or_none(x):
    found, rest = first_above(2, x), None
    if x[0] > 4:
        rest = [x[1], 2]
    if rest is not None:
        print(len(rest), rest[0])
    if found is None:
        return x[0], -1
    return x[found], found + 1


@PROGRAMS.on(0, 1, 2, -1, -3, 3, -4)
def items_picked_by_a_tensor(n):
    k = int(n)
    numbers, names, functions = [10, 20, 30], ("a", "b", "c"), [abs, lambda v: v * 2, ops.exp]
    counts = [0, 0, 0]
    counts[n] += 1
    counts[k] += 5
    print(numbers[k], names[k], counts)
    return functions[n](n * 1.5), numbers[n], [n, n + 1, n + 2][k], {False: 1, True: 2}[bool(k > 0)]


@PROGRAMS.on(1, 5)
def missing_key_known_at_run_time(n):
    return {1: n, 2: n + 1}[int(n)]


@PROGRAMS.on(1.0, 30.0)
def items_picked_in_a_loop(x):
    steps, i = [x, x * 2, x * 3], 0
    while x < 100:
        x = x + steps[i % 3]
        steps[i % 3] = x
        i += 1
    return x, steps, i


class Square:
    name = 1

    def __init__(self, side):
        self.side = side

    def volume(self):
        return self.side * self.side


class Cube(Square):
    name = 2

    def volume(self):
        return super().volume() * self.side


@PROGRAMS.on(*PAIRS)
def and_or_not(x, y):
    a, b = x and y, x or y
    if x > 0 and y > 0:
        c = 1
    elif x > 0 or y > 0:
        c = 2
    else:
        c = 3
    if not x > 0:
        c += 10
    return a, b, c


@PROGRAMS.on(*PAIRS)
def short_circuit(x, y):
    if is_positive(x, "x") and is_positive(y, "y"):
        print("both")
    if is_positive(x, "x") or is_positive(y, "y"):
        print("one")
    if not (is_positive(x, "a") and not is_positive(y, "b")):
        print("neither")
    return x


@PROGRAMS.on(*PAIRS)
def quantifiers_stop_early(x, y):
    def asked(v):
        print("asked", v)
        return v > 0

    first = any(asked(v) for v in (x, y))
    return first, all(asked(v) for v in (x, y)), any(asked(v) for v in (0, 1, 2))


@PROGRAMS.on((1.0, 2.0, 3.0), (3.0, 2.0, 1.0), (1.0, 3.0, 2.0))
def chained_comparisons(x, y, z):
    def shown(v, name):
        print(name)
        return v

    order = x < y < z
    if shown(x, "x") < shown(y, "y") < shown(z, "z"):
        return x + y + z, order
    return x * y * z, order


@PROGRAMS.on((1.0, 2.0, 3.0), (3.0, 2.0, 1.0), (1.0, 3.0, 2.0))
def numbers_of_tensors(x, y, z):
    a, b, c = int(x), int(y), float(z)
    return a < b < c, a <= b != c, (a + b) // c, a - b, b % a, a / b, a if a < b else b


@PROGRAMS.on(5, -7, 0)
def shifted_numbers(n):
    k, b = int(n), bool(n > 1)
    j = k
    j <<= 2
    return j, k << 0, k >> 1, -k >> 3, b << 2, b >> 1


@PROGRAMS.on(*SIGNS)
def list_written_in_an_arm(x):
    a = [x, x]
    b = a
    if x > 0:
        b[0] = x + 10
    else:
        a[1] = x - 10
    return a, b, a is b


@PROGRAMS.on(*SIGNS)
def lists_that_methods_and_operators_give_back_are_old_ones(x):
    table, rows, items, same = {"a": [x], "b": [x]}, [[x], [x * 2]], [x], [x]
    if x > 0:
        table.get("a")[0] = x * 5
        last = rows.pop()
        last[0] = x * 7
        rows.append(last)
    elif x < 0:
        items += [x]
        items[0] = x * 8
        items.pop()
        table.setdefault("b", [])[0] = x * 3
    for i in range(2):
        if x > i:
            same += []
            same[0] = same[0] * 2
    return table, rows, items, same


@PROGRAMS.on(*SIGNS)
def lists_of_equal_length(x):
    a = [x]
    if x > 0:
        a.append(x * 2)
    else:
        a.append(x * 3)
    return a, len(a)


@PROGRAMS.on(*SIGNS)
def list_used_in_its_arm(x):
    a = [x]
    if x > 0:
        a.append(x * 2)
        return a[1]
    a.append(x * 5)
    return a[-1]


@PROGRAMS.on(*SIGNS)
def dict_written_in_an_arm(x):
    d = {"a": x}
    e = d
    if x > 0:
        d["a"] = x + 1
    else:
        e["a"] = x - 1
    return d, e


@PROGRAMS.on(*SIGNS)
def object_written_in_an_arm(x):
    s = Square(x)
    if x > 0:
        s.side = x + 1
        s.extra = 1
    else:
        s.side = x - 1
        s.extra = 2
    return s.volume(), s.extra


@PROGRAMS.on(*SIGNS)
def list_append_by_its_class(x):
    items = []
    if x > 0:
        list.append(items, 1)
    else:
        list.append(items, 2)
    return items


@PROGRAMS.on(*SIGNS)
def generator_advanced_in_arms(x):
    it = iter([x, x + 1, x + 2])
    if x > 0:
        a = next(it)
    else:
        a = next(it) * 2
    return a, next(it), list(it)


SHARED_ERROR = ValueError("shared")


class OwnError(Exception):
    def __init__(self, text, code=0):
        super().__init__(text)
        self.code = code


@PROGRAMS.on(*SIGNS, 5.0, 6.0, 7.0)
def errors_in_arms(x):
    print("before")
    if x < 0:
        raise ValueError("negative", x)
    if x == 0:
        raise KeyError
    if x == 5:
        raise SHARED_ERROR
    if x == 6:
        raise OwnError("own", code=3)
    if x == 7:
        error = TypeError("kept", "for later")
        print(isinstance(error, TypeError), error, [error], error.args, type(error) is TypeError)
        raise error from None
    print("after")
    return x


@PROGRAMS.on(*SIGNS)
def error_with_a_chosen_string(x):
    name = "a" if x > 0 else "b"
    if x < 5:
        raise ValueError(name, [name])
    return x


# --------------------------------------------------------------------------------------- while


@PROGRAMS.on(*SIZES)
def while_loop(x):
    while x < 50:
        x = x * 2
    return x


@PROGRAMS.on(*SIZES)
def endless_until_break(x):
    n = 0
    while True:
        if x > 50:
            break
        x = x * 3
        n = n + 1
    return x, n


@PROGRAMS.on(*SIZES)
def name_first_set_in_an_endless_loop(x):
    while True:
        y = x * 2
        if y > 60:
            break
        x = y
    return y


@PROGRAMS.on(*SIZES)
def continue_in_a_while(x):
    n = 0
    s = x * 0
    while n < 10:
        n += 1
        if x * n > 50:
            continue
        s = s + n
    return s, n


@PROGRAMS.on(*SIZES)
def else_of_a_while(x):
    n = 0
    while x < 50:
        x = x * 3
        n += 1
        if n == 3:
            break
    else:
        print("not broken")
        x = x + 1000
    return x, n


@PROGRAMS.on(*SIZES, 600.0)
def return_from_a_while(x):
    n = 0
    while x < 1000:
        x = x * 2
        if x > 500:
            return x, n
        n += 1
    return x - 1, -n


@PROGRAMS.on(*SIZES)
def return_break_and_count(x):
    n = 0
    while True:
        x = x * 2
        n += 1
        if n > 5:
            return x
        if x > 500:
            break
    return x * 0


@PROGRAMS.on(*SIZES)
def condition_with_effects(x):
    while is_positive(60 - x, "x"):
        x = x * 3
    return x


@PROGRAMS.on(*SIZES)
def condition_with_effects_of_a_loop_that_is_peeled(x):
    last = None
    while is_positive(60 - x, "x"):
        x = x * 3
        last = x
    return x if last is None else last


@PROGRAMS.on(1.0, 3.0, 6.0)
def nested_whiles(x):
    s = x * 0
    i = 0
    while i < x:
        j = 0
        while j < x:
            if j > i:
                break
            s = s + i * j
            j += 1
        i += 1
    return s, i


@PROGRAMS.on(1.0, 3.0, 6.0, 200.0)
def return_from_nested_whiles(x):
    i = 0
    while i < 10:
        j = 0
        while j < 10:
            if i * j > x:
                return i, j
            j += 1
        i += 1
    return -1, -1


@PROGRAMS.on(5.0, 2000.0)
def three_endless_loops(x):
    s = x * 0
    i = 0
    while True:
        i += 1
        j = 0
        while True:
            j += 1
            k = 0
            while True:
                k += 1
                s = s + 1
                if s > x or k > 5:
                    break
            if s > x or j > 5:
                break
        if s > x or i > 5:
            break
    return s, i


@PROGRAMS.on(*SIZES)
def carry_of_many_kinds(x):
    i, f, b, pair = 0, 0.5, False, (1, 2.0)
    while x < 20:
        x = x * 2
        i += 1
        f = f * 1.5
        b = not b
        pair = (pair[0] + 1, pair[1] * 2)
    return x, i, f, b, pair


@PROGRAMS.on(*SIZES)
def carry_of_a_string_known_at_run_time(x):
    text, i = f"<{int(x)}>", 0
    while x < 20:
        x = x * 2
        i += 1
        text = f"<{int(x)}>"
        if i == 3:
            return text, x
    print(text)
    return text, x


@PROGRAMS.on(*SIZES)
def carry_of_a_string_or_function_that_tensors_choose(x):
    name, f, last = "start", ops.sin, None
    while x < 50:
        x = x * 2 + f(x)
        name = "far" if x > 9 else name
        f = ops.cos if x > 20 else ops.tanh if x > 3 else f
        if last is None:
            last = "once"
        elif last == "once" and x > 30:
            last = f"{name}!" if name == "far" else None
    print(name, last)
    return f(x), name, last


@PROGRAMS.on(*SIZES)
def carry_that_is_none_at_first(x):
    last = None
    while x < 20:
        last = x
        x = x * 2
    return x if last is None else last


@PROGRAMS.on(*SIZES)
def carry_of_a_tensor_or_none(x):
    last, best = None, None
    while x < 200:
        last = x if x > 2 else None
        best = last if x > 20 else best
        x = x * 2
    return x, last, best


@PROGRAMS.on(*SIZES)
def carry_of_a_tuple_that_holds_a_list(x):
    items = [x]
    pair = (items, 0)
    while x < 50:
        pair[0][0] = x + 1
        pair = (items, pair[1] + 1)
        x = x * 2
    pair[0][0] = pair[0][0] * 3
    return items, pair[1]


@PROGRAMS.on(*SIZES)
def tensor_made_from_a_constant_in_a_loop(x):
    for row in ops.stack([x, x * 2]):
        row = Tensor(0.5)
        if x > 5:
            continue
        return row
    return x


@PROGRAMS.on(*SIZES, -1.0)
def returned_by_a_loop_is_what_tensors_choose(x):
    best = None
    while x > 0:
        if x > 5:
            best = x
        if x > 30:
            return "far" if x > 80 else "near", best, None if x > 90 else 1
        x = x * 2
    return "none", x, 2


@PROGRAMS.on(*SIZES, -1.0, -9.0, 0.5)
def lists_and_dicts_made_by_returns(x):
    if x > 0:
        if x == 1:
            return [x, {"a": 1}], (1, [2])
        x = x + 3
    elif x < -5:
        return [x, {"a": 5}], (1, [3])
    for v in (x, x + 1):
        if v > 50:
            return [v, {"a": 2}], (2, [4])
    while x < 20:
        if x > 12:
            return [x, {"a": 3}], (3, [5])
        x = x * 2
        if x < 0:
            break
    return [x, {"a": 4}], (4, [6])


@PROGRAMS.on(*SIZES, -1.0)
def constant_index_in_a_loop_that_returns(x):
    while x > 0:
        return ops.ones(3)[Tensor([1])] * x


@PROGRAMS.on(*SIZES)
def names_that_no_iteration_reads_before_it_sets_them(x):
    parts, kind, s = [], "none", None
    while x < 50:
        parts = [x, x + 1]
        s = Square(x)
        kind = 1.5
        if x > 5:
            kind = parts[0]  # noqa: F841
        x = parts[0] + parts[1] + s.volume()
    return x


@PROGRAMS.on(*SIZES)
def carry_in_a_list_and_an_object(x):
    items, s = [x, 1], Square(x)
    s.steps = 0
    while s.side < 50:
        items[0] = items[0] + s.side
        items[1] += 1
        s.side = s.side * 2
        s.steps += 1
    return items, s.side, s.steps


@PROGRAMS.on(*SIZES)
def carry_of_closures(x):
    total = x * 0

    def add(v):
        nonlocal total
        total = total + v

    i = 0
    while i < x and i < 10:
        add(x + i)
        i += 1
    return total


@PROGRAMS.on(*SIZES)
def tensor_written_in_a_loop(x):
    y = ops.stack([x, x])
    z = y
    i = 0
    while y.sum() < 90:
        y[0] = y[0] * 2
        i += 1
    return y, z, i


@PROGRAMS.on(*SIZES)
def error_in_a_loop(x):
    i = 0
    while i < 10:
        x = x + 1
        if x > 105:
            raise RuntimeError(f"too large: {x} after {i}")
        if x > 18:
            break
        i += 1
    return x


@PROGRAMS.on(*SIZES)
def walrus_in_a_condition(x):
    if (y := x + 1) > 5:
        print("large", y)
    while (y := y * 2) < 30:
        print("doubled", y)
    i = 0
    while (z := y + i) < 40 and i < 3:
        i += 1
    return y, z, i


# ----------------------------------------------------------------------------------------- for


@PROGRAMS.on(1.0, 3.0, 60.0)
def break_from_a_range(x):
    s = x * 0
    for i in range(10):
        if i > x:
            break
        s = s + i
    else:
        s = s - 1
    return s, i


@PROGRAMS.on(1.0, 3.0, 90.0)
def return_from_a_for_with_else(x):
    for i in range(10):
        if i * i > x:
            return i
    else:
        return -1


@PROGRAMS.on(1.0, 2.0, 20.0)
def list_that_grows_until_a_return(x):
    out = []
    for _ in range(5):
        x = x * 2
        out.append(x)
        if x > 50:
            return out[0], x
    return out[-1], sum(out)


@PROGRAMS.on(1.0, 20.0)
def what_follows_a_peeled_loop_with_a_return(x):
    last = None
    while x < 10:
        last = x
        x = x * 2
        if x == 3:
            return x, 0
    print("once")
    return x if last is None else last, 1


@PROGRAMS.on(3, 5, 0)
def range_of_a_tensor(n):
    s = 0
    for i in range(n):
        if i == 4:
            break
        s += i * 2
    else:
        s = s - 1
    return s


@PROGRAMS.on([1.0, 2.0, 3.0], [-1.0, 2.0, -3.0])
def for_over_a_tensor(x):
    s = x[0] * 0
    for row in x:
        if row < 0:
            continue
        s = s + row
    return s


@PROGRAMS.on(list(range(60)), list(range(0, 6000, 100)))
def break_from_a_long_tensor(x):
    s = x[0]
    for row in x:
        s = s + row
        if s > 1000:
            break
    return s, row


@PROGRAMS.on([1.0, 2.0, 3.0], [-1.0, 2.0, -3.0])
def enumerate_zip_and_dicts(x):
    out = []
    for i, (v, w) in enumerate(zip(x, (1, 2, 3), strict=True)):
        out.append(v * w + i)
    total = x[0] * 0
    for key, value in {"a": x[0], "bb": x[1]}.items():
        if value > 0:
            print(key)
            total = total + len(key)
    return out, total


@PROGRAMS.on(5.0, 500.0)
def long_loop_with_a_break(x):
    for i in range(400):
        x = x + 1
        if x > 300 + i:
            break
    return x, i


@PROGRAMS.on(1.0, -1.0)
def long_list_with_a_break(x):
    v = 0.0
    for v in [float(i) for i in range(60)]:
        if x * v > 20:
            break
        x = x + v
    return x, v


@PROGRAMS.on(1.0)
def long_loops_of_constants(x):
    n = 0
    for i in range(400):
        x = x + i
    while n < 2000:
        x = x * 1.0001
        n += 1
    for v in [i * i for i in range(100)]:
        x = x + v
    return x, n


@PROGRAMS.on(1.0)
def numbers_of_a_long_loop_are_constants_afterwards(x):
    n = m = 0
    for i in range(20):
        x = x + 1
        n += 1
        m = m + i
    return ops.ones(n) * x, [1, 2, 3][n % 3], {190: "a"}[m]


@PROGRAMS.on(1.0)
def ten_thousand_body_evaluations_are_avoided(x):
    for _ in range(20):
        for _ in range(20):
            for _ in range(20):
                x = x + 1
    return x


@PROGRAMS.on(1.0)
def in_place_writes_in_a_long_loop(x):
    y = ops.stack([x, x, x])
    for i in range(20):
        y = y * 1
        y[i % 3] = y[0] + i
    return y


@PROGRAMS.on(1.0)
def integers_of_any_size_in_a_long_loop(x):
    n = 1
    for i in range(1, 40):
        n = n * i
    return x, n // 10**30, n % 10**9


PROGRAMS.on(*SIGNS)(assertions.of_a_tensor)
PROGRAMS.on(*SIGNS, 200.0)(assertions.with_a_message_made_when_it_fails)


@pytest.mark.parametrize("fn, args", PROGRAMS)
def test_program(fn, args):
    PROGRAMS.run(fn, args)


# ------------------------------------------------------------------- what no graph can hold


@REFUSALS.on(TypeError, "a list has 2 or 1 items", 1.0)
def list_longer_in_one_arm(x):
    a = [x]
    if x > 0:
        a.append(x * 2)
    return a


@REFUSALS.on(TypeError, "a list has 1 or 0 items", 1.0)
def truth_of_a_list_longer_in_one_arm(x):
    a = []
    if x > 0:
        a.append(x)
    return x + 1 if a else x


@REFUSALS.on(TypeError, "a list has 2 or 1 items", 1.0)
def count_in_a_list_longer_in_one_arm(x):
    a = [1]
    if x > 0:
        a.append(1)
    return x + a.count(1)


@REFUSALS.on(TypeError, "a dict has 1 or 0 items", 1.0)
def key_of_one_arm(x):
    d = {}
    if x > 0:
        d["a"] = 1
    return x + 1 if "a" in d else x


@REFUSALS.on(TypeError, "a set has 1 or 0 items", 1.0)
def length_of_a_set_of_one_arm(x):
    s = set()
    if x > 0:
        s.add(1)
    return x + len(s)


@REFUSALS.on(TypeError, "another order", 1.0)
def order_of_keys(x):
    d = {}
    if x > 0:
        d["a"], d["b"] = 1, 2
    else:
        d["b"], d["a"] = 2, 1
    return list(d)


@REFUSALS.on(AttributeError, "no attribute 'extra' if an arm", 1.0)
def attribute_of_one_arm(x):
    s = Square(x)
    if x > 0:
        s.extra = x
    return s.extra


@REFUSALS.on(TypeError, "whether a Square has the attribute 'extra'", 1.0)
def presence_of_an_attribute(x):
    s = Square(x)
    while x < 10:
        x = x * 2
        s.extra = x
    return x if hasattr(s, "extra") else -x


@REFUSALS.on(TypeError, r"Tensor\[Float32, \(\)\] or float", 1.0)
def float_or_tensor(x):
    s = 0.0
    if x > 0:
        s = x
    return s + 1


@REFUSALS.on(UnboundLocalError, "local variable 'y'", 1.0)
def name_of_one_arm(x):
    if x > 0:
        y = x
    return y


@REFUSALS.on(TypeError, "this Tensor is one of two", 1.0)
def writing_one_of_two_tensors(x):
    y, z = x * 1, x * 2
    w = y if x > 0 else z
    w.add_(1.0)
    return w, y, z


@REFUSALS.on(TypeError, "whether these are the same Tensor", 1.0)
def identity_of_one_of_two_tensors(x):
    y = x * 2
    chosen = x if x > 0 else y
    return chosen is x


@REFUSALS.on(TypeError, "which list 's' is", 1.0)
def list_made_anew_in_a_loop(x):
    s = [x, x + 1]
    while s[0] < 10:
        s = [s[0] + s[1], s[1] * 2]
    return s


@PROGRAMS.on(*SIZES)
def function_made_again_in_each_iteration(x):
    f = g = None
    while x < 50:
        f = lambda v: v + x  # noqa: B023, E731
        g = abs if x > 5 else f
        x = g(x) * 2
    for i in range(40):
        f = (lambda v: v + 1) if x > i else f  # noqa: E731
    return x if f is None else f(x)


@REFUSALS.on(
    TypeError,
    r"Float32, \(2\)\] \(test_control_flow.py:\d+\) or .*Float32, \(3\)\] \(test_control_flow.py:",
    1.0,
)
def shapes_of_two_arms(x):
    if x > 0:
        y = ops.zeros((2,))
    else:
        y = ops.zeros((3,))
    return y


@REFUSALS.on(
    TypeError,
    r"changes 'y' from .*\(4\)\] \(test_con.*\) to .*\(8\)\] \(test_con.*\): keep its",
    1.0,
)
def shape_that_grows_in_a_loop(x):
    y = ops.zeros((2,))
    while x < 10:
        y = ops.concat([y, y])
        x = x + 1
    return y


@REFUSALS.on(TypeError, "which Square 's' is", 1.0)
def object_made_in_a_loop_and_read_after_it(x):
    s = None
    while x < 50:
        s = Square(x)
        x = x + s.volume()
    return s.side


def looped(value, x):
    while x > 0:
        if x > 30:
            return value
        x = x * 2
    raise ValueError("no")


@REFUSALS.on(TypeError, "which list it is", 1.0)
def list_that_a_closure_means_too(x):
    items = None

    def made(x):
        nonlocal items
        items = [x]
        if x > 0:
            if x > 5:
                return items
            x = x + 1
        else:
            if x < -5:
                return items
        return [x]

    made(x)[0] = x * 3
    return items


@REFUSALS.on(TypeError, "returns a list that other names mean too", 1.0)
def list_returned_by_a_loop(x):
    items = [x]
    looped(items, x)[0] = x * 5
    return items


@REFUSALS.on(TypeError, "this Tensor is carried round a loop", 1.0)
def tensor_returned_by_a_loop_and_written(x):
    y = x * 2
    looped(y, x).add_(1.0)
    return y


@REFUSALS.on(TypeError, "may be another one, .* written in place since", 1.0)
def tensor_written_after_a_loop_has_returned_it(x):
    y = x * 2
    z = looped(y, x)
    y.add_(1.0)
    return z


@REFUSALS.on(TypeError, r"what a loop .* returns \(Square\) depends on how often", 1.0)
def object_made_and_returned_by_a_loop(x):
    def square(x):
        while x > 0:
            if x > 30:
                return Square(x)
            x = x * 2
        raise ValueError("no")

    return square(x).side


@REFUSALS.on(TypeError, "the number of items of a list", 1.0)
def list_that_grows_until_a_tensor_says_so(x):
    items = []
    while True:
        items.append(x)
        x = x * 2
        if x > 100:
            break
    return items


@REFUSALS.on(ValueError, "ambiguous", [1.0, 2.0])
def truth_of_two_elements(x):
    return x if x > 0 else -x


@REFUSALS.on(TypeError, "an int that is a dict key", 1.0)
def key_known_at_run_time(x):
    return len({int(x): 1, 1: 2})


@REFUSALS.on(TypeError, "the content of a string that depends on a Tensor", 1.0)
def string_known_at_run_time_compared(x):
    return f"{int(x)}" == "1"


@pytest.mark.parametrize("fn, args, error, match", REFUSALS)
def test_refusal(fn, args, error, match):
    REFUSALS.run(fn, args, error, match)


# -------------------------------------------------------------------------------- gradients


def leaky(x):
    if x > 0:
        return x * x * x
    return x * x * 0.5


def clipped_power(x):
    y = x
    n = 0
    while y < 8 and n < 5:
        y = y * x
        n += 1
    return y


def unrolled_sum(x):
    s = x * 0
    for i in range(1, 30):
        s = s + x / i
        if s > 4:
            break
    return s * s


def piecewise(x):
    y = x
    while True:
        if y > 3:
            return y * x
        if y < -3:
            y = y * 0.5
            continue
        y = y * y + 1


def nested_loops(x):
    s = x * 0
    i = 0
    while i < 3:
        j = 0
        while j < i + x * 0 + 2:
            if s > 10:
                s = s * 0.5 + x
            else:
                s = s + x * x
            j += 1
        i += 1
    return s


def written_in_place(x):
    y = ops.stack([x, x * x, x * 3])
    i = 0
    while y[0] < 20 and i < 4:
        y[i % 3] = y.sum() * 0.5
        i = i + 1
    return y[0] * y[1] + y[2]


POINTS = (1.7, -1.3, 0.4, 2.4)


@pytest.mark.parametrize(
    "fn", [leaky, clipped_power, unrolled_sum, piecewise, nested_loops, written_in_place]
)
@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_gradients_to_second_order(fn, mode):
    def value(function, x):
        return float(function(Tensor(np.float64(x))).asnumpy())

    first, second = ms.grad(fn), ms.grad(ms.grad(fn))
    ms.set_context(mode=mode)
    for x in POINTS:
        h = 1e-5
        slope = (value(fn, x + h) - value(fn, x - h)) / (2 * h)
        assert value(first, x) == pytest.approx(slope, rel=1e-6, abs=1e-6)
        curve = (value(first, x + h) - value(first, x - h)) / (2 * h)
        assert value(second, x) == pytest.approx(curve, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("x", POINTS)
def test_gradient_inside_control_flow(x):
    def fn(x):
        slope = ms.grad(leaky)(x)
        while slope < 10:
            slope = slope + abs(ms.grad(clipped_power)(x)) + 1
        return slope if x > 0 else ms.grad(ms.grad(leaky))(x)

    agree(fn, Tensor(np.float64(x)))


# -------------------------------------------------------------------- what the user sees


@pytest.mark.parametrize("debug", ["0", "1"])
def test_tracebacks_leave_out_the_compiler(monkeypatch, debug):
    monkeypatch.setenv("MINISPORE_DEBUG", debug)
    for fn, x in ((string_known_at_run_time_compared, 1.0), (errors_in_arms, -1.0)):
        with pytest.raises((TypeError, ValueError)) as caught:
            ms.jit(fn)(Tensor(x))
        internal = [f for f in caught.traceback if "minispore" in str(f.path)]
        assert (len(internal) <= 2) is (debug == "0")


def test_a_constant_loop_that_is_kept_runs_as_a_while():
    jitted = ms.jit(long_loops_of_constants)
    assert_same(jitted(Tensor(1.0)), long_loops_of_constants(Tensor(1.0)))
    assert jitted.graph("evaluate").count() < 500

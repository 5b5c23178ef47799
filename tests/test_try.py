"""``try`` and ``with`` inside a graph: what constants raise is handled while compiling."""

import contextlib

import pytest
from differential import Programs, Refusals, agree

import minispore as ms
from minispore import Parameter, Tensor, ops

PROGRAMS = Programs()
REFUSALS = Refusals()
SIGNS = (1.0, -1.0)


@PROGRAMS.on(*SIGNS)
def errors_of_constants(x):
    found = []
    for i in range(7):
        try:
            if i == 0:
                found.append({"a": 1}["b"])
            elif i == 1:
                found.append(1 // 0)
            elif i == 2:
                found.append(int("three"))
            elif i == 3:
                found.append(x.no_such_thing)
            elif i == 4:
                found.append([1, 2][5])
            elif i == 5:
                found.append(ops.concat([x.reshape(1), ops.zeros((2, 2))]))
            else:
                found.append(x)
        except (KeyError, ArithmeticError) as error:
            found.append(type(error).__name__)
        except Exception as error:
            found.append(isinstance(error, (ValueError, AttributeError, IndexError)))
        else:
            found.append("else")
        finally:
            x = x + 1
    return found, x


@PROGRAMS.on(*SIGNS)
def raise_and_effects_before_it(x):
    log = [x]
    try:
        print("before", x)
        log.append(1)
        raise ValueError("no", 3)
    except ValueError as error:
        print("caught", error, error.args)
        return log, str(error)
    finally:
        print("finally")


def failing_below(n):
    if n == 0:
        raise AssertionError(f"depth {n}")
    return failing_below(n - 1)


@PROGRAMS.on(*SIGNS)
def nested(x):
    found = []
    for i in range(4):
        try:
            try:
                failing_below(i)
            except ValueError:
                found.append("no")
            finally:
                found.append(i)
        except AssertionError as error:
            found.append(str(error))
            if i == 1:
                continue
            if i == 2:
                break
            try:
                raise
            except Exception as again:
                found.append(again is error)
    return found, x


@PROGRAMS.on(*SIGNS)
def not_handled(x):
    print("start")
    try:
        return {}["key"]
    except IndexError:
        return x
    finally:
        print("end")


@PROGRAMS.on(*SIGNS)
def error_in_the_handler(x):
    try:
        try:
            raise KeyError("a")
        except KeyError:
            raise ValueError("b") from None
    except ValueError as error:
        return x, str(error)


@PROGRAMS.on(*SIGNS)
def error_in_the_else_block(x):
    try:
        try:
            y = x
        except ZeroDivisionError:
            y = x * 2
        else:
            y = y + 1 // 0
    except ZeroDivisionError:
        y = x * 3
    return y


@PROGRAMS.on(*SIGNS)
def leaving_through_finally(x):
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 2:
                return x * i
        finally:
            x = x + 1
    return x


@PROGRAMS.on(*SIGNS)
def finally_that_returns(x):
    try:
        raise ValueError("lost")
    finally:
        return x  # noqa: B012


@PROGRAMS.on(*SIGNS, 20.0)
def tensors_decide_within(x):
    try:
        if x > 0:
            y = x * 2
        else:
            y = x * 3
        while y < 10:
            y = y * y + 1
            if y > 5:
                break
    except ValueError:
        y = x
    finally:
        x = x + 100
    return x + y


class Silences:
    def __init__(self, kind):
        self.kind, self.seen = kind, None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.seen = None if kind is None else (kind.__name__, str(error))
        return kind is self.kind


@PROGRAMS.on(*SIGNS)
def contexts_see_errors(x):
    with contextlib.suppress(KeyError):
        x = x + 1
        {}["a"]
    with Silences(ValueError) as first:
        raise ValueError("gone")
    try:
        with Silences(ValueError) as second, Silences(IndexError):
            x = x * [1, 2][0]
            raise TypeError("stays")
    except TypeError as error:
        return x, first.seen, second.seen, str(error)


@pytest.mark.parametrize("fn, args", PROGRAMS)
def test_program(fn, args):
    PROGRAMS.run(fn, args)


def test_what_was_written_before_an_error_stays():
    p = Parameter(Tensor(0.0), name="p")

    def writes(x):
        p.add_(x)
        try:
            p.add_(x)
            raise LookupError("here")
        except ZeroDivisionError:
            p.add_(100)

    agree(writes, Tensor(1.0), state=[p])
    with pytest.raises(LookupError, match="here"):
        ms.jit(writes)(Tensor(1.0))
    assert float(p) == 2.0


# ----------------------------------------------------------------------------------- refusals


@REFUSALS.on(RuntimeError, "may fail when the graph runs", 1.0)
def raise_as_a_tensor_decides(x):
    try:
        if x > 0:
            raise ValueError("a")
        y = x
    except ValueError:
        y = x * 2
    return y


@REFUSALS.on(KeyError, "q", 1.0)
def error_where_a_tensor_decides(x):
    try:
        y = {}["q"] if x > 0 else x
    except KeyError:
        y = x
    return y


@REFUSALS.on(TypeError, "can only concatenate", 1.0)
def error_that_may_be_the_graphs(x):
    try:
        return f"{x}" + 1
    except TypeError:
        return x


@REFUSALS.on(RuntimeError, "'finally' would have to run", 1.0)
def finally_after_what_may_fail(x):
    try:
        assert x > 0
    finally:
        print("end")
    return x


@REFUSALS.on(RuntimeError, "an error of run-time values", 1.0)
def error_with_a_tensor(x):
    try:
        raise ValueError(x)
    except ValueError as error:
        return error.args


@REFUSALS.on(RuntimeError, "No active exception", 1.0)
def raise_without_an_error(x):
    raise


@pytest.mark.parametrize("fn, args, error, match", REFUSALS)
def test_refusal(fn, args, error, match):
    REFUSALS.run(fn, args, error, match)

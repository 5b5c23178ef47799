"""Programs that a compiled graph cannot be, one for each message, with what to do about it.

The docstring of a program says what its error means and how the program is changed; the book's page
of messages shows these programs (book/messages.py), and a test runs them.
"""

import collections
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.ops.gradient import bprop_getters
from minispore.primitive import handled_by
from minispore.symbolic import GraphBuilder

X = Tensor([1.0, 2.0])


@dataclass
class Program:
    """A function that raises an error when it is compiled and called on `args`."""

    function: Callable
    error: type[Exception]
    message: str
    args: tuple
    mode: str = "ast"
    described: Any = None  # what the arguments look like
    is_script: bool = False  # it is called as it is, and compiles something itself

    def run(self) -> Any:
        """Compile and call it."""
        if self.is_script:
            return self.function()
        options = {"capture_mode": self.mode, "input_signature": self.described}
        return ms.jit(self.function, **options)(*self.args)


@dataclass
class Chapters(dict):
    """The programs by chapter; see ``on``."""

    current: list[Program] = field(default_factory=list)

    def chapter(self, title: str) -> None:
        """Programs that follow belong to a chapter."""
        self.current = self[title] = []

    def on(
        self, error: type[Exception], message: str, *args: Any, **options: Any
    ) -> Callable[[Callable], Callable]:
        """A decorator: the program's error, a part of its text, its arguments (one Tensor)."""

        def register(function: Callable) -> Callable:
            self.current.append(Program(function, error, message, args or (X,), **options))
            return function

        return register

    def script(self, error: type[Exception], message: str) -> Callable[[Callable], Callable]:
        """A decorator for a program that compiles something itself."""
        return self.on(error, message, is_script=True)


PROGRAMS = Chapters()
on, script = PROGRAMS.on, PROGRAMS.script


# ================================================================== known at run time only
PROGRAMS.chapter("What is known only when the graph runs")


@on(ValueError, "the truth of a Tensor of shape (2,) is ambiguous: use .any() or .all()")
def truth_of_several(x):
    """An `if` needs one truth: `(x > 0).any()` or `(x > 0).all()`."""
    return x if x > 0 else -x


@on(TypeError, "an int that decides types, shapes or Python objects cannot be known")
def a_size(x):
    """Shapes are fixed when a graph is compiled: use a constant, or compute with a mask."""
    return ops.zeros((x.sum().astype(ms.int32).item(), 2))


@on(TypeError, "a key cannot be known when the graph is compiled")
def a_key(x):
    """Keys are constants: use numbers as keys, or an `if` for each."""
    return {"a": x, "b": 1}[x.sum().item()]


@on(TypeError, "the length of a range that depends on a Tensor cannot be known")
def a_list_of_unknown_length(x):
    """Loop over the range with `for`, in place of making a list of it."""
    return list(range(x.sum().astype(ms.int32).item()))


@on(TypeError, "the step of a range cannot be known")
def a_step(x):
    """The step decides which way a loop goes: make it a constant."""
    for i in range(0, 10, x.sum().astype(ms.int32).item()):
        x = x + i
    return x


@on(TypeError, "the length of a comprehension that a Tensor decides cannot be known")
def a_filtered_comprehension(x):
    """Multiply by a mask, or choose with `ops.where`, in place of leaving items out."""
    return sum([v for v in x if v > 1])


@on(TypeError, "which items a filter keeps cannot be known")
def a_filter(x):
    """As for a comprehension: a mask, or `ops.where`."""
    return list(filter(lambda v: v > 1, x))


@on(TypeError, "the order of a list that is sorted by Tensors cannot be known")
def a_sorted_list(x):
    """Sort a Tensor with `ops.sort`, not a list of Tensors."""
    return sorted([x[0], x[1]])


@on(TypeError, "what list.index finds among Tensors cannot be known")
def the_position_in_a_list(x):
    """Compare in a Tensor: `ops.argmax(x == v)`."""
    return [x[0], x[1]].index(x.max())


@on(TypeError, "whether a Both has the attribute 'extra' cannot be known")
def whether_an_attribute_is_there(x):
    """Give the attribute a value in every case, and test the value."""
    box = Both()
    if x.sum() > 0:
        box.extra = x
    return x if hasattr(box, "extra") else -x


class Both:
    pass


@on(TypeError, "the position of an iterator cannot be known")
def an_iterator_in_a_loop(x):
    """Go through the items with `for`, or by an index."""
    items = iter([x, x * 2, x * 3])
    while x.sum() < 100:
        x = x + next(items)
    return x


@on(TypeError, "the number in a string that depends on a Tensor cannot be known")
def a_number_from_text(x):
    """Keep the number itself, beside its text."""
    return x * int(f"{x.sum().item()}")


@on(TypeError, "what str.split gives for a string that depends on a Tensor cannot be known")
def a_method_of_text(x):
    """Only methods that give a string wait for the run; use the parts before they are joined."""
    return f"{x.sum().item()} a".split()


@on(TypeError, "a float that is a dict key, or in a set, cannot be known")
def a_number_as_key(x):
    """Keys are constants: use a list of pairs."""
    return {x.sum().item(): x}


@on(TypeError, "pow() of three numbers cannot be known")
def power_with_a_modulus(x):
    """Write `a ** b % m`."""
    return pow(x.sum().astype(ms.int32).item(), 2, 5)


@on(TypeError, "the truth of a bool cannot be known", mode="trace")
def the_truth_while_tracing(x):
    """Leave out `capture_mode="trace"`: then both arms become part of the graph."""
    return x if x.sum().item() > 0 else -x


@on(TypeError, "only an integer Tensor can be used as an index, not Float32")
def a_float_as_index(x):
    """Cast it: `i.astype(ms.int32)`."""
    return [1, 2][x.sum()]


@on(TypeError, "'float' object cannot be interpreted as an integer")
def a_float_in_a_range(x):
    """`int(...)` of it, or compute with integers."""
    for i in range(x.sum().item()):
        x = x + i
    return x


@on(ValueError, "only a Tensor of one element can become a Python number, not shape (2,)")
def a_number_of_several(x):
    """`x.sum()`, `x[0]` ... first, then `float(...)`."""
    return float(x)


@on(UnboundLocalError, "cannot access local variable 'y': it has no value here")
def a_name_of_one_arm(x):
    """Give the name a value before the `if`."""
    if x.sum() > 0:
        y = x
    return y


# ==================================================================================== sizes
PROGRAMS.chapter("Sizes that vary")


@on(TypeError, "where something is decided by it, cannot be known when the graph is compiled")
def deciding_by_a_size(x):
    """How many items there are is known when the graph runs: compute with a mask instead."""
    return x.split(len(x[x > 0]))


@on(ZeroDivisionError, "division by the size 0", described=Tensor(shape=[None], dtype=ms.float32))
def dividing_by_a_size(x):
    """Python's own error."""
    return x * (7 // (x.shape[0] - 2))


@script(ValueError, "1 inputs are described, but 2 are given")
def another_number_of_inputs():
    """Describe every argument."""
    return described(ROWS)(X, X)


@script(ValueError, "input 'x' is described as 2 values")
def a_tensor_for_a_pair():
    """Call it as it is described."""
    return described((ROWS, ROWS))(X)


@script(TypeError, "input 'x' is described as a Tensor, but is int (3)")
def a_number_for_a_tensor():
    """Call it as it is described."""
    return described(ROWS)(3)


@script(TypeError, "input 'x' is described as Float32, but is Int64")
def a_described_dtype():
    """Cast the argument."""
    return described(ROWS)(Tensor([[1, 2]]))


@script(ValueError, "input 'x' is described with shape (None, 2), but has shape (2,)")
def a_described_shape():
    """Only the sizes that are None may be any."""
    return described(ROWS)(X)


@script(ValueError, "input 'x' is described as 2, but is 3")
def a_described_constant():
    """Call it with this constant, or leave it out of the description."""
    return described(2)(3)


ROWS = Tensor(shape=[None, 2], dtype=ms.float32)


class Described(nn.Cell):
    def construct(self, x, *more):
        return x


def described(*inputs):
    """A Cell that is compiled for inputs like these."""
    net = Described()
    net.set_inputs(*inputs)
    return ms.jit(net)


@script(ValueError, "enable_dynamic: describe an input, as in enable_dynamic(x=Tensor(...))")
def describing_nothing():
    """Name an input, and give a Tensor with None among its sizes."""
    return ms.enable_dynamic()


@script(TypeError, "enable_dynamic: 'x' must be described by Tensors")
def describing_by_a_shape():
    """`Tensor(shape=[None, 3], dtype=ms.float32)`."""
    return ms.enable_dynamic(x=(None, 3))


@script(TypeError, "enable_dynamic: no size of 'x' is None")
def describing_fixed_sizes():
    """Write None for the sizes that vary."""
    return ms.enable_dynamic(x=X)


@script(ValueError, "enable_dynamic: 'z' is no parameter; there are ['a', 'b']")
def describing_an_unknown_parameter():
    """Use the parameter's name."""
    return ms.enable_dynamic(z=ROWS)(two)


@script(TypeError, "mutable: dynamic_len=True is for a tuple or list, not int")
def a_number_of_dynamic_length():
    """Leave it out."""
    return ms.mutable(3, dynamic_len=True)


@script(TypeError, "mutable takes Tensors, numbers, and tuples, lists and dicts of them, not str")
def a_mutable_string():
    """Strings are constants: each has a graph of its own."""
    return ms.mutable("a")


# ========================================================================== arms and loops
PROGRAMS.chapter("Arms and loops that Tensors decide")


@on(TypeError, "cannot be used: its type depends on a Tensor")
def arms_of_different_types(x):
    """Make the arms agree in type, dtype and shape: `x.sum(keepdims=True)`, `.astype(...)`."""
    y = x.sum() if x.sum() > 0 else x
    return y * 2


@on(TypeError, "which list it is depends on a Tensor")
def one_of_two_lists(x):
    """Make a new list of the same size in every arm, or write the items of one."""
    a, b = [x], [x * 2]
    chosen = a if x.sum() > 0 else b
    return chosen[0]


@on(TypeError, "a list has 2 or 1 items depending on a Tensor")
def lists_of_different_sizes(x):
    """Write as many items in every arm: zeros where there is nothing."""
    items = [x]
    if x.sum() > 0:
        items.append(x * 2)
    return items[0]


@on(TypeError, "attribute 'y' is new, and written in one arm only")
def a_new_attribute_in_one_arm(x):
    """Give the object a Tensor of this name before the call."""
    if x.sum() > 0:
        NET.y = x
    return NET.y


@on(TypeError, "this Tensor is one of two, depending on a Tensor")
def writing_one_of_two(x):
    """Write a `.copy()`, or write in each arm."""
    y, z = x * 1, x * 2
    chosen = y if x.sum() > 0 else z
    chosen[0] = 5.0
    return y


@on(TypeError, "this Tensor is carried round a loop that a Tensor decides")
def writing_what_a_loop_carries(x):
    """Write a `.copy()` of it."""
    y = x * 1
    z = y
    while z.sum() < 10:
        z = z * 2
        y, z = z, y
        z[0] = 1.0
    return y


@on(TypeError, "this Tensor may be another one, depending on a Tensor, which has been written")
def reading_one_of_two_after_a_write(x):
    """Give the one that is kept a `.copy()` before the write."""
    y, z = x * 1, x * 2
    chosen = y if x.sum() > 0 else z
    y[0] = 5.0
    return chosen * 1


@on(TypeError, "whether these are the same Tensor is known only when the graph runs")
def the_same_tensor(x):
    """Compare values, not identities; or keep a flag beside the Tensor."""
    y, z = x * 1, x * 2
    chosen = y if x.sum() > 0 else z
    return x if chosen is y else -x


@on(TypeError, "what follows ** is None or dict, depending on a Tensor: make it the same in every")
def a_choice_of_keywords(x):
    """Make it the same in every arm: an empty dict in place of None."""
    more = None if x.sum() > 0 else {"b": x}
    return two(x, **more)


@on(TypeError, "isinstance: whether this is a Parameter depends on a Tensor: copy it first")
def a_parameter_or_not(x):
    """`.copy()` in each arm makes it a Tensor."""
    chosen = NET.w if x.sum() > 0 else x
    return x if isinstance(chosen, Parameter) else -x


@on(RuntimeError, "which Parameter is printed depends on a Tensor: print a .copy() of it")
def printing_one_of_two_parameters(x):
    """Print a `.copy()`."""
    print(NET.w if x.sum() > 0 else OTHER.w)
    return x


@on(TypeError, "whether this Tensor is one that is older than the compiled call depends on a")
def an_attribute_that_may_be_an_argument(x):
    """Give it a `.copy()`."""
    NET.old = x if x.sum() > 0 else x * 2
    return x


@on(TypeError, "whether the attribute 'older' is the Tensor that another one is, too, depends on")
def two_attributes_that_may_be_one_tensor(x):
    """Give one a `.copy()`."""
    y, z = x * 1, x * 2
    NET.old = y
    NET.older = y if x.sum() > 0 else z
    return x


@on(TypeError, "which Parameter 'w' is depends on a Tensor: use set_data")
def one_of_two_parameters_as_attribute(x):
    """`NET.w.set_data(...)`."""
    if x.sum() > 0:
        NET.w = OTHER.w
    return x


@on(TypeError, "a loop that a Tensor decides changes 'x' from Tensor[Float32, (")
def a_loop_that_grows(x):
    """Keep dtype and shape the same in every turn: write into a Tensor of the full size."""
    while x.sum() < 100:
        x = ops.concat([x, x])
    return x


@on(TypeError, "changes the number of items of a list")
def a_list_that_grows_in_a_loop(x):
    """Write into a Tensor at an index, in place of appending."""
    steps = []
    while x.sum() < 100:
        x = x * 2
        steps.append(x)
    return steps


@on(
    TypeError,
    "'old' of Net is a Tensor or not, depending on a Tensor: write a Tensor in every case",
)
def an_attribute_that_is_a_tensor_or_not(x):
    """Write a Tensor in every arm."""
    if x.sum() > 0:
        NET.old = x
    return x


@on(AttributeError, "object has no attribute 'y' if an arm of an if or a loop does not run")
def an_attribute_of_one_arm(x):
    """Give the attribute a value before the `if`."""
    box = Both()
    if x.sum() > 0:
        box.y = x
    else:
        box.z = x
    return box.y


@on(TypeError, "a value that depends on a Tensor is compared inside a container")
def a_choice_in_a_container(x):
    """Take it out of the list, and compare it alone."""
    name = "a" if x.sum() > 0 else None
    return x if [name] == ["a"] else -x


@on(TypeError, "a value that depends on a Tensor cannot be a dict key or in a set")
def a_choice_as_key(x):
    """Use the keys in each arm."""
    name = "a" if x.sum() > 0 else "b"
    return {name: x}


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([1.0, 2.0]), name="w")
        self.fc = nn.Dense(2, 2)
        self.number = 3
        self.old = self.older = None

    def construct(self, x):
        return x * self.w


NET, OTHER = Net(), Net()


# ============================================================================== recursion
PROGRAMS.chapter("Functions that call themselves")


@on(RecursionError, "calls itself on every path: nothing ends the recursion", Tensor(1.0))
def recursion_without_an_end(x):
    """Return something without a call in one arm of an `if`."""
    if x > 0:
        return recursion_without_an_end(x - 1)
    return recursion_without_an_end(x + 1)


@on(RecursionError, "deep while compiling: a recursion must be ended by a constant")
def recursion_on_constants_without_an_end(x, n=0):
    """Something must end it: an `if` on a constant that changes, or on a Tensor."""
    return recursion_on_constants_without_an_end([x], n + 1)


@on(TypeError, "writes a list or dict that it was given: copy it", X, [X])
def recursion_that_writes_its_arguments(x, items):
    """Pass a copy, `list(items)`."""
    if x.sum() > 100:
        return x
    mine = list(items)
    return writes(x, mine)


def writes(x, items):
    if x.sum() > 100:
        return x
    items[0] = x
    return writes(x * 2, items)


@on(TypeError, "returns a list that other names mean too: return a copy of it")
def recursion_that_returns_its_argument(x):
    """Return `list(items)`."""
    return hands_on(x, [x])[0]


def hands_on(x, items):
    return items if x.sum() > 100 else hands_on(x * 2, items)


@on(TypeError, "depends on how often it runs: return Tensors and numbers, or tuples")
def recursion_that_returns_an_object(x):
    """Return Tensors and numbers, or tuples, lists and dicts of them."""
    return boxed(x).x


def boxed(x):
    return Held(x) if x.sum() > 100 else boxed(x * 2)


class Held:
    def __init__(self, x):
        self.x = x


@on(TypeError, "changes 'x' from")
def recursion_that_changes_a_type(x):
    """Keep the type of what is written the same in every call."""
    box = Held(x)
    widens(x, box)
    return x


def widens(x, box):
    if x.sum() > 100:
        return x
    box.x = ops.concat([box.x, x])
    return widens(x * 2, box)


@on(RecursionError, "its gradient would contain its own gradient")
def recursion_of_a_gradient(x):
    """Take the gradient outside of the function that calls itself."""

    def f(x):
        if x.sum() > 20:
            return x
        return f(f(x * 3) + ms.grad(f)(x * 2))

    return f(x)


# ================================================================== what is older than the call
PROGRAMS.chapter("What is older than the call")


NUMBERS = [1, 2]
TOTAL = 0


@on(TypeError, "'NUMBERS' is older than the compiled call, so the graph cannot change it")
def changing_a_global_list(x):
    """Copy it first, or return the new value."""
    NUMBERS.append(3)
    return x


@on(RuntimeError, "the global 'TOTAL' cannot be written in a compiled graph")
def writing_a_global(x):
    """Return the value, and assign it outside."""
    global TOTAL
    TOTAL = x
    return x


def counter():
    count = 0

    def step(x):
        """Return the value."""
        nonlocal count
        count += 1
        return x

    return step


on(RuntimeError, "'count' belongs to a function outside the graph: return the value instead")(
    counter()
)


@on(TypeError, "'number' of Net is older than the compiled call, so the graph can write only a")
def writing_a_number_to_an_object(x):
    """Make it a Parameter, or return the value."""
    NET.number = 4
    return x


@on(TypeError, "'name' of Parameter w cannot be written in a compiled graph: write it outside")
def renaming_a_parameter(x):
    """Write it outside; the next call sees it."""
    NET.w.name = "v"
    return x * NET.w


@on(RuntimeError, "an attribute cannot be deleted in a compiled graph")
def deleting_an_attribute(x):
    """Set it to None."""
    del NET.number
    return x


QUEUE = collections.deque([1])


@on(RuntimeError, "'QUEUE' is a deque, whose content may change without notice")
def a_container_written_in_c(x):
    """Pass its items in a list, or as a Tensor."""
    return x * QUEUE[0]


CIRCLE: list = []
CIRCLE.append(CIRCLE)


@on(RuntimeError, "'CIRCLE[0]' contains itself, which no compiled graph can follow")
def a_list_in_itself(x):
    """Pass what is needed of it."""
    return x * len(CIRCLE)


@on(NameError, "name 'nowhere' is not defined")
def an_unknown_name(x):
    """Python's own error."""
    return x * nowhere  # noqa: F821


def unset_closure():
    def read(x):
        """Give the variable a value before the function is called."""
        return x * later

    if read is None:
        later = 3
    return read


on(NameError, "free variable 'later' has no value yet")(unset_closure())


# ==================================================================================== syntax
PROGRAMS.chapter("Syntax")


@on(RuntimeError, "'yield' cannot be part of a compiled graph: return a list")
def a_generator(x):
    """Return a list."""
    yield x


@on(RuntimeError, "'import' cannot be part of a compiled graph: import the module at the top")
def an_import(x):
    """Import at the top of the file."""
    import math

    return x * math.pi


@on(RuntimeError, "'class' cannot be part of a compiled graph: define the class outside")
def a_class(x):
    """Define the class outside."""

    class Inner:
        pass

    return x


@on(TypeError, "complex numbers cannot be part of a compiled graph")
def a_complex_number(x):
    """Compute with real and imaginary parts."""
    return x * 1j


@on(RuntimeError, "No active exception to reraise")
def raising_again(x):
    """`raise` without an exception belongs into an `except`."""
    if x.sum() > 0:
        raise
    return x


@on(TypeError, "exceptions must derive from BaseException")
def raising_what_is_no_exception(x):
    """Python's own error."""
    raise "text"  # noqa: B016


@on(RuntimeError, "what may fail when the graph runs cannot be handled there")
def handling_what_fails_at_run_time(x):
    """Test the condition with `if`, or put `try` around the call of the compiled function."""
    try:
        return x[x.sum().astype(ms.int32)]
    except IndexError:
        return x


@on(RuntimeError, "'finally' would have to run if the graph fails")
def finally_around_what_fails(x):
    """Put `try` around the call of the compiled function."""
    try:
        y = x[x.sum().astype(ms.int32)]
    finally:
        x[0] = 1.0
    return y


@on(RuntimeError, "an error of run-time values cannot be handled in a graph")
def handling_an_error_with_values(x):
    """Raise the error with constants, or outside of the `try`."""
    try:
        raise ValueError(x)
    except ValueError:
        return x


class Guard:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        print("left")


@on(RuntimeError, "__exit__ of Guard would have to run if the body of 'with' fails")
def a_context_manager_around_what_fails(x):
    """Use it around the call of the compiled function."""
    with Guard():
        return x[x.sum().astype(ms.int32)]


@on(TypeError, "'Tensor[Float32, (2)]' object does not support the context manager protocol")
def with_of_no_context_manager(x):
    """Python's own error."""
    with x:
        return x


@dataclass
class Point:
    a: Any
    b: Any


@on(TypeError, "Point() accepts 2 positional sub-patterns (3 given)")
def a_pattern_of_too_many_parts(x):
    """Python's own error."""
    match Point(x, x):
        case Point(a, b, c):
            return a + b + c
    return x


# ==================================================================================== calls
PROGRAMS.chapter("Calls")


@on(RuntimeError, "'time.time' has no Python source and may have hidden state")
def a_function_written_in_c(x):
    """Call it outside, and pass its result in."""
    return x * time.time()


@on(RuntimeError, "needs values that are known only at run time: use the function of minispore.ops")
def a_function_of_numpy(x):
    """Use the function of `minispore.ops`."""
    return np.sin(x)


@on(RuntimeError, "'open' cannot be part of a compiled graph: call it outside")
def a_builtin_that_acts(x):
    """Call it outside."""
    open("file")
    return x


@on(RuntimeError, "'set_context' acts on the program, not on Tensors")
def a_setting(x):
    """Call it outside."""
    ms.set_context(mode=ms.GRAPH_MODE)
    return x


@on(RuntimeError, "print to a file cannot be part of a compiled graph")
def printing_to_a_file(x):
    """Return what is to be written."""
    print(x, file=OUT)
    return x


OUT = object()


@on(TypeError, "'seperator' is an invalid keyword argument for print()")
def a_wrong_keyword_of_print(x):
    """Python's own error."""
    print(x, seperator=",")
    return x


@on(TypeError, "sep must be None or a string, not int")
def a_separator_that_is_no_string(x):
    """Python's own error."""
    print(x, sep=3)
    return x


@on(RuntimeError, "a set that holds Tensors cannot be printed")
def printing_a_set(x):
    """Print a list of its items."""
    print({x})
    return x


@on(RuntimeError, "an endless iterator (count) cannot be part of a compiled graph")
def an_endless_iterator(x):
    """Count with a `while`, or with `range`."""
    for i in itertools.count():
        x = x + i
    return x


@on(RuntimeError, "a deque cannot be part of a compiled graph: use a list, dict or set")
def a_deque(x):
    """Use a list."""
    return collections.deque([x])[0]


@on(RuntimeError, "a generator or iterator of one's own cannot be part of a compiled graph")
def an_iterator_of_ones_own(x):
    """Use a list."""
    for y in Countdown():
        x = x + y
    return x


class Countdown:
    def __init__(self):
        self.n = 3

    def __iter__(self):
        return self

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n


@on(TypeError, "'int' object is not callable")
def calling_a_number(x):
    """Python's own error."""
    number = 3
    return number(x)


@on(TypeError, "list.append needs a 'list' first")
def a_method_without_its_object(x):
    """Call it on an object: `items.append(x)`."""
    return list.append(x)


def two(a, b):
    return a + b


@on(TypeError, "two() takes 2 positional arguments but 3 were given")
def too_many_arguments(x):
    """Python's own error."""
    return two(x, x, x)


@on(TypeError, "two() is missing required argument(s): 'b'")
def too_few_arguments(x):
    """Python's own error."""
    return two(x)


@on(TypeError, "two() got multiple values for argument 'a'")
def an_argument_twice(x):
    """Python's own error."""
    return two(x, a=x)


@on(TypeError, "got multiple values for keyword argument 'b'")
def a_keyword_twice(x):
    """Python's own error."""
    return two(x, b=x, **{"b": x})


@on(TypeError, "two() got an unexpected keyword argument 'c'")
def an_unknown_keyword(x):
    """Python's own error."""
    return two(x, x, c=x)


@on(TypeError, "'int' object is not a mapping")
def spreading_a_number(x):
    """Python's own error."""
    return two(x, **3)


# ======================================================================= values and containers
PROGRAMS.chapter("Values and containers")


@on(TypeError, "cannot unpack non-iterable int object")
def unpacking_a_number(x):
    """Python's own error."""
    a, b = 3
    return x


@on(ValueError, "too many values to unpack (expected 1)")
def too_many_values(x):
    """Python's own error."""
    (a,) = x
    return a


@on(ValueError, "not enough values to unpack (expected 3, got 2)")
def too_few_values(x):
    """Python's own error."""
    a, b, c = x
    return a


@on(ValueError, "not enough values to unpack (expected at least 3, got 2)")
def too_few_values_for_a_star(x):
    """Python's own error."""
    a, b, c, *rest = x
    return a


@on(TypeError, "'list' object is not an iterator")
def next_of_a_list(x):
    """Python's own error: `next(iter(items))`."""
    return next([x])


@on(TypeError, "'set' object is not reversible")
def a_reversed_set(x):
    """Python's own error."""
    return [x * k for k in reversed({1, 2})]


@on(ValueError, "zip() argument 2 is shorter than argument 1")
def a_strict_zip(x):
    """Python's own error."""
    return [a + b for a, b in zip([x, x], [x], strict=True)]


@on(ValueError, "list.remove(x): x not in list")
def removing_what_is_not_there(x):
    """Python's own error."""
    items = [1, 2]
    items.remove(3)
    return x


@on(ValueError, "is not in list")
def the_index_of_what_is_not_there(x):
    """Python's own error."""
    return x * [1, 2].index(3)


@on(RuntimeError, "dictionary changed size during iteration")
def a_dict_that_grows_while_it_is_read(x):
    """Python's own error: iterate over `list(table)`."""
    table = {"a": x}
    for key in table:
        table[key + "b"] = x
    return x


@on(RuntimeError, "the items of a ndarray cannot be written in a compiled graph")
def writing_into_another_container(x):
    """Use a list, dict or Tensor."""
    data = np.zeros(3)
    data[0] = 3
    return x


@on(AttributeError, "'str' object has no attribute 'shout'")
def an_unknown_method_of_text(x):
    """Python's own error."""
    return f"{x.sum().item()}".shout()


@on(RuntimeError, "an object whose class says how it is printed cannot be formatted by % or")
def formatting_an_object(x):
    """Use an f-string."""
    return "%s %s" % (x.sum().item(), Printed())  # noqa: UP031


class Printed:
    def __str__(self):
        return "printed"


@on(RuntimeError, "the text of a Loud that is not raised")
def the_text_of_an_exception(x):
    """Print what it is made of."""
    print(Loud(x))
    return x


class Loud(ValueError):
    def __str__(self):
        return "loud"


@on(OverflowError, "does not fit the 64-bit ints of a graph; use float or a constant")
def an_int_beyond_64_bits(x):
    """Use a float."""
    return x.sum().astype(ms.int32).item() * 2**62


@on(ValueError, "is complex; a graph has real numbers only")
def a_complex_power(x):
    """Take the power of its absolute value, or of a Tensor, which gives nan."""
    return (-x.sum().item()) ** 0.5


@on(ValueError, "int ** negative int that is known only at run time: make one a float")
def a_negative_power(x):
    """`2.0 ** n`."""
    return 2 ** -x.sum().astype(ms.int32).item()


@on(TypeError, "bad operand type for unary ~: 'float'")
def inverting_a_float(x):
    """Python's own error."""
    return ~x.sum().item()


# ================================================================================== classes
PROGRAMS.chapter("Objects and Cells")


class Plain:
    pass


class Made:
    def __new__(cls, *args):
        return object.__new__(cls)


class Writable:
    def _set(self, value):
        self.kept = value

    only = property(None, _set)
    fixed = property(lambda self: 3)


@on(RuntimeError, "super(): __class__ cell not found")
def super_outside_a_class(x):
    """Python's own error."""
    return super().construct(x)


@on(TypeError, "Plain() takes no arguments")
def arguments_for_a_class_without_init(x):
    """Python's own error."""
    return Plain(x)


@on(RuntimeError, "objects of class 'Made' cannot be made in a graph")
def a_class_with_new(x):
    """Make it outside, or leave out `__new__`."""
    Made()
    return x


@on(AttributeError, "property 'only' of 'Writable' cannot be read")
def reading_a_property_without_getter(x):
    """Python's own error."""
    return x * Writable().only


@on(AttributeError, "property 'fixed' of 'Writable' has no setter")
def writing_a_property_without_setter(x):
    """Python's own error."""
    box = Writable()
    box.fixed = x
    return x


@on(TypeError, "__bool__ should return a Python number, returned Tensor")
def a_truth_that_is_a_tensor(x):
    """Return `bool(...)`, or a number."""
    return x if Truthful(x) else -x


class Truthful:
    def __init__(self, x):
        self.x = x

    def __bool__(self):
        return self.x.sum() > 0


@on(RuntimeError, "Failure takes run-time values by position only")
def an_exception_with_keywords(x):
    """Pass them by position."""
    if x.sum() > 0:
        raise Failure(value=x)
    return x


class Failure(Exception):
    def __init__(self, value=None):
        super().__init__(value)


@on(RuntimeError, "a Parameter cannot be part of an error in a compiled graph: use its value()")
def an_error_with_a_parameter(x):
    """`w.value()`."""
    if x.sum() > 0:
        raise ValueError(NET.w)
    return x


@on(RuntimeError, "a Parameter, or a Tensor with an initializer, would be made only once")
def making_a_parameter(x):
    """Make it outside: in `__init__` of a Cell."""
    return x * Parameter(Tensor([1.0, 2.0]), name="v")


@on(RuntimeError, "a Dense cannot be made where a Tensor decides whether or how often")
def making_a_cell_in_an_arm(x):
    """Make it before the `if`."""
    if x.sum() > 0:
        return nn.Dense(2, 2)(x.reshape(1, 2))
    return x.reshape(1, 2)


@on(RuntimeError, "Dense(...) in a compiled function takes constants")
def making_a_cell_of_tensors(x):
    """Its arguments are constants; a Tensor can be given to its `construct`."""
    return nn.Dense(2, 2, weight_init=x)(x.reshape(1, 2))


HOOKED = nn.ReLU()
HOOKED.register_backward_hook(lambda cell, inputs, outputs: None)


@on(RuntimeError, "the backward hooks of ReLU are called in PyNative mode only")
def a_cell_with_backward_hooks(x):
    """Remove the hooks, or define the Cell's gradient with `bprop`."""
    return HOOKED(x)


# ================================================================================ gradients
PROGRAMS.chapter("Gradients")


class Printing(nn.Cell):
    def construct(self, x):
        return x * 2

    def bprop(self, x, out, dout):
        print("backward")
        return (dout,)


PRINTING = Printing()


@on(RuntimeError, "Printing.bprop must not write or print anything")
def a_bprop_that_prints(x):
    """A gradient is computed when it is needed, and may be left out: return it only."""
    return ms.grad(PRINTING)(x)


@on(RuntimeError, "an argument of the differentiated function is written in place; copy it first")
def writing_what_is_differentiated(x):
    """`x = x * 1` first."""

    def inner(x):
        x[0] = 1.0
        return x.sum()

    return ms.grad(inner)(x)


@on(TypeError, "which Parameter to differentiate by depends on a Tensor: choose outside")
def a_chosen_weight(x):
    """Choose outside, or take the gradients of both."""
    weight = NET.w if x.sum() > 0 else OTHER.w
    return ms.grad(lambda: (weight * x).sum(), None, weight)()


@script(RuntimeError, "a gradient rule must not use Tensors other than its arguments")
def a_rule_that_captures():
    """Pass what it needs as an input of the primitive."""
    scale = Tensor([2.0])

    @bprop_getters.register(ops.Atanh)
    def get(prim):
        return lambda x, out, dout: (dout * scale,)

    try:
        return ms.jit(ms.grad(ops.atanh))(Tensor([0.5]))
    finally:
        bprop_getters.unregister(ops.Atanh)


@script(RuntimeError, "a GradFunction cannot be called inside a compiled function where no program")
def a_gradient_in_a_rule_of_a_pass():
    """Rules of passes are written in ops: take the gradient in the program."""
    with handled_by(GraphBuilder()):
        return ms.grad(ops.sin)(X)


# ================================================================================== results
PROGRAMS.chapter("Results")


@on(RuntimeError, "a compiled function cannot return a function: return what it computes")
def returning_a_function(x):
    """Return what it computes."""
    return lambda: x


@on(RuntimeError, "a compiled function cannot return an object of type Held")
def returning_an_object(x):
    """Return its Tensors and numbers, in a tuple, list or dict."""
    return Held(x)


@script(RuntimeError, "f has not been compiled yet: call it first")
def a_graph_before_the_first_call():
    """Call the function, or `f.compile(x)`."""
    f = ms.jit(lambda x: x)
    f.__name__ = "f"
    return f.graph()


@script(ValueError, "there is no stage 'optimised'; there are evaluate, grad, ")
def an_unknown_stage():
    """`f.stages` lists the names."""
    return ms.explain(lambda x: x * 2, X).graph("optimised")


# ================================================================================== source
PROGRAMS.chapter("Source")


@script(
    OSError, "cannot be found: a graph is compiled from source, so define the function in a file"
)
def a_function_without_source():
    """Define it in a file or a notebook cell; or compile it with `capture_mode="trace"`."""
    scope: dict = {}
    exec("def f(x):\n    return x", scope)
    return ms.jit(scope["f"])(X)


@script(OSError, "was the file changed after it was imported?")
def a_changed_file():
    """Import the file again."""
    code = (lambda x: x).__code__.replace(co_firstlineno=1, co_name="gone")
    return ms.jit(type(a_changed_file)(code, globals()))(X)


# ================================================================================== options
PROGRAMS.chapter("Options and marks")


@script(ValueError, "jit's jit_level must be one of 'O0', 'O1', 'O2', not 'O9'")
def a_wrong_level():
    """Choose one of the list."""
    return ms.jit(lambda x: x, jit_level="O9")


@script(ValueError, "jit has no option 'level'; it knows capture_mode, jit_level")
def an_unknown_option():
    """See the list of options."""
    return ms.jit(lambda x: x, level="O1")


@script(TypeError, "jit's dynamic must be an int, not bool")
def a_wrong_dynamic():
    """0 or 1."""
    return ms.jit(lambda x: x, dynamic=True)


@script(TypeError, "jit's fullgraph must be a bool, not int")
def a_wrong_fullgraph():
    """True or False."""
    return ms.jit(lambda x: x, fullgraph=1)


@script(TypeError, "jit's input_signature must be a Tensor, or (nested) tuples of them, not int")
def a_wrong_signature():
    """Give Tensors that look like the arguments."""
    return ms.jit(lambda x: x, input_signature=(3,))


@script(TypeError, "signed has an input_signature, so it takes arguments by position only")
def keywords_with_a_signature():
    """Leave out the keyword."""
    return SIGNED(x=X)


@script(TypeError, "signed takes 1 Tensors (input_signature), not 2")
def another_number_of_tensors():
    """Call it as the signature says."""
    return SIGNED(X, X)


@script(TypeError, "Tensor 1 given to signed is Int64, but its input_signature says Float32")
def another_dtype():
    """Cast the argument."""
    return SIGNED(Tensor([1, 2]))


@script(ValueError, "Tensor 1 given to signed has shape (1,), but its input_signature says (2,)")
def another_shape():
    """Pad the argument, or leave out the signature."""
    return SIGNED(Tensor([1.0]))


@ms.jit(input_signature=X)
def signed(x):
    return x


SIGNED = signed


@script(TypeError, "jit_class decorates a class, not function")
def a_mark_on_a_function():
    """It is for classes."""
    return ms.jit_class(two)


@script(TypeError, "jit_class is for classes of one's own; Net is a Cell")
def a_mark_on_a_cell():
    """Cells need no mark."""
    return ms.jit_class(Net)


@script(TypeError, "constexpr decorates a function, not int")
def a_constant_that_is_no_function():
    """It is for functions."""
    return ms.constexpr(3)


@ms.constexpr
def size(shape):
    return shape[0]


@ms.constexpr
def function_of(n):
    return lambda x: x * n


@ms.constexpr
def grow(items):
    items.append(1)


@on(TypeError, "'size' is a constexpr, computed while compiling: it takes constants")
def a_constexpr_of_a_tensor(x):
    """Pass what is constant of it: `size(x.shape)`."""
    return x * size(x)


@on(RuntimeError, "'function_of' is a constexpr, so it must return numbers, strings or Tensors")
def a_constexpr_that_returns_a_function(x):
    """Return what the function computes."""
    return function_of(3)(x)


@on(RuntimeError, "'grow' is a constexpr, so it must not change its arguments")
def a_constexpr_that_writes(x):
    """Return a new list."""
    items = [0]
    grow(items)
    return x


@script(ValueError, "lazy_inline decorates the __init__ of a Cell, not two")
def lazy_inline_on_a_function():
    """It is for `__init__`."""
    return ms.lazy_inline(two)


@script(ValueError, "lazy_inline: policy must be None or 'front', not 'back'")
def a_wrong_policy():
    """None or "front"."""
    return ms.lazy_inline(policy="back")


@script(ValueError, "lazy_inline: attrs must be a list or a str, not int")
def wrong_attrs():
    """Names of attributes."""
    return ms.lazy_inline(attrs=3)


# ================================================================================== tracing
PROGRAMS.chapter('Under capture_mode="trace"')


@on(
    RuntimeError,
    "'try' cannot be traced: it could hide that a Tensor has no value yet",
    mode="trace",
)
def try_while_tracing(x):
    """Leave out `capture_mode="trace"`."""
    try:
        return x * 2
    except ValueError:
        return x


@on(RuntimeError, "'time.time' would be called only while tracing", mode="trace")
def a_function_in_c_while_tracing(x):
    """Call it outside, and pass its result in."""
    return x * time.time()


@on(
    RuntimeError,
    "random numbers of Python or NumPy would be drawn only while tracing",
    mode="trace",
)
def random_numbers_while_tracing(x):
    """Use `ops.rand` and its kin, or draw outside."""
    return x * np.random.rand()  # noqa: NPY002


@on(
    RuntimeError,
    "'NUMBERS' is older than the compiled call and would be written only",
    mode="trace",
)
def writing_a_list_while_tracing(x):
    """Return the new value."""
    NUMBERS.append(3)
    return x


@on(RuntimeError, "'print' in 'printing_while_tracing' would act only while tracing", mode="trace")
def printing_while_tracing(x):
    """Leave out `capture_mode="trace"`: then `print` is part of the graph."""
    print(x)
    return x


# Messages that no program shows, and why.
UNSHOWN = {
    "an index cannot be known": "a loop that needs it is unrolled",
    "changes the type of a Tensor": "a write keeps dtype and shape",
    "changes attribute '": "the first turn of the loop is taken out of it",
    "a starred expression cannot stand here": "Python's parser says so before",
    "'{type(target).__name__}' cannot be assigned to": "Python's parser says so before",
    "a {type(obj).__name__} older than the compiled call is written": "another message comes first",
    "the types of what {self.carry.what} writes do not settle": "its types are refused first",
    "a value made inside a loop that runs in the graph": "carried, or refused where it is written",
    "a value made inside a function that calls itself": "carried, or refused where it is written",
    "the type of what {self.name} returns does not settle": "arms of two types are refused first",
    "several lambdas like this stand in line": "Python 3.12 only",
    "there is no item {index}": "a check before it says that the index is out of range",
    "a Parameter cannot be made in a compiled function": "making it has been refused before",
    "{type(value).__name__} is no value of the graph": "ops check their arguments",
    "the size {symbol} outside of the arm or loop where it is born": "such a value cannot leave it",
    "a gradient of higher order needs zeros in a loop": "sizes that are born, third order",
}

"""The text of values: attributes, types, constants, structures; written and read back.

    1   -0.0   nan   True   None   'text'   (1, 2)   [1]      as in Python
    Float32   Tensor[Float32, (2, 3)]   Scalar[float]          dtypes and abstracts
    int   ValueError                                           builtin types and exceptions
    2*n1 + 1   div(m1, 2)   max(m1 - 1, 0)                     sizes known at run time (dims.py)
    tree((*0, 'text', {'a': *1}))                              a structure: *n is leaf number n
    tree(Text('loss ', Formatted(*0, -1, '.3f')))              that of an f-string
    Tensor[Float32, (2)]([1.0, -0.0])                          a constant Tensor
    Tensor[Float32, (64, 10)](bytes 'AAAA...')                 a large one, exactly, as base64
    Tensor[Float32, (64, 10)](... 640 values, sha256 3fa9c1d2) a large one, summarised
    token   stack                                              the first Token, the empty Stack
    <module.name>                                              what has no text form

The last one and the summary are for readers only; ``parse`` refuses them.
"""

from __future__ import annotations

import ast
import base64
import builtins
import hashlib
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from minispore import dtype as dt
from minispore import tree
from minispore.abstract import STACK, TOKEN, Abstract, AbstractScalar, AbstractTensor, AbstractTuple
from minispore.dims import Dim, divided, larger
from minispore.dtype import BY_TEXT, DType

INLINE_VALUES = 16  # larger arrays are summarised, or given as bytes
KINDS: dict[str, type] = {"bool": bool, "int": int, "float": float}
CONSTANTS = {"True": True, "False": False, "None": None, "...": ...}
TREES: dict[str, type] = {"Text": tree.Text, "Formatted": tree.Formatted, "Method": tree.Method}
FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class ParseError(ValueError):
    """Text that is no graph: the line, a caret under the place, and what was expected."""


# ------------------------------------------------------------------------------------ writing


def write_attribute(value: Any) -> str:
    """The text of a primitive's attribute."""
    if isinstance(value, (tuple, list)):
        items = ", ".join(map(write_attribute, value))
        return f"[{items}]" if isinstance(value, list) else _tuple_text(items, len(value))
    if type(value) in (bool, int, float, str, bytes, type(None)):
        return repr(value)
    if value is ...:
        return "..."
    if type(value) is complex:
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, DType):
        return str(value)
    if isinstance(value, AbstractScalar):
        return f"Scalar[{value}]"
    if isinstance(value, (Abstract, Dim)):
        return str(value)
    if isinstance(value, (tree.Leaf, tree.Constant, tree.Container)):
        return f"tree({_write_tree(value)})"
    name = getattr(value, "__name__", "")
    if isinstance(value, type) and vars(builtins).get(name) is value:
        return name
    known = value if hasattr(value, "__qualname__") else type(value)
    return f"<{known.__module__}.{known.__qualname__}>"


def _tuple_text(items: str, length: int) -> str:
    return f"({items},)" if length == 1 else f"({items})"


def _write_tree(structure: tree.Structure) -> str:
    if isinstance(structure, tree.Leaf):
        return f"*{structure.index}"
    if isinstance(structure, tree.Constant):
        return write_attribute(structure.value)
    items = [_write_tree(item) for item in structure.items]
    if structure.kind is dict:
        keys = [write_attribute(k.value) for k in structure.keys]
        return "{" + ", ".join(f"{k}: {v}" for k, v in zip(keys, items, strict=True)) + "}"
    if structure.kind is list:
        return f"[{', '.join(items)}]"
    for name, kind in TREES.items():
        if structure.kind is kind:
            return f"{name}({', '.join(items)})"
    text = _tuple_text(", ".join(items), len(items))
    return text if structure.kind is tuple else write_attribute(structure.kind) + text


def write_constant(value: Any, abstract: Abstract, full: bool) -> str:
    """The text of a constant node."""
    if isinstance(abstract, AbstractTensor):
        return f"{abstract}({_array_text(value, abstract.dtype, full)})"
    if isinstance(abstract, AbstractScalar):
        return repr(value)
    return "token" if abstract == TOKEN else "stack"


def _array_text(array: np.ndarray, dtype: DType, full: bool) -> str:
    if array.size <= INLINE_VALUES:
        numbers = [_number_text(v, dtype) for v in array.reshape(-1)]
        if _array_of(numbers, dtype, array.shape).tobytes() == array.tobytes():
            return _nested(np.array(numbers, object).reshape(array.shape))
    elif not full:
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:8]
        return f"... {array.size} values, sha256 {digest}"
    return f"bytes '{base64.b64encode(array.tobytes()).decode()}'"  # also for a nan with a payload


def _number_text(value: Any, dtype: DType) -> str:
    return str(value.astype(np.float32) if dtype is dt.bfloat16 else value)


def _nested(numbers: np.ndarray) -> str:
    if numbers.ndim == 0:
        return str(numbers[()])
    return f"[{', '.join(map(_nested, map(np.asarray, numbers)))}]"


def _array_of(numbers: list[str], dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    kind = {"float": float, "bool": lambda text: text == "True"}.get(dtype.kind, int)
    return np.array([kind(n) for n in numbers], dtype.numpy).reshape(shape)


# ------------------------------------------------------------------------------------ reading

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>\#[^\n]*)
      | (?P<string>b?'(?:[^'\\\n]|\\.)*' | b?"(?:[^"\\\n]|\\.)*")
      | (?P<word>[%@]?(?:\.\.\.|[^\s()\[\]{},:=<>#*'"%@]+))
      | (?P<mark>[()\[\]{},:=<>*%@])""",
    re.VERBOSE,
)


class Scanner:
    """The tokens of a text, one at a time; comments are kept apart, by line."""

    def __init__(self, text: str):
        self.text = text
        self.tokens: list[tuple[str, str, int, int]] = []  # kind, text, offset, line
        self.comments: dict[int, str] = {}  # line number -> the comment that ends it
        offset, line = 0, 1
        while offset < len(text):
            match = _TOKEN.match(text, offset)
            if match is None:  # only a quote can be wrong here
                self.error("a closing quote", offset)
            kind = match.lastgroup or ""
            if kind == "comment":
                self.comments[line] = match.group()
            elif kind != "space":
                self.tokens.append((kind, match.group(), offset, line))
            line += match.group().count("\n")
            offset = match.end()
        self.tokens.append(("end", "", len(text), line))
        self.position = 0

    @property
    def next(self) -> str:
        return self.tokens[self.position][1]

    @property
    def after_next(self) -> str:
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)][1]

    @property
    def kind(self) -> str:
        return self.tokens[self.position][0]

    @property
    def offset(self) -> int:
        """Where the next token begins."""
        return self.tokens[self.position][2]

    @property
    def line(self) -> int:
        """The line of the last token taken."""
        return self.tokens[self.position - 1][3]

    def take(self) -> str:
        """The next token; moves on."""
        text = self.next
        if self.kind != "end":
            self.position += 1
        return text

    def found(self, text: str) -> bool:
        """True, and moves on, if the next token is `text`."""
        if self.next != text or self.kind == "string":
            return False
        self.position += 1
        return True

    def expect(self, text: str) -> None:
        if not self.found(text):
            self.error(f"'{text}'")

    def within(self, brackets: str, read: Callable[[Scanner], Any]) -> Any:
        """What `read` reads between two brackets."""
        self.expect(brackets[0])
        found = read(self)
        self.expect(brackets[1])
        return found

    def word(self, what: str) -> str:
        if self.kind != "word":
            self.error(what)
        return self.take()

    def string(self, what: str) -> Any:
        if self.kind != "string":
            self.error(what)
        return ast.literal_eval(self.take())

    def integer(self, what: str) -> int:
        if not re.fullmatch(r"-?\d+", self.next):
            self.error(what)
        return int(self.take())

    def error(self, expected: str, offset: int | None = None) -> NoReturn:
        """ParseError at the next token (or at an offset)."""
        if offset is None:
            offset = self.offset
        start = self.text.rfind("\n", 0, offset) + 1
        line = self.text[start:].split("\n", 1)[0]
        number = self.text.count("\n", 0, offset) + 1
        caret = " " * (offset - start) + "^"
        raise ParseError(f"line {number}: expected {expected}\n    {line}\n    {caret}")


def read_list(scanner: Scanner, close: str, item: Callable[[], Any]) -> list:
    """Items separated by commas, up to and including `close`; a trailing comma is allowed."""
    items = []
    while not scanner.found(close):
        items.append(item())
        if not scanner.found(","):
            scanner.expect(close)
            break
    return items


def read_attribute(scanner: Scanner) -> Any:
    """Reads what ``write_attribute`` writes."""
    if scanner.kind == "string":
        return ast.literal_eval(scanner.take())
    if scanner.found("("):
        return tuple(read_list(scanner, ")", lambda: read_attribute(scanner)))
    if scanner.found("["):
        return read_list(scanner, "]", lambda: read_attribute(scanner))
    if scanner.next in ("Tensor", "Tuple", "Scalar", "Token", "Stack"):
        return read_abstract(scanner)
    if scanner.found("tree"):
        return scanner.within("()", _read_tree)
    if scanner.found("complex"):
        if not scanner.found("("):
            return complex
        real, imaginary = read_list(scanner, ")", lambda: read_number(scanner))
        return complex(real, imaginary)
    name = scanner.next
    if name in BY_TEXT:
        return BY_TEXT[scanner.take()]
    if name in CONSTANTS:
        return CONSTANTS[scanner.take()]
    if _SIZE.fullmatch(name) or (name.lstrip("-").isdigit() and scanner.after_next == "*"):
        return read_size(scanner)
    if isinstance(vars(builtins).get(name), type):
        return vars(builtins)[scanner.take()]
    return read_number(scanner)


def _read_tree(scanner: Scanner) -> tree.Structure:
    if scanner.found("*"):
        return tree.Leaf(scanner.integer("the number of a leaf"))
    kind = TREES[scanner.take()] if scanner.next in TREES else tuple
    if scanner.found("("):
        return tree.Container(kind, tuple(read_list(scanner, ")", lambda: _read_tree(scanner))))
    if scanner.found("["):
        return tree.Container(list, tuple(read_list(scanner, "]", lambda: _read_tree(scanner))))
    if scanner.found("{"):

        def entry() -> tuple[Any, tree.Structure]:
            key = read_attribute(scanner)
            scanner.expect(":")
            return key, _read_tree(scanner)

        entries = read_list(scanner, "}", entry)
        return tree.Container(
            dict, tuple(v for _, v in entries), tuple(tree.constant(k) for k, _ in entries)
        )
    return tree.constant(read_attribute(scanner))


def read_number(scanner: Scanner) -> bool | int | float:
    """An int, a float or a bool."""
    text = scanner.next
    if text in ("True", "False"):
        return scanner.take() == "True"
    if text in FLOATS:
        return FLOATS[scanner.take()]
    if re.fullmatch(r"-?\d+", text):
        return int(scanner.take())
    if re.fullmatch(r"-?\d+(\.\d*)?(e[+-]?\d+)?", text):
        return float(scanner.take())
    if text == "<":
        scanner.error("a value; this one has no text form")
    scanner.error("a value")


_SIZE = re.compile(r"[nm]\d+|div|max")  # what a size may begin with


def read_size(scanner: Scanner) -> Any:
    """A size: an int, or a Dim in the form in which dims.py writes it."""
    total = _read_product(scanner)
    while scanner.next in ("+", "-"):
        sign = 1 if scanner.take() == "+" else -1
        total = total + sign * _read_product(scanner)
    return total


def _read_product(scanner: Scanner) -> Any:
    product: Any = 1
    while True:
        if re.fullmatch(r"[nm]\d+", scanner.next):
            product = product * Dim.of(scanner.take())
        elif scanner.next in ("div", "max"):
            function = {"div": divided, "max": larger}[scanner.take()]
            scanner.expect("(")
            product = product * function(*read_list(scanner, ")", lambda: read_size(scanner)))
        else:
            product = product * scanner.integer("a size")
        if not scanner.found("*"):
            return product


def read_abstract(scanner: Scanner) -> Abstract:
    """Reads a type: Tensor[...], Tuple[...], int, float, bool, Token, Stack."""
    name = scanner.next
    if name in KINDS:
        return AbstractScalar(KINDS[scanner.take()])
    if scanner.found("Token"):
        return TOKEN
    if scanner.found("Stack"):
        return STACK
    if scanner.found("Scalar"):
        return scanner.within("[]", read_abstract)
    if scanner.found("Tuple"):
        scanner.expect("[")
        return AbstractTuple(tuple(read_list(scanner, "]", lambda: read_abstract(scanner))))
    if scanner.found("Tensor"):
        return scanner.within("[]", _read_tensor_type)
    scanner.error("a type")


def _read_tensor_type(scanner: Scanner) -> Abstract:
    if scanner.next not in BY_TEXT:
        scanner.error("a dtype: " + ", ".join(BY_TEXT))
    dtype = BY_TEXT[scanner.take()]
    scanner.expect(",")
    scanner.expect("(")
    shape = read_list(scanner, ")", lambda: read_size(scanner))
    if any(isinstance(size, int) and size < 0 for size in shape):
        scanner.error("sizes that are not negative")
    return AbstractTensor(dtype, tuple(shape))


def read_constant(scanner: Scanner) -> tuple[Any, Abstract]:
    """Reads what ``write_constant`` writes: the value and its type."""
    if scanner.found("token"):
        return None, TOKEN
    if scanner.found("stack"):
        return None, STACK
    if scanner.next != "Tensor":
        number = read_number(scanner)
        return number, AbstractScalar(type(number))
    abstract = read_abstract(scanner)
    assert isinstance(abstract, AbstractTensor)
    return scanner.within("()", lambda _: _read_array(scanner, abstract)), abstract


def _read_array(scanner: Scanner, abstract: AbstractTensor) -> np.ndarray:
    if scanner.next == "...":
        scanner.error("the values of this constant; write the text with full=True")
    start = scanner.offset
    if scanner.found("bytes"):
        data = base64.b64decode(scanner.string("base64 text"))
        if len(data) != abstract.size * abstract.dtype.itemsize:
            scanner.error(f"{abstract.size * abstract.dtype.itemsize} bytes", start)
        return np.frombuffer(data, abstract.dtype.numpy).reshape(abstract.shape).copy()
    numbers: list[str] = []
    while scanner.next != ")":
        if scanner.next in ("[", "]", ","):
            scanner.take()
        else:
            numbers.append(str(read_number(scanner)))
    shape = tuple(0 if isinstance(size, Dim) else size for size in abstract.shape)
    if len(numbers) != math.prod(shape):
        scanner.error(f"{math.prod(shape)} values", start)
    try:
        return _array_of(numbers, abstract.dtype, shape)
    except (ValueError, OverflowError):
        scanner.error(f"values of {abstract.dtype}", start)

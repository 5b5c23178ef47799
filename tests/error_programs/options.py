"""Options and marks."""

import minispore as ms
from error_programs.catalogue import Net, X, on, script, two
from minispore import Tensor


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

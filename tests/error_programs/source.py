"""Source.

A graph is made from a function's source.
"""

import minispore as ms
from error_programs.catalogue import X, script


@script(OSError, "the source of f cannot be found in <string>, and a graph is compiled from source")
def a_function_without_source():
    """Define it in a file or a notebook cell; or compile it with `capture_mode="trace"`."""
    scope: dict = {}
    exec("def f(x):\n    return x", scope)
    return ms.jit(scope["f"])(X)


@script(OSError, "if the file was changed after it was imported, import it again")
def a_changed_file():
    """Import the file again."""
    code = (lambda x: x).__code__.replace(co_firstlineno=1, co_name="gone")
    return ms.jit(type(a_changed_file)(code, globals()))(X)

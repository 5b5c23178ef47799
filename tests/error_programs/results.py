"""Results."""

import minispore as ms
from error_programs.catalogue import Held, X, on, script


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

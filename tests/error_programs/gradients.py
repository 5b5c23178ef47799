"""Gradients."""

import minispore as ms
from error_programs.catalogue import NET, OTHER, X, on, script, two
from minispore import Tensor, nn, ops
from minispore.ops.gradient import bprop_getters
from minispore.primitive import handled_by
from minispore.symbolic import GraphBuilder


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

    return ms.jacrev(inner)(x)


@script(RuntimeError, "a container that the function is differentiated by is changed: copy it")
def a_container_that_is_changed():
    """`t = list(t)` first."""

    def inner(t):
        t[0] = t[0] * 2
        return t[0]

    return ms.grad(inner)(ms.mutable([Tensor(1.0)]))


@on(TypeError, "derivative: order must be an int, not float")
def a_derivative_of_a_broken_order(x):
    """Give an int."""
    return ops.derivative(ops.sin, x, 1.5)


@on(ValueError, "derivative: order must be 1 or more, not 0")
def a_derivative_of_order_0(x):
    """Call the function itself."""
    return ops.derivative(ops.sin, x, 0)


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


@on(RuntimeError, "grad_position 1 is out of range: <lambda> was called with 1 argument(s)")
def a_position_too_many(x):
    """Positions are counted from 0."""
    return ms.grad(lambda x: x.sum(), grad_position=1)(x)


@script(TypeError, "grad: grad_position must be an int or a tuple of ints, not [0]")
def a_list_of_positions():
    """A tuple: `(0, 1)`."""
    return ms.grad(two, grad_position=[0])


@script(ValueError, "grad: grad_position must not be empty; None is for weights only")
def no_position():
    """None, if only weights have gradients."""
    return ms.grad(two, grad_position=())


@script(ValueError, "grad: grad_position must not be negative: -1")
def a_negative_position():
    """Positions are counted from 0."""
    return ms.grad(two, grad_position=-1)


@script(ValueError, "grad: grad_position has duplicates: (0, 0)")
def a_position_twice():
    """Each once."""
    return ms.grad(two, grad_position=(0, 0))


@script(ValueError, "grad: grad_position and weights must not both be None")
def neither_positions_nor_weights():
    """Give one."""
    return ms.grad(two, None)


@script(TypeError, "grad: weights must be a Parameter or a tuple or list of them, not str")
def a_weight_by_its_name():
    """`net.w`, or `net.trainable_params()`."""
    return ms.grad(NET, None, "w")


@script(TypeError, "grad: weights must be Parameters, not Tensor; a Tensor can be an argument")
def a_weight_that_is_a_tensor():
    """Make it an argument."""
    return ms.grad(NET, None, [X])


@script(TypeError, "grad: has_aux must be a bool, not int")
def a_flag_that_is_no_bool():
    """True or False."""
    return ms.grad(two, has_aux=1)


@script(TypeError, "only a function or Cell has a gradient, not float")
def the_gradient_of_a_number():
    """`ms.grad(f)(x)`, not `ms.grad(f(x))`."""
    return ms.grad(3.0)


@on(ValueError, "has_aux=True, but two does not return several outputs: return (what to")
def one_output_with_aux(x):
    """Return a tuple, or leave out `has_aux`."""
    return ms.grad(two, has_aux=True)(x, x)


@on(RuntimeError, "2 cotangent(s) for 1 output(s): give one for each")
def another_number_of_cotangents(x):
    """`sens` is like the output."""
    return ops.GradOperation(sens_param=True)(two)(x, x, (x, x))


@on(RuntimeError, "a cotangent has shape (), and its output (2,): they must be equal")
def a_cotangent_of_another_shape(x):
    """`ops.ones_like(out)`."""
    return ops.GradOperation(sens_param=True)(two)(x, x, x.sum())


@on(TypeError, "takes the cotangent of the output last")
def no_cotangent(x):
    """Pass it as the last argument, or by the keyword `sens`."""
    return ops.GradOperation(sens_param=True)(lambda: x)()


@script(RuntimeError, "there is no gradient for 1: was return_ids=True given?")
def a_gradient_that_was_not_taken():
    """List it in `grad_position` or `weights`."""
    return ms.get_grad(ms.grad(two, return_ids=True)(X, X), 1)


@script(TypeError, "get_grad takes a position or a Parameter, not str")
def a_gradient_by_name():
    """Give the Parameter itself."""
    return ms.get_grad(ms.grad(two, return_ids=True)(X, X), "a")


@on(TypeError, "vjp: inputs must be Tensors, not float")
def a_number_as_point(x):
    """`Tensor(1.0)`."""
    return ms.vjp(ops.sin, 1.0)


@on(ValueError, "jvp: 2 direction(s) for 1 input(s)")
def another_number_of_directions(x):
    """One for each input, and like it."""
    return ms.jvp(ops.sin, x, (x, x))


@on(ValueError, "jacrev: grad_position 1, but 1 argument(s)")
def a_jacobian_by_what_is_not_there(x):
    """Positions are counted from 0."""
    return ms.jacrev(ops.sin, grad_position=1)(x)


class Custom(nn.Cell):
    """Twice x, with a gradient that is what `rule` gives."""

    def __init__(self, rule, wrap=False):
        super().__init__()
        self.rule, self.wrap = rule, wrap

    def construct(self, x):
        return [x] if self.wrap else x * 2

    def bprop(self, x, out, dout):
        return self.rule(x, dout)


NOTHING, TWO = Custom(lambda x, dout: None), Custom(lambda x, dout: (dout, dout))
TEXT, HALF = Custom(lambda x, dout: "dx"), Custom(lambda x, dout: dout.astype(ms.float16))
SUM, LISTED = Custom(lambda x, dout: dout.sum()), Custom(lambda x, dout: dout, wrap=True)


@on(TypeError, "Custom.bprop returned None; return a tuple with one gradient per input")
def a_bprop_without_a_result(x):
    """A `return` is missing."""
    return ms.grad(NOTHING)(x)


@on(RuntimeError, "Custom.bprop returned 2 gradient(s) for 1 input(s); return one per input, None")
def a_bprop_of_too_many_gradients(x):
    """One for each input, in their order."""
    return ms.grad(TWO)(x)


@on(TypeError, "gradient 0 of Custom.bprop must be a Tensor or None, not str")
def a_bprop_of_something_else(x):
    """None means zeros."""
    return ms.grad(TEXT)(x)


@on(TypeError, "gradient 0 of Custom.bprop is Float16, its input Float32; cast it")
def a_bprop_of_another_dtype(x):
    """`dx.astype(x.dtype)`."""
    return ms.grad(HALF)(x)


@on(ValueError, "gradient 0 of Custom.bprop has shape (), its input (2,); sum over the axes that")
def a_bprop_of_another_shape(x):
    """It has the shape of the input."""
    return ms.grad(SUM)(x)


@on(TypeError, "Custom has a bprop, which knows of single Tensors only: pass and return Tensors")
def a_bprop_of_a_list(x):
    """Return the Tensors by themselves, or leave out `bprop`."""
    return ms.grad(LISTED)(x)


@script(RuntimeError, "the gradient of sin cannot be run inside a compiled function; there, call")
def a_pull_in_a_rule_of_a_pass():
    """Rules of passes are written in ops: take the gradient in the program."""
    with handled_by(GraphBuilder()):
        return ms.vjp(ops.sin, X)

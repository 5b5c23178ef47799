"""Cell: a function with parameters and sub-cells, the unit from which networks are built.

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc = nn.Dense(4, 3)           # a child
            self.scale = Parameter(...)        # a parameter of its own

        def construct(self, x):
            return self.fc(x) * self.scale

Children and Parameters are plain attributes; two registries beside them, `_cells` and `_params`,
keep their order.  A Parameter's name is the path of attributes that leads to it (``fc.weight``):
it grows from the inside out, as each Cell becomes an attribute of the next.

In GRAPH_MODE a call of an outermost Cell is compiled (MindSpore: the same); in PYNATIVE_MODE
``construct`` runs at once.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator, ValuesView
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from minispore.autodiff.tape import pause_tapes, record_custom, refuse_containers
from minispore.compile import jit_of_cell
from minispore.context import GRAPH_MODE, get_context
from minispore.inputs import Inputs, parameters_of
from minispore.jit_options import JitConfig
from minispore.parameter import Parameter, ParameterTuple
from minispore.primitive import current_handler, is_tracing
from minispore.recompile import Recompilation
from minispore.tensor import Tensor

Self = TypeVar("Self", bound="Cell")

_RECOMPUTE_OPTIONS = (
    "use_reentrant", "output_recompute", "early_stop", "context_fn", "mp_comm_recompute",
    "parallel_optimizer_comm_recompute", "recompute_slice_activation",
)  # fmt: skip


class HookHandle:
    """What registering a hook returns: ``remove()`` takes the hook away again."""

    def __init__(self, hooks: dict[HookHandle, Callable]):
        self._hooks = hooks

    def remove(self) -> None:
        """Take the hook away; nothing happens the second time."""
        self._hooks.pop(self, None)


class Cell:
    """The base of all layers, losses, optimizers and networks.

    Subclasses call ``super().__init__()`` first and define ``construct``.  They may define
    ``bprop(self, *inputs, out, dout)``, which is then used instead of the chain rule and returns
    a tuple, one gradient per input.

    Args:
        auto_prefix: whether Parameters of children are named after the path to them.
        flags: see ``add_flags``.
    """

    bprop: ClassVar[Callable[..., tuple] | None] = None

    def __init__(self, auto_prefix: bool = True, flags: dict[str, Any] | None = None):
        self._cells: dict[str, Cell] = {}
        self._params: dict[str, Parameter] = {}
        self._auto_prefix = auto_prefix
        self._prefix = ""  # what the names of this cell's parameters begin with
        self._pre_hooks: dict[HookHandle, Callable] = {}
        self._hooks: dict[HookHandle, Callable] = {}
        self._backward_hooks: dict[HookHandle, Any] = {}
        self._flags: dict[str, Any] = {}
        self._inputs: Inputs | None = None
        self._jit_config: JitConfig | None = None
        self._recompute = False
        self.training = False
        self.phase = "train"
        self.requires_grad = False
        self.add_flags(**(flags or {}))

    # ------------------------------------------------------------------------------- running

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """What the cell computes; every subclass defines it."""
        raise AttributeError(f"{type(self).__name__} does not define construct(self, ...)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        self._check_initialized()
        if is_tracing():
            return current_handler().call(self, list(args), kwargs)
        if get_context("mode") == GRAPH_MODE:
            return jit_of_cell(self).run(args, kwargs)
        for hook in tuple(self._pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        if self._backward_hooks:
            output = self._hooked(args, kwargs)
        elif self.bprop is not None:
            output = call_with_bprop(self, args, kwargs)
        else:
            output = self.construct(*args, **kwargs)
        for hook in tuple(self._hooks.values()):
            changed = hook(self, args, output)
            output = output if changed is None else changed
        return output

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the cell for arguments like these, without running it."""
        self._check_initialized()
        jit_of_cell(self).compile(*args, **kwargs)

    def explain_recompile(self) -> Recompilation:
        """Why a call in GRAPH_MODE was compiled; see ``explain_recompile`` of jitted functions."""
        return jit_of_cell(self).explain_recompile()

    def set_inputs(self, *inputs: Any, **kwargs: Any) -> None:
        """Describe the inputs of construct, for when the cell is compiled.

        A Tensor without elements, ``Tensor(shape=[None, 3], dtype=ms.float32)``, describes inputs
        of all sizes where it has None: one graph serves them all.  An input may also be described
        by a tuple or list of descriptions, or as a constant.

        Args:
            inputs: descriptions of all inputs that will be given, in order;
            kwargs: or of some, by the names of their parameters.

        Raises:
            ValueError: both, or the name of what is no parameter.
            TypeError: too few or too many inputs are described.

        MindSpore: ``Cell.set_inputs``.  In PYNATIVE_MODE it changes nothing.
        """
        if inputs and kwargs:
            raise ValueError("set_inputs takes inputs in order or by name, not both")
        known = parameters_of(self)
        for name in kwargs:
            if name not in known.parameters:
                raise ValueError(f"set_inputs: '{name}' is none of {[*known.parameters]}")
        if not kwargs:
            known.bind(*inputs)
        self._inputs = Inputs(kwargs or inputs)

    def get_inputs(self) -> Any:
        """What ``set_inputs`` was given: a tuple, or a dict by name; None without it."""
        return self._inputs.given if self._inputs is not None else None

    def set_jit_config(self, jit_config: JitConfig) -> None:
        """Say how the Cell is compiled when it is the outermost one that is called in GRAPH_MODE.

        Raises:
            TypeError: no JitConfig.
        """
        if not isinstance(jit_config, JitConfig):
            raise TypeError(f"set_jit_config takes a JitConfig, not {_described(jit_config)}")
        self._jit_config = jit_config

    @property
    def jit_config_dict(self) -> dict[str, Any]:
        """What ``set_jit_config`` was given, as a dict."""
        return {} if self._jit_config is None else dict(self._jit_config.jit_config_dict)

    def register_forward_pre_hook(self, hook_fn: Callable[[Cell, tuple], Any]) -> HookHandle:
        """Call ``hook_fn(cell, args)`` before construct; what it returns replaces the arguments."""
        return _register(self._pre_hooks, hook_fn)

    def register_forward_hook(self, hook_fn: Callable[[Cell, tuple, Any], Any]) -> HookHandle:
        """Call ``hook_fn(cell, args, output)`` after construct; its result replaces the output."""
        return _register(self._hooks, hook_fn)

    def register_backward_hook(self, hook_fn: Callable[[Cell, tuple, tuple], Any]) -> HookHandle:
        """Call ``hook_fn(cell, grad_inputs, grad_outputs)`` when gradients have passed the cell.

        What it returns replaces the gradients of the inputs.  In PyNative mode only.
        """
        return _register(self._backward_hooks, hook_fn)

    def register_backward_pre_hook(self, hook_fn: Callable[[Cell, tuple], Any]) -> HookHandle:
        """Call ``hook_fn(cell, grad_outputs)`` before gradients pass the cell.

        What it returns replaces the gradients of the outputs.  In PyNative mode only.
        """

        handle = _register(self._backward_hooks, hook_fn)
        self._backward_hooks[handle] = _PreHook(hook_fn)
        return handle

    def _hooked(self, args: tuple, kwargs: dict) -> Any:
        """construct between two entries of the tapes, which call the backward hooks."""
        passing = _Passing(self, tuple(self._backward_hooks.values()))
        args = record_custom(_Calls(passing.inputs), args, args)
        if self.bprop is not None:
            output = call_with_bprop(self, args, kwargs)
        else:
            output = self.construct(*args, **kwargs)
        outputs = output if isinstance(output, tuple) else (output,)
        outputs = record_custom(_Calls(passing.outputs), outputs, outputs)
        return outputs if isinstance(output, tuple) else outputs[0]

    def _check_initialized(self) -> None:
        if "_cells" not in self.__dict__:
            raise AttributeError(
                f"{type(self).__name__}.__init__ must call super().__init__() before all else"
            )

    # ---------------------------------------------------------------------------- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._set_parameter(name, value)
        elif isinstance(value, Cell):
            self._set_cell(name, value)
        elif name in self.__dict__.get("_params", ()):
            self._overwrite_parameter(name, value)
        elif name in self.__dict__.get("_cells", ()):
            self._overwrite_cell(name, value)
        else:
            if isinstance(value, ParameterTuple):
                self._set_parameter_tuple(value)
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._params.pop(name, None)
        if self._cells.pop(name, None) is not None:
            self._children_changed()

    def _set_parameter(self, name: str, param: Parameter) -> None:
        self._check_initialized()
        if name in self._cells:
            raise KeyError(f"'{name}' of {type(self).__name__} is a Cell, it cannot be a Parameter")
        if not param.has_given_name:
            param.name = self._prefix + name
        self._params[name] = param
        object.__setattr__(self, name, param)

    def _set_parameter_tuple(self, params: ParameterTuple) -> None:
        self._check_initialized()
        for param in params:
            if self._params.setdefault(param.name, param) is not param:
                raise KeyError(f"{type(self).__name__} has a Parameter '{param.name}' already")

    def _set_cell(self, name: str, cell: Cell) -> None:
        self._check_initialized()
        if name in self._params:
            raise KeyError(f"'{name}' of {type(self).__name__} is a Parameter, it cannot be a Cell")
        self._put_child(name, cell)
        if self._auto_prefix:
            cell.update_parameters_name(f"{self._prefix}{name}.")

    def _overwrite_parameter(self, name: str, value: Any) -> None:
        if value is None:
            del self._params[name]
            object.__setattr__(self, name, None)
        elif isinstance(value, Tensor):
            self._params[name].set_data(value)
        else:
            raise TypeError(
                f"'{name}' of {type(self).__name__} is a Parameter: "
                f"assign a Tensor, a Parameter or None, not {type(value).__name__}"
            )

    def _overwrite_cell(self, name: str, value: Any) -> None:
        if value is not None:
            raise TypeError(
                f"'{name}' of {type(self).__name__} is a Cell: "
                f"assign a Cell or None, not {type(value).__name__}"
            )
        del self._cells[name]
        object.__setattr__(self, name, None)
        self._children_changed()

    def _put_child(self, name: str, cell: Cell) -> None:
        self._cells[name] = cell
        object.__setattr__(self, name, cell)
        self._children_changed()

    def _children_changed(self) -> None:
        """Called after a child was added, replaced or removed; containers keep a tuple of them."""

    def insert_child_to_cell(self, child_name: str, child_cell: Cell) -> None:
        """Add a child under a name, leaving its Parameters' names as they are.

        Raises:
            TypeError: the name is no str, or the child is no Cell.
            KeyError: the name is that of another attribute.
        """
        self._check_initialized()
        if not isinstance(child_name, str):
            raise TypeError(f"a child's name is a str, not {type(child_name).__name__}")
        if not isinstance(child_cell, Cell):
            raise TypeError(f"child '{child_name}' must be a Cell, not {_described(child_cell)}")
        if child_name not in self._cells and hasattr(self, child_name):
            raise KeyError(f"{type(self).__name__} has an attribute '{child_name}' already")
        self._put_child(child_name, child_cell)

    def insert_param_to_cell(
        self, param_name: str, param: Parameter, check_name_contain_dot: bool = True
    ) -> None:
        """Add a Parameter under a name, which it takes over if it has none of its own.

        Raises:
            TypeError: `param` is no Parameter.
            KeyError: the name is empty, has a dot, or is that of another attribute.
        """
        self._check_initialized()
        if not param_name or (check_name_contain_dot and "." in param_name):
            raise KeyError(f"'{param_name}' is no name of a Parameter: it is empty or has a dot")
        if not isinstance(param, Parameter):
            raise TypeError(f"'{param_name}' must be a Parameter, not {_described(param)}")
        if param_name not in self._params and hasattr(self, param_name):
            raise KeyError(f"{type(self).__name__} has an attribute '{param_name}' already")
        self._set_parameter(param_name, param)

    # ---------------------------------------------------------------------- what it is made of

    def cells(self) -> ValuesView[Cell]:
        """The children, each once."""
        return self.name_cells().values()

    def name_cells(self) -> OrderedDict[str, Cell]:
        """The children by attribute name; one with two names appears under its first."""
        found: dict[int, tuple[str, Cell]] = {}
        for name, cell in self._cells.items():
            found.setdefault(id(cell), (name, cell))
        return OrderedDict(found.values())

    def cells_and_names(self, name_prefix: str = "") -> Iterator[tuple[str, Cell]]:
        """(path, cell) of this cell (its path is `name_prefix`) and all below it, parents first."""
        seen: set[int] = set()
        todo = [(name_prefix, self)]
        while todo:
            path, cell = todo.pop()
            if id(cell) in seen:
                continue
            seen.add(id(cell))
            yield path, cell
            dot = "." if path else ""
            children = [(f"{path}{dot}{name}", child) for name, child in cell._cells.items()]
            todo.extend(reversed(children))

    def parameters_and_names(
        self, name_prefix: str = "", expand: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(path, Parameter), each Parameter once: its own before those of its children."""
        seen: set[int] = set()
        cells = self.cells_and_names(name_prefix) if expand else [(name_prefix, self)]
        for path, cell in cells:
            dot = "." if path else ""
            for name, param in cell._params.items():
                if id(param) not in seen:
                    seen.add(id(param))
                    yield f"{path}{dot}{name}", param

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """The Parameters of this cell and (with `expand`) of all cells below it."""
        return (param for _, param in self.parameters_and_names(expand=expand))

    def trainable_params(self, recurse: bool = True) -> list[Parameter]:
        """The Parameters that require gradients."""
        return [p for p in self.get_parameters(recurse) if p.requires_grad]

    def untrainable_params(self, recurse: bool = True) -> list[Parameter]:
        """The Parameters that do not require gradients."""
        return [p for p in self.get_parameters(recurse) if not p.requires_grad]

    def parameters_dict(self, recurse: bool = True) -> OrderedDict[str, Parameter]:
        """The Parameters by name."""
        return OrderedDict((p.name, p) for p in self.get_parameters(recurse))

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Name the Parameters after their paths, with `prefix` in front."""
        if not isinstance(prefix, str):
            raise TypeError(f"prefix must be a str, not {type(prefix).__name__}")
        for path, param in self.parameters_and_names(expand=recurse):
            param.name = prefix + path
        for path, cell in self.cells_and_names() if recurse else [("", self)]:
            cell._prefix = f"{prefix}{path}." if path else prefix

    def init_parameters_data(self) -> dict[Parameter, Parameter]:
        """Nothing is left to do: Parameters have values from birth (MindSpore: lazily)."""
        return {}

    def apply(self: Self, fn: Callable[[Cell], Any]) -> Self:
        """Call `fn` on all cells, children first; returns this cell."""
        for cell in self.cells():
            cell.apply(fn)
        fn(self)
        return self

    # --------------------------------------------------------------------------------- flags

    def set_train(self: Self, mode: bool = True) -> Self:
        """Switch Dropout, BatchNorm ... to training (or back); returns this cell."""
        self.phase = "train" if mode else "predict"
        for _, cell in self.cells_and_names():
            cell.training = bool(mode)
        return self

    def set_grad(self: Self, requires_grad: bool = True) -> Self:
        """Set the flag `requires_grad` of this cell and all below it; returns this cell."""
        for _, cell in self.cells_and_names():
            cell.requires_grad = bool(requires_grad)
        return self

    def add_flags(self: Self, **flags: Any) -> Self:
        """Set attributes of this cell that ``get_flags`` lists; returns this cell."""
        self._flags.update(flags)
        for name, value in flags.items():
            setattr(self, name, value)
        return self

    def add_flags_recursive(self: Self, **flags: Any) -> Self:
        """``add_flags`` for this cell and all below it; returns this cell."""
        for _, cell in self.cells_and_names():
            cell.add_flags(**flags)
        return self

    def get_flags(self) -> dict[str, Any]:
        """The flags of ``add_flags``."""
        return self._flags

    def recompute(self, **options: Any) -> None:
        """Compute what this cell computes once more in the backward pass, instead of keeping it.

        In a graph the gradient then keeps the cell's arguments and Parameters only.  Values and
        gradients stay the same, also those of Dropout, and what is written is written once.  In
        PyNative mode the tape keeps values as ever.  (MindSpore: ``Cell.recompute``.)

        Args:
            options: MindSpore's options for devices; they change nothing here.

        Raises:
            ValueError: an option that MindSpore does not have.
        """
        for name in options:
            if name not in _RECOMPUTE_OPTIONS:
                known = ", ".join(_RECOMPUTE_OPTIONS)
                raise ValueError(f"recompute has no option '{name}'; it knows {known}")
        self._recompute = True

    @property
    def cls_name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    # ------------------------------------------------------------------------------ printing

    def extend_repr(self) -> str:
        """What stands between the parentheses when the cell is printed."""
        return ""

    def __repr__(self) -> str:
        self._check_initialized()
        extra = self.extend_repr()
        if not self._cells:
            return f"{type(self).__name__}({extra})"
        lines = [extra] if extra else []
        for name, cell in self._cells.items():
            lines += f"({name}): {cell!r}".split("\n")
        return "\n".join([f"{type(self).__name__}(", *("  " + line for line in lines), ")"])


class _OwnGradient:
    """A call of a Cell with a bprop, as the tape sees it."""

    def __init__(self, cell: Any):
        self.cell = cell
        self.name = f"{type(cell).__name__}.bprop"

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return self.cell.bprop(*inputs, out, dout)


def call_with_bprop(cell: Any, args: tuple, kwargs: dict) -> Any:
    """Run construct unseen by the tapes, and leave them one entry whose gradient is bprop."""
    bound = inspect.signature(cell.construct).bind(*args, **kwargs)
    bound.apply_defaults()  # bprop takes all inputs, those with a default too
    with pause_tapes():
        output = cell.construct(*bound.args, **bound.kwargs)
    outputs = output if isinstance(output, tuple) else (output,)
    refuse_containers(type(cell).__name__, (*bound.args, *outputs))
    return record_custom(_OwnGradient(cell), bound.args, output)


class _Passing:
    """Gradients on their way through one call of a cell, and the hooks that see them."""

    def __init__(self, cell: Cell, hooks: tuple):
        self.cell, self.hooks = cell, hooks
        self.grad_outputs: tuple = ()

    def outputs(self, grads: tuple) -> tuple:
        """The gradients of the outputs, as the pre hooks leave them."""
        for hook in self.hooks:
            if isinstance(hook, _PreHook):
                grads = _replaced(grads, hook.function(self.cell, grads))
        self.grad_outputs = grads
        return grads

    def inputs(self, grads: tuple) -> tuple:
        """The gradients of the inputs, as the hooks leave them."""
        for hook in self.hooks:
            if not isinstance(hook, _PreHook):
                grads = _replaced(grads, hook(self.cell, grads, self.grad_outputs))
        return grads


@dataclass(frozen=True)
class _PreHook:
    """A hook that sees the gradients of the outputs only."""

    function: Callable


class _Calls:
    """An entry of a tape that hands on what its function makes of the gradients."""

    name = "backward hook"

    def __init__(self, function: Callable[[tuple], tuple]):
        self.function = function

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return self.function(dout)


def _replaced(grads: tuple, changed: Any) -> tuple:
    """What a hook returned in place of gradients; None leaves them as they are."""
    if changed is None:
        return grads
    return changed if isinstance(changed, tuple) else (changed,)


def _register(hooks: dict[HookHandle, Callable], hook: Callable) -> HookHandle:
    if not callable(hook):
        raise TypeError(f"a hook is a function, not {_described(hook)}")
    handle = HookHandle(hooks)
    hooks[handle] = hook
    return handle


def _described(value: Any) -> str:
    return f"{type(value).__name__} ({value!r:.40})"

"""The engine: graphs become flat lists of instructions, which run."""

from minispore.engine.plan import Executable, compile_plan

__all__ = ["Executable", "compile_plan"]

"""Graph optimisation: named passes of one-line rules, run to a fixed point, every fire logged.

A rule or a pass of one's own is a few lines, given to ``jit``:

    from minispore.passes import Rule, op

    @ms.jit(passes=Rule("twice", "x + x -> x * 2", lambda x: x + x, lambda x: x * 2))
    def f(x): ...

``default_pipeline()`` is what runs otherwise: print it, change it (``with_rules``, ``with_pass``,
``without``) and pass it as ``jit(passes=...)``; ``explain`` shows each pass, drawn.
"""

from minispore.passes.pattern import Rule, op
from minispore.passes.pipeline import (
    Pass,
    Pipeline,
    default_pipeline,
    optimize,
    pipeline_of,
    rule_pass,
)
from minispore.passes.rewrite import Fire, Function, rewrite

__all__ = [
    "Fire", "Function", "Pass", "Pipeline", "Rule", "default_pipeline", "op", "optimize",
    "pipeline_of", "rewrite", "rule_pass",
]  # fmt: skip

"""Graph optimisation: named passes of one-line rules, run to a fixed point, every fire logged."""

from minispore.passes.pipeline import LATE_INLINE, Pass, Pipeline, default_pipeline, optimize
from minispore.passes.rewrite import Fire

__all__ = ["LATE_INLINE", "Fire", "Pass", "Pipeline", "default_pipeline", "optimize"]

"""From Python source to a typed graph: a partial evaluator of the AST (see evaluate.py)."""

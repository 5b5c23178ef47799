"""From Python source to a typed graph: a partial evaluator of the AST (architecture in evaluate.py)."""

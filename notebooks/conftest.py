"""nbval: what may differ between machines is replaced before outputs are compared."""

from pathlib import Path


def pytest_configure(config):
    if not config.option.nbval_sanitize_with:
        rules = Path(__file__).parent.parent / "tests" / "data" / "notebook_rules.cfg"
        config.option.nbval_sanitize_with = str(rules)

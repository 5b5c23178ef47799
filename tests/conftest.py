"""Every test starts from one seed and the default settings, with the checks of MINISPORE_DEBUG on:
values against types, and graphs after every pass.
"""

import os

import pytest

os.environ["MINISPORE_DEBUG"] = "1"


@pytest.fixture(autouse=True)
def same_start():
    import minispore as ms

    ms.context.reset()
    ms.set_seed(1)
    yield
    ms.context.reset()

"""Every test starts from one seed and the default settings, with the checks of MINISPORE_DEBUG on:
values against types, and graphs after every pass.
"""

import os
import signal

import pytest

os.environ["MINISPORE_DEBUG"] = "1"


@pytest.fixture(autouse=True)
def same_start():
    import minispore as ms

    ms.context.reset()
    ms.set_seed(1)
    yield
    ms.context.reset()


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, as in a terminal: jobs of a shell ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)

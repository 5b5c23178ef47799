"""Every test runs with the checks of MINISPORE_DEBUG: values against types, graphs after passes."""

import os

os.environ["MINISPORE_DEBUG"] = "1"

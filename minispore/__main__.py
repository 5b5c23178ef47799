"""``python -m minispore`` is the program ``minispore``."""

import sys

from minispore.cli import main

sys.exit(main())

"""``python -m minispore`` is the program ``minispore``."""

import sys

from minispore.commands.cli import main

sys.exit(main())

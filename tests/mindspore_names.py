"""Importing this module makes ``import mindspore.x`` import ``minispore.x``.

Programs written for MindSpore then run unchanged: tests/test_mindspore_programs.py.
"""

import importlib
import importlib.abc
import importlib.util
import sys


class Names(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds minispore's module under MindSpore's name."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "mindspore":
            return None
        importlib.import_module(name.replace("mindspore", "minispore", 1))
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec):
        return importlib.import_module(spec.name.replace("mindspore", "minispore", 1))

    def exec_module(self, module):
        """It has been executed, under its own name."""


sys.meta_path.insert(0, Names())

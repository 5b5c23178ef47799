"""Data to train on.  In MindSpore: ``mindspore.dataset``."""

from minispore.dataset.mnist import DataError, Digits, load_digits

__all__ = ["DataError", "Digits", "load_digits"]

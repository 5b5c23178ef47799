"""Handwritten digits: the 5,000 that ship with the package, or MNIST's own files.

MNIST is distributed in IDX format: two zero bytes, a type code (8: unsigned byte), the number of
dimensions, each dimension as a big-endian 32-bit integer, then the elements in row order.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

SHIPPED = Path(__file__).parent.parent / "data" / "digits.npz"
IMAGE_SHAPE = (28, 28)
N_CLASSES = 10
_GZIP = b"\x1f\x8b"
_UBYTE = 8


class DataError(ValueError):
    """A data file is missing or is not what its name promises."""


class Digits(NamedTuple):
    """Grey images, uint8 of shape (N, 28, 28), and their labels 0 to 9, uint8 of shape (N,)."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_digits(folder: str | Path | None = None) -> Digits:
    """The digits that ship with minispore (4,000 and 1,000), or those in a folder.

    Args:
        folder: where MNIST's four files are, ``train-images-idx3-ubyte``,
            ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte`` and ``t10k-labels-idx1-ubyte``,
            each as it is or with ``.gz``.

    Raises:
        DataError: a file is missing, truncated or no such file; or the two files of a pair differ
            in their number of items.
    """
    if folder is None:
        with np.load(SHIPPED) as arrays:
            return Digits(*(arrays[name] for name in Digits._fields))
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"there is no folder '{root}' to read the digits from")
    return Digits(*_read_pair(root, "train"), *_read_pair(root, "t10k"))


def _read_pair(root: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of one part ("train" or "t10k")."""
    image_path = _find(root, f"{part}-images-idx3-ubyte")
    label_path = _find(root, f"{part}-labels-idx1-ubyte")
    images, labels = read_idx(image_path), read_idx(label_path)
    if images.shape[1:] != IMAGE_SHAPE:
        raise DataError(f"'{image_path}' holds items of shape {images.shape[1:]}, not (28, 28)")
    if labels.ndim != 1:
        raise DataError(f"'{label_path}' has {labels.ndim} dimensions; labels have 1")
    if len(images) != len(labels):
        raise DataError(
            f"'{image_path}' holds {len(images)} images but '{label_path}' {len(labels)} labels"
        )
    if not len(images):
        raise DataError(f"'{image_path}' holds no images")
    if labels.max() >= N_CLASSES:
        raise DataError(f"'{label_path}' holds label {labels.max()}; digits go from 0 to 9")
    return images, labels


def _find(root: Path, name: str) -> Path:
    """The path of a file of MNIST, gzipped or not."""
    for path in (root / name, root / f"{name}.gz"):
        if path.is_file():
            return path
    raise DataError(f"'{root}' has no file '{name}' (or '{name}.gz')")


def read_idx(path: str | Path) -> np.ndarray:
    """The uint8 array in an IDX file, gzipped or not; DataError if the file is anything else."""
    try:
        content = Path(path).read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"'{path}' is damaged: {error}") from error
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}") from error
    if len(content) < 4 or content[:3] != bytes((0, 0, _UBYTE)):
        raise DataError(f"'{path}' is no IDX file of bytes: it starts with {content[:4].hex(' ')}")
    ndim = content[3]
    start = 4 + 4 * ndim
    if len(content) < start:
        raise DataError(f"'{path}' is truncated: it ends inside its header")
    shape = struct.unpack(f">{ndim}I", content[4:start])
    if len(content) - start != prod(shape):
        raise DataError(
            f"'{path}' should hold {prod(shape)} bytes for shape {shape} but holds "
            f"{len(content) - start}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)

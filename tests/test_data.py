"""The shipped digits, and the reader of MNIST's own files."""

import gzip
import struct

import numpy as np
import pytest

from minispore.dataset import DataError, load_digits
from minispore.dataset.mnist import read_idx

NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def idx(array):
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return [
        rng.integers(0, 256, (7, 28, 28), np.uint8),
        rng.integers(0, 10, 7, np.uint8),
        rng.integers(0, 256, (3, 28, 28), np.uint8),
        rng.integers(0, 10, 3, np.uint8),
    ]


@pytest.fixture
def folder(tmp_path, arrays):
    for name, array in zip(NAMES, arrays, strict=True):
        (tmp_path / name).write_bytes(idx(array))
    return tmp_path


def test_shipped_digits_are_real_and_balanced():
    digits = load_digits()
    assert digits.train_images.shape == (4000, 28, 28)
    assert digits.test_images.shape == (1000, 28, 28)
    assert digits.train_images.dtype == digits.test_labels.dtype == np.uint8
    assert np.bincount(digits.train_labels).tolist() == [400] * 10
    assert np.bincount(digits.test_labels).tolist() == [100] * 10


def test_shipped_parts_share_no_image():
    digits = load_digits()
    train = {image.tobytes() for image in digits.train_images}
    test = {image.tobytes() for image in digits.test_images}
    assert len(train) == 4000 and len(test) == 1000
    assert not train & test


def test_shipped_labels_fit_the_images():
    """The class means of the training part classify the test part far above chance (10 %)."""
    digits = load_digits()
    train = digits.train_images.reshape(4000, -1) / 255.0
    test = digits.test_images.reshape(1000, -1) / 255.0
    means = np.stack([train[digits.train_labels == k].mean(0) for k in range(10)])
    nearest = ((test[:, None] - means) ** 2).sum(-1).argmin(1)
    assert (nearest == digits.test_labels).mean() > 0.75


def test_folder_of_idx_files(folder, arrays):
    for actual, expected in zip(load_digits(folder), arrays, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_folder_of_gzipped_idx_files(folder, arrays):
    for name in NAMES:
        plain = folder / name
        (folder / f"{name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    for actual, expected in zip(load_digits(folder), arrays, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_missing_folder_and_file(folder):
    with pytest.raises(DataError, match="there is no folder"):
        load_digits(folder / "nowhere")
    with pytest.raises(DataError, match="there is no folder"):
        load_digits(folder / NAMES[0])
    (folder / NAMES[3]).unlink()
    with pytest.raises(DataError, match="has no file 't10k-labels-idx1-ubyte'"):
        load_digits(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no IDX file"),
        (b"\x00\x00\x08", "is no IDX file"),
        (b"\x00\x00\x0d\x01" + bytes(4), "is no IDX file of bytes: it starts with 00 00 0d 01"),
        (b"<html>not found</html>", "is no IDX file"),
        (b"\x00\x00\x08\x03\x00\x00", "ends inside its header"),
        (idx(np.zeros((2, 3)))[:-1], r"should hold 6 bytes for shape \(2, 3\) but holds 5"),
        (idx(np.zeros((2, 3))) + b"\x00", "holds 7"),
        (gzip.compress(idx(np.zeros(4000)))[:-10], "is damaged"),
        (b"\x1f\x8bnonsense", "is damaged"),
    ],
    ids=["empty", "cut", "of-floats", "text", "in-header", "short", "long", "cut-gzip", "no-gzip"],
)
def test_damaged_files(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_idx(path)


def test_bit_flip_in_a_gzipped_file_is_noticed(tmp_path):
    content = bytearray(gzip.compress(idx(np.arange(200))))
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "file.gz").write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        read_idx(tmp_path / "file.gz")


def test_unreadable_path(tmp_path):
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_idx(tmp_path)


@pytest.mark.parametrize(
    ("index", "array", "message"),
    [
        (1, np.zeros(6), "holds 7 images but .* 6 labels"),
        (0, np.zeros((7, 8, 8)), r"items of shape \(8, 8\)"),
        (0, np.zeros(7), r"items of shape \(\)"),
        (1, np.zeros((7, 1)), "2 dimensions; labels have 1"),
        (3, np.array([1, 10, 2]), "holds label 10"),
    ],
)
def test_files_that_do_not_fit(folder, index, array, message):
    (folder / NAMES[index]).write_bytes(idx(array))
    with pytest.raises(DataError, match=message):
        load_digits(folder)


def test_a_pair_without_images(folder):
    (folder / NAMES[2]).write_bytes(idx(np.zeros((0, 28, 28))))
    (folder / NAMES[3]).write_bytes(idx(np.zeros(0)))
    with pytest.raises(DataError, match="holds no images"):
        load_digits(folder)

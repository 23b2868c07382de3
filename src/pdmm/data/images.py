"""Images and labels as arrays, and their split over clients."""

import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.data.sources import FILES, fetch


class Images(NamedTuple):
    """A data set: pixels in [0, 1], float32, with one row per image; labels 0 .. 9."""

    X: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64]
    X_test: npt.NDArray[np.float32]
    y_test: npt.NDArray[np.int64]


def parse(contents: bytes) -> npt.NDArray[np.uint8]:
    """The array in an IDX file of bytes."""
    if len(contents) < 4 or contents[:3] != b"\0\0\x08":
        raise ValueError("not an IDX file of unsigned bytes")
    ndim = contents[3]
    header = 4 + 4 * ndim
    shape = tuple(int(n) for n in np.frombuffer(contents[4:header], dtype=">i4"))
    if len(shape) != ndim or len(contents) != header + int(np.prod(shape)):
        raise ValueError(f"an IDX file of shape {shape} must not have {len(contents)} bytes")
    return np.frombuffer(contents, dtype=np.uint8, offset=header).reshape(shape)


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Images:
    """MNIST or Fashion-MNIST; see :func:`pdmm.data.fetch` for where they are looked for."""
    files, _ = fetch(name, folder)
    train_images, train_labels, test_images, test_labels = (parse(files[file]) for file in FILES)
    return Images(
        X=_pixels(train_images),
        y=train_labels.astype(np.int64),
        X_test=_pixels(test_images),
        y_test=test_labels.astype(np.int64),
    )


def _pixels(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def by_class(X: Any, y: Any) -> tuple[list[Any], list[Any]]:
    """One client for each class, with its samples in stored order: the paper's split."""
    classes = np.unique(y)
    return [X[y == c] for c in classes], [y[y == c] for c in classes]

"""Images and labels as arrays, and their split over clients."""

import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.data.sources import FILES, fetch


class Images(NamedTuple):
    """A data set: pixels in [0, 1], float32, a row an image; labels 0 .. 9."""

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
    X, y, X_test, y_test = (parse(files[file]) for file in FILES)

    def pixels(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)

    return Images(pixels(X), y.astype(np.int64), pixels(X_test), y_test.astype(np.int64))


def by_class(X: Any, y: Any) -> tuple[list[Any], list[Any]]:
    """One client a class, its samples in stored order: the paper's split."""
    classes = np.unique(y)
    return [X[y == c] for c in classes], [y[y == c] for c in classes]

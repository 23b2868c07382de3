"""What a site's own code says when it fails: kept at the site, where FLARE's logs do not reach.

An error of a site's function may quote its data. FLARE's logs can be sent, so they get no more
than the kind of error; the rest is in a file of the kit that its owner alone may read.
"""

import logging
import os
import time
import traceback
from pathlib import Path

from pdmm.common.whole_files import private_folder

FOLDER, FILE = "pdmm", "errors.log"  # in the site's kit
LARGEST = 5_000_000  # bytes, after which the file is begun anew; the last one is kept
TOLD = f"see {FOLDER}/{FILE} in the site's kit"
OURS = ("nvflare", "pdmm.flare")  # who writes into FLARE's logs; their words quote no data


def keep_error(kit: Path) -> Path:
    """Write down the error that is being handled, with its traceback; returns the file."""
    folder = kit / FOLDER
    private_folder(folder)
    path = folder / FILE
    if path.is_file() and path.stat().st_size > LARGEST:
        os.replace(path, folder / f"{FILE}.1")
    text = f"--- {time.strftime('%Y-%m-%d %H:%M:%S')}\n{traceback.format_exc()}\n"
    with open(path, "a", encoding="utf-8", opener=_private) as file:
        os.fchmod(file.fileno(), 0o600)  # whatever it was before
        file.write(text)
    return path


def keep_others_out() -> None:
    """Let only FLARE and what runs in it write into FLARE's logs, and not a site's own code."""
    for handler in logging.getLogger().handlers:
        if _is_ours not in handler.filters:
            handler.addFilter(_is_ours)


def _is_ours(record: logging.LogRecord) -> bool:
    return any(record.name == name or record.name.startswith(f"{name}.") for name in OURS)


def _private(path: str, flags: int) -> int:
    # a link in its place would lead the text elsewhere
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)

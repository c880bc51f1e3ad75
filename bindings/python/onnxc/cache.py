"""The folder of compiled code (--cache). In: what a caller said of it. Out: its path, and a folder that stays within its size.

The compiler writes entries under digests and renames them into place, ignores entries that are broken or belong to other users,
and never deletes any: that is done here, the least recently used first.
"""
from __future__ import annotations

import os
import re
import stat
import time
from typing import Any, List, Optional, Tuple

SIZE = 1 << 30
ENTRY, TEMPORARY = re.compile(r"[0-9a-f]{64}"), re.compile(r"\.new-\w+")
ABANDONED = 3600.0  # seconds after which a temporary file belongs to no compilation


def default_folder() -> str:
    """$XDG_CACHE_HOME/onnxc or ~/.cache/onnxc."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return os.path.join(base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".cache"), "onnxc")


def folder(said: Any) -> Optional[str]:
    """The folder for the value of the keyword cache; the default one is made if it does not exist."""
    if said is None or said is False:
        return None
    if said is not True:
        return str(os.fspath(said))
    os.makedirs(default_folder(), mode=0o700, exist_ok=True)
    return default_folder()


def _entries(path: str) -> List[Tuple[float, int, str]]:
    """(last use, size, path) of the user's own entries."""
    found = []
    with os.scandir(path) as every:
        for entry in every:
            temporary = TEMPORARY.fullmatch(entry.name)
            if not temporary and not ENTRY.fullmatch(entry.name):
                continue
            try:
                about = entry.stat(follow_symlinks=False)
            except OSError:  # deleted meanwhile
                continue
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
                continue
            used = max(about.st_atime, about.st_mtime)
            if temporary and time.time() - used < ABANDONED:
                continue
            found.append((0.0 if temporary else used, about.st_size, entry.path))
    return found


def prune(path: str, size: int = SIZE) -> None:
    """Deletes entries until the folder is at most so large: abandoned temporary files, then the least recently used entries. Several
    processes may do so at the same time."""
    try:
        entries = sorted(_entries(path))
    except OSError:
        return
    total = sum(bytes_ for _, bytes_, _ in entries)
    for used, bytes_, name in entries:
        if total <= size and used:
            break
        try:
            os.unlink(name)
        except OSError:
            pass
        total -= bytes_


def clear_cache(path: Optional[str] = None) -> None:
    """Deletes all entries of a folder, by default of the default one."""
    prune(path or default_folder(), 0)

"""The version of this package: written down by installations, in a source tree that of the tree."""
from __future__ import annotations

import os


def _of_tree() -> str:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, "VERSION")
    try:
        with open(path, encoding="ascii") as f:
            return f.read().strip()
    except OSError:
        return "0"


__version__ = _of_tree()

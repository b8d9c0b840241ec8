"""Where in the caller's program something was made."""

from __future__ import annotations

import contextlib
import os
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def calling_line() -> str:
    """`file:line` of the innermost frame outside this package; empty where there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, contextlib.__file__)):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""

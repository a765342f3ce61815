"""The files that the code left in its working folder, read after all of its processes have ended."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roboco.domain.history.part import artifact_name
from roboco.tools.sandbox.limits import SandboxLimits
from roboco.tools.sandbox.result import WrittenFile

_MAX_LISTED = 20
"""Maximum number of files that are listed one by one as not kept."""
_MAX_NAME_CHARS = 80
"""Maximum number of characters of a name that are shown."""
_BLOCK_BYTES = 1 << 20
_KIND_REASONS = {
    stat.S_IFDIR: "is a folder: write files directly into the working folder",
    stat.S_IFLNK: "is a symbolic link",
    stat.S_IFIFO: "is a named pipe",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}


@dataclass
class OutputFiles:
    """The kept files; and for each other file, a line in `skipped` with the reason."""

    limits: SandboxLimits
    files: list[WrittenFile] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    size: int = 0

    def lines(self) -> tuple[str, ...]:
        """Return the reasons why files are not kept, one line each."""
        more = len(self.skipped) - _MAX_LISTED
        return (*self.skipped[:_MAX_LISTED], *([f"and {more} more that are not kept"] if more > 0 else []))

    def add(self, folder: int, name: str, inputs: Mapping[str, int]) -> None:
        """Keep the file, or record why not. An unchanged input is ignored."""
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        try:
            if stat.S_ISREG(status.st_mode):
                os.chmod(name, 0o600, dir_fd=folder)  # it is no link, and no process is left that could replace it
                if name in inputs and _is_unchanged(folder, name, inputs[name]):
                    return
            why = self._rejection(name, status)
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        if why:
            self._skip(name, why)
        else:
            self.size += status.st_size
            self.files.append(WrittenFile(name, Path(f"/proc/self/fd/{folder}/{name}"), status.st_size))

    def _rejection(self, name: str, status: os.stat_result) -> str:
        if not stat.S_ISREG(status.st_mode):
            return _KIND_REASONS.get(stat.S_IFMT(status.st_mode), "is not a file")
        if len(self.files) >= self.limits.files:
            return f"is one more than the {self.limits.files} files that one run may write"
        if self.size + status.st_size > self.limits.disk:
            return f"has {status.st_size} bytes, with which the files exceed the {self.limits.disk} of one run"
        try:
            artifact_name(name)
        except ValueError as error:
            return str(error).partition(": ")[2]
        return ""

    def _skip(self, name: str, why: str) -> None:
        shown = name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS]}..."
        self.skipped.append(f"{shown!r} {why}")


def collect_files(folder: int, inputs: Mapping[str, int], limits: SandboxLimits) -> OutputFiles:
    """Return the files in `folder` that are new or differ from the input of their name, in the order of their names."""
    found = OutputFiles(limits)
    os.fchmod(folder, 0o700)
    for name in sorted(os.listdir(folder)):
        found.add(folder, name, inputs)
    return found


def _is_unchanged(folder: int, name: str, input_descriptor: int) -> bool:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        size = os.fstat(descriptor).st_size
        if size != os.fstat(input_descriptor).st_size:
            return False
        return all(
            os.pread(descriptor, _BLOCK_BYTES, start) == os.pread(input_descriptor, _BLOCK_BYTES, start)
            for start in range(0, size, _BLOCK_BYTES)
        )
    finally:
        os.close(descriptor)

"""Confinement of stdio MCP servers: bubblewrap withholds the rights of the worker that starts them.

The server has a separate user, process table and file tree: no /proc of other processes, no workspace, no home folder,
and no files of the folder in which the worker was started. It sees read-only: programs and libraries of the system,
those of its program, the files that its command line names, and the paths that the operator adds. It may write to
a private /tmp that is deleted when it ends. The caller composes its environment. The server uses the worker's network,
unless the operator disables it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from roboco.errors import UsageError
from roboco.tools.sandbox.bubblewrap import UNPRIVILEGED_UID, program_mounts
from roboco.tools.sandbox.programs import Programs, find_bubblewraps

ConfinementMode = Literal["network", "offline", "off"]
SANDBOX_HOME = "/tmp/home"  # noqa: S108 - in the sandbox, where /tmp is a separate file system
MAX_WRITTEN_BYTES = 256 * 1024 * 1024
"""Maximum number of bytes that a server may write; they are held in memory."""
_TRIAL_TIMEOUT = 20
_ISOLATION_ARGUMENTS = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns"),
    *("--die-with-parent", "--cap-drop", "ALL", "--hostname", "mcp"),
    *("--uid", str(UNPRIVILEGED_UID), "--gid", str(UNPRIVILEGED_UID)),
)
_SYSTEM_PATHS = (
    *("/etc/alternatives", "/etc/ca-certificates", "/etc/group", "/etc/hosts", "/etc/localtime", "/etc/nsswitch.conf"),
    *("/etc/passwd", "/etc/pki", "/etc/resolv.conf", "/etc/ssl"),
)
_PROGRAM_PATHS = ("bin", "lib", "lib64", "libexec", "pyvenv.cfg")
_MOUNTED_PREFIXES = ("/usr", "/usr/local")
_LIBRARY_PATH = str(Path(__file__).resolve().parents[2])
"""The library's code, which contains MCP servers. An editable installation has it outside of site-packages."""
_WRITABLE_SUFFIX = ":rw"
_DISABLE_HINT = "set ROBOCO_MCP_SANDBOX=off, with which servers have all the rights of the worker"
_INSTALL_HINT = (
    "install roboco[sandbox] or the system's bubblewrap (0.8 or newer) and let users make namespaces, as for the "
    f"sandbox of the tool 'python'; or {_DISABLE_HINT}"
)


@dataclass(frozen=True)
class Confinement:
    """The confinement of all servers that a worker starts.

    `mode`: with the network of the worker, without a network, or no confinement at all.
    `paths`: what servers see in addition to their own program, read-only, or writable if they end in ":rw".
    """

    mode: ConfinementMode = "network"
    paths: tuple[str, ...] = ()

    def command(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command that starts the given command confined. Raise UsageError if that is not possible here."""
        if self.mode == "off":
            return command
        network = ("--unshare-net",) if self.mode == "offline" else ()
        here = os.getcwd()
        return (
            *(_working_bubblewrap(), *_ISOLATION_ARGUMENTS, *network),
            *_system_mounts(),
            *_program_mounts(command),
            *self._added_mounts(),
            *("--dir", SANDBOX_HOME, "--dir", here, "--remount-ro", "/", "--chdir", here, "--", *command),
        )

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        """Return the environment of the server with a replaced HOME: the worker's home folder is not visible to it."""
        return base if self.mode == "off" else {**base, "HOME": SANDBOX_HOME}

    def _added_mounts(self) -> Iterator[str]:
        for path in self.paths:
            bind = "--bind" if path.endswith(_WRITABLE_SUFFIX) else "--ro-bind"
            place = os.path.abspath(path.removesuffix(_WRITABLE_SUFFIX))
            yield from (bind, place, place)


def _system_mounts() -> Iterator[str]:
    yield from program_mounts(Programs("", ""))
    for path in _SYSTEM_PATHS:
        yield from ("--ro-bind-try", path, path)
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from ("--size", str(MAX_WRITTEN_BYTES), "--tmpfs", "/tmp")  # noqa: S108 - in the sandbox


def _program_mounts(command: tuple[str, ...]) -> Iterator[str]:
    """Yield the mounts of the program's own files, and of the files that its command line names."""
    for path in (*_program_paths(command[0]), _LIBRARY_PATH):
        yield from ("--ro-bind-try", path, path)
    for word in command[1:]:
        if os.path.isfile(word):
            path = os.path.abspath(word)
            yield from ("--ro-bind", path, path)


def _program_paths(program: str) -> list[str]:
    """Return the program, the targets of its links, and the libraries beside each.

    The interpreter of the program's virtual environment is included.
    """
    found: dict[str, None] = {}
    left, seen = [os.path.abspath(shutil.which(program) or program)], set[str]()
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        if os.path.islink(path):
            left.append(os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path))))
        folder = os.path.dirname(path)
        prefix = os.path.dirname(folder)
        if os.path.basename(folder) != "bin" or prefix == "/":
            found[path] = None
        elif prefix not in _MOUNTED_PREFIXES:
            found.update(dict.fromkeys(f"{prefix}/{name}" for name in _PROGRAM_PATHS))
            left += [f"{folder}/python"] if os.path.exists(f"{prefix}/pyvenv.cfg") else []
    return list(found)


@lru_cache(maxsize=1)
def _working_bubblewrap() -> str:
    """Return the first bubblewrap that works here. Raise UsageError if none does, and try again at the next call."""
    if sys.platform != "linux":
        raise UsageError(
            f"MCP servers that are started need Linux for their sandbox, this is {sys.platform}; {_DISABLE_HINT}"
        )
    failures = []
    for bwrap in find_bubblewraps():
        program = (sys.executable, "-I", "-S", "-c", "")
        trial = [bwrap, *_ISOLATION_ARGUMENTS, *_system_mounts(), *_program_mounts(program[:1]), "--", *program]
        try:
            done = subprocess.run(trial, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as error:
            failures.append(f"{bwrap}: {error}"[:300])
            continue
        if done.returncode == 0:
            return bwrap
        failures.append(f"{bwrap}: {done.stderr.decode(errors='replace').strip()}"[:300])
    why = "; ".join(failures) or "there is no program bwrap"
    raise UsageError(f"MCP servers cannot be confined on this worker: {why}; {_INSTALL_HINT}")

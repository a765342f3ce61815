"""Confined: a stdio MCP server without the rights of the worker that starts it, by bubblewrap.

It has a user, process table and folders to itself: no /proc of other processes, no workspace, no home folder, no files
of the folder in which the worker was started. It sees programs and libraries of the system, those of its own program,
the files that its command line names, and what the operator adds, all of it read-only; and it may write to a /tmp that
ends with it. Its environment is made by the caller. The network is the worker's, unless the operator takes it away.
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

from roboco.adapters.sandbox.bubblewrap import NOBODY, programs_mounted
from roboco.adapters.sandbox.programs import Programs, found_bubblewraps
from roboco.errors import UsageError

Mode = Literal["network", "offline", "off"]
HOME = "/tmp/home"  # noqa: S108 - in the sandbox, where /tmp is a file system of its own
MAX_WRITTEN = 256 * 1024 * 1024
"""How many bytes a server may write; they lie in memory."""
_TRIED_WITHIN = 20
_ISOLATED = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns"),
    *("--die-with-parent", "--cap-drop", "ALL", "--hostname", "mcp", "--uid", str(NOBODY), "--gid", str(NOBODY)),
)
_OF_THE_SYSTEM = (
    *("/etc/alternatives", "/etc/ca-certificates", "/etc/group", "/etc/hosts", "/etc/localtime", "/etc/nsswitch.conf"),
    *("/etc/passwd", "/etc/pki", "/etc/resolv.conf", "/etc/ssl"),
)
_OF_A_PROGRAM = ("bin", "lib", "lib64", "libexec", "pyvenv.cfg")
_MOUNTED = ("/usr", "/usr/local")
_ROBOCO = str(Path(__file__).resolve().parents[2])
"""The library's code, which holds servers of its own; an editable installation has it elsewhere than other packages."""
_RW = ":rw"
_OFF = "set ROBOCO_MCP_SANDBOX=off, with which servers have all the rights of the worker"
_ALLOW = (
    "install roboco[sandbox] or the system's bubblewrap (0.8 or newer) and let users make namespaces, as for the "
    f"sandbox of the tool 'python'; or {_OFF}"
)


@dataclass(frozen=True)
class Confinement:
    """`mode`: with the network of the worker, without one, or no confinement at all.

    `paths` are what servers see beside their own program: read-only, or with ":rw" behind it to be changed.
    """

    mode: Mode = "network"
    paths: tuple[str, ...] = ()

    def command(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """The command that starts this one confined; UsageError if that cannot be done here."""
        if self.mode == "off":
            return command
        network = ("--unshare-net",) if self.mode == "offline" else ()
        here = os.getcwd()
        return (
            *(_bubblewrap(), *_ISOLATED, *network),
            *_system(),
            *_own(command),
            *self._added(),
            *("--dir", HOME, "--dir", here, "--remount-ro", "/", "--chdir", here, "--", *command),
        )

    def environment(self, given: dict[str, str]) -> dict[str, str]:
        """The environment of the server: the worker's home is not its own."""
        return given if self.mode == "off" else {**given, "HOME": HOME}

    def _added(self) -> Iterator[str]:
        for path in self.paths:
            bind = "--bind" if path.endswith(_RW) else "--ro-bind"
            place = os.path.abspath(path.removesuffix(_RW))
            yield from (bind, place, place)


def _system() -> Iterator[str]:
    yield from programs_mounted(Programs("", ""))
    for path in _OF_THE_SYSTEM:
        yield from ("--ro-bind-try", path, path)
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from ("--size", str(MAX_WRITTEN), "--tmpfs", "/tmp")  # noqa: S108 - in the sandbox


def _own(command: tuple[str, ...]) -> Iterator[str]:
    """What belongs to the program itself, and the files that its command line names."""
    for path in (*_programs(command[0]), _ROBOCO):
        yield from ("--ro-bind-try", path, path)
    for word in command[1:]:
        if os.path.isfile(word):
            path = os.path.abspath(word)
            yield from ("--ro-bind", path, path)


def _programs(program: str) -> list[str]:
    """The program, what its links lead to, and the libraries beside each; with the interpreter of its environment."""
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
        elif prefix not in _MOUNTED:
            found.update(dict.fromkeys(f"{prefix}/{name}" for name in _OF_A_PROGRAM))
            left += [f"{folder}/python"] if os.path.exists(f"{prefix}/pyvenv.cfg") else []
    return list(found)


def _bubblewrap() -> str:
    if sys.platform != "linux":
        raise UsageError(f"MCP servers that are started need Linux for their sandbox, this is {sys.platform}; {_OFF}")
    found = _working()
    if not found[0]:
        _working.cache_clear()  # an operator may change that while the worker runs
        raise UsageError(f"MCP servers cannot be confined on this worker: {found[1]}; {_ALLOW}")
    return found[0]


@lru_cache(maxsize=1)
def _working() -> tuple[str, str]:
    """The bubblewrap that works here, or "" and why none does."""
    failures = []
    for bwrap in found_bubblewraps():
        trial = [bwrap, *_ISOLATED, *_system(), *_own((sys.executable,)), "--", sys.executable, "-I", "-S", "-c", ""]
        try:
            done = subprocess.run(trial, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIED_WITHIN)
        except (OSError, subprocess.TimeoutExpired) as error:
            failures.append(f"{bwrap}: {error}"[:300])
        else:
            if done.returncode == 0:
                return bwrap, ""
            failures.append(f"{bwrap}: {done.stderr.decode(errors='replace').strip()}"[:300])
    return "", "; ".join(failures) or "there is no program bwrap"

"""The command line of bubblewrap."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from roboco.adapters.sandbox.limits import SandboxLimits
from roboco.adapters.sandbox.programs import Programs

BOX = "/tmp/box"  # noqa: S108 - in the sandbox, where /tmp is a separate file system
"""The working folder of the code."""
NOBODY = 65534
"""The user in the sandbox. Also outside of it if the worker is root, to whom the limit on processes would not apply."""

_OPEN_FILES = 64
_ISOLATED = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--as-pid-1", "--new-session"),
    *("--cap-drop", "ALL", "--hostname", "sandbox", "--uid", str(NOBODY), "--gid", str(NOBODY)),
    *("--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME", BOX),
    *("--setenv", "LANG", "C.UTF-8"),
)
# Folders of programs and libraries, not all of /usr: images of containers keep applications in /usr/src and /usr/app.
_BELOW_USR = ("bin", "lib", "lib32", "lib64", "libexec", "share", "local/bin", "local/lib", "local/lib64")
_AT_THE_ROOT = ("bin", "lib", "lib32", "lib64")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_INSIDE = files("roboco.adapters.sandbox").joinpath("init.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Descriptors:
    """Descriptors that the sandbox inherits. All are closed before the code runs. `inputs` are readable, by name."""

    channel: int
    info: int
    filter: int
    inputs: Mapping[str, int]

    def all(self) -> tuple[int, ...]:
        return (self.channel, self.info, self.filter, *self.inputs.values())


def command(programs: Programs, limits: SandboxLimits, given: Descriptors, room: int) -> list[str]:
    """Return the command that starts the sandbox; `room` is the number of writable bytes, inputs included."""
    # The time of a process is that of all its threads together: a second limit, behind the supervisor's clock.
    processor_seconds = (int(limits.seconds) + 1) * limits.processes
    numbers = (processor_seconds, limits.memory, limits.processes, limits.file, _OPEN_FILES)
    return [
        programs.bwrap,
        *_ISOLATED,
        *programs_mounted(programs),
        *("--proc", "/proc"),
        *_devices(),
        *("--size", str(room), "--tmpfs", "/tmp", "--dir", BOX, "--dir", "/tmp/shm"),  # noqa: S108 - as above
        *("--symlink", "../tmp/shm", "/dev/shm"),  # noqa: S108 - as above
        *_inputs(given.inputs),
        # all other folders lie in memory as well, without a limit
        *("--remount-ro", "/", "--chdir", BOX),
        *("--info-fd", str(given.info), "--seccomp", str(given.filter)),
        *("--", programs.python, "-I", "-S", "-c", _INSIDE, str(given.channel), *map(str, numbers)),
    ]


def programs_mounted(programs: Programs) -> Iterator[str]:
    """Yield the arguments that mount the programs and libraries of the system and of the interpreter, read-only."""
    for name in _BELOW_USR:
        yield from ("--ro-bind-try", f"/usr/{name}", f"/usr/{name}")
    for name in _AT_THE_ROOT:
        if os.path.islink(f"/{name}"):
            yield from ("--symlink", os.readlink(f"/{name}"), f"/{name}")
        else:
            yield from ("--ro-bind-try", f"/{name}", f"/{name}")
    yield from ("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")
    if programs.prefix:
        for name in ("bin", "lib", "lib64"):
            yield from ("--ro-bind-try", f"{programs.prefix}/{name}", f"{programs.prefix}/{name}")


def _devices() -> Iterator[str]:
    for name in _DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    yield from ("--symlink", "/proc/self/fd", "/dev/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        yield from ("--symlink", f"/proc/self/fd/{number}", f"/dev/{name}")


def _inputs(inputs: Mapping[str, int]) -> Iterator[str]:
    for name, descriptor in inputs.items():
        yield from ("--file", str(descriptor), f"{BOX}/{name}")

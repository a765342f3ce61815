"""The command line of bubblewrap."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from roboco.tools.sandbox.limits import SandboxLimits
from roboco.tools.sandbox.programs import Programs

WORKING_FOLDER = "/tmp/box"  # noqa: S108 - in the sandbox, where /tmp is a separate file system
"""The working folder of the code."""
UNPRIVILEGED_UID = 65534
"""The user in the sandbox. Also outside of it if the worker is root, to whom the limit on processes would not apply."""

_MAX_OPEN_FILES = 64
_ISOLATION_ARGUMENTS = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--as-pid-1", "--new-session"),
    *("--cap-drop", "ALL", "--hostname", "sandbox", "--uid", str(UNPRIVILEGED_UID), "--gid", str(UNPRIVILEGED_UID)),
    *("--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME", WORKING_FOLDER),
    *("--setenv", "LANG", "C.UTF-8"),
)
# Folders of programs and libraries, not all of /usr: images of containers keep applications in /usr/src and /usr/app.
_USR_FOLDERS = ("bin", "lib", "lib32", "lib64", "libexec", "share", "local/bin", "local/lib", "local/lib64")
_ROOT_FOLDERS = ("bin", "lib", "lib32", "lib64")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_INIT_SOURCE = files("roboco.tools.sandbox").joinpath("init.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Descriptors:
    """Descriptors that the sandbox inherits. All are closed before the code runs. `inputs` are readable, by name."""

    channel: int
    info: int
    filter: int
    inputs: Mapping[str, int]

    def all(self) -> tuple[int, ...]:
        return (self.channel, self.info, self.filter, *self.inputs.values())


def sandbox_command(
    programs: Programs, limits: SandboxLimits, descriptors: Descriptors, writable_bytes: int
) -> list[str]:
    """Return the command that starts the sandbox; `writable_bytes` is the number of writable bytes, inputs included."""
    # The time of a process is that of all its threads together: a second limit, behind the supervisor's clock.
    processor_seconds = (int(limits.seconds) + 1) * limits.processes
    numbers = (processor_seconds, limits.memory, limits.processes, limits.file, _MAX_OPEN_FILES)
    return [
        programs.bwrap,
        *_ISOLATION_ARGUMENTS,
        *program_mounts(programs),
        *("--proc", "/proc"),
        *_device_mounts(),
        *("--size", str(writable_bytes), "--tmpfs", "/tmp", "--dir", WORKING_FOLDER, "--dir", "/tmp/shm"),  # noqa: S108 - as above
        *("--symlink", "../tmp/shm", "/dev/shm"),  # noqa: S108 - as above
        *_input_mounts(descriptors.inputs),
        # all other folders lie in memory as well, without a limit
        *("--remount-ro", "/", "--chdir", WORKING_FOLDER),
        *("--info-fd", str(descriptors.info), "--seccomp", str(descriptors.filter)),
        *("--", programs.python, "-I", "-S", "-c", _INIT_SOURCE, str(descriptors.channel), *map(str, numbers)),
    ]


def program_mounts(programs: Programs) -> Iterator[str]:
    """Yield the arguments that mount the programs and libraries of the system and of the interpreter, read-only."""
    for name in _USR_FOLDERS:
        yield from ("--ro-bind-try", f"/usr/{name}", f"/usr/{name}")
    for name in _ROOT_FOLDERS:
        if os.path.islink(f"/{name}"):
            yield from ("--symlink", os.readlink(f"/{name}"), f"/{name}")
        else:
            yield from ("--ro-bind-try", f"/{name}", f"/{name}")
    yield from ("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")
    if programs.prefix:
        for name in ("bin", "lib", "lib64"):
            yield from ("--ro-bind-try", f"{programs.prefix}/{name}", f"{programs.prefix}/{name}")


def _device_mounts() -> Iterator[str]:
    for name in _DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    yield from ("--symlink", "/proc/self/fd", "/dev/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        yield from ("--symlink", f"/proc/self/fd/{number}", f"/dev/{name}")


def _input_mounts(inputs: Mapping[str, int]) -> Iterator[str]:
    for name, descriptor in inputs.items():
        yield from ("--file", str(descriptor), f"{WORKING_FOLDER}/{name}")

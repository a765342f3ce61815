"""The system call filter of the sandbox, as a program for the kernel's packet filter (BPF).

Bubblewrap's namespaces restrict the files, processes and networks that code can see. The filter closes the remaining
gaps: memory that belongs to no process and no file (memfd, System V and POSIX queues, socket buffers of the sandbox's
network), and interfaces of the kernel with a history of vulnerabilities.
"""

import errno
import platform
import socket
import struct
from dataclasses import dataclass

from roboco.errors import UsageError

_SO_SNDBUF = 7
_CLONE_NEW = 0x7E02_0000
"""Every flag of clone that creates a namespace."""
_FIRST_X32_NUMBER = 0x4000_0000
"""Numbers from here on are the second table of x86-64, through which code could evade a filter by number."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 32
_ALLOW, _KILL, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000


@dataclass(frozen=True)
class _Machine:
    architecture: int
    clone: int
    socket: int
    setsockopt: int
    refused: tuple[int, ...]


# The same on every machine: clone3 (so that the C library falls back to clone, whose flags can be seen), pidfd_getfd,
# io_uring_*, the calls for mounts, memfd_secret, process_madvise, mount_setattr, quotactl_fd.
_COMMON_REFUSED = (435, 438, 425, 426, 427, 428, 429, 430, 431, 432, 433, 447, 440, 442, 443)
_MACHINES = {
    "x86_64": _Machine(
        architecture=0xC000_003E,
        clone=56,
        socket=41,
        setsockopt=54,
        refused=(
            *(319, 29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240),  # memfd_create, shm*, sem*, msg*, mq_open
            *(101, 310, 311, 312),  # ptrace, process_vm_*, kcmp
            *(272, 308, 165, 166, 155, 161, 167, 168),  # unshare, setns, mount, umount2, *root, swap*
            *(321, 298, 323, 248, 249, 250, 300, 303, 304, 179, 163),  # bpf, perf, userfaultfd, keys, fanotify, handles
            *(175, 313, 176, 246, 320, 169, 103, 172, 173, 134, 139, 156, 153, 154, 135),  # modules, kexec, ports
            *_COMMON_REFUSED,
        ),
    ),
    "aarch64": _Machine(
        architecture=0xC000_00B7,
        clone=220,
        socket=198,
        setsockopt=208,
        refused=(
            *(279, 194, 195, 196, 190, 191, 192, 193, 186, 187, 188, 189, 180),
            *(117, 270, 271, 272),
            *(97, 268, 40, 39, 41, 51, 224, 225),
            *(280, 241, 282, 217, 218, 219, 262, 264, 265, 60, 89),
            *(105, 273, 106, 104, 294, 142, 116, 58, 92),
            *_COMMON_REFUSED,
        ),
    ),
}


def system_call_filter() -> bytes:
    """Return the filter's program for this machine. Raise UsageError if its system calls are not known here."""
    name = platform.machine()
    if name not in _MACHINES:
        known = ", ".join(_MACHINES)
        raise UsageError(
            f"the sandbox for code does not know the system calls of this machine, {name!r}, only of: {known}"
        )
    return b"".join(_program(_MACHINES[name]))


def _program(machine: _Machine) -> list[bytes]:
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        *_unless(_EQUAL, machine.architecture, _KILL),
        _instruction(_LOAD, _NUMBER),
        *_if(_AT_LEAST, _FIRST_X32_NUMBER, _errno_result(errno.ENOSYS)),
    ]
    for number in machine.refused:
        program += _if(_EQUAL, number, _errno_result(errno.ENOSYS))
    program += _check_argument(machine.clone, _if(_ANY_BIT, _CLONE_NEW, _errno_result(errno.EPERM)))
    # Ignored as if clamped: `resource_usage` counts each socket with its default size.
    program += _check_argument(machine.setsockopt, _if(_EQUAL, _SO_SNDBUF, _errno_result(0)), _THIRD_ARGUMENT)
    program += _check_argument(machine.socket, _unless(_EQUAL, socket.AF_UNIX, _errno_result(errno.ENETUNREACH)))
    return [*program, _instruction(_RETURN, _ALLOW)]


def _check_argument(number: int, instructions: list[bytes], argument: int = _FIRST_ARGUMENT) -> list[bytes]:
    inside = [_instruction(_LOAD, argument), *instructions, _instruction(_RETURN, _ALLOW)]
    return [_instruction(_EQUAL, number, 0, len(inside)), *inside]


def _if(test: int, value: int, result: int) -> list[bytes]:
    return [_instruction(test, value, 0, 1), _instruction(_RETURN, result)]


def _unless(test: int, value: int, result: int) -> list[bytes]:
    return [_instruction(test, value, 1, 0), _instruction(_RETURN, result)]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _errno_result(number: int) -> int:
    return _ERRNO | number

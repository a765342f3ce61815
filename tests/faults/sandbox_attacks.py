"""Hostile code, and how the sandbox must end it."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from roboco.tools.sandbox.limits import MIB
from roboco.tools.sandbox.result import RunResult
from tests.faults.sandbox_payloads import (
    DAEMON,
    ENDLESS_OUTPUT,
    FILL_DISK,
    FILL_EVERYWHERE,
    FORGE_WRAPPER,
    FORK_BOMB,
    FORKED_PROCESSES,
    KILL_ALL,
    LINKS,
    MOVE_FOLDER,
    READ_SECRETS,
    SHARED_MEMORY,
    SOCKETS,
    UNOWNED_MEMORY,
    attempt,
)


@dataclass(frozen=True)
class Attack:
    """A piece of hostile code. Tests replace `HOST` by a folder of the host, `PARENT` by the worker's process id,
    and `PORT` by the port of a server.
    """

    name: str
    code: str
    contained: Callable[[RunResult], bool]
    limits: Mapping[str, Any] = field(default_factory=dict)


def refused(ran: RunResult) -> bool:
    """Return True if the code was refused what it tried, and printed so at its end."""
    return ran.end_reason == "" and ran.exit_code == 0 and ran.output.endswith("refused\n")


def ended_by(why: str) -> Callable[[RunResult], bool]:
    return lambda ran: ran.end_reason == why and ran.exit_code is None


ATTACKS = [
    Attack("tcp", attempt("socket.create_connection(('127.0.0.1', PORT), 3)"), refused),
    Attack(
        "udp", attempt("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))"), refused
    ),
    Attack("dns", attempt("socket.getaddrinfo('example.org', 80)"), refused),
    Attack(
        "netlink",
        attempt("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", "socket.socket(socket.AF_PACKET)"),
        refused,
    ),
    Attack("abstract socket", attempt("socket.socket(socket.AF_UNIX).connect(chr(0) + 'ABSTRACT')"), refused),
    Attack("fork bomb", FORK_BOMB, ended_by("time"), {"seconds": 1.5}),
    Attack(
        "thread bomb",
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
        lambda ran: "can't start new thread" in ran.output,
    ),
    Attack(
        "memory of one process",
        "held = []\nwhile True: held.append(bytearray(1 << 20))",
        lambda ran: ran.exit_code == 1 and "MemoryError" in ran.output,
        {"memory": 96 * MIB},
    ),
    Attack("memory of many processes", FORKED_PROCESSES, ended_by("memory"), {"memory": 96 * MIB}),
    Attack(
        "shared memory",
        SHARED_MEMORY,
        ended_by("memory"),
        {"memory": 96 * MIB},
    ),
    Attack("memory of sockets", SOCKETS, ended_by("memory"), {"memory": 256 * MIB}),
    Attack("memory without an owner", UNOWNED_MEMORY, refused),
    Attack("processor", "while True: pass", ended_by("time"), {"seconds": 1}),
    Attack(
        "deaf to signals",
        "import signal\nfor n in (15, 2, 1, 24): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
        ended_by("time"),
        {"seconds": 1},
    ),
    Attack("disk in many files", FILL_DISK, refused, {"disk": 15 * MIB}),
    Attack("disk in one file", attempt("open('one', 'wb').write(bytes(9 << 20))"), refused, {"file": 8 * MIB}),
    Attack("disk everywhere", FILL_EVERYWHERE, refused, {"disk": 15 * MIB}),
    Attack(
        "empty files without end",
        "n = 0\nwhile True: open(f'f{n}', 'w').close(); n += 1",
        ended_by("entries"),
        {"entries": 500},
    ),
    Attack(
        "folders without end",
        "import os\nwhile True: os.mkdir('d'); os.chdir('d')",
        ended_by("entries"),
        {"entries": 500},
    ),
    Attack("secrets", READ_SECRETS, refused),
    Attack(
        "links to the host",
        LINKS,
        lambda ran: refused(ran) and not ran.files and len(ran.skipped) == 3,
    ),
    Attack(
        "hard links to the programs",
        attempt("os.link(os.path.realpath('/usr/bin/env'), 'env')", "os.link('/proc/self/environ', 'e')"),
        refused,
    ),
    Attack(
        "devices",
        attempt("os.mknod('d', 0o20666, os.makedev(1, 1))", "os.mknod('b', 0o60666, os.makedev(8, 0))"),
        refused,
    ),
    Attack("endless output", ENDLESS_OUTPUT, ended_by("output")),
    Attack("endless line", "import sys\nwhile True: sys.stdout.write('x' * 100000)", ended_by("output")),
    Attack(
        "endless output of nothing but halves",
        "import os\nwhile True: os.write(2, b'\\x80' * 65536)",
        ended_by("output"),
    ),
    Attack("surviving child", DAEMON, lambda ran: ran.exit_code == 0 and ran.output == "daemon is up\nmain ends\n"),
    Attack(
        "namespace",
        attempt(
            "call('unshare', 0x10000000)",
            "call('unshare', 0x20000)",
            "call('setns', 0, 0)",
            "call('syscall', 56, 0x10000000 | 17, 0, 0, 0, 0)"
            if os.uname().machine == "x86_64"
            else "call('unshare', 0)",
        ),
        refused,
    ),
    Attack("mount", attempt("call('mount', b'x', b'/tmp', b'tmpfs', 0, None)", "call('chroot', b'/tmp')"), refused),
    Attack("ptrace", attempt("call('ptrace', 16, PARENT, 0, 0)", "call('ptrace', 16, 1, 0, 0)"), refused),
    Attack("kill of all processes", KILL_ALL, refused),
    Attack("forged wrapper", FORGE_WRAPPER, lambda ran: ran.output == "memory refused\nrefused\n"),
    Attack(
        "kernel settings",
        attempt(
            "open('/proc/sys/kernel/core_pattern', 'w')",
            "open('/proc/sysrq-trigger', 'w')",
            "open('/proc/self/oom_score_adj', 'wb', buffering=0).write(b'-1000')",
        ),
        refused,
    ),
    Attack("limits raised", attempt("call('setrlimit', 7, (ctypes.c_ulong * 2)(9999, 9999))"), refused),
    Attack(
        "moved working folder",
        MOVE_FOLDER,
        lambda ran: refused(ran) and not ran.files,
    ),
    Attack(
        "removed working folder",
        "import os\nos.rmdir('/tmp/box')\nprint('refused')",
        lambda ran: refused(ran) and not ran.files,
    ),
]

"""The first process in the sandbox: sends descriptors to the worker, receives the code, and runs it in a child.

Its source is passed to an installed interpreter of any version, so it imports nothing of Roboco. When it ends, the
kernel ends every other process of the sandbox. It ends when the code ends, and when the worker ends, whose end of the
channel closes then. The code itself inherits no descriptor that leads outside.
"""

import _signal  # type: ignore[import-not-found]  # as the next one
import _socket  # the module `socket` takes as long to import as the interpreter to start
import os
import resource
import select
import struct
import sys

CODE_PATH = "/tmp/code.py"  # noqa: S108 - of the sandbox
CHANNEL_DESCRIPTOR = 3
PR_SET_DUMPABLE = 4


def main(channel: int, seconds: int, memory: int, processes: int, file_size: int, open_files: int) -> None:
    """Run the code that arrives through the descriptor `channel`, and exit with its status."""
    worker = _socket.socket(fileno=channel)
    code = receive_code(worker)
    os.dup2(worker.detach(), CHANNEL_DESCRIPTOR)
    os.set_inheritable(CHANNEL_DESCRIPTOR, False)
    os.closerange(CHANNEL_DESCRIPTOR + 1, 1 << 16)
    protect_process()
    with open(CODE_PATH, "wb") as script:
        script.write(code)
    limits = {
        "CPU": seconds,
        "DATA": memory,
        "AS": 4 * memory,
        "FSIZE": file_size,
        "NOFILE": open_files,
        "MEMLOCK": 0,
        "MSGQUEUE": 0,
        # a core handler of the host is started in spite of 0, and not for 1: core(5)
        "CORE": 1,
    }
    if kernel_version() >= (5, 14):  # before, processes of the user outside of the sandbox are counted, too
        limits["NPROC"] = processes + 1
    for limit, value in limits.items():
        number = getattr(resource, "RLIMIT_" + limit)
        most = resource.getrlimit(number)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(number, (value, value))
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    _signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if not child:
        os.nice(5)
        os.execv(sys.executable, [sys.executable, "-I", "-u", "-X", "utf8", CODE_PATH])  # noqa: S606
    status = wait_for_child(child, wakeup_read)
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def wait_for_child(child: int, wakeup_read: int) -> int:
    """Return the status of the child. If the worker is gone, exit, which ends the sandbox."""
    poller = select.poll()
    for descriptor in (CHANNEL_DESCRIPTOR, wakeup_read):
        poller.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == CHANNEL_DESCRIPTOR:  # only its end can follow the code
                os._exit(1)
            os.read(wakeup_read, 4096)
        ended = -1
        while ended:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == child:
                return status


def protect_process() -> None:
    """Keep the code, which runs as the same user, out of the memory and the descriptors of this process: prctl(2)."""
    import ctypes  # here, since it takes 5 ms, during which the worker handles the descriptors

    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        sys.exit("the first process of the sandbox cannot be guarded")


def receive_code(channel: _socket.socket) -> bytes:
    """Send the descriptors of the working folder and the process list; return the received code."""
    folders = [os.open(".", os.O_RDONLY), os.open("/proc", os.O_RDONLY)]
    channel.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("2i", *folders))])
    data = b""
    while len(data) < 8 or len(data) < 8 + struct.unpack("=Q", data[:8])[0]:
        more = channel.recv(1 << 20)
        if not more:
            sys.exit("the worker is gone")
        data += more
    for folder in folders:
        os.close(folder)
    return data[8:]


def kernel_version() -> "tuple[int, int]":
    """Return the version of the kernel."""
    numbers = os.uname().release.split("-")[0].split(".")
    return int(numbers[0]), int(numbers[1].rstrip("+"))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

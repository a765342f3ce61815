"""Protection of a process: it hides its environment, memory and descriptors from other processes of its user."""

import ctypes
import logging
import os
import sys

_PR_SET_DUMPABLE = 4
_log = logging.getLogger(__name__)


def guard_process() -> None:
    """Make this process and its forked children non-dumpable with prctl(2). From then on it writes no core dump.

    The files of its folder in /proc then belong to root. Two limits: root and processes with CAP_SYS_PTRACE still read
    them, and debuggers such as py-spy need these rights. A program that the process starts by exec is dumpable again.
    On systems other than Linux this does nothing.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        why = os.strerror(ctypes.get_errno())
        _log.warning("other processes of this user can read the secrets of this process: prctl failed: %s", why)

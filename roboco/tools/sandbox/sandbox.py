"""The sandbox for code that a model wrote."""

import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from roboco.domain.history.part import artifact_name
from roboco.errors import TransientError, UsageError
from roboco.tools.sandbox.bubblewrap import Descriptors, sandbox_command
from roboco.tools.sandbox.budget import MemoryBudget
from roboco.tools.sandbox.limits import FOLDER_BYTES, MAX_PAGE_BYTES, SandboxLimits
from roboco.tools.sandbox.output_files import collect_files
from roboco.tools.sandbox.process import start_sandbox
from roboco.tools.sandbox.programs import Programs, find_programs
from roboco.tools.sandbox.result import RunResult
from roboco.tools.sandbox.seccomp import system_call_filter
from roboco.tools.sandbox.supervisor import RunSupervisor


def open_inputs(inputs: Mapping[str, Path], limits: SandboxLimits, stack: ExitStack) -> dict[str, int]:
    """Return a readable descriptor for each input, which `stack` closes. Raise UsageError for an unusable input."""
    if len(inputs) > limits.input_files:
        raise UsageError(f"{len(inputs)} input files, but at most {limits.input_files} are given to one run")
    descriptors = {}
    for name, path in inputs.items():
        descriptors[_check_name(name)] = _open_input(name, path, stack)
    total = sum(os.fstat(descriptor).st_size for descriptor in descriptors.values())
    if total > limits.inputs:
        raise UsageError(f"the input files have {total} bytes, but at most {limits.inputs} are given to one run")
    return descriptors


def _check_name(name: str) -> str:
    try:
        plain = artifact_name(name)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if plain != name:
        raise UsageError(f"input {name!r} is given by its URI, give it by its name: {plain!r}")
    return name


def _open_input(name: str, path: Path, stack: ExitStack) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"input {name!r} cannot be read: {error}") from error
    stack.callback(os.close, descriptor)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise UsageError(f"input {name!r} is not a file")
    return descriptor


_SEND_TIMEOUT = 10
"""Seconds after which the worker gives up sending the code, also on a machine under load."""
_PROBE_CODE = "print('sandbox ' + 'works')"
_INSTALL_HINT = (
    "to allow it: install roboco[sandbox] or the system's bubblewrap (0.8 or newer), and Python below /usr; "
    "let users make namespaces (sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 where it "
    "exists, and where kernel.apparmor_restrict_unprivileged_userns=1 an AppArmor profile with 'userns' for bwrap); "
    "start a container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined"
)


class Sandbox:
    """Runs code without network, environment and foreign files, and ends it at its limits.

    There is no way around the sandbox: where it cannot start, nothing runs. Safe to use from any thread.
    """

    def __init__(
        self,
        limits: SandboxLimits = SandboxLimits(),  # noqa: B008 - immutable
        budget: MemoryBudget = MemoryBudget(),  # noqa: B008 - immutable
    ) -> None:
        self._budget = budget
        self.limits = limits if budget.refusal() else limits.scaled_to(budget.share(limits.total_memory))

    def refusal(self) -> str:
        """Return why the sandbox cannot start here, with the operator's remedy, or "" if it can.

        Determined by a real run: once per process if it works, at each call if it does not.
        """
        return self._budget.refusal() or _probe.refusal()

    @contextmanager
    def run(self, code: str, inputs: Mapping[str, Path], cancelled: Callable[[], bool]) -> Iterator[RunResult]:
        """Run the code over copies of the inputs in its working folder, until it or a limit ends it.

        Its files can be read while the block lasts. They lie in memory, so nothing is left however the block or this
        process ends. `cancelled` is called about every 50 ms, in this thread.

        Raise UsageError if the sandbox cannot start here, or if code or inputs exceed the limits. Raise TransientError
        if the sandbox did not start this time.
        """
        refusal = self.refusal()
        if refusal:
            raise UsageError(refusal)
        with _run(_probe.programs(), self.limits, code, inputs, cancelled) as ran:
            yield ran


class _Probe:
    """The programs that work on this machine, determined once per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working_programs: Programs | None = None

    def programs(self) -> Programs:
        """Return the programs that work. Raise UsageError if none do."""
        refusal = self.refusal()
        if self._working_programs is None:
            raise UsageError(refusal)
        return self._working_programs

    def refusal(self) -> str:
        """Return why no programs work, or "" if some do."""
        if sys.platform != "linux":
            return f"the sandbox for code needs Linux, this is {sys.platform}: run the tools workers on Linux"
        try:
            system_call_filter()
        except UsageError as error:
            return str(error)
        with self._lock:
            return "" if self._working_programs else self._try_all()

    def _try_all(self) -> str:
        failures = []
        for programs in find_programs():
            try:
                _try_run(programs)
            except (TransientError, OSError) as error:  # an old kernel lacks calls that this needs
                failures.append(f"{programs.bwrap} with {programs.python}: {error}")
            else:
                self._working_programs = programs
                return ""
        why = "; ".join(failures) or "there is no program bwrap"
        return f"the sandbox for code cannot start on this worker: {why}; {_INSTALL_HINT}"


_probe = _Probe()


def _try_run(programs: Programs) -> None:
    limits = SandboxLimits(seconds=10)
    with _run(programs, limits, _PROBE_CODE, {}, lambda: False) as ran:
        if ran.output != "sandbox works\n" or ran.exit_code:
            raise TransientError(f"a trial ended with {ran.end_reason or ran.exit_code!r}: {ran.output.strip()}")


@contextmanager
def _run(
    programs: Programs,
    limits: SandboxLimits,
    code: str,
    inputs: Mapping[str, Path],
    cancelled: Callable[[], bool],
) -> Iterator[RunResult]:
    source = code.encode(errors="surrogatepass")  # Python reports half a character as a syntax error
    if b"\0" in source:  # some versions of Python run the part before it
        raise UsageError(f"the code has a NUL character at position {code.index(chr(0))}: write it as an escape")
    if len(source) > limits.code:
        raise UsageError(f"the code has {len(source)} bytes, but at most {limits.code} are run: read data from a file")
    with ExitStack() as stack:
        input_descriptors = open_inputs(inputs, limits, stack)
        channel, their_channel = _socket_pair(stack)
        info = _memory_file(stack)
        descriptors = Descriptors(their_channel.fileno(), info, _filter_descriptor(stack), input_descriptors)
        space = sum(os.fstat(descriptor).st_size + MAX_PAGE_BYTES for descriptor in input_descriptors.values())
        writable_bytes = limits.disk + space + limits.code + FOLDER_BYTES
        process = stack.enter_context(
            start_sandbox(
                sandbox_command(programs, limits, descriptors, writable_bytes), descriptors.all(), channel, info
            )
        )
        their_channel.close()
        supervisor = RunSupervisor(process, source, limits, cancelled)
        supervisor.wait()
        if process.handles is None and not supervisor.end_reason:
            raise TransientError(f"the sandbox did not start: {supervisor.output.text().strip()}")
        found = collect_files(process.handles.folder, input_descriptors, limits) if process.handles else None
        yield RunResult(
            output=supervisor.output.text(),
            exit_code=None if supervisor.end_reason else process.bwrap.returncode,
            end_reason=supervisor.end_reason,
            files=tuple(found.files) if found else (),
            skipped=found.lines() if found else (),
        )


def _socket_pair(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.settimeout(_SEND_TIMEOUT)
    stack.callback(ours.close)
    stack.callback(theirs.close)
    return ours, theirs


def _memory_file(stack: ExitStack) -> int:
    """Return a descriptor to which bubblewrap can write even when this process is gone.

    A pipe would end bubblewrap in the middle of its start, and its child would wait for it for ever.
    """
    memory = os.memfd_create("info", os.MFD_CLOEXEC)
    stack.callback(os.close, memory)
    return memory


def _filter_descriptor(stack: ExitStack) -> int:
    """Return a descriptor from which bubblewrap reads the system call filter."""
    read, write = os.pipe()
    stack.callback(os.close, read)
    with os.fdopen(write, "wb") as program:
        program.write(system_call_filter())
    return read

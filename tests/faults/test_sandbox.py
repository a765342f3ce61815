"""Hostile code in the sandbox: it reaches nothing outside, does not outlive the run, and changes no worker."""

import gc
import os
import re
import resource
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE

import pytest

from roboco.tools.sandbox.limits import SandboxLimits
from roboco.tools.sandbox.programs import find_programs
from roboco.tools.sandbox.sandbox import Sandbox
from tests.faults.sandbox_attacks import ATTACKS, Attack
from tests.faults.sandbox_payloads import DAEMON, ENDLESS_OUTPUT, FORGE_WRAPPER, FORK_BOMB
from tests.support.stack import until

SECRET = "the-secret-of-the-host"
RLIMIT_LOCKS = 10
"""A limit of Linux without effect. Each process inherits it, also one whose parent dies."""
MARK = 1 + secrets.randbelow(1 << 40)
"""The soft value of RLIMIT_LOCKS by which the processes of these tests are known among all of the machine."""


@pytest.fixture(autouse=True)
def unharmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Assert that a test leaves no process, file or descriptor behind, and no file of the host changed."""
    require_sandbox()
    limits = resource.getrlimit(RLIMIT_LOCKS)
    resource.setrlimit(RLIMIT_LOCKS, (MARK, limits[1]))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("ROBOCO_TEST_SECRET", SECRET)
    (tmp_path / "secret").write_text(SECRET)
    gc.collect()  # closes the leftovers of other tests before this one
    before, descriptors = contained_processes(), open_descriptors()
    yield
    resource.setrlimit(RLIMIT_LOCKS, limits)
    until(lambda: contained_processes() <= before, 5, "no process of the sandbox is left")
    assert open_descriptors() <= descriptors
    assert not list(temporary.iterdir())
    assert (tmp_path / "secret").read_text() == SECRET


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_is_contained(attack: Attack, tmp_path: Path) -> None:
    with listeners() as (tcp, udp, abstract):
        code = attack.code.replace("HOST", str(tmp_path)).replace("PARENT", str(os.getpid()))
        code = code.replace("PORT", str(tcp.getsockname()[1])).replace("ABSTRACT", abstract)
        with Sandbox(SandboxLimits(**attack.limits)).run(code, {}, never) as ran:
            assert attack.contained(ran), ran
            assert len(ran.output) < 70_000
        for listener in (tcp, udp):
            with pytest.raises(BlockingIOError):
                listener.recv(1) if listener is udp else listener.accept()


@pytest.mark.parametrize("code", ["while True: pass", ENDLESS_OUTPUT, FORK_BOMB, DAEMON + "time.sleep(60)"])
def test_a_cancelled_run_ends(code: str) -> None:
    asked: list[float] = []

    def cancelled() -> bool:
        asked.append(time.monotonic())
        return asked[-1] - asked[0] > 0.5

    with Sandbox(SandboxLimits(printed=1 << 40)).run(code, {}, cancelled) as ran:
        assert ran.end_reason == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("code", ["", FORGE_WRAPPER + "os.setsid()"])
def test_a_run_dies_with_its_worker(number: int, code: str) -> None:
    code += "\nprint('runs', flush=True)\nwhile True: pass"
    runs = "from roboco.tools.sandbox.sandbox import Sandbox as S\ns = S()\n"
    before = contained_processes()
    worker = subprocess.Popen([sys.executable, "-c", f"{runs}with s.run({code!r}, {{}}, lambda: False): pass"])
    try:
        until(lambda: len(contained_processes() - before) > 1, 20, "the code runs")
    finally:
        worker.send_signal(number)
        worker.wait()
    until(lambda: contained_processes() <= before, 5, "the run has ended")


RUN_ON_REQUEST = """
import os, sys
from roboco.tools.sandbox.sandbox import Sandbox
sandbox = Sandbox()
assert not sandbox.refusal()
for _ in iter(sys.stdin.readline, ""):
    worker = os.fork()
    if not worker:
        with sandbox.run("while True: pass", {}, lambda: False):
            os._exit(0)
    print(worker, flush=True)
    os.waitpid(worker, 0)
"""


def test_a_worker_that_dies_during_the_start_leaves_no_process() -> None:
    """A start takes about 30 ms. The worker is killed a millisecond later in each attempt."""
    before = contained_processes()
    asked = subprocess.Popen([sys.executable, "-c", RUN_ON_REQUEST], stdin=PIPE, stdout=PIPE, text=True)
    assert asked.stdin is not None
    assert asked.stdout is not None
    with asked, asked.stdin:
        for tenths in range(0, 300, 10):
            print("run", file=asked.stdin, flush=True)
            worker = int(asked.stdout.readline())
            time.sleep(tenths / 10_000)  # the moment of the kill
            os.kill(worker, signal.SIGKILL)
    until(lambda: contained_processes() <= before and not bubblewrap_pids(), 5, "nothing is left")


def test_a_run_changes_only_its_copy_of_an_input(tmp_path: Path) -> None:
    original = tmp_path / "data.csv"
    original.write_text("a,b\n")
    code = "open('data.csv', 'a').write('1,2'); print(open('data.csv').read())"
    with Sandbox().run(code, {"data.csv": original}, never) as ran:
        assert [(file.name, file.path.read_text()) for file in ran.files] == [("data.csv", "a,b\n1,2")]
    assert original.read_text() == "a,b\n"


@contextmanager
def listeners() -> Iterator[tuple[socket.socket, socket.socket, str]]:
    """Run servers on the host: TCP and UDP on one port, and an abstract Unix socket."""
    name = f"roboco-test-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        udp.bind(tcp.getsockname())
        unix.bind(f"\0{name}")
        for server in (tcp, unix):
            server.listen()
            server.setblocking(False)
        udp.setblocking(False)
        yield tcp, udp, name


def open_descriptors() -> set[tuple[str, str]]:
    """Return the descriptors of this process with their targets."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.add((descriptor.name, os.readlink(descriptor)))
    return found


def contained_processes() -> set[str]:
    """Return the processes of these tests in a PID namespace below this one."""
    found = set()
    for process in marked_processes():
        with suppress(FileNotFoundError, ProcessLookupError):
            status = (process / "status").read_text()
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            if len(fields["NSpid"].split()) > 1 and not fields["State"].startswith(("Z", "X")):
                found.add(process.name)
    return found


def bubblewrap_pids() -> list[str]:
    """Return the processes of bubblewrap that these tests started, also those without a namespace yet."""
    found = []
    for process in marked_processes():
        with suppress(FileNotFoundError, ProcessLookupError):
            if (process / "comm").read_text() == "bwrap\n":
                found.append(process.name)
    return found


def marked_processes() -> Iterator[Path]:
    """Yield the folder in /proc of each process that these tests started."""
    for limits in Path("/proc").glob("[0-9]*/limits"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if re.search(rf"^Max file locks +{MARK} ", limits.read_text(), re.MULTILINE):
                yield limits.parent


def never() -> bool:
    return False


def require_sandbox() -> None:
    refusal = Sandbox().refusal()
    if refusal and os.environ.get("CI") and any(find_programs()):
        pytest.fail(refusal)
    if refusal:
        pytest.skip(refusal)

"""The memory that the sandboxes of run_sandbox worker share."""

import logging
import threading
from pathlib import Path

import pytest

from roboco.errors import UsageError
from roboco.tools.sandbox.budget import (
    MIN_SHARE,
    MemoryBudget,
    log_sandbox_share,
    memory_limit,
    read_budget,
)
from roboco.tools.sandbox.limits import MIB, SandboxLimits
from roboco.tools.sandbox.result import RunResult
from roboco.tools.sandbox.sandbox import Sandbox

DEFAULT_LIMITS = SandboxLimits()


@pytest.fixture
def sandbox_available() -> None:
    """Skip the test if the sandbox cannot start on this create_machine."""
    refusal = Sandbox().refusal()
    if refusal:
        pytest.skip(refusal)


def create_machine(root: Path, cgroup: str, **limits: str) -> Path:
    """Create a root folder whose first process is in `cgroup`. In file names, "__" means "/"."""
    files = {"proc/self/cgroup": cgroup} | {
        f"sys/fs/cgroup/{name.replace('__', '/')}": text for name, text in limits.items()
    }
    for name, text in files.items():
        path = root / name.replace("memory_max", "memory.max").replace("limit_in_bytes", "memory.limit_in_bytes")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


CGROUP_V1 = "9:name=systemd:/\n4:memory:/pods/a\n3:cpuset:/\n0::/\n"


@pytest.mark.parametrize(
    ("cgroup", "limits", "expected"),
    [
        ("", {}, None),
        ("0::/\n", {"memory_max": "2147483648\n"}, 2048 * MIB),
        ("0::/a/b\n", {"a__b__memory_max": "2000\n", "a__memory_max": "1000\n"}, 1000),
        ("0::/seen/from/the/host\n", {"memory_max": "700\n"}, 700),
        ("0::/../outside\n", {"memory_max": "700\n"}, 700),
        ("0::/\n", {"memory_max": "nonsense\n"}, None),
        (CGROUP_V1, {"memory__pods__a__limit_in_bytes": "300\n"}, 300),
        (
            CGROUP_V1,
            {"memory__pods__a__limit_in_bytes": "9223372036854771712\n", "memory__pods__limit_in_bytes": "800"},
            800,
        ),
    ],
)
def test_memory_limit_is_the_lowest_of_its_cgroups(
    tmp_path: Path, cgroup: str, limits: dict[str, str], expected: int | None
) -> None:
    assert memory_limit(create_machine(tmp_path, cgroup, **limits)) == expected


@pytest.mark.parametrize(("megabytes", "sandboxes"), [(64 * 15, 15), (1000, 3), (1568, 1), (100_000, 7)])
def test_the_sum_of_the_shares_is_within_the_budget(megabytes: int, sandboxes: int) -> None:
    budget = read_budget(megabytes, sandboxes)
    limits = Sandbox(budget=budget).limits
    assert not budget.refusal()
    assert sandboxes * limits.total_memory <= megabytes * MIB
    assert limits.memory <= DEFAULT_LIMITS.memory
    assert limits.disk <= DEFAULT_LIMITS.disk
    assert limits.inputs <= DEFAULT_LIMITS.inputs
    assert limits.file <= limits.disk
    assert min(limits.memory, limits.disk, limits.inputs) > MIB


def test_too_small_a_share_is_refused_with_the_remedy() -> None:
    sandbox = Sandbox(budget=read_budget(100, 2))
    with pytest.raises(UsageError) as raised, sandbox.run("print(1)", {}, lambda: False):
        pytest.fail("the code ran")
    assert "ROBOCO_SANDBOX_MEMORY=100 gives each of 2 sandboxes" in str(raised.value)
    assert "50 MiB, and each needs 64 MiB; raise ROBOCO_SANDBOX_MEMORY" in str(raised.value)
    assert "--concurrency" in str(raised.value)


def test_a_cgroup_smaller_than_the_worker_is_refused_by_its_limit(tmp_path: Path) -> None:
    refusal = read_budget(None, 4, create_machine(tmp_path, "0::/\n", memory_max=str(400 * MIB))).refusal()
    assert "memory limit of 400 MiB less 96 MiB for each of the worker's 5 processes gives each of 4" in refusal
    assert " 0 MiB, and each needs" in refusal


@pytest.mark.parametrize(
    ("megabytes", "logged"), [(100, "too little memory"), (1000, "gets 250 MiB"), (100_000, ""), (None, "")]
)
def test_the_worker_logs_a_share_below_the_full_size(
    megabytes: int | None, logged: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log_sandbox_share(read_budget(megabytes, 4, tmp_path))
    assert len(caplog.records) == bool(logged)
    assert logged in caplog.text


@pytest.mark.usefixtures("sandbox_available")
def test_the_smallest_share_runs_python(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    code = "import csv, json, sqlite3, statistics; print(list(csv.reader(open('in.csv'))))\nopen('out', 'w').write('x')"
    sandbox = Sandbox(budget=MemoryBudget(MIN_SHARE, "a test"))
    with sandbox.run(code, {"in.csv": tmp_path / "in.csv"}, lambda: False) as result:
        assert (result.output, result.exit_code, result.end_reason) == ("[['a', 'b'], ['1', '2']]\n", 0, "")
        assert [file.name for file in result.files] == ["out"]


MEMORY_HOG = """
import mmap, os, time
taken = disk = 0
try:
    with open('file', 'wb') as file, open('/tmp/more', 'wb') as more:
        for each in (file, more):
            try:
                while True:
                    disk += each.write(bytes(65536)); each.flush()
            except OSError:
                pass
except OSError:
    pass
held = []
try:
    while True:
        held.append(bytearray(b'x' * 65536)); taken += 65536
except MemoryError:
    held.pop()
print(taken + disk, flush=True)
time.sleep(1)
"""


@pytest.mark.usefixtures("sandbox_available")
def test_two_concurrent_sandboxes_stay_within_the_budget() -> None:
    budget = read_budget(160, 2)
    barrier = threading.Barrier(2)
    runs: list[RunResult] = []

    def run_sandbox() -> None:
        barrier.wait(60)
        with Sandbox(budget=budget).run(MEMORY_HOG, {}, lambda: False) as result:
            barrier.wait(60)  # both sandboxes hold their files at this moment
            runs.append(result)

    threads = [threading.Thread(target=run_sandbox) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = [int(result.output) for result in runs]
    assert [result.end_reason for result in runs] == ["", ""], runs
    assert sum(used) <= 160 * MIB
    assert min(used) > 16 * MIB, "they did allocate"

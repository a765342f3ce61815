"""The benchmarks at a tiny size: each runs to its end and prints its figures, whose values are not checked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from roboco.local.valkey import find_server
from tests.bench.__main__ import BENCHES
from tests.bench.peers.__main__ import PEERS, missing
from tests.conftest import need
from tests.support.stack import ROOT

pytestmark = [pytest.mark.workers, pytest.mark.nightly]


def test_the_peers_run_and_print_every_figure(tmp_path: Path) -> None:
    need(find_server)
    if missing():
        pytest.skip(f"not installed: {', '.join(missing())}")
    command = [sys.executable, "-m", "tests.bench.peers", "figures", "--runs", "1", "--size", "0.01"]
    ended = subprocess.run(
        [*command, "--json", str(tmp_path / "json")], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stderr
    *results, facts = json.loads((tmp_path / "json").read_text())
    assert facts == {"bench": "facts", "facts": []}
    names = [name for names in PEERS.values() for name in names]
    assert [len(result["measurements"]) for result in results] == [len(names)] * 3
    for result in results:
        for figure in result["figures"]:
            assert figure["name"].startswith("Roboco / ")
            assert figure["name"] in ended.stdout


def test_each_benchmark_prints_its_figures(tmp_path: Path) -> None:
    need(find_server)
    command = [sys.executable, "-m", "tests.bench", "--runs", "1", "--size", "0.01", "--json", str(tmp_path / "json")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    results = json.loads((tmp_path / "json").read_text())["results"]
    assert {result["bench"].partition(",")[0] for result in results} == set(BENCHES)
    for result in results:
        assert result["figures"]
        for figure in result["figures"]:
            assert figure["name"] in ended.stdout
            if figure["unit"] == "times, by round":
                assert f"{result['bench']}: {figure['name']}: one round says nothing of the spread" in ended.stdout

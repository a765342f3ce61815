"""The benches, at a tiny size: each runs to its end and prints its ratio. What they measure is not looked at."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from roboco.adapters.local.valkey import find_server
from tests.bench.__main__ import BENCHES
from tests.conftest import need
from tests.stack import ROOT

pytestmark = pytest.mark.workers


def test_a_short_soak_loses_nothing() -> None:
    need(find_server)
    command = [sys.executable, "-m", "tests.bench.soak", "--seconds", "20", "--tasks", "6", "--seed", "11"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "lost 0 · doubled 0 · stuck 0 · failed 0" in ended.stdout


def test_each_bench_prints_its_ratio(tmp_path: Path) -> None:
    need(find_server)
    command = [sys.executable, "-m", "tests.bench", "--runs", "1", "--size", "0.01", "--json", str(tmp_path / "json")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    results = json.loads((tmp_path / "json").read_text())["results"]
    assert {result["bench"].partition(",")[0] for result in results} == set(BENCHES)
    for result in results:
        assert result["figures"]
        for ratio in result["figures"]:
            assert ratio["name"] in ended.stdout
            assert f"{result['bench']}: {ratio['name']}: one round says nothing of the spread" in ended.stdout

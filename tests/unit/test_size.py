"""The size of the product: the numbers of a small tree, and a failure once one has grown."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

CHECKS = Path(__file__).parents[2] / ".ci"
MODULE = '''"""A module."""

from typing import Protocol


class Settings:
    """Settings."""

    name: str  # of the shop
    limit: int


class Store(Protocol):
    """A port."""


def send(one: object) -> None:
    """Send it."""
    one._private()
'''


def check(root: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, str(root / ".ci" / "size.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_product_that_grows_fails_until_its_size_is_recorded(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    for name in ("size.py", "import_depth.py"):
        shutil.copy(CHECKS / name, tmp_path / ".ci" / name)
    module = tmp_path / "roboco" / "ports" / "store.py"
    module.parent.mkdir(parents=True)
    module.write_text(MODULE)
    assert check(tmp_path, "--record")[0] == 0
    recorded = json.loads((tmp_path / ".ci" / "size.json").read_text())
    assert {name: number for name, number in recorded.items() if number} == {
        "lines": 19,
        "lines of code": 7,
        "settings": 2,
        "ports": 1,
        "uses of private names": 1,
        "longest chain of imports": 1,
    }
    module.write_text(f"{MODULE}\n\nLIMIT = 3\n")
    code, output = check(tmp_path)
    assert code == 1
    assert "grown: lines, lines of code; take something away" in output
    assert check(tmp_path, "--record")[0] == 0
    assert check(tmp_path)[0] == 0


def test_more_seconds_are_shown_and_are_no_failure(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    for name in ("size.py", "import_depth.py"):
        shutil.copy(CHECKS / name, tmp_path / ".ci" / name)
    assert check(tmp_path, "--seconds", "1300", "--record")[0] == 0
    code, output = check(tmp_path, "--seconds", "1325")
    assert (code, output.split()[-2:]) == (0, ["1325", "+25"])

"""The check of names in docstrings: one that the code does not use is found, with its file and line."""

import shutil
import subprocess
import sys
from pathlib import Path

CHECKS = Path(__file__).parents[2] / ".ci"


def test_a_docstring_that_names_a_lost_constant_or_class_is_reported(tmp_path: Path) -> None:
    (tmp_path / "roboco").mkdir()
    (tmp_path / "roboco" / "store.py").write_text(
        '"""The `store` keeps at most MAX_ITEMS for OLD_LIMIT seconds, see `Store` and `list_items.lua`.\n\n'
        '`Registry.find` reads them."""\n\nMAX_ITEMS = 3\n\n\nclass Store: ...\n'
    )
    (tmp_path / "roboco" / "list_items.lua").write_text("return 1\n")
    for name in ("names.py", "texts.py"):
        shutil.copy(CHECKS / name, tmp_path / name)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "names.py"), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "roboco/store.py:1: OLD_LIMIT does not exist",
        "roboco/store.py:1: Registry.find does not exist",
    ]

"""Run modules of the web view by node, without a browser."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.stack import ROOT

ASSETS = ROOT / "roboco" / "gateway" / "web" / "assets"
FRAMES = ROOT / "tests" / "support" / "web" / "task_frames.mjs"


def copy_modules(folder: Path) -> Path:
    """Copy the modules of the web view into this folder, as node reads them. Without node, skip; under CI, fail."""
    if shutil.which("node") is None:
        assert not os.environ.get("CI"), "node is not installed, which runs the modules of the web view"
        pytest.skip("node is not installed")
    for name in ("js", "vendor"):
        shutil.copytree(ASSETS / name, folder / name)
    shutil.copy(FRAMES, folder / "task_frames.js")
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


def evaluate(folder: Path, script: str, *arguments: Any) -> Any:
    """Run this body of an asynchronous function of `given`, a list, and return the JSON that it returns."""
    program = (
        f"const given = JSON.parse(process.argv[2]);\nconsole.log(JSON.stringify(await (async () => {{{script}}})()));"
    )
    (folder / "program.js").write_text(program)
    done = subprocess.run(
        ["node", "program.js", json.dumps(arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

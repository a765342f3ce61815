"""The wheel as users install it, and all examples under mypy --strict, from the wheel and from an editable install."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from tests.deployment.files import ROOT
from tests.support.documents import write_files

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "roboco" / "examples"
WRONG = """from roboco import Orchestrator

for item in Orchestrator().task("order-17"):
    if item.type == "step_final":
        print(item.data.text)
"""
EXPECTED_ERRORS = ['wrong.py:5: error: "StepFinal" has no attribute "text"  [attr-defined]']
"""The errors of mypy in WRONG. It would find none if Roboco's types were unknown."""
LOCATE_PACKAGES = """
import importlib.util, pathlib, roboco
print(pathlib.Path(roboco.__file__).parent)
print(importlib.util.find_spec("roboco.workers.agents") is not None, importlib.util.find_spec("workers"))
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Return the output of a program that sees only installed packages, not this clone."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    ended = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=900)
    assert not ended.stderr, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that is built from a copy, since the build leaves folders beside the sources."""
    if Version(version("setuptools")) < Version("77") and not os.environ.get("CI"):
        pytest.skip("setuptools is older than 77: run pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    for name in ("roboco", "workers"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, source, cwd=folder)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with the wheel in its site-packages and all other packages of the Python of the tests."""
    folder = tmp_path_factory.mktemp("venv")
    venv.EnvBuilder(symlinks=True).create(folder)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site / "dependencies.pth").write_text("\n".join(others))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all examples as modules, and WRONG as one more."""
    folder = tmp_path_factory.mktemp("examples")
    write_files(folder)
    for path in (*EXAMPLES.glob("[!_]*.py"), ROOT / "tests" / "deployment" / "typed_reader.py"):
        shutil.copy(path, folder)
    (folder / "wrong.py").write_text(WRONG)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache of mypy that both installations share."""
    return tmp_path_factory.mktemp("mypy")


def mypy_strict(python: str | Path, examples: Path, cache: Path) -> list[str]:
    """Return the lines that mypy --strict prints about the examples, with Roboco as this Python has it installed."""
    options = ["--strict", "--config-file=", "--no-error-summary", "--no-color-output", f"--cache-dir={cache}"]
    files = sorted(path.name for path in examples.glob("*.py"))
    command = [sys.executable, "-m", "mypy", *options, f"--python-executable={python}", *files]
    return run(*command, cwd=examples).splitlines()


def test_wheel_holds_one_package_and_all_its_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"roboco"}
    endings = ("py", "pyi", "lua", "yaml", "md", "env", "js", "jsx", "json", "css", "html", "svg")
    needed = {path for ending in endings for path in (ROOT / "roboco").rglob(f"*.{ending}")}
    needed |= set((ROOT / "roboco").rglob("LICENSE-*"))
    needed |= {ROOT / "roboco" / "workers" / path.name for path in (ROOT / "workers").glob("*.py")}
    assert {str(path.relative_to(ROOT)) for path in needed} | {"roboco/py.typed"} == {
        name for name in names if ".dist-info/" not in name
    }


def test_wheel_is_found_with_its_workers_and_no_package_beside_it(installed: Path, tmp_path: Path) -> None:
    place, workers = run(installed, "-c", LOCATE_PACKAGES, cwd=tmp_path).splitlines()
    assert Path(place).is_relative_to(installed.parent.parent)
    assert workers == "True None"


@pytest.mark.nightly
def test_examples_pass_mypy_strict_from_a_wheel(installed: Path, examples: Path, cache: Path) -> None:
    assert mypy_strict(installed, examples, cache) == EXPECTED_ERRORS


@pytest.mark.nightly
def test_examples_pass_mypy_strict_from_an_editable_install(examples: Path, cache: Path, tmp_path: Path) -> None:
    place = run(sys.executable, "-c", "import roboco; print(roboco.__path__[0])", cwd=tmp_path)
    assert Path(place.strip()) == ROOT / "roboco"
    assert mypy_strict(sys.executable, examples, cache) == EXPECTED_ERRORS

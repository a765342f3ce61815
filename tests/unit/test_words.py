"""The check of words finds each kind of finding, and nothing in a clean project."""

import subprocess
import sys
from pathlib import Path

CHECK = Path(__file__).parents[2] / ".ci" / "words.py"
RATE_LINES = 7
"""Lines of the output before the findings: four rates of the product, and three of the tests."""
FINDINGS = [
    ("roboco/a.py", '"""One.\n\nThe user is told."""\n', "roboco/a.py:3: banned word 'told'"),
    ("roboco/a.py", "x = 'the call stands still'\n", "roboco/a.py:1: banned word 'stands'"),
    (
        "roboco/a.py",
        "class A:\n    x: int\n    '''A word of its own.'''\n",
        "roboco/a.py:3: banned word 'of its own'",
    ),
    ("workers/a.py", "def read(brought): ...\n", "workers/a.py:1: name 'brought' contains 'brought'"),
    ("workers/a.py", "_LONGEST = 3\n", "workers/a.py:1: constant '_LONGEST' does not name its quantity"),
    ("tests/unit/a.py", 'def test_a():\n    """It is told."""\n', "tests/unit/a.py:2: banned word 'told'"),
    ("tests/a.py", "PATIENCE = 3\n", "tests/a.py:1: constant 'PATIENCE' does not name its quantity"),
    (".ci/words.py", "BANNED = 'it stands'  # It comes late\n", ".ci/words.py:1: banned word 'comes'"),
    ("roboco/a.py", "x = f'{one} told {two}'\n", "roboco/a.py:1: banned word 'told'"),
    ("roboco/a.py", "# One reads, and\n# another looks\n# at it.\n", "roboco/a.py:2: banned word 'looks at'"),
    ("roboco/a.lua", "--[[ One.\n So\nmany ]]\n", "roboco/a.lua:2: banned word 'So many'"),
    ("roboco/a.lua", "return 'it -- comes'\n", "roboco/a.lua:1: banned word 'comes'"),
    ("roboco/knock/a.yaml", "", "roboco/knock/a.yaml: file name 'knock' contains 'knock'"),
    ("roboco/a.py", "import a as told\n", "roboco/a.py:1: name 'told' contains 'told'"),
    ("roboco/a.py", "match a:\n    case [*told]: ...\n", "roboco/a.py:2: name 'told' contains 'told'"),
    ("roboco/a.py", "MOST_TASKS = 1\n", "roboco/a.py:1: constant 'MOST_TASKS' does not name its quantity"),
    ("deploy/a.yaml", "a: 1 # It is\nb: told\n", "deploy/a.yaml:2: banned word 'told'"),
    (".ci/run", "# Nobody\n", ".ci/run:1: banned word 'Nobody'"),
    ("tests/a.mjs", "// It looks\n// at it\n", "tests/a.mjs:1: banned word 'looks at'"),
    (".ci/words.py", "ALLOWED_TEXT = 'it is told'\n", ".ci/words.py:1: banned word 'told'"),
]
"""The path and the text of a file, and the finding in it."""


def run_check(folder: Path, files: dict[str, str]) -> tuple[int, str]:
    """Return the exit code and the output of the check for a project of these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run([sys.executable, CHECK, folder], capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout


def test_check_names_place_and_cause(tmp_path: Path) -> None:
    """One project has all findings, with numbers in the names of files; another one has the names that occur twice."""
    projects: list[dict[str, str]] = [{}, {}]
    expected: list[list[str]] = [[], []]
    for number, row in enumerate(FINDINGS):
        name, finding = (one.replace("/a.", f"/a{number}.") for one in (row[0], row[2]))
        project = int(name in projects[0])
        projects[project][name] = row[1]
        expected[project].append(finding)
    for number, files in enumerate(projects):
        code, output = run_check(tmp_path / str(number), files)
        assert (code, sorted(output.splitlines()[RATE_LINES:-1])) == (1, sorted(expected[number]))


def test_check_rejects_a_public_type_name_that_is_defined_twice(tmp_path: Path) -> None:
    code, output = run_check(
        tmp_path, {"roboco/a.py": "class Found: ...\nclass _Own: ...\n", "workers/b.py": "Found = int\n_Own = 1\n"}
    )
    assert code == 1
    assert "public type 'Found' is defined 2 times: roboco/a.py, workers/b.py\n1 findings" in output


def test_check_rejects_rates_outside_their_bounds(tmp_path: Path) -> None:
    words = " ".join(["what"] * 4 + ["word"] * 996)
    code, output = run_check(tmp_path, {"roboco/a.py": f'"""{words}"""\n'})
    assert code == 1
    assert "rate of what in the product is 4.0; bounds: (0.0, 3.0)" in output
    assert "rate of return/raise in the product is 0.0; bounds: (6.0, 1000.0)" in output

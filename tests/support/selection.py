"""Selection of tests: the fast ones, unless files are named or `--slow`, `--nightly` or `--all` is given.

The marks `slow` and `nightly` divide the tests into three parts. Files that are named run whole.

Under pytest-xdist the worker processes collect. The choice travels to them in `workerinput`.
"""

import re
from pathlib import Path
from typing import Any

import pytest

PARTS = 10
in_parts = pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))]
)
"""Divides the calls at which a test causes a fault: every tenth one is in every run, the others are nightly."""
QUICK_FOLDERS = ("contract", "unit")
"""The folders of which a file without one of MARKS has only fast tests, since their fixtures have no mark."""
MARKS = re.compile(r"\bmark\.(slow|nightly)\b|\bin_parts\b")
SLOW_FILE = re.compile(r"^pytestmark = .*\bmark\.(slow|nightly)\b", re.MULTILINE)
"""The mark of all tests of a file."""
SLOW_FOLDER = "faults"
"""The folder in which every test is slow: it kills workers, loses a server, or enumerates every failure of a run."""


def add_options(parser: pytest.Parser) -> None:
    """Add `--slow`, `--nightly` and `--all`."""
    group = parser.getgroup("selection")
    group.addoption("--slow", dest="chosen", action="store_const", const="slow", help="run only the slow tests")
    group.addoption(
        "--nightly",
        dest="chosen",
        action="store_const",
        const="nightly",
        help="run only the tests that --slow leaves out",
    )
    group.addoption("--all", dest="chosen", action="store_const", const="all", help="run all tests")


class Selection:
    """A pytest plugin that deselects the tests that were not chosen, and reports their number."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        given = getattr(config, "workerinput", {}).get("chosen") or config.getoption("chosen")
        named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
        self._chosen = given or ("all" if named else "fast")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Import no file without a test that was chosen: imports are most of a collection."""
        if self._chosen == "all" or collection_path.suffix != ".py":
            return None
        folders = collection_path.relative_to(self._config.rootpath).parts
        text = collection_path.read_text()
        if self._chosen == "fast":
            return True if SLOW_FOLDER in folders or SLOW_FILE.search(text) else None
        return True if not MARKS.search(text) and any(folder in folders for folder in QUICK_FOLDERS) else None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen items."""
        if self._chosen == "all":
            return
        kept, left_out = list[pytest.Item](), list[pytest.Item]()
        for item in items:
            (kept if _part_of(item) == self._chosen else left_out).append(item)
        self._config.hook.pytest_deselected(items=left_out)
        items[:] = kept

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send the choice to a worker process."""
        node.workerinput["chosen"] = self._chosen

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print how to run the tests left out."""
        if self._chosen == "fast":
            terminalreporter.write_line(
                "Slow tests are left out: killed workers, lost servers, enumerated failures, RabbitMQ, MCP servers, "
                "browsers, benchmarks. Run them with: python -m pytest --slow"
            )


def _part_of(item: pytest.Item) -> str:
    if item.get_closest_marker("nightly") is not None:
        return "nightly"
    in_folder = SLOW_FOLDER in item.path.relative_to(item.config.rootpath).parts
    return "slow" if in_folder or item.get_closest_marker("slow") is not None else "fast"

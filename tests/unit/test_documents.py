"""The documents: complete, linked, current, and every example is tested."""

import re
import runpy
from pathlib import Path

import pytest

from roboco.team_files.file import parse_team
from roboco.team_files.safe_yaml import read_yaml
from tests.support.documents import GUIDES, PAGES, Example, example, examples
from tests.support.stack import ROOT

TESTED = {"python": ("file", "example", "before"), "yaml": ("file", "team"), "json": ("message",)}
"""The kinds of examples that are tested, by language."""
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:(?:tests|workers|deploy|\.ci)/[\w./*-]+)|(?:roboco/[\w./*-]+\.\w+))(?:::(\w+))?`")
"""The path of a file or folder, and a test in it. `roboco/` without a file may be a prefix in a bucket."""
TEXTS = {page: page.read_text() for page in PAGES}
MODULE = re.compile(r"python -m ((?:tests|roboco)\b[\w.]*)")
SETTINGS_PAGE = ROOT / ".ci" / "settings_page.py"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def exists(path: str, test: str) -> bool:
    """Return True if there is such a file or folder, and the test of this name in it."""
    found = list(ROOT.glob(path))
    return bool(found) and (not test or any(f"def {test}(" in file.read_text() for file in found))


def test_settings_page_is_generated_from_the_settings() -> None:
    generated = runpy.run_path(str(SETTINGS_PAGE))
    page = generated["page"]()
    assert page == (GUIDES / "settings.md").read_text(), "run python .ci/settings_page.py"
    assert all(f"`ROBOCO_{row} |" in page for row in ("CALLER` | text", "AUDIT_LOG` | file", "HEALTH_DIR` | folder"))


def test_index_names_every_guide() -> None:
    named = set(LINK.findall((GUIDES / "index.md").read_text()))
    assert named == {page.name for page in GUIDES.glob("*.md")} - {"index.md"}


def test_workspace_page_names_every_file_of_a_task() -> None:
    page, code = (GUIDES / "workspace.md").read_text(), (ROOT / "roboco" / "domain" / "paths.py").read_text()
    files = set(re.findall(r"task_id\)\}/([a-z_]+(?:\.jsonl?|/))", code))
    files |= {f"mcp/SERVER{ending}" for ending in re.findall(r"server\)\}([a-z.]+)\"", code)}
    assert {"newest_notifications.json", "mcp/SERVER.requests.json"} <= files
    assert sorted(one for one in files if f"{{task_id}}/{one}" not in page) == []


def test_links_lead_to_files() -> None:
    targets = [(page, target) for page, text in TEXTS.items() for target in LINK.findall(text) if "://" not in target]
    assert [(name_of(page), target) for page, target in targets if not (page.parent / target).exists()] == []


def test_named_paths_tests_and_modules_exist() -> None:
    named = {found for text in TEXTS.values() for found in PATH.findall(text)}
    named |= {(f"{name.replace('.', '/')}*", "") for text in TEXTS.values() for name in MODULE.findall(text)}
    assert [found for found in sorted(named) if not exists(*found)] == []


def test_every_example_is_tested() -> None:
    untested = [one for one in examples() if one.language in TESTED and one.kind not in TESTED[one.language]]
    assert untested == []


@pytest.mark.parametrize("fragment", examples("team"), ids=lambda one: one.page.stem)
def test_fragments_of_team_files_are_valid(fragment: Example) -> None:
    agents = [{"name": "one", "prompt": "hi"}]
    parse_team({"name": "documented", "agents": agents} | read_yaml(fragment.text))


def test_commands_of_the_front_page_are_marked_for_ci() -> None:
    assert "roboco demo" in example("ci", "first")
    assert "pytest" in example("ci", "second")

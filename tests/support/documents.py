"""The documents of the repository and their examples.

A comment above a code block says how it is tested:

    <!-- file: NAME -->     a file; tests run it under this name
    <!-- example: NAME -->  an excerpt of a file in roboco/examples
    <!-- team -->           fields of a team file; a team with a name is also run
    <!-- before: PACKAGE -->  code of another framework
    <!-- message -->        a Celery message
    <!-- ci: NAME -->       a command that `.ci/run` runs in a fresh clone
    <!-- step: NAME -->     commands of the tutorial; `tests/browser/test_tutorial.py` runs them in order,
                            `tests/deployment/containers/test_tutorial.py` those that need Docker
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.stack import ROOT

GUIDES: Final = ROOT / "roboco" / "docs"
PAGES: Final = (
    ROOT / "README.md",
    *sorted(GUIDES.glob("*.md")),
    ROOT / "deploy" / "README.md",
    ROOT / "deploy" / "SECURITY.md",
    ROOT / "tests" / "README.md",
    ROOT / "tests" / "bench" / "README.md",
)
_BLOCK: Final = re.compile(r"(?:^<!-- (\w+)(?:: (\S+))? -->\n)?^( *)```(\w*)\n(.*?)^\3```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A code block of a document; `kind` and `name` are those of the comment above it, or empty."""

    page: Path
    kind: str
    name: str
    language: str
    text: str


def examples(kind: str = "") -> list[Example]:
    """Return all code blocks of the documents, or those of one kind."""
    found = [
        Example(page, kind or "", name or "", language, text)
        for page in PAGES
        for kind, name, _, language, text in _BLOCK.findall(page.read_text(encoding="utf-8"))
    ]
    return [example for example in found if not kind or example.kind == kind]


def write_files(folder: Path) -> None:
    """Write the files of the documents into a folder."""
    for example in examples("file"):
        (folder / example.name).write_text(example.text)


def example(kind: str, name: str = "") -> str:
    """Return the text of the only code block of this kind and name."""
    [found] = [one.text for one in examples(kind) if one.name == name]
    return found

"""roboco docs: the guides, in the terminal."""

import re
import sys
from importlib import resources
from importlib.resources.abc import Traversable

import click
from rich.console import Console
from rich.markdown import Markdown

from roboco.cli.terminal.screen import Screen
from roboco.errors import NotFound

_FOLDER = resources.files("roboco") / "docs"
_INDEX = "index"
_ENTRY = re.compile(r"^\| \[(\w+)\]\(\1\.md\) \| (.+) \|$", re.MULTILINE)
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE)
_MAX_WIDTH = 120
"""Columns of a page on a terminal; longer lines are hard to read."""


@click.command()
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Show a guide, or list all of them.

    A terminal shows PAGE formatted, a pipe gets its Markdown.
    """
    if page is None:
        _list(Screen(sys.stdout))
    elif sys.stdout.isatty():
        console = Console()
        console.print(Markdown(text_of(page)), width=min(console.width, _MAX_WIDTH))
    else:
        sys.stdout.write(text_of(page))


def pages() -> dict[str, str]:
    """Return the guides with their subjects, in the order of the index."""
    return {_INDEX: "the list of guides"} | dict(_ENTRY.findall(_file(_INDEX).read_text(encoding="utf-8")))


def text_of(page: str) -> str:
    """Return the Markdown of a guide, without the comments for tests. Raise UsageError if there is no such guide."""
    name = page.removesuffix(".md")
    if name not in pages():
        raise NotFound(f"there is no guide {page!r}; guides: {', '.join(pages())}")
    return _COMMENT.sub("", _file(name).read_text(encoding="utf-8"))


def _file(name: str) -> Traversable:
    return _FOLDER / f"{name}.md"


def _list(screen: Screen) -> None:
    width = max(map(len, pages()))
    for name, subject in pages().items():
        screen.line((name.ljust(width), "bold"), f"  {subject.replace('`', '')}")
    screen.line(("roboco docs PAGE shows one", "dim"))

"""roboco init: a project to begin with, which runs as it is."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from shlex import quote

import click

from roboco.errors import UsageError

PROJECT = resources.files("roboco.examples") / "project"
FILES = ("team.yaml", "team_tools.py", "service.py", "test_team.py", "settings.env")
"""The files of a project, the one to read first at the front."""
WEB_FILES = ("web/chat.jsx", "web/index.html", "web/package.json", "web/vite.config.js")
"""The files of its page."""
WEB_COMMANDS = (
    "ROBOCO_TEAMS_DIR=. roboco dev --port-base 7700",
    "npm --prefix web install && npm --prefix web run dev    # in another terminal",
)
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@click.command()
@click.argument("folder", metavar="[NAME]", default="roboco-project", type=click.Path(path_type=Path, file_okay=False))
@click.option("--web", is_flag=True, help="Also a page for chats with the team, by useChat of the AI SDK.")
def init(folder: Path, web: bool) -> None:
    """Create a project: a team, a tool, a service, a test and settings.

    It is written into the folder NAME (roboco-project by default) and runs as it is. No file is overwritten.
    """
    files = FILES + WEB_FILES if web else FILES
    create_project(folder, files)
    click.echo(f"created {folder}: {', '.join(files)}")
    click.echo("\nnext:")
    for command in [*next_commands(folder), *(WEB_COMMANDS if web else ())]:
        click.echo(f"  {command}")


def next_commands(folder: Path) -> list[str]:
    """Return shell commands for a new project; the first one activates the virtual environment if necessary."""
    activate = Path(sys.prefix, "bin", "activate")
    return [
        *([f". {quote(str(activate))}"] if not on_shell_path() and activate.exists() else []),
        f"cd {quote(str(folder))} && . ./settings.env",
        "roboco run team.yaml 'a note about the sea'",
        "python -m unittest",
    ]


def on_shell_path() -> bool:
    """Return True if the user's shell finds `roboco` without a folder."""
    path = os.environ.get("PATH", "").split(os.pathsep)
    if is_temporary():
        path = [entry for entry in path if entry != str(Path(sys.prefix, "bin"))]
    return shutil.which("roboco", path=os.pathsep.join(path)) is not None


def is_temporary() -> bool:
    """Return True in the environment of `uvx`, which is on the PATH of this process alone.

    Unlike an activated environment, it sets UV and no VIRTUAL_ENV.
    """
    return "UV" in os.environ and "VIRTUAL_ENV" not in os.environ


def create_project(folder: Path, files: Sequence[str] = FILES) -> None:
    """Write the files of a project whose team has the folder's name.

    Raises UsageError, and writes nothing, if one of them exists or the folder cannot be written.
    """
    if existing := [name for name in files if (folder / name).exists()]:
        raise UsageError(f"folder {str(folder)!r} has {', '.join(existing)} already: choose another NAME")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            text = (PROJECT / name).read_text(encoding="utf-8")
            if name == "team.yaml":
                text = text.replace("name: project", f"name: {team_name(folder)}", 1)
            (folder / name).parent.mkdir(exist_ok=True)
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"folder {str(folder)!r} cannot be written: {error.strerror}; choose another NAME") from error


def team_name(folder: Path) -> str:
    """Return the folder's name as a name of a team, which begins with a letter and has ASCII letters and digits."""
    name = _NOT_IN_A_NAME.sub("-", folder.absolute().name).strip("-_")[:64]
    return name if name[:1].isalpha() else f"team-{name}".rstrip("-")[:64]

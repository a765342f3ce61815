"""Team files: YAML or JSON, and the prompt files next to them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.team.team import MAX_PROMPT_CHARS
from roboco.domain.team.validation import MAX_TEAM_CHARS
from roboco.errors import InvalidTeam, UsageError
from roboco.team_files.file import load_team, parse_team
from roboco.templates import rendering


def write_file(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def mistakes_in(path: Path) -> tuple[str, ...]:
    with pytest.raises(InvalidTeam) as raised:
        load_team(path)
    assert raised.value.source == str(path)
    return raised.value.mistakes


def write_team_of(folder: Path, **agent: Any) -> Path:
    return write_file(folder, "team.json", json.dumps({"name": "desk", "agents": [{"name": "one"} | agent]}))


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must end in \.yaml, \.yml, \.json"):
        load_team(write_file(tmp_path, "team.yaml.bak", "name: desk"))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_team(tmp_path / "team.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_team(tmp_path / "folder.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    with pytest.raises(UsageError, match=r"cannot be read: .*utf-8"):
        load_team(tmp_path / "latin.yaml")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("team.json", "{", "the file: is not JSON"),
        ("team.json", "[" * 100_000, "the file: is not JSON"),
        ("team.yaml", "[" * 600, "the file: is not YAML"),
        ("team.yaml", "!!python/object/apply:os.system ['id']", "the file: is not YAML"),
        ("team.yaml", "", "the file: must hold 'name' and 'agents' (it is empty)"),
        ("team.json", '"text"', "the file: must hold 'name' and 'agents'"),
    ],
)
def test_an_invalid_team_file_is_refused_with_one_line(tmp_path: Path, name: str, content: str, expected: str) -> None:
    [mistake] = mistakes_in(write_file(tmp_path, name, content))
    assert expected in mistake
    assert "\n" not in mistake


def test_both_a_prompt_and_a_prompt_file_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path, "x.md", "hi")
    [mistake] = mistakes_in(write_team_of(tmp_path, prompt="hi", prompt_file="x.md"))
    assert mistake == "agents[0]: has both 'prompt' and 'prompt_file', keep one of them"


@pytest.mark.parametrize(
    ("prompt_file", "expected"),
    [
        ("nothing.md", "No such file"),
        ("folder", "it is no regular file"),
        ("../outside.md", "name a file beside or below the team file"),
        ("/etc/hostname", "name a file beside or below the team file"),
        ("linked/outside.md", "the file lies outside the team's folder"),
        ("latin.md", "utf-8"),
        ("a\0b", "null"),
        ("", ""),
        (5, "name a file"),
    ],
)
def test_an_unreadable_prompt_file_is_refused(tmp_path: Path, prompt_file: object, expected: str) -> None:
    write_file(tmp_path, "outside.md", "secret")
    folder = tmp_path / "teams"
    (folder / "folder").mkdir(parents=True)
    (folder / "linked").symlink_to(tmp_path)
    (folder / "latin.md").write_bytes(b"\xff")
    [mistake] = mistakes_in(write_team_of(folder, prompt_file=prompt_file))
    assert mistake.startswith(f"agents[0].prompt_file: {prompt_file!r} cannot be read: ")
    assert expected in mistake
    assert "secret" not in mistake


@pytest.mark.parametrize("name", [".env", "..env", ".git/config", "a/.hidden.md", "link.md"])
def test_a_hidden_prompt_file_is_refused(tmp_path: Path, name: str) -> None:
    write_file(tmp_path, ".env", "SECRET=1")
    (tmp_path / "link.md").symlink_to(tmp_path / ".env")
    for hidden in (".git/config", "a/.hidden.md"):
        write_file(tmp_path, hidden, "secret")
    [mistake] = mistakes_in(write_team_of(tmp_path, prompt_file=name))
    assert "begin with '.'" in mistake


@pytest.mark.parametrize("content", [b"x" * (MAX_PROMPT_CHARS + 1), b"a\0b", b"\xff\xfe"])
def test_a_prompt_file_that_is_large_or_binary_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.md").write_bytes(content)
    [mistake] = mistakes_in(write_team_of(tmp_path, prompt_file="x.md"))
    assert mistake.startswith("agents[0].prompt_file: 'x.md' cannot be read: ")
    assert len(mistake) < 300


def team_with_prompts(*prompts: str) -> dict[str, Any]:
    return {"name": "desk", "agents": [{"name": f"a{n}", "prompt": prompt} for n, prompt in enumerate(prompts)]}


def test_prompts_that_are_too_long_together_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "_environment", None)
    prompt = "x" * (MAX_PROMPT_CHARS - 1010)
    with pytest.raises(InvalidTeam) as raised:
        parse_team(
            team_with_prompts(*[prompt] * 4)
            | {"teams": {"inner": team_with_prompts("{{ tusk }}" + prompt, "{{ tusk }}")}}
        )
    size = 5 * MAX_PROMPT_CHARS - 5040
    expected = f"the prompts up to here have {size} characters, at most {MAX_TEAM_CHARS} are possible together"
    assert raised.value.mistakes == (f"teams.inner.agents[0].prompt: {expected}",)


def test_a_prompt_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.md")
    [mistake] = mistakes_in(write_team_of(tmp_path, prompt_file="x.md"))
    assert mistake == "agents[0].prompt_file: 'x.md' cannot be read: it is no regular file"


@pytest.mark.parametrize("place", ["prompts", "prompts/x.md"])
def test_a_prompt_file_whose_path_becomes_a_link_after_the_check_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = tmp_path / "teams"
    for one, text in ((folder / "prompts", "prompt"), (tmp_path / "outside/prompts", "secret")):
        one.mkdir(parents=True)
        (one / "x.md").write_text(text)
    file = write_team_of(folder, prompt_file="prompts/x.md")
    opened = os.open

    def swap(path: Any, *args: Any, **named: Any) -> int:
        if not (folder / place).is_symlink():
            (folder / place).rename(tmp_path / "before")
            (folder / place).symlink_to(tmp_path / "outside" / place)
        return opened(path, *args, **named)

    monkeypatch.setattr(os, "open", swap)
    [mistake] = mistakes_in(file)
    assert mistake.endswith("cannot be read: its path was changed while it was opened; try again")


def test_a_prompt_file_of_a_config_map_is_read(tmp_path: Path) -> None:
    """Kubernetes mounts links to a folder whose name begins with two dots."""
    write_file(tmp_path, "..2026_11_23/x.md", "be\r\nshort")
    (tmp_path / "..data").symlink_to("..2026_11_23")
    (tmp_path / "x.md").symlink_to("..data/x.md")
    team = load_team(write_team_of(tmp_path, prompt_file="x.md"))
    assert team.agents[0].prompt == "be\nshort"


def test_a_team_without_a_file_may_not_name_prompt_files() -> None:
    with pytest.raises(InvalidTeam, match="a team that is not in a file has its prompts and teams in itself"):
        parse_team({"name": "desk", "agents": [{"name": "one", "prompt_file": "x.md"}]})
    assert parse_team({"name": "desk", "agents": [{"name": "one", "prompt": "hi"}]}).name == "desk"


LEAD_YAML = (
    "name: lead\nagents: [{name: boss, prompt: lead, delegates: [helpers]}]\nteams: {helpers: sub/helpers.yaml}\n"
)


def test_a_team_that_includes_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lead.yaml").write_text(LEAD_YAML.replace("sub/helpers.yaml", "lead.yaml"))
    with pytest.raises(InvalidTeam, match="does one contain itself"):
        load_team(tmp_path / "lead.yaml")


def test_a_team_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "lead.yaml").write_text(LEAD_YAML.replace("sub/helpers.yaml", "../x.yaml"))
    with pytest.raises(InvalidTeam, match="name a file beside or below the team file"):
        load_team(tmp_path / "lead.yaml")

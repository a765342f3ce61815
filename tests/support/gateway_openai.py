"""Teams for clients of chats and agents, and the answers of their scripted model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roboco.lab.servers.chat_protocol import content_text
from tests.support.servers.model_server import Reply, Request

TEAMS: dict[str, dict[str, Any]] = {
    "desk": {"agents": [{"name": "helper", "prompt": "helper of team {{ team.name }}"}]},
    "front": {
        "agents": [{"name": "helper", "prompt": "helper", "tools": ["artifact_write"]}],
        "models": {"small": {"model": "scripted"}},
        "utility_model": "small",
    },
    "line": {"agents": [{"name": "first", "prompt": "first"}, {"name": "second", "prompt": "second"}]},
    "guarded": {
        "agents": [{"name": "adder", "prompt": "adder", "tools": ["add"]}],
        "tools": [
            {
                "name": "add",
                "function": "tests.support.tools_for_agents:add",
                "effect": "pure",
                "approval": "required",
            }
        ],
    },
    "chief": {
        "agents": [{"name": "chief", "prompt": "chief", "delegates": ["guarded", "patient"]}],
        "teams": {"guarded": "guarded.json", "patient": "patient.json"},
    },
    "both": {
        "agents": [{"name": "both", "prompt": "both", "delegates": ["guarded"], "tools": ["add"]}],
        "tools": [{"name": "add", "function": "tests.support.tools_for_agents:add", "approval": "required"}],
        "teams": {"guarded": "guarded.json"},
    },
    "patient": {
        "agents": [{"name": "adder", "prompt": "adder", "tools": ["slow_add"]}],
        "tools": [
            {
                "name": "slow_add",
                "function": "tests.support.tools_for_agents:slow_add",
                "effect": "pure",
                "approval": "required",
            }
        ],
    },
    "seeing": {
        "models": {"eyes": {"model": "gpt-4o-mini", "accepts": ["image"]}},
        "agents": [{"name": "eyes", "prompt": "seeing"}],
    },
    "limited": {"agents": [{"name": "helper", "prompt": "limited"}], "limits": {"max_steps": 1, "at_limit": "pause"}},
}
PERSON = {"name": "Ada", "age": 36}
"""The value of typed answers."""
SUMS: list[tuple[str, Any]] = [("add", {"a": 1, "b": 2}), ("slow_add", {"a": 1, "b": 2, "seconds": 3.0})]
LONG_ANSWER = [f"word {number}, " for number in range(60)]


def write_teams(folder: Path) -> Path:
    """Write a file for each team, and return the folder."""
    folder.mkdir()
    for name, team in TEAMS.items():
        (folder / f"{name}.json").write_text(json.dumps({"name": name} | team))
    return folder


def answer(request: Request) -> Reply:
    """Return the reply of the scripted model: the newest message of the user decides."""
    said = messages_of_user(request)[-1]
    if (formed := answer_in_form(request)) is not None:
        return formed
    if results := [text for _, text in request.tool_results]:
        return Reply(text=f"The results are {sorted(results)}." if results[1:] else f"The result is {results[0]}.")
    if calls := calls_for(said, request.tools):
        return Reply(text="I ask. " if "weather" in said else "", tool_calls=calls)
    if "long" in said:
        return Reply(chunks=LONG_ANSWER, interval=0.2 if "slow" in said else 0.01)
    if "endless" in said:
        return Reply(chunks=["begun ", *LONG_ANSWER * 50], interval=0.05)
    if "fail" in said:
        return Reply(status=400, text="the model refuses")
    return Reply(text=f"{request.system.split()[0]} answers message {len(messages_of_user(request))}: {said}")


def calls_for(said: str, tools: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the calls that a message leads to."""
    if "delegate" in tools:
        own: list[tuple[str, Any]] = [("add", {"a": 5, "b": 6})] if "add" in tools else []
        own += [("client_weather", {"city": "Bonn"})] if "client_weather" in tools else []
        prompts = [one for one in said.split(" and ") if "weather" not in one]
        teams = ["patient" if "slow" in one else "guarded" for one in prompts]
        return [("delegate", {"team": team, "prompt": one}) for team, one in zip(teams, prompts, strict=True)] + own
    if "weather" in said and "client_weather" in tools:
        return [("client_weather", {"city": city}) for city in (("Bonn", "Rome") if "both" in said else ("Bonn",))]
    return [call for call in SUMS if call[0] in tools][:1] if "add" in said else []


def answer_in_form(request: Request) -> Reply | None:
    """Return the person in the form that the request demands, or None if it demands none."""
    if request.system == "seeing":
        return Reply(text=f"I see {str(request.messages).count('data:image/png')} pictures")
    if "answer with JSON alone" in request.system:
        return Reply(text=json.dumps(PERSON))
    if request.body.get("tool_choice") == "required":
        return Reply(tool_calls=[(request.tools[-1], PERSON)])
    return None


def messages_of_user(request: Request) -> list[str]:
    """Return the messages of the user, without the note about the user's view."""
    texts = [content_text(message) for message in request.messages if message["role"] == "user"]
    return [text for text in texts if not text.startswith("(Current view")]

"""Teams for tests of the web view, and the replies of their scripted model.

The first word of an agent's prompt is its part. `guide` writes as the user's message says: `40 words every 10 ms`, and
with `then silence` it never ends.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.support.browser.hostile import HOSTILE_TEXT, split_hostile
from tests.support.gateway_openai import messages_of_user
from tests.support.servers.model_server import Reply, Request

Team = dict[str, Any]
PACE: Final = re.compile(r"(\d+) words every (\d+) ms")
SILENCE: Final = "then silence"
INTERVAL: Final = 0.01
"""Seconds between two chunks of replies whose pace no message names."""
WORDS: Final = ("Woge ", "und ", "Gischt, ", "eine ", "Bö ", "über\n", "der ", "See. ")
MODELS: Final = {
    "standard": {"model": "scripted", "default": True, "label": "Standard", "price_in": 2.0, "price_out": 8.0},
    "careful": {"model": "scripted", "label": "Careful", "price_in": 10.0, "price_out": 40.0},
}
SEAT: Final = {
    "name": "client_seat",
    "description": "Ask the user for a seat.",
    "input_schema": {
        "type": "object",
        "properties": {"row": {"type": "integer", "minimum": 1}, "window": {"type": "boolean"}},
        "required": ["row"],
    },
}
"""A client tool. The client answers it with any JSON."""
BOOKING: Final = {
    "name": "booking",
    "description": "The booked table.",
    "schema": {
        "type": "object",
        "properties": {"time": {"type": "string"}, "guests": {"type": "integer"}},
        "required": ["time"],
    },
}


TEAS: Final = ("green", "black", "white", "herbal", "oolong", "no")
PLACES: Final = ("the harbour", "the moon", "the lighthouse")
MARKDOWN: Final = """# The tide table

The **next** tide is *high*; see [the almanac](https://almanac.example/tides?day=1) or `tides --now`.

- the harbour
  - berth 4 has **no** lamp
- the lighthouse

1. Wait for the tide.
2. Leave.

> A quiet sea is a *lie*.

| place | low | high |
|---|---|---|
| harbour | 04:10 | 10:35 |
| **mole** | 04:30 | `10:50` |

```python
def leave(tide):  # **not bold**
    return tide == "high"
```

---
[a trap](javascript:window.canary=31) <b onclick="window.canary=32">x</b> https://sea.example/a, and the end."""


def _agent(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "prompt": f"{name} of team {{{{ team.name }}}}", "description": f"the {name}"} | more


def _tool(name: str, effect: str = "pure", **more: Any) -> dict[str, Any]:
    return {"name": name, "function": f"tests.support.tools_for_agents:{name}", "effect": effect, "timeout": 30} | more


TEAMS: Final[Mapping[str, Team]] = {
    "chat": {"agents": [_agent("guide")], "limits": {"max_cost": 0.5}},
    "line": {"agents": [_agent("first"), _agent("second"), _agent("third")]},
    "tools": {
        "agents": [_agent("clerk", tools=["slow_add", "raise_error", "artifact_write"])],
        "tools": [_tool("slow_add"), _tool("raise_error")],
    },
    "approval": {
        "agents": [_agent("cashier", tools=["add"])],
        "tools": [_tool("add", approval="required")],
    },
    "asking": {
        "agents": [_agent("manager", delegates=["cash"])],
        "teams": {
            "cash": {
                "name": "cash",
                "models": MODELS,
                "agents": [_agent("cashier", tools=["add"])],
                "tools": [_tool("add", approval="required")],
            }
        },
    },
    "expiring": {
        "agents": [_agent("cashier", tools=["add"])],
        "tools": [_tool("add", approval="required", expires="2h", on_expiry="stop")],
    },
    "memory": {
        "memory": {"of": "context.user"},
        "agents": [_agent("archivist", tools=["remember", "recall", "forget"])],
    },
    "guarded": {
        "guards": {"input": ["polite"], "output": ["polite"], "on_refusal": {"answer": "I cannot say that."}},
        "agents": [_agent("guide")],
        "tools": [_tool("polite")],
    },
    "map": {
        "agents": [
            _agent("scout", output={"properties": {"places": {"type": "array"}}, "required": ["places"]}),
            {"name": "visits", "map": {"over": "output.scout.places", "team": "visit", "parallel": 2}},
            _agent("writer"),
        ],
        "teams": {"visit": {"name": "visit", "models": MODELS, "agents": [_agent("visitor")]}},
    },
    "markdown": {"agents": [_agent("typist")]},
    "client": {"agents": [_agent("host")]},
    "handoffs": {
        "collaboration_model": {"type": "graph", "routing_graph": {"planner": ["solver"], "solver": ["END"]}},
        "agents": [_agent("planner", tools=["slow_add"], handoffs=["solver"]), _agent("solver")],
        "tools": [_tool("slow_add")],
    },
    "delegation": {
        "agents": [_agent("lead", delegates=["crew"])],
        "teams": {"crew": {"name": "crew", "models": MODELS, "agents": [_agent("sailor")]}},
    },
    "goals": {"agents": [_agent("booker")]},
    "idle": {"agents": [_agent("dreamer")], "limits": {"goal_prompts": 1}},
    "hostile": {
        "description": HOSTILE_TEXT[:400],
        "agents": [_agent("trickster", tools=["raise_error", "artifact_write"])],
        "tools": [_tool("raise_error")],
    },
    "typed": {
        "agents": [
            _agent("judge", output={"properties": {"verdict": {"type": "string"}}, "additionalProperties": True})
        ]
    },
    "broken": {"agents": [_agent("outcast")]},
    "limited": {
        "collaboration_model": {"type": "sequential", "rounds": 3},
        "agents": [_agent("first"), _agent("second")],
        "limits": {"max_steps": 4, "at_limit": "pause"},
    },
}
"""The teams without their names and models."""


def write_teams(folder: Path) -> Path:
    """Write a file for each team, and return the folder."""
    folder.mkdir()
    for name, team in TEAMS.items():
        (folder / f"{name}.json").write_text(json.dumps({"name": name, "models": MODELS} | team))
    return folder


def answer(request: Request) -> Reply:
    """Return the model's reply, a function of the request alone."""
    role = request.system.split()[0]
    return REPLIES.get(role, _write)(request)


def words(count: int) -> list[str]:
    """Return chunks of a text of this number of words."""
    return [f"{number} " if number % 10 == 0 else WORDS[number % len(WORDS)] for number in range(count)]


def _write(request: Request) -> Reply:
    """Write as the newest message of the user says, or answer it."""
    said = messages_of_user(request)[-1]
    pace = PACE.search(said)
    if pace is None:
        role = request.system.split()[0]
        return Reply(text=f"{role} answers: {said}", interval=INTERVAL)
    count, interval = int(pace[1]), int(pace[2]) / 1000
    silent_after = count if SILENCE in said else None
    return Reply(chunks=words(count + 1), interval=interval, hang_after=silent_after)


def _calls(text: str, *calls: tuple[str, dict[str, Any]]) -> Callable[[Request], Reply]:
    """Return the replies of an agent that makes these calls, and then writes their results."""

    def reply(request: Request) -> Reply:
        if request.tool_results:
            results = " and ".join(content for _, content in request.tool_results)
            return Reply(text=f"The results are {results}.", interval=INTERVAL)
        return Reply(text=text, tool_calls=calls, interval=INTERVAL)

    return reply


def _planner(request: Request) -> Reply:
    if request.tool_results:
        handoff = ("handoff", {"destination_agent": "solver", "reason": "the sums are there"})
        return Reply(text="The solver is next.", tool_calls=[handoff], interval=INTERVAL)
    sums = [("slow_add", {"a": n, "b": n + 1, "seconds": 0.2 * n}) for n in (1, 2)]
    return Reply(text="I add first.", tool_calls=sums, interval=INTERVAL)


def _visitor(request: Request) -> Reply:
    """Visit a place, but for the moon, where the model refuses."""
    place = messages_of_user(request)[-1]
    return Reply(status=400, text="no answer there") if "moon" in place else Reply(text=f"I saw {place}.")


def _trickster(request: Request) -> Reply:
    if request.tool_results:
        return Reply(chunks=split_hostile(), interval=0.001)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("raise_error", {"message": HOSTILE_TEXT[:1500]}),
        ("artifact_write", {"name": "page.html", "content": HOSTILE_TEXT}),
    ]
    return Reply(chunks=split_hostile(), tool_calls=calls, interval=0.001)


REPLIES: Final[Mapping[str, Callable[[Request], Reply]]] = {
    "clerk": _calls(
        "I add, and I fail once.",
        ("slow_add", {"a": 1, "b": 2, "seconds": 0.5}),
        ("slow_add", {"a": 3, "b": 4, "seconds": 0.2}),
        ("raise_error", {"message": "no such drawer"}),
        ("artifact_write", {"name": "sums.md", "content": "# Sums\n\n1 + 2 = 3\n"}),
    ),
    "cashier": _calls("I would like to add.", ("add", {"a": 2, "b": 3})),
    "host": _calls("Where do you want to sit?", ("client_seat", {"row": 12, "window": True})),
    "planner": _planner,
    "lead": _calls("The crew does that.", ("delegate", {"team": "crew", "prompt": "Swab the deck."})),
    "manager": _calls("The cashier does that.", ("delegate", {"team": "cash", "prompt": "Add."})),
    "archivist": _calls(
        "I remember it.",
        *(("remember", {"text": f"She drinks {tea} tea. <script>window.canary = 30</script>"}) for tea in TEAS),
        ("recall", {}),
    ),
    "scout": lambda _: Reply(text=json.dumps({"places": PLACES}), interval=INTERVAL),
    "visitor": _visitor,
    "typist": lambda _: Reply(text=MARKDOWN, interval=INTERVAL),
    "booker": _calls("I book it.", ("achieve_booking", {"time": "19:30", "guests": 4})),
    "dreamer": lambda _: Reply(text="I dream of it.", interval=INTERVAL),
    "trickster": _trickster,
    "judge": lambda _: Reply(text=json.dumps({"verdict": HOSTILE_TEXT}), interval=INTERVAL),
    "outcast": lambda _: Reply(status=400, text="the model refuses"),
}
"""The replies by the part of the agent. All others write as `guide` does."""

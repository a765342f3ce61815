"""ScriptedModel: a reply for each request, derived from the team and from the request alone.

    tools that the agent has not called yet ─► calls of them, at most four at once, with arguments of their schemas
    else                                    ─► a text that leads the team towards its end

The path of a request names the agent: `/TEAM/AGENT/v1/chat/completions`. So prompts are those of the team file.
"""

import random
from typing import Any, Final

from roboco.domain.builtin_tools import ARTIFACT_LIST, ARTIFACT_READ, ARTIFACT_WRITE, HANDOFF, MEMORY_SEARCH, PYTHON
from roboco.domain.team.team import Team
from roboco.lab.drill.drilled_team import all_teams
from roboco.lab.drill.route_plan import SAID, RoutePlan
from roboco.lab.drill.schema_sample import sample
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest

MAX_CALLS: Final = 4
CHUNK_INTERVAL: Final = 0.03
"""Seconds between two chunks: a turn takes about half a second, so that a fault can hit it."""
_LAST_TOOLS: Final = (ARTIFACT_READ, ARTIFACT_LIST, HANDOFF)
_BUILTIN_ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    ARTIFACT_WRITE: {"name": "drill.txt", "content": "A file of the drill."},
    ARTIFACT_READ: {"name": "drill.txt"},
    MEMORY_SEARCH: {"query": "drill"},
    PYTHON: {"code": "print(6 * 7)"},
}


class ScriptedModel:
    """Answers for all agents of a team and of the teams in it."""

    def __init__(self, team: Team, seed: int) -> None:
        self._plans = {one.name: RoutePlan(one) for one in all_teams(team)}
        self._seed = seed

    def __call__(self, request: ChatRequest) -> ChatReply:
        """Return the reply. The same request always has the same reply, because a turn may be repeated."""
        rng = random.Random(f"{self._seed}/{request.digest}")  # noqa: S311  # no secret
        functions = [tool["function"] for tool in request.body.get("tools") or ()]
        offered = {one["name"]: one.get("parameters") for one in functions}
        chosen = _choose(request, list(offered), request.body.get("tool_choice") == "required")
        calls = [(name, _BUILTIN_ARGUMENTS.get(name) or sample(offered[name], rng)) for name in chosen]
        text = self._text(request) if not calls else "I call my tools first, as the drill wants it."
        return ChatReply(text=text, tool_calls=calls, interval=CHUNK_INTERVAL)

    def _text(self, request: ChatRequest) -> str:
        team, agent = agent_of(request)
        answered = sum(message["role"] == "assistant" and not message.get("tool_calls") for message in request.messages)
        plan = self._plans.get(team)
        return SAID if plan is None else plan.text(agent, answered)


def agent_of(request: ChatRequest) -> tuple[str, str]:
    """Return the names of the team and the agent that the path of the request holds; "" if it holds none."""
    parts = request.path.strip("/").split("/")
    return (parts[0], parts[1]) if len(parts) == 5 else ("", "")


def _choose(request: ChatRequest, offered: list[str], required: bool) -> list[str]:
    """Return the tools that the reply calls: those that the agent has not called yet, hand-offs last."""
    left = [name for name in offered if not _was_called(request, name)]
    first = [name for name in left if name not in _LAST_TOOLS]
    return (first or left[:1] or (offered[:1] if required else []))[:MAX_CALLS]


def _was_called(request: ChatRequest, name: str) -> bool:
    calls = (call for message in request.messages for call in message.get("tool_calls") or ())
    return any(call["function"]["name"] == name for call in calls)

"""The team without a model and without servers: `python -m unittest`.

`rehearse` runs the team on recorded answers. `roboco export-test` writes such a recording from a task that has run.
"""

import unittest
from pathlib import Path
from typing import Any

from team_tools import word_limit

from roboco import Rehearsal, load_team, rehearse

TEAM = load_team(Path(__file__).parent / "team.yaml")


def says(agent: str, text: str) -> dict[str, Any]:
    """Return a turn in which the agent says the text."""
    return {"agent": agent, "parts": [{"type": "text", "text": text}]}


def calls_limit(kind: str) -> dict[str, Any]:
    """Return a turn in which the writer looks up a limit."""
    call = {"id": "call_1", "tool_name": "word_limit", "args": {"kind": kind}}
    return {"agent": "writer", "parts": [{"type": "tool_call", "tool_call": call}]}


def rehearsed(*turns: dict[str, Any]) -> Rehearsal:
    """Run the team on these answers of a model."""
    prompt = {
        "step_id": "step_0",
        "agent_name": "user",
        "parts": [{"type": "text", "text": "a note about the sea"}],
        "created_at": "2026-01-01T00:00:00Z",
    }
    result = {"type": "tool_result", "tool_result": {"tool_call_id": "call_1", "result": word_limit("note")}}
    call = {"tool": "word_limit", "args": {"kind": "note"}, "parts": [result]}
    return rehearse(TEAM, {"opening": [prompt], "turns": list(turns), "calls": [call]})


class TeamTest(unittest.TestCase):
    """The order of the agents, for different answers of the critic."""

    def test_tool(self) -> None:
        """A note is short."""
        self.assertEqual(word_limit("note"), 30)

    def test_a_text_that_the_critic_likes(self) -> None:
        """The task ends after the critic."""
        done = rehearsed(calls_limit("note"), says("writer", "Waves."), says("critic", "I like the waves."))
        self.assertEqual(done.agents, ["writer", "writer", "critic"])
        self.assertEqual(done.tools, ["word_limit"])
        self.assertEqual(done.status, "completed")

    def test_a_text_that_the_critic_sends_back(self) -> None:
        """The writer tries once more."""
        first = [calls_limit("note"), says("writer", "Waves."), says("critic", "AGAIN, please.")]
        done = rehearsed(*first, says("writer", "Big waves."), says("critic", "I like the big waves."))
        self.assertEqual(done.agents, ["writer", "writer", "critic", "writer", "critic"])


if __name__ == "__main__":
    unittest.main()

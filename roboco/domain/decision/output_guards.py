"""The guards of agents' answers: no user, and no other agent, sees an answer before they have passed it.

    reply ─► step of the agent: calls of the guards ─► step of results, with verdicts ─► passed: the agent's answer
    (worker)  (the text is their argument)              (and with a passed answer)    └─► refused: error or new answer

So claims, time limits, attempts and interruptions of guards are those of tool calls. Without a verdict the calls were
ended from outside: the answer is discarded, and routers and agents see the task as before the turn.
"""

from collections.abc import Mapping
from typing import Any

from roboco.domain.decision.input_guards import guard_calls
from roboco.domain.history.part import ErrorPart, Part, TextPart
from roboco.domain.history.shared_state import STATE
from roboco.domain.history.step import (
    DRAFT,
    GUARDED,
    GUARDS,
    INVALID_OUTPUT,
    OUTPUT,
    PROVIDER,
    REASONING,
    TaskStep,
)
from roboco.domain.team.team import Team

_OF_ANSWER = (OUTPUT, STATE, INVALID_OUTPUT, PROVIDER)
"""The metadata of a model's step that belongs to its answer."""
_QUOTING_ERRORS = frozenset({"malformed_tool_call", "refused", INVALID_OUTPUT})
"""The codes of errors whose messages quote the model."""


def held_back(
    team: Team, agent: str, position: tuple[str, int], parts: tuple[Part, ...], metadata: Mapping[str, object]
) -> tuple[tuple[Part, ...], dict[str, object]]:
    """Return parts and metadata of an agent's step without its text. If that is an answer, guards are called with it.

    `position` is the task's id and the position of the step. The text beside calls, of an interrupted reply and of a
    failed one is dropped, and so are reasoning and refusals.
    """
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    others = tuple(_without_words(agent, part) for part in parts if not isinstance(part, TextPart))
    about = {name: value for name, value in metadata.items() if name not in (REASONING, "refusal")}
    if others or not text or metadata.get("interrupted"):
        return others or (TextPart(text=""),), about
    names = () if team.guards is None else team.guards.output
    draft = {name: about.pop(name) for name in _OF_ANSWER if name in about}
    return guard_calls(team, names, text, position), about | {GUARDS: {"output": list(names)}, DRAFT: draft}


def passed_answer(step: TaskStep) -> dict[str, Any]:
    """Return the answer that the guards of this step have passed, as the step of results records it."""
    [text] = {call.args.get("text", call.args.get("prompt")) for call in step.calls}
    metadata = {"routing": step.metadata["routing"], GUARDED: step.metadata[GUARDS]["output"]}
    return {"agent": step.agent_name, "text": text, "metadata": metadata | step.metadata[DRAFT]}


def _without_words(agent: str, part: Part) -> Part:
    """Return the part, or the error without the words of the model."""
    if isinstance(part, ErrorPart) and part.code in _QUOTING_ERRORS:
        return ErrorPart(
            code=part.code, message=f"{agent}: its model gave no answer; its words did not pass the guards"
        )
    return part

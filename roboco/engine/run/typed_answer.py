"""typed_answer: the value of an answer that has a type, or the reason why it is asked for again.

    text ─► JSON ─► the type ─► the agent's own check ─► `output` in the step's metadata
             └────────┴────────────┴─► `invalid_output`: the next turn asks again ─► MAX_PROMPTS times: the task fails

A wrong answer is a step as any other, so that a worker that dies between two requests repeats none of them.
"""

from dataclasses import dataclass, field

from roboco.domain.canonical_json import json_bytes
from roboco.domain.history.part import ErrorPart
from roboco.domain.history.state import STATE, checked_changes
from roboco.domain.history.step import INVALID_OUTPUT, MAX_ANSWER_BYTES, OUTPUT
from roboco.domain.prompt.typed_answer import answer_value
from roboco.domain.team.team import Agent
from roboco.engine.engine import Services
from roboco.engine.run.request import PreparedRequest
from roboco.errors import UsageError
from roboco.ports.leases import TurnClaim

MAX_PROMPTS = 2
"""How often an answer is asked for again."""
MAX_REASON_CHARS = 1000
OUTPUT_CHECK = "output_check"
"""The error code of a step whose answer could not be checked."""


@dataclass(frozen=True)
class TypedAnswer:
    """The metadata and the error that a step records of a typed answer."""

    metadata: dict[str, object] = field(default_factory=dict)
    error: ErrorPart | None = None
    """Why the task fails: the answer was asked for again in vain."""


def answer_of(services: Services, claim: TurnClaim, prepared: PreparedRequest, text: str, cut_off: bool) -> TypedAnswer:
    """Return the answer in this text of a whole reply without calls. `cut_off` is True if it ended at its limit."""
    agent, schema = prepared.agent, prepared.output
    if prepared.form.get("calls") == "required":
        return _asked_again(agent, claim, f"call one of {', '.join(claim.snapshot.state.client_tools)}")
    if schema is None:
        return TypedAnswer()
    try:
        value = services.toolbox.checked_output(agent, answer_value(schema, text))
        demanded = prepared.form.get("schema", schema)
        if demanded != schema and (wrong := services.toolbox.args_error(demanded, value)):
            raise ValueError(wrong)
        if (size := json_bytes(value)) > MAX_ANSWER_BYTES:
            raise ValueError(f"it has {size} bytes of JSON, at most {MAX_ANSWER_BYTES} are possible")
        changes = {name: value[name] for name in agent.state if isinstance(value, dict) and name in value}
        checked_changes(claim.snapshot.state.values, changes)
    except UsageError as error:
        return TypedAnswer(error=ErrorPart(code=OUTPUT_CHECK, message=f"{agent.name}: {error}"))
    except ValueError as error:
        reason = "it was cut off at the limit of its tokens; be brief" if cut_off else str(error)[:MAX_REASON_CHARS]
        return _asked_again(agent, claim, reason or type(error).__name__)
    return TypedAnswer({OUTPUT: value} | ({STATE: changes} if changes else {}))


def _asked_again(agent: Agent, claim: TurnClaim, reason: str) -> TypedAnswer:
    """Return the answer that is asked for again for this reason, or the failure after MAX_PROMPTS times."""
    prompts = _prompts_before(agent.name, claim)
    if prompts < MAX_PROMPTS:
        return TypedAnswer({INVALID_OUTPUT: reason})
    message = f"{agent.name}: its answer does not fit its output, after {prompts} corrections: {reason}"
    return TypedAnswer(error=ErrorPart(code=INVALID_OUTPUT, message=message))


def _prompts_before(agent: str, claim: TurnClaim) -> int:
    """Return how many of the agent's newest steps were wrong answers."""
    count = 0
    for step in reversed(claim.snapshot.steps.tail):
        if step.agent_name != agent or not step.invalid_output:
            break
        count += 1
    return count

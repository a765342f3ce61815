"""reply: what a model has answered, as the parts of a step."""

import json
import time
from dataclasses import dataclass, field

from roboco.domain.canonical_json import checked_json, well_formed
from roboco.domain.history.part import ErrorPart, Part, TextPart, ToolCall, ToolCallPart
from roboco.domain.history.state import TaskState
from roboco.domain.ids import call_id_at
from roboco.domain.prompt.coordinator_tools import schema_of
from roboco.domain.team.known_tools import unlisted
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import ServerTool
from roboco.engine.engine import Engine
from roboco.ports import Listings, Reply, RequestedCall, TurnClaim

MALFORMED = "malformed_tool_call"
"""The error code of a step whose model wrote no readable tool call."""
MOST_CHECKING = 5.0
"""Seconds of processor time after which the arguments of an answer's further calls are not checked, and refused."""


@dataclass(frozen=True)
class Said:
    """The parts of a step, and what its metadata says of them.

    `invalid` is why the arguments of some of its calls are not valid, `unlisted` why a call's server does not have the
    tool, and `effects` what tools of servers do to the world.
    """

    parts: tuple[Part, ...]
    invalid: dict[str, str] = field(default_factory=dict)
    effects: dict[str, str] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)

    def metadata(self) -> dict[str, object]:
        """What the metadata of the step says of its calls."""
        about = {"invalid_calls": self.invalid, "unlisted_calls": self.unlisted, "effects": self.effects}
        return {name: value for name, value in about.items() if value}


def failed(claim: TurnClaim, code: str, message: str, text: str = "") -> Said:
    """What stands in a step whose model call failed, after it had said the text."""
    error = ErrorPart(code=code, message=f"{claim.task.agent}: {message}")
    return Said((TextPart(text=text), error) if text else (error,))


def said(engine: Engine, team: Team, claim: TurnClaim, text: str, reply: Reply, listings: Listings) -> Said:
    """The parts of a whole reply."""
    parts: list[Part] = [TextPart(text=text)] if text or not (reply.calls or reply.mistake) else []
    invalid: dict[str, str] = {}
    effects: dict[str, str] = {}
    lacking: dict[str, str] = {}
    until = time.thread_time() + MOST_CHECKING
    for index, requested in enumerate(reply.calls):
        name, raw = well_formed(requested.name), well_formed(requested.arguments)
        args, mistake = _arguments(requested, reply.finish_reason == "length")
        call_id = call_id_at(claim.order.task_id, claim.order.seq, index, name, raw if mistake else args)
        if mistake := mistake or _unfit(engine, claim.task.state, requested.name, args, until):
            invalid[call_id] = mistake
        if why := unlisted(team, team.agent(claim.task.agent), name, listings):
            lacking[call_id] = why
        if (effect := _effect(team, name, listings)) is not None:
            effects[name] = effect
        parts.append(ToolCallPart(tool_call=ToolCall(id=call_id, tool_name=name, args=args)))
    if reply.mistake:
        parts.append(_malformed(claim, reply))
    return Said(tuple(parts), invalid, effects, lacking)


def _malformed(claim: TurnClaim, reply: Reply) -> ErrorPart:
    """Return the error of a step whose model wrote no readable tool call, and was asked again in vain."""
    times = f"{reply.reprompts + 1} times" if reply.reprompts else "once"
    message = (
        f"{claim.task.agent}: model {reply.model!r} was asked {times} and wrote no readable tool call: "
        f"{reply.mistake[:300]}; use a larger model, or one with native tool calls"
    )
    return ErrorPart(code=MALFORMED, message=message)


def _effect(team: Team, name: str, listings: Listings) -> str | None:
    """What the tool does to the world, where its server says so and not the team; None for any other tool."""
    spec = team.tool(name)
    if not isinstance(spec, ServerTool):
        return None
    settings = team.mcp_servers[spec.server].settings_of(spec.remote)
    if settings is None or settings.effect is not None:
        return None
    listing = listings.get(spec.server)
    tool = None if listing is None else listing.tools.get(spec.remote)
    return None if tool is None else tool.effect


def _arguments(requested: RequestedCall, cut_off: bool) -> tuple[dict[str, object], str]:
    """The arguments, and why they are not valid; no arguments at all may be the beginning of some, if cut off."""
    if cut_off and not requested.arguments.strip():
        return {}, "the answer was cut off before the arguments"
    found = f"(found {well_formed(requested.arguments)[:200]!r})"
    try:
        args = checked_json(json.loads(requested.arguments or "{}"))
    except (ValueError, RecursionError) as error:
        return {}, f"the arguments are not JSON: {error} {found}"
    if not isinstance(args, dict):
        return {}, f"the arguments are no JSON object {found}"
    return args, ""


def _unfit(engine: Engine, state: TaskState, name: str, args: dict[str, object], until: float) -> str:
    """What the schema of a goal's or client's tool finds wrong with the arguments, if this thread has time for it."""
    schema = schema_of(state, name)
    if schema is not None and time.thread_time() > until:
        return f"not checked: the arguments of this answer's calls take more than {MOST_CHECKING:g} s; make fewer calls"
    found = engine.toolbox.mistake(schema, args) if schema is not None else ""
    return f"wrong arguments: {found}" if found else ""

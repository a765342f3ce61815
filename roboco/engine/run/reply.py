"""reply: the reply of a model, as the content of a step."""

import json
import time
from dataclasses import dataclass, field

from roboco.domain.canonical_json import validated_json, well_formed
from roboco.domain.decision.tool_answers import requires_approval
from roboco.domain.history.part import ErrorPart, Part, TextPart, ToolCall, ToolCallPart
from roboco.domain.ids import call_id_at
from roboco.domain.prompt.coordinator_tools import schema_of
from roboco.domain.team.known_tools import unlisted_tool_error
from roboco.domain.team.team import Team, default_prefix
from roboco.domain.team.tool_spec import ServerTool
from roboco.engine.engine import Services
from roboco.engine.run.request import PreparedRequest
from roboco.engine.run.typed_answer import TypedAnswer, answer_of
from roboco.ports.leases import TurnClaim
from roboco.ports.model import Reply, RequestedCall
from roboco.ports.task_store import Snapshot
from roboco.ports.tools import Listings

MALFORMED = "malformed_tool_call"
"""The error code of a step whose model wrote no readable tool call."""
NOTHING_SAID = {
    "empty": "said nothing, also when it was asked again; change its prompt, or use another model",
    "length": "used all its output tokens before its first word, perhaps for reasoning; raise `max_tokens` or the "
    "limits, or lower the model's reasoning",
    "content_filter": "said nothing, because a filter of its provider has stopped it; change what it is asked or shown",
}
"""By finish reason: why a step has no text and no call. The reason is the code of its error."""
REFUSED = "refused"
"""The error code of a step whose model, or a filter of its provider, refuses to answer."""
MAX_CHECK_SECONDS = 5.0
"""Seconds of processor time for checking the arguments of one reply. Calls that remain unchecked are refused."""


@dataclass(frozen=True)
class StepContent:
    """The parts of a step, and the facts about its calls that its metadata records."""

    parts: tuple[Part, ...]
    invalid: dict[str, str] = field(default_factory=dict)
    """By id of the call: why its arguments are not valid."""
    effects: dict[str, str] = field(default_factory=dict)
    """By tool name: the effect that its MCP server declares."""
    unlisted: dict[str, str] = field(default_factory=dict)
    """By id of the call: why its MCP server does not have the tool."""
    answer: dict[str, object] = field(default_factory=dict)
    """The value of a typed answer under `output`, or why it is asked for again under `invalid_output`."""

    def metadata(self) -> dict[str, object]:
        """Return the metadata of the step about its calls; empty if there is nothing to record."""
        about = {"invalid_calls": self.invalid, "unlisted_calls": self.unlisted, "effects": self.effects}
        return {name: value for name, value in about.items() if value} | self.answer


def content_of_failure(claim: TurnClaim, code: str, message: str, text: str = "") -> StepContent:
    """Return the content of a step whose model call failed after this text."""
    error = ErrorPart(code=code, message=f"{claim.snapshot.position.agent}: {message}")
    return StepContent((TextPart(text=text), error) if text else (error,))


def content_of_reply(
    services: Services, team: Team, claim: TurnClaim, text: str, reply: Reply, prepared: PreparedRequest
) -> StepContent:
    """Return the content of a whole reply."""
    error, listings, answer = _error_of(claim, text, reply), prepared.listings, TypedAnswer()
    if error is None and not reply.calls:
        answer = answer_of(services, claim, prepared, text, reply.finish_reason == "length")
        error = answer.error
    parts: list[Part] = [TextPart(text=text)] if text or not (reply.calls or error) else []
    invalid: dict[str, str] = {}
    effects: dict[str, str] = {}
    lacking: dict[str, str] = {}
    until = time.thread_time() + MAX_CHECK_SECONDS
    for index, requested in enumerate(reply.calls[: 1 if claim.snapshot.state.answer_form.get("one_call") else None]):
        name, raw = well_formed(requested.name), well_formed(requested.arguments)
        parsed = parse_arguments(requested, reply.finish_reason == "length")
        invalid_args = isinstance(parsed, InvalidArguments)
        args = {} if isinstance(parsed, InvalidArguments) else parsed
        call_id = call_id_at(claim.assignment.task_id, claim.assignment.seq, index, name, raw if invalid_args else args)
        call = ToolCall(id=call_id, tool_name=name, args=args)
        if isinstance(parsed, InvalidArguments):
            invalid[call_id] = parsed.reason
        elif problem := _argument_error(services, team, claim.snapshot, call, listings, until):
            invalid[call_id] = problem
        if why := unlisted_tool_error(team, team.agent(claim.snapshot.position.agent), name, listings):
            lacking[call_id] = why
        if (effect := _declared_effect(team, name, listings)) is not None:
            effects[name] = effect
        parts.append(ToolCallPart(tool_call=call))
    if error is not None:
        parts.append(error)
    return StepContent(tuple(parts), invalid, effects, lacking, answer.metadata)


def _error_of(claim: TurnClaim, text: str, reply: Reply) -> ErrorPart | None:
    """Return why the reply is no answer, or None if it is one."""
    who = f"{claim.snapshot.position.agent}: model {reply.model!r}"
    if reply.mistake:
        return _malformed(claim, reply)
    if reply.refusal:
        return ErrorPart(code=REFUSED, message=f"{who} refuses to answer: {reply.refusal[:1000]}")
    if reply.finish_reason == "content_filter":
        cut = "was stopped by a filter of its provider in the middle of its answer; change what it is asked or shown"
        return ErrorPart(code="content_filter", message=f"{who} {cut if text else NOTHING_SAID['content_filter']}")
    if text.strip() or reply.calls or reply.finish_reason not in NOTHING_SAID:
        return None
    limit = f" ({reply.limit})" if reply.limit else ""
    return ErrorPart(code=reply.finish_reason, message=f"{who} {NOTHING_SAID[reply.finish_reason]}{limit}")


def _malformed(claim: TurnClaim, reply: Reply) -> ErrorPart:
    """Return the error of a step whose model wrote no readable tool call, and was asked again in vain."""
    times = f"{reply.reprompts + 1} times" if reply.reprompts else "once"
    message = (
        f"{claim.snapshot.position.agent}: model {reply.model!r} was asked {times} and wrote no readable tool call: "
        f"{reply.mistake[:300]}; use a larger model, or one with native tool calls"
    )
    return ErrorPart(code=MALFORMED, message=message)


def _declared_effect(team: Team, name: str, listings: Listings) -> str | None:
    """Return the effect that the tool's MCP server declares, or None if the team declares it or the server does not."""
    spec = team.tool(name)
    if not isinstance(spec, ServerTool):
        return None
    settings = team.mcp_servers[spec.server].settings_of(default_prefix(spec.server), spec.remote)
    if settings is None or settings.effect is not None:
        return None
    listing = listings.get(spec.server)
    tool = None if listing is None else listing.tools.get(spec.remote)
    return None if tool is None else tool.effect


@dataclass(frozen=True)
class InvalidArguments:
    """The arguments of a call are no JSON object."""

    reason: str


def parse_arguments(requested: RequestedCall, truncated: bool) -> dict[str, object] | InvalidArguments:
    """Return the arguments of the call, or why they are not valid.

    Empty arguments are valid, and so is an empty JSON value such as `null`, unless the reply was `truncated` at its
    maximum length: then they may have been lost.
    """
    if truncated and not requested.arguments.strip():
        return InvalidArguments("the answer was cut off before the arguments")
    found = f"(found {well_formed(requested.arguments)[:200]!r})"
    try:
        args = validated_json(json.loads(requested.arguments or "{}") or {})
    except (ValueError, RecursionError) as error:
        return InvalidArguments(f"the arguments are not JSON: {error} {found}")
    if not isinstance(args, dict):
        return InvalidArguments(f"the arguments are no JSON object {found}")
    return args


def _argument_error(
    services: Services, team: Team, task: Snapshot, call: ToolCall, listings: Listings, until: float
) -> str | None:
    """Return why the arguments of a goal's or client's tool, or of a call for a person to approve, do not fit, or None.

    They are not checked after `until`, in seconds of this thread's processor time, and count as unfit then.
    """
    schema = schema_of(team, task.state, call.tool_name)
    if schema is None and not (
        requires_approval(team, call) and team.may_call(team.agent(task.position.agent), call.tool_name)
    ):
        return None
    if time.thread_time() > until:
        limit = f"{MAX_CHECK_SECONDS:g} s"
        return f"not checked: the arguments of this answer's calls take more than {limit}; make fewer calls"
    if schema is None:
        return services.toolbox.call_error(team, call, listings) or None
    found = services.toolbox.args_error(schema, call.args)
    return f"wrong arguments: {found}" if found else None

"""TaskStep: one committed entry of a task's history.

Each step contains the digest of the step before it. This chain makes every later change of a stored history detectable:
a changed step no longer matches its own digest, and a removed or inserted one breaks the chain.

A task has a state that its tools, clients and agents share: named values, which each step may change under `state` in
its metadata. The last writer of a name counts, and null removes it.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Self, get_args

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from roboco.domain.canonical_json import canonical_json, json_bytes, sha256, validated_json
from roboco.domain.history.part import (
    Artifact,
    ArtifactPart,
    ErrorPart,
    Part,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
)
from roboco.domain.schema import RECORD_CONTEXT, RecordModel, is_record
from roboco.domain.status import Priority
from roboco.errors import CorruptHistory, UsageError

ETA = "eta"
"""The metadata key of a task's first step for its start time, if that is later than its submission."""
MAX_DELAY_SECONDS = 366 * 86_400.0
"""The longest delay of a task's start, in seconds."""


def parse_eta(text: str) -> datetime:
    """Return the time of a text in ISO 8601 with a zone.

    Raise UsageError if the text is not one.
    """
    try:
        eta = datetime.fromisoformat(text)
        in_utc = eta.astimezone(UTC)
    except (ValueError, OverflowError) as error:  # a zone may lead beyond the years 1 to 9999
        raise UsageError(f"eta: must be a time such as '2026-03-01T08:00:00+01:00' (found {text[:60]!r})") from error
    if eta.tzinfo is None:
        raise UsageError(f"eta: needs a time zone, such as '+01:00' or 'Z' at its end (found {text[:60]!r})")
    return in_utc


def requested_start_time(eta: str | None, countdown: float | None, now: datetime) -> datetime | None:
    """Return the start time that these options request, or None if the task starts immediately.

    Raise UsageError if both options are set or the time is more than a year away.
    """
    if eta is not None and countdown is not None:
        raise UsageError("eta: name either eta or countdown, not both")
    begins = parse_eta(eta) if eta is not None else now + timedelta(seconds=countdown or 0.0)
    if (begins - now).total_seconds() > MAX_DELAY_SECONDS:
        raise UsageError(f"eta: is more than a year away ({begins.isoformat()})")
    return begins if begins > now else None


def start_time_of(metadata: Mapping[str, Any], submitted_at: datetime) -> datetime:
    """Return the start time of a task: its submission, or later if the metadata of its first step say so."""
    eta = metadata.get(ETA)
    return datetime.fromisoformat(eta) if isinstance(eta, str) else submitted_at


USER = "user"
TOOL_EXECUTOR = "tool_executor"
ORCHESTRATOR = "orchestrator"
LIMIT = "limit"
"""The code of the error of a reached limit, and the metadata key of its step for the agent that was next."""
RESOLVED_BY = "resolved_by"
"""The metadata key of a step of results for the callers that sent results from outside, by the ids of the calls."""
FAILED_BEFORE = "failed_before"
"""The metadata key of a step of results for the exceptions after which tools ran again, by the ids of the calls."""
REMOTE_TASK = "remote_task"
"""The metadata key of a step for a remote task that the end of the turn has cancelled, or that may still run."""
NOT_RUN = "not_run"
"""The metadata key of a step of results for the calls that a run of `what-if` did not run, a list of their ids."""
NEW_LIMITS = "new_limits"
"""The metadata key of a step for limits that replace the team's."""
IMPORTED = "imported"
"""The metadata key of a step that a caller imported when the task was submitted."""
PROMPT = "prompt"
"""The metadata key of the first step for the task's prompt, if imported steps precede that."""
INTERRUPTION = "interruption"
"""The metadata key of the step of an interruption without a message, for its effect."""
PROVIDER = "provider"
"""The metadata key of a step for what its model's provider receives again with it, such as signatures."""
REASONING = "reasoning"
"""The metadata key of a step for the beginning of its model's reasoning."""
OUTPUT = "output"
"""The metadata key of an agent's step for the value of its answer, if the agent has a type of output."""
MAX_ANSWER_BYTES = 256 * 1024
"""The largest value of an answer, as JSON."""
INVALID_OUTPUT = "invalid_output"
"""The metadata key of a step whose answer has not the type of the agent's output, for the reason."""
GUARDS = "guards"
"""The metadata key of a step of guards' calls, and of their results, for the verdicts."""
DRAFT = "draft"
"""The metadata key of a step of calls of output guards, for the metadata of the answer that they check."""
GUARDED = "guarded"
"""The metadata key of an answer that output guards have passed, for their names."""
REFUSED = "refused"
"""The metadata key of the answer in place of a message or an answer that guards have refused, for the reason."""
FUNCTION = "function"
"""The metadata key of a step of an agent that is a function: "call" for the call that is its turn, else "answer"."""
HANDED_OFF_BY = "handed_off_by"
"""The metadata key of such a step for the agent that has handed over to it."""
ANSWER = "answer"
"""The metadata key of a step of results for what such a function has answered, until the next step has it."""
MAP = "map"
"""The metadata key of the steps of an agent with a map, for the place of its list; the code of the error of a map."""
ANSWER_FORM = "answer_form"
"""The metadata key of a message, or of a step of results, for the form of the answer; the rule of a turn for it."""
EXPIRED = "expired"
"""The key of an approval in the metadata of a step of results, if no person has decided in time: see `OnExpiry`."""
RETRY = "retry"
"""The metadata key of the step with which a failed task continues, for the record of its retry."""


STATE: Final = "state"
"""The metadata key of a step for the values that it changes."""


MAX_STATE_BYTES: Final = 32 * 1024
"""The largest state of a task, in bytes of its JSON."""


def changed_state(values: Mapping[str, Any], changes: object) -> dict[str, Any]:
    """Return the values after these changes. Changes that would make them too large are left out as a whole."""
    if not isinstance(changes, dict) or not changes:
        return dict(values)
    changed = {name: value for name, value in (dict(values) | changes).items() if value is not None}
    return changed if json_bytes(changed) <= MAX_STATE_BYTES else dict(values)


def checked_changes(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes as JSON. Raise ValueError if they are none, or make the state too large."""
    checked: dict[str, Any] = validated_json(dict(changes))
    if (size := json_bytes(dict(values) | checked)) > MAX_STATE_BYTES:
        raise ValueError(f"state: has {size} bytes of JSON with this change, at most {MAX_STATE_BYTES} are possible")
    return checked


class TaskStep(RecordModel):
    """One step of a history.

    A constructor generates a missing `step_id` (or `id`) and `created_at` (or `timestamp`). A step that is read from a
    record must have them.
    """

    step_id: str = Field(
        default_factory=lambda: f"step_{uuid.uuid4().hex}", validation_alias=AliasChoices("step_id", "id")
    )
    seq: int = 0
    """The position, from 0."""
    parent_id: str | None = None
    agent_name: str
    parts: Annotated[tuple[Part, ...], Field(min_length=1)]
    created_at: datetime = Field(
        default_factory=lambda: datetime.now(UTC), validation_alias=AliasChoices("created_at", "timestamp")
    )
    """The time in UTC."""
    metadata: Annotated[dict[str, Any], BeforeValidator(lambda given: {} if given is None else given)] = {}
    prev_digest: str = ""
    digest: str = ""
    """The SHA-256 over `prev_digest`, a newline and the step's canonical JSON without `digest`.

    It is empty until the step is sealed.
    """

    @field_validator("created_at")
    @classmethod
    def _in_utc(cls, value: datetime, info: ValidationInfo) -> datetime:
        """Interpret a time without a zone as UTC.

        The time of a record remains as it is, because its digest covers it.
        """
        return value if value.tzinfo or is_record(info) else value.replace(tzinfo=UTC)

    @model_validator(mode="after")
    def _check_recorded(self, info: ValidationInfo) -> Self:
        return self.require_recorded(info, "step_id", "created_at")

    @property
    def id(self) -> str:
        """Return the step's id, under its other name."""
        return self.step_id

    @property
    def timestamp(self) -> datetime:
        """Return the creation time of the step, under its other name."""
        return self.created_at

    @property
    def text(self) -> str:
        """Return all text of the step, in order."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls of the step, in order."""
        return tuple(part.tool_call for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Return the tool results of the step, in the order of their calls."""
        return tuple(part.tool_result for part in self.parts if isinstance(part, ToolResultPart))

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Return the artifacts that the step refers to."""
        return tuple(part.artifact for part in self.parts if isinstance(part, ArtifactPart))

    @property
    def error(self) -> ErrorPart | None:
        """Return the first error of the step, or None."""
        return next((part for part in self.parts if isinstance(part, ErrorPart)), None)

    @property
    def interrupted(self) -> bool:
        """Return True if the user interrupted the agent during this step."""
        return self.metadata.get("interrupted") is True

    @property
    def by_agent(self) -> bool:
        """Return True if an agent of the team wrote the step."""
        return self.agent_name not in (USER, TOOL_EXECUTOR, ORCHESTRATOR)

    @property
    def has_output(self) -> bool:
        """Return True if the step has the value of an agent's answer, which may be null."""
        return self.by_agent and OUTPUT in self.metadata

    @property
    def invalid_output(self) -> str:
        """Return why the answer is asked for again, or "" if it is not."""
        return str(self.metadata.get(INVALID_OUTPUT) or "") if self.by_agent else ""

    @property
    def begins_function(self) -> bool:
        """Return True if the step has the call that is the turn of an agent that is a function."""
        return self.metadata.get(FUNCTION) == "call"

    @property
    def answers_function(self) -> bool:
        """Return True if the step has the result of that call. It counts as a turn, and not as a call of a tool."""
        return ANSWER in self.metadata and GUARDS not in self.metadata

    @property
    def is_draft(self) -> bool:
        """Return True if the step has the calls of the guards of an agent's answer."""
        return self.by_agent and DRAFT in self.metadata

    @property
    def shown(self) -> "TaskStep":
        """Return the step as followers and sessions see it: without an answer that guards have not passed."""
        if not self.is_draft:
            return self
        calls = (
            call.model_copy(update={"args": {"team": call.args["team"]} if "team" in call.args else {}})
            for call in self.calls
        )
        metadata = {name: value for name, value in self.metadata.items() if name != DRAFT}
        parts = tuple(ToolCallPart(tool_call=call) for call in calls)
        return self.model_copy(update={"parts": parts, "metadata": metadata})

    @property
    def is_map(self) -> bool:
        """Return True if it is a step of an agent with a map: no model wrote it."""
        return self.by_agent and MAP in self.metadata

    @property
    def is_imported(self) -> bool:
        """Return True if a caller imported the step when the task was submitted."""
        return self.metadata.get(IMPORTED) is True

    @property
    def item_ids(self) -> tuple[str, ...]:
        """Return the ids of the inbox items that the step applied."""
        decided = [one.get("item_id") for one in (self.metadata.get("approvals") or {}).values()]
        resolved = (self.metadata.get("resolved") or {}).values()
        item_ids = (self.metadata.get("item_id"), *resolved, *decided)
        return tuple(item_id for item_id in item_ids if isinstance(item_id, str))

    @property
    def denied_calls(self) -> frozenset[str]:
        """Return the ids of the calls that a person denied, if this is a step of results."""
        approvals = self.metadata.get("approvals") or {}
        return frozenset(call_id for call_id, one in approvals.items() if (one or {}).get("approved") is False)

    @property
    def expired(self) -> tuple[str, str] | None:
        """Return what happens, and the reason, if the task ends because no person has decided on a call in time."""
        for one in (self.metadata.get("approvals") or {}).values():
            if (one or {}).get(EXPIRED) in ("stop", "fail"):
                return one[EXPIRED], str(one.get("reason"))
        return None

    @property
    def is_interruption(self) -> bool:
        """Return True if the step reports that the user interrupted the work without a message."""
        return self.agent_name == ORCHESTRATOR and INTERRUPTION in self.metadata

    @property
    def is_retry(self) -> bool:
        """Return True if a failed task continues with this step."""
        return self.agent_name == ORCHESTRATOR and RETRY in self.metadata

    @property
    def changed_limits(self) -> dict[str, Any] | None:
        """Return the limits that replace those of the task from this step on, or None if it is not about limits.

        A retry without limits returns {}: the limits stay, and are checked again.
        """
        if self.agent_name != ORCHESTRATOR:
            return None
        if RETRY in self.metadata:
            return self.metadata[RETRY].get("limits") or {}
        raised = self.metadata.get(NEW_LIMITS)
        return raised if isinstance(raised, dict) else None

    @property
    def ends_task(self) -> bool:
        """Return True if the step holds an error that ends its task, or that pauses it at a limit."""
        return self.error is not None and self.agent_name not in (USER, TOOL_EXECUTOR)

    @property
    def is_notice(self) -> bool:
        """Return True if the step only reports an interruption, a retry, limits, guards, or an error before a retry.

        No agent has this turn; routers and agents do not see it.
        """
        if self.ends_task or self.is_retry or GUARDS in self.metadata:
            return True
        return self.agent_name == ORCHESTRATOR and (NEW_LIMITS in self.metadata or INTERRUPTION in self.metadata)

    def sealed(self, prev_digest: str) -> "TaskStep":
        """Return the step chained to the one before (empty digest for the first), ready for storage."""
        record = self.model_dump(mode="json") | {"prev_digest": prev_digest}
        return TaskStep.model_validate(record | {"digest": digest_of(record)}, context=RECORD_CONTEXT)

    def line(self) -> str:
        """Return the step as a line of `history.jsonl`, without the newline."""
        return canonical_json(self.model_dump(mode="json"))


def last_answer(steps: Sequence[TaskStep]) -> TaskStep | None:
    """Return the newest step of an agent that has a text, or None."""
    return next((step for step in reversed(steps) if step.by_agent and step.text), None)


def last_text(steps: Sequence[TaskStep]) -> str:
    """Return the newest text of an agent, or ""."""
    return "" if (answer := last_answer(steps)) is None else answer.text


def digest_of(record: dict[str, Any]) -> str:
    """Return the digest that a step's JSON object must carry. A `digest` in it is left out."""
    body = {key: value for key, value in record.items() if key != "digest"}
    return sha256(f"{body['prev_digest']}\n{canonical_json(body)}")


def parse_step(line: str | bytes) -> TaskStep:
    """Return the step of one stored line.

    Raise CorruptHistory if the line is not a step.
    """
    try:
        return TaskStep.model_validate_json(line)
    except ValidationError as error:
        raise CorruptHistory(f"a line of the history is not a step: {error.errors()[0]['msg']}") from error


def verify_chain(lines: Iterable[str | bytes]) -> int:
    """Return the number of steps in the lines.

    Raise CorruptHistory, which names the step, if one is missing, out of place or changed.
    """
    prev_digest = ""
    seq = -1
    for seq, line in enumerate(lines):
        encoded = line.encode() if isinstance(line, str) else line
        record = _record(seq, encoded)
        where = f"step {seq} ({record.get('step_id', 'without id')})"
        if record.get("seq") != seq:
            raise CorruptHistory(f"{where} says that its position is {record.get('seq')!r}")
        if record.get("prev_digest") != prev_digest:
            raise CorruptHistory(f"{where} does not follow the step before: its prev_digest differs")
        if digest_of(record) != record.get("digest") or canonical_json(record).encode() != encoded:
            raise CorruptHistory(f"{where} was changed: its digest does not match its content")
        prev_digest = record["digest"]
    return seq + 1


def _record(seq: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise CorruptHistory(f"step {seq} is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise CorruptHistory(f"step {seq} is not a JSON object")
    return record


PRIORITIES: tuple[Priority, ...] = get_args(Priority)
PRIORITY = "priority"
"""The metadata key of a task's first step for its priority, if it is not normal."""


def priority_of(first: TaskStep) -> Priority:
    """Return the priority of the task with this first step."""
    return next((priority for priority in PRIORITIES if priority == first.metadata.get(PRIORITY)), "normal")


def step_text(step: TaskStep, with_calls: bool = True) -> str:
    """Return the step as text."""
    lines: list[str] = []
    for part in step.parts:
        match part:
            case TextPart():
                lines.append(part.text)
            case ErrorPart():
                lines.append(f"(error: {part.message})")
            case ArtifactPart():
                lines.append(f"(file: {part.artifact.uri}, {part.artifact.mime_type})")
            case ToolCallPart() if with_calls:
                lines.append(f"(calls {part.tool_call.tool_name} with {canonical_json(part.tool_call.args)})")
            case _:
                pass
    if step.interrupted:
        lines.append("(interrupted by the user)")
    return "\n".join(lines)

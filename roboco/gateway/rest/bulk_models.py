"""bulk_models: the bodies of bulk controls and their responses."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, JsonValue

from roboco.client.operator.bulk_control import ControlName
from roboco.client.operator.bulk_cursor import MAX_CURSOR_CHARS
from roboco.client.operator.bulk_report import BulkOutcome, CountedCalls
from roboco.domain.limits import LimitOverrides
from roboco.domain.schema import InputModel, RecordModel
from roboco.gateway.bodies.mistakes import FewMistakes
from roboco.gateway.rest.models import ItemName, TenantName, Text

MAX_PAGE: Final = 100
"""Tasks of a page at most."""
_Status = Annotated[str, Field(max_length=64)]
_Time = Annotated[str | None, Field(max_length=64)]


class BulkRequest(FewMistakes, InputModel):
    """A control of all tasks that meet the conditions, of which each request performs one page."""

    model_config = ConfigDict(strict=True)

    control: ControlName
    """The control. `interrupt` sends no message."""
    status: Annotated[list[_Status], Field(max_length=20)] = []
    """Statuses or groups of open tasks. By default those that the control may concern: for example, `resume` reaches
    paused tasks, and `retry` failed ones."""
    tenant: TenantName | None = None
    """The tenant. A key of a tenant reaches tasks of that tenant only."""
    team: Annotated[list[Annotated[str, Field(max_length=64)]] | None, Field(max_length=20)] = None
    """Names of teams."""
    since: _Time = None
    """The earliest change of the status: a time in ISO 8601, or a duration before now such as 2h."""
    until: _Time = None
    """The latest change of the status: 2h for tasks whose status has not changed for two hours."""
    text: Annotated[str | None, Field(max_length=200)] = None
    """A part of the title."""
    what_if: bool | None = None
    """True for runs of what-if alone, and false to leave them out."""
    all_tasks: bool = False
    """True to control all tasks: a request without a condition is refused otherwise."""
    reason: Annotated[str | None, Field(min_length=1, max_length=4000)] = None
    """Why tasks are stopped or retried, or calls approved or denied; their histories keep it."""
    limits: LimitOverrides | None = None
    """The new limits, for the controls `limits` and `retry`."""
    tool: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    """The tool whose waiting calls are decided, by `approve`, `deny`, `answer` or `resolve`; by default all tools."""
    result: JsonValue = None
    """The result of each call, for `answer` and `resolve`."""
    error: Annotated[str | None, Field(min_length=1, max_length=4000)] = None
    """Why the calls have no result, for `answer`."""
    declined: bool = False
    """True if the client refuses to run the calls, for `answer`."""
    happened: bool | None = None
    """Whether the calls had their effect, for `resolve`."""
    message: Text | None = None
    """The message that each task gets, for `send`, or each new task, for `fork`."""
    agent: Annotated[str | None, Field(max_length=64)] = None
    """The agent that answers the message."""
    if_busy: Literal["queue", "interrupt", "reject"] | None = None
    """The treatment of a message while agents or tools run, for `send`; by default that of the team."""
    new_team: str | dict[str, JsonValue] | None = None
    """The team of the new tasks, for `fork`: its name, or with the scope `teams` the object of a team file."""
    model: Annotated[str | None, Field(max_length=64)] = None
    """The model profile of agents that name none, for `fork`."""
    bulk_id: ItemName | None = None
    """The id of the bulk control. The same id again controls no task twice. Leave it out with Idempotency-Key."""
    cursor: Annotated[str, Field(max_length=MAX_CURSOR_CHARS)] = ""
    """The cursor of the response before, for its next page. It holds the id, too."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 20
    """Tasks of a page."""
    dry_run: bool = False
    """True to count the tasks, without controlling any. Repeat it with the cursor until that is empty."""


class BulkCounts(RecordModel):
    """The number of tasks of a page by their outcome."""

    accepted: int
    """Tasks that have accepted the control; workers apply it. Of a decision, tasks with calls that have got it."""
    repeated: int
    """Tasks that had accepted this control before."""
    ended: int
    """Tasks that have ended meanwhile."""
    failed: int
    """Tasks whose outcome has a cause."""


class BulkReport(RecordModel):
    """One page of a bulk control. If a later page has the same task again, its last outcome counts."""

    bulk_id: str
    """The id of the bulk control."""
    matching: int | None = None
    """The number of tasks that it will reach, of a dry run. With a cursor there are at least as many."""
    tools: list[CountedCalls] = []
    """The calls that a decision will reach, by tool, of a dry run."""
    unreadable: int = 0
    """Tasks whose calls cannot be read, of a dry run."""
    start: str = ""
    """The cursor with which a run begins that reaches what a dry run has counted, and nothing that came later."""
    counts: BulkCounts
    outcomes: list[BulkOutcome]
    cursor: str
    """The cursor of the next page, or "" after the last one. A page may be empty and have a cursor."""
    complete: bool
    """False if tasks may be left, as while the list of tasks is rebuilt from the workspace."""

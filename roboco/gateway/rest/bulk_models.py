"""bulk_models: the body of bulk controls."""

from typing import Annotated, Final

from pydantic import ConfigDict, Field

from roboco.client.operator.bulk_control import BulkContent, ControlName
from roboco.domain.schema import InputModel
from roboco.gateway.bodies.mistakes import FewMistakes
from roboco.gateway.rest.list_conditions import ListedTime
from roboco.gateway.rest.models import ItemName, TenantName, Text

MAX_PAGE: Final = 100
"""Tasks of a page at most."""
_Status = Annotated[str, Field(max_length=64)]


class BulkTarget(InputModel):
    """A control, and the tasks that it reaches: those that meet all conditions."""

    control: ControlName
    """The control. `interrupt` sends no message."""
    status: Annotated[list[_Status], Field(max_length=20)] = []
    """Statuses or groups of open tasks. By default those that the control may concern: for example, `resume` reaches
    paused tasks, and `retry` failed ones."""
    tenant: TenantName | None = None
    """The tenant. A key of a tenant reaches tasks of that tenant only."""
    team: Annotated[list[Annotated[str, Field(max_length=64)]] | None, Field(max_length=20)] = None
    """Names of teams."""
    since: ListedTime = None
    """The earliest change of the status: a time in ISO 8601, or a duration before now such as 2h."""
    until: ListedTime = None
    """The latest change of the status: 2h for tasks whose status has not changed for two hours."""
    text: Annotated[str | None, Field(max_length=200)] = None
    """A part of the title."""
    what_if: bool | None = None
    """True for runs of what-if alone, and false to leave them out."""
    all_tasks: bool = False
    """True to control all tasks: a request without a condition is refused otherwise."""


class BulkRequest(FewMistakes, BulkContent, BulkTarget):
    """A control of all tasks that meet the conditions, of which each request performs one page."""

    model_config = ConfigDict(strict=True)

    message: Text | None = None
    """The message that each task gets, for `send`, or each new task, for `fork`."""
    bulk_id: ItemName | None = None
    """The id of the bulk control. The same id again controls no task twice. Leave it out with Idempotency-Key."""
    cursor: Annotated[str, Field(max_length=400)] = ""
    """The cursor of the response before, for its next page, with its `bulk_id` and `until`."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 20
    """Tasks of a page."""
    dry_run: bool = False
    """True to count the tasks, without controlling any. Repeat it with the cursor until that is empty."""

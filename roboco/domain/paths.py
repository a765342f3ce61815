"""Where things stand in a workspace. A path is relative: in a folder as under an S3 prefix."""

import re

from roboco.domain.ids import check_item_id, check_task_id

MAX_NAME = 128
"""The longest name of an artifact, in characters."""
NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}")
_URI = re.compile(r"file://(?:\./)?artifacts/(.+)")
OPEN = "_open/"
NOTIFY = "_notify/"
RESTART = "restart/"
"""Prefix of the schedule's entries for tasks whose logs begin anew after a restart of Redis."""
RESUME = "resume/"
"""Prefix of the schedule's entries for tasks that an outage of their model has paused and that are to continue."""
ENTER = "enter/"
"""Prefix of the schedule's entries for open tasks that are not in it yet, because that failed."""
WORKSPACE = "_workspace.json"
"""The id of the workspace, by which clients and workers notice that they use different ones."""
OPENED, CLOSED = b"", b"closed"
"""The content of the open marker of a task that takes items, and of one whose end is final. Between the two a task is
closing: it takes no items, and a coordinator may open it again."""
TELLING = "notify/"
"""With what the name in the schedule begins of what is to be told of a task; no task id holds a "/"."""


def team_path(task_id: str) -> str:
    """The frozen team."""
    return f"{check_task_id(task_id)}/team.json"


def summary_path(task_id: str) -> str:
    """The task at a glance."""
    return f"{check_task_id(task_id)}/task.json"


def history_path(task_id: str) -> str:
    """The steps, one a line."""
    return f"{check_task_id(task_id)}/history.jsonl"


def segments_path(task_id: str) -> str:
    """The folder of steps that are not folded into the history yet (S3 only)."""
    return f"{check_task_id(task_id)}/history/"


def history_summaries_path(task_id: str) -> str:
    """The folder of summaries, whose names begin with the eight digits of the position before which they end."""
    return f"{check_task_id(task_id)}/summaries/"


def history_summary_path(task_id: str, until: int, key: str) -> str:
    """A summary of the steps before a position, made in the way that the key stands for."""
    return f"{history_summaries_path(task_id)}{until:08d}-{key}.json"


def lineage_path(task_id: str) -> str:
    """From which task this one was forked."""
    return f"{check_task_id(task_id)}/lineage.json"


def events_path(task_id: str) -> str:
    """The execution events."""
    return f"{check_task_id(task_id)}/events.jsonl"


def artifacts_path(task_id: str) -> str:
    """The folder of artifacts."""
    return f"{check_task_id(task_id)}/artifacts/"


def artifact_path(task_id: str, name: str) -> str:
    """One artifact."""
    return f"{artifacts_path(task_id)}{artifact_name(name)}"


def artifact_info_path(task_id: str, name: str = "") -> str:
    """What is known of one artifact beside its bytes; without a name their folder."""
    known = f"{artifact_name(name)}.json" if name else ""
    return f"{check_task_id(task_id)}/artifact_info/{known}"


def inbox_path(task_id: str) -> str:
    """The folder of what came from outside and is not yet taken over."""
    return f"{check_task_id(task_id)}/inbox/"


def item_path(task_id: str, item_id: str) -> str:
    """One thing that came from outside."""
    return f"{inbox_path(task_id)}{check_item_id(item_id)}.json"


def taken_path(task_id: str, item_id: str) -> str:
    """One thing that came from outside and was taken over: it stays, so that a repetition is known."""
    return f"{check_task_id(task_id)}/taken/{check_item_id(item_id)}.json"


def intent_path(task_id: str, call_id: str) -> str:
    """The intent of an irreversible tool call."""
    return f"{check_task_id(task_id)}/effects/{check_item_id(call_id)}.json"


def outcome_path(task_id: str, call_id: str) -> str:
    """The outcome of an irreversible tool call."""
    return f"{check_task_id(task_id)}/effects/{check_item_id(call_id)}.outcome.json"


def failures_path(task_id: str) -> str:
    """The folder of exceptions of tools."""
    return f"{check_task_id(task_id)}/failures/"


def failure_path(task_id: str, call_id: str) -> str:
    """The exception of a tool call."""
    return f"{failures_path(task_id)}{check_item_id(call_id)}.json"


def closing(epoch: int) -> bytes:
    """The content of the open marker of a task that is being closed with the end of this epoch."""
    return b"closing %d" % epoch


def open_path(task_id: str) -> str:
    """The marker of a task that has not ended."""
    return f"{OPEN}{check_task_id(task_id)}"


def notify_path(task_id: str) -> str:
    """Who is told of the task."""
    return f"{check_task_id(task_id)}/notify.json"


def notices_path(task_id: str) -> str:
    """The folder of notices that are not delivered yet."""
    return f"{check_task_id(task_id)}/notices/"


def notice_path(task_id: str, name: str) -> str:
    """One notice that is not delivered yet."""
    return f"{notices_path(task_id)}{check_item_id(name)}.json"


def told_folder(task_id: str, seq: int) -> str:
    """The folder of notices about this position that were delivered or given up."""
    return f"{check_task_id(task_id)}/told/{seq:08d}/"


def told_path(task_id: str, seq: int, name: str) -> str:
    """One notice about this position that was delivered or given up: it stays, so that it is not told again."""
    return f"{told_folder(task_id, seq)}{check_item_id(name)}.json"


def continued_path(task_id: str) -> str:
    """How the Celery task that submitted the task was gone on with."""
    return f"{check_task_id(task_id)}/continued.json"


def to_tell_path(task_id: str) -> str:
    """The marker of a task of which notices are not delivered yet."""
    return f"{NOTIFY}{check_task_id(task_id)}"


def listing_path(task_id: str, server: str) -> str:
    """The tools of an MCP server as they were listed first for the task."""
    return f"{check_task_id(task_id)}/mcp/{check_item_id(server)}.json"


def approved_tools_path(task_id: str, server: str) -> str:
    """The tools of an MCP server that have changed since, as a person has approved them."""
    return f"{check_task_id(task_id)}/mcp/{check_item_id(server)}.approved.json"


def failed_listing_path(task_id: str, server: str) -> str:
    """How often the tools of an MCP server could not be listed for the task, and why."""
    return f"{check_task_id(task_id)}/mcp/{check_item_id(server)}.failed.json"


def listing_orders_path(task_id: str, server: str) -> str:
    """How often an agents worker has asked for the listing of an MCP server."""
    return f"{check_task_id(task_id)}/mcp/{check_item_id(server)}.asked.json"


def tool_change_path(task_id: str, call_id: str) -> str:
    """The change of a tool that a person must approve, as it was found when this call was due."""
    return f"{check_task_id(task_id)}/mcp/changes/{check_item_id(call_id)}.json"


def artifact_name(uri_or_name: str) -> str:
    """The name of an artifact from its name or URI; ValueError if it could leave the workspace."""
    match = _URI.fullmatch(uri_or_name)
    name = match.group(1) if match else uri_or_name
    if not NAME.fullmatch(name):
        raise ValueError(
            f"artifact {uri_or_name[:120]!r} is not allowed: a name has 1 to 128 letters, digits, '_', '-' "
            "and '.', no folders, and does not start with '.'"
        )
    return name


def artifact_uri(name: str) -> str:
    """The URI of the artifact with this name, relative to the workspace."""
    return f"file://artifacts/{artifact_name(name)}"

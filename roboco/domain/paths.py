"""Paths in the workspace. They are relative: to a folder, or to a prefix in an S3 bucket."""

from roboco.domain.history.part import artifact_name
from roboco.domain.ids import check_item_id, check_task_id

OPEN_MARKERS = "_open/"
NOTIFY_MARKERS = "_notify/"
ACCESS_KEYS = "_keys/"
"""The folder of the keys of the HTTP gateway, one file each. No task id begins with "_"."""
ERASURES = "_erasing/"
"""The folder of requests to erase a task that coordinators have not completed, one file each."""
TOMBSTONES = "_erased/"
"""The folder of the receipts of erased tasks. A receipt rejects whatever arrives late for its task."""
ERASE_PREFIX = "erase/"
"""Prefix of the schedule's entries for tasks that are erased."""
RESTART_PREFIX = "restart/"
"""Prefix of the schedule's entries for tasks whose logs start anew after a restart of Redis."""
RESUME_PREFIX = "resume/"
"""Prefix of the schedule's entries for tasks that are paused by an outage of their model and are due to resume."""
ENTER_PREFIX = "enter/"
"""Prefix of the schedule's entries for open tasks whose inbox is restored after Redis was emptied."""
EARLY_FILES_PREFIX = "early/"
"""Prefix of the schedule's entries for task ids that have files, or a conversation, and perhaps no task."""
WORKSPACE_FILE = "_workspace.json"
"""The file with the id of the workspace, by which clients and workers detect that they use different ones."""
SWITCHES_FILE = "_switches.json"
"""The record of everything that an operator has switched off."""
OPERATOR_RECORDS = (ACCESS_KEYS, ERASURES, TOMBSTONES, SWITCHES_FILE)
"""The records of operators and of the gateway. A bucket has them at another prefix: `operator_prefix`."""
OPENED, CLOSED = b"", b"closed"
"""The content of the open marker of a task that takes items, and of one whose end is final. Between the two a task is
closing: it takes no items, and a coordinator may open it again."""
NOTIFY_PREFIX = "notify/"
"""Prefix of the schedule's entries for tasks with pending notifications. No task id contains a "/"."""


def operator_prefix(prefix: str) -> str:
    """Return the prefix of the records of operators in a bucket whose tasks have this prefix, which ends in "/".

    It is beside that of the tasks, so that a policy allows the tasks alone. A policy that denies a part of a prefix
    fails in stores that read "a//b" as "a/b". A bucket without a prefix has no place beside its tasks.
    """
    return f"{prefix.rstrip('/')}-operator/" if prefix else ""


def access_key_path(key_id: str) -> str:
    """Return the path of a key of the HTTP gateway."""
    return f"{ACCESS_KEYS}{check_item_id(key_id)}.json"


def erasure_path(task_id: str) -> str:
    """Return the path of the request to erase the task."""
    return f"{ERASURES}{check_task_id(task_id)}"


def tombstone_path(task_id: str) -> str:
    """Return the path of the receipt of an erased task."""
    return f"{TOMBSTONES}{check_task_id(task_id)}"


def task_folder(task_id: str) -> str:
    """Return the folder of all files of the task."""
    return f"{check_task_id(task_id)}/"


def team_path(task_id: str) -> str:
    """Return the path of the frozen team."""
    return f"{check_task_id(task_id)}/team.json"


def summary_path(task_id: str) -> str:
    """Return the path of the task's summary."""
    return f"{check_task_id(task_id)}/task.json"


def usage_path(task_id: str) -> str:
    """Return the path of the task's usage by agent, model, tool and day."""
    return f"{check_task_id(task_id)}/usage.json"


def history_path(task_id: str) -> str:
    """Return the path of the history, one step a line."""
    return f"{check_task_id(task_id)}/history.jsonl"


def segments_path(task_id: str) -> str:
    """Return the folder of steps that are not compacted into the history yet (S3 only)."""
    return f"{check_task_id(task_id)}/history/"


def history_summaries_path(task_id: str) -> str:
    """Return the folder of summaries of older steps.

    Their names begin with the eight digits of the position before which they end.
    """
    return f"{check_task_id(task_id)}/summaries/"


def history_summary_path(task_id: str, until: int, key: str) -> str:
    """Return the path of a summary of the steps before a position. The key identifies the way it was made."""
    return f"{history_summaries_path(task_id)}{until:08d}-{key}.json"


def lineage_path(task_id: str) -> str:
    """Return the path of the record of the task from which this one was forked."""
    return f"{check_task_id(task_id)}/lineage.json"


def recorded_calls_path(task_id: str) -> str:
    """Return the path of the recorded tool results with which a run of `what-if` is answered."""
    return f"{check_task_id(task_id)}/recorded_calls.json"


def forks_path(task_id: str) -> str:
    """Return the folder of the names of the task's forks, whose histories contain its steps."""
    return f"{check_task_id(task_id)}/forks/"


def fork_name_path(task_id: str, fork_id: str) -> str:
    """Return the path of the empty file that names a fork of the task."""
    return f"{forks_path(task_id)}{check_task_id(fork_id)}"


def events_path(task_id: str) -> str:
    """Return the path of the execution events."""
    return f"{check_task_id(task_id)}/events.jsonl"


def event_segments_path(task_id: str) -> str:
    """Return the folder of archived events that are not merged into `events.jsonl` yet."""
    return f"{check_task_id(task_id)}/events/"


def event_segment_path(task_id: str, generation: str, first: int) -> str:
    """Return the path of consecutive archived events of a generation of the logs, from this number on."""
    return f"{event_segments_path(task_id)}{check_item_id(generation)}-{first:08d}.jsonl"


def artifacts_path(task_id: str) -> str:
    """Return the folder of artifacts."""
    return f"{check_task_id(task_id)}/artifacts/"


def artifact_path(task_id: str, name: str) -> str:
    """Return the path of one artifact."""
    return f"{artifacts_path(task_id)}{artifact_name(name)}"


def early_files_path(task_id: str) -> str:
    """Return the path of the owner of the files that were uploaded before the task was submitted."""
    return f"{check_task_id(task_id)}/early_files.json"


def conversation_path(task_id: str) -> str:
    """Return the path of the record of a conversation of OpenAI's API, whose task may not exist yet."""
    return f"{check_task_id(task_id)}/conversation.json"


def uploads_path(task_id: str) -> str:
    """Return the folder of files that are being uploaded."""
    return f"{check_task_id(task_id)}/uploads/"


def upload_path(task_id: str, name: str) -> str:
    """Return the path of one file that is being uploaded. It is copied to its place, and removed."""
    return f"{uploads_path(task_id)}{check_item_id(name)}"


def artifact_info_path(task_id: str, name: str = "") -> str:
    """Return the path of one artifact's metadata, or without a name, the folder of all metadata."""
    known = f"{artifact_name(name)}.json" if name else ""
    return f"{check_task_id(task_id)}/artifact_info/{known}"


def inbox_path(task_id: str) -> str:
    """Return the folder of inbox items that are not applied yet."""
    return f"{check_task_id(task_id)}/inbox/"


def item_path(task_id: str, item_id: str) -> str:
    """Return the path of one inbox item."""
    return f"{inbox_path(task_id)}{check_item_id(item_id)}.json"


def applied_folder(task_id: str) -> str:
    """Return the folder of applied inbox items."""
    return f"{check_task_id(task_id)}/applied/"


def applied_path(task_id: str, item_id: str) -> str:
    """Return the path of one applied inbox item. It remains, so that a repetition is recognised."""
    return f"{applied_folder(task_id)}{check_item_id(item_id)}.json"


def intent_path(task_id: str, call_id: str) -> str:
    """Return the path of the intent of an irreversible tool call."""
    return f"{check_task_id(task_id)}/effects/{check_item_id(call_id)}.json"


def outcome_path(task_id: str, call_id: str) -> str:
    """Return the path of the outcome of an irreversible tool call."""
    return f"{check_task_id(task_id)}/effects/{check_item_id(call_id)}.outcome.json"


def failures_path(task_id: str) -> str:
    """Return the folder of exceptions that tools raised."""
    return f"{check_task_id(task_id)}/failures/"


def failure_path(task_id: str, call_id: str) -> str:
    """Return the path of the exception of a tool call."""
    return f"{failures_path(task_id)}{check_item_id(call_id)}.json"


def feedback_path(task_id: str, seq: int = 0, feedback_id: str = "") -> str:
    """Return the path of a rating of a step, or without an id, the folder of all ratings."""
    named = f"{seq:08d}-{check_item_id(feedback_id)}.json" if feedback_id else ""
    return f"{check_task_id(task_id)}/feedback/{named}"


def closing_marker(epoch: int) -> bytes:
    """Return the content of the open marker of a task that is closing with the end of this epoch."""
    return b"closing %d" % epoch


def open_marker_path(task_id: str) -> str:
    """Return the path of the marker of a task that has not ended."""
    return f"{OPEN_MARKERS}{check_task_id(task_id)}"


def notify_targets_path(task_id: str) -> str:
    """Return the path of the task's notification targets."""
    return f"{check_task_id(task_id)}/notify.json"


def push_receivers_path(task_id: str) -> str:
    """Return the path of the task's receivers of push notifications."""
    return f"{check_task_id(task_id)}/push.json"


def notifications_path(task_id: str) -> str:
    """Return the folder of notifications that are not delivered yet."""
    return f"{check_task_id(task_id)}/notifications/"


def notification_path(task_id: str, name: str) -> str:
    """Return the path of one notification that is not delivered yet."""
    return f"{notifications_path(task_id)}{check_item_id(name)}.json"


def finished_notifications_path(task_id: str, seq: int) -> str:
    """Return the folder of finished notifications of this position: those that were delivered or given up."""
    return f"{check_task_id(task_id)}/finished_notifications/{seq:08d}/"


def finished_notification_path(task_id: str, seq: int, name: str) -> str:
    """Return the path of one finished notification of this position. It remains, so that it is not delivered again."""
    return f"{finished_notifications_path(task_id, seq)}{check_item_id(name)}.json"


def newest_notifications_path(task_id: str) -> str:
    """Return the path of the record of each target's newest notification that was delivered or given up."""
    return f"{check_task_id(task_id)}/newest_notifications.json"


def continued_path(task_id: str) -> str:
    """Return the path of the record of how the Celery task that submitted this task was continued."""
    return f"{check_task_id(task_id)}/continued.json"


def notify_marker_path(task_id: str) -> str:
    """Return the path of the marker of a task with pending notifications."""
    return f"{NOTIFY_MARKERS}{check_task_id(task_id)}"


def listing_path(task_id: str, server: str) -> str:
    """Return the path of an MCP server's tools as they were first listed for the task."""
    return f"{check_task_id(task_id)}/mcp/{check_item_id(server)}.json"


def approved_tools_path(task_id: str, server: str) -> str:
    """Return the path of those tools of an MCP server that changed later and whose change a person approved."""
    return f"{check_task_id(task_id)}/mcp/{check_item_id(server)}.approved.json"


def failed_listing_path(task_id: str, server: str) -> str:
    """Return the path of the record of failed attempts to list an MCP server's tools: their number and the reason."""
    return f"{check_task_id(task_id)}/mcp/{check_item_id(server)}.failed.json"


def listing_requests_path(task_id: str, server: str) -> str:
    """Return the path of the count of an agents worker's requests to list an MCP server's tools."""
    return f"{check_task_id(task_id)}/mcp/{check_item_id(server)}.requests.json"


def tool_change_path(task_id: str, call_id: str) -> str:
    """Return the path of a changed tool that needs a person's approval, as it was found when this call was due."""
    return f"{check_task_id(task_id)}/mcp/changes/{check_item_id(call_id)}.json"

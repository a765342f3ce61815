"""task_memory: the memory that a task uses, and what it remembered there."""

from roboco.domain.memory import Memory, memory_path
from roboco.engine.engine import WorkspaceRecords
from roboco.ports.memories import change_memory, read_memory


def memory_of(workspace: WorkspaceRecords, task_id: str) -> str:
    """Return the path of the memory that the task uses, or "". Raise CorruptHistory if a record cannot be read."""
    team, first = workspace.frozen_teams.find(task_id), next(workspace.histories.read(task_id), None)
    if team is None or first is None:
        return ""
    return memory_path(team.memory, task_id, first.metadata.get("context") or {})


def remembered_by(workspace: WorkspaceRecords, path: str, task_id: str) -> Memory:
    """Return the entries of the memory at the path that the task remembered; none if the path is ""."""
    entries = read_memory(workspace.files, path).entries if path else ()
    return Memory(entries=tuple(entry for entry in entries if entry.task_id == task_id))


def forget_entries(workspace: WorkspaceRecords, path: str, task_id: str) -> None:
    """Remove what the task remembered from the memory at the path, if there is one."""
    if path:
        change_memory(workspace.files, path, lambda memory: memory.without(lambda entry: entry.task_id == task_id))

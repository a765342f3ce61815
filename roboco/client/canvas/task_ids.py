"""Ids of the tasks that Celery tasks of a canvas submit."""

from roboco.domain.canonical_json import sha256
from roboco.domain.ids import is_task_id


def team_task_id(celery_id: str) -> str:
    """Return the id of the task that a Celery task submits: the same for each of its messages."""
    named = f"celery-{celery_id}"
    return named if is_task_id(named) else f"celery-{sha256(celery_id)[:32]}"

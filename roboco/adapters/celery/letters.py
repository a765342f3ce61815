"""letters: dead letters of Celery messages whose arguments were read."""

import hashlib
from datetime import datetime
from typing import Any

from kombu.utils import json

from roboco.adapters.celery.refused import BODY_LIMIT
from roboco.domain.canonical_json import well_formed
from roboco.domain.dead_letter import DeadLetter, letter_id_of

REASON_MOST = 2000
"""Characters of a reason."""


def letter_of(request: Any, queue: str, reason: str, attempts: int, time: datetime) -> DeadLetter:
    """Return the dead letter of the Celery task's message. The same message again has the same letter."""
    body = json.dumps([list(request.args or ()), dict(request.kwargs or {}), {}]).encode()
    return DeadLetter(
        letter_id=letter_id_of(str(request.id), str(request.get("roboco_requeued", ""))),
        reason=well_formed(reason)[:REASON_MOST],
        time=time,
        attempts=attempts,
        queue=queue,
        headers={"task": request.task, "id": request.id},
        body=body[:BODY_LIMIT].decode("utf-8", "replace"),
        cut=len(body) > BODY_LIMIT,
        size=len(body),
        digest=hashlib.sha256(body).hexdigest(),
    )

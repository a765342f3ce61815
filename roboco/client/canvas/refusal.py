"""refusal: the warning and the dead letter by which operators find a `roboco.team` that was refused."""

import logging
from typing import Any

from roboco.broker.dead_letter import dead_letter_of
from roboco.broker.display import redact_error
from roboco.broker.names import TEAM_TASK
from roboco.client.orchestrator import Orchestrator
from roboco.errors import Erased, Overloaded, TransientError, UsageError

_log = logging.getLogger(__name__)


def refuse(orchestrator: Orchestrator, request: Any, error: UsageError | Overloaded) -> None:
    """Store the dead letter and log the refusal. The failure of the Celery task does not depend on either.

    There is no dead letter for a tenant, since dead letters are the operator's, none for an Overloaded, since many of
    those would push lost work out of the dead letters, and none for an erased task, since it would hold the new prompt.
    """
    queue = str((request.delivery_info or {}).get("routing_key") or "")
    letter = dead_letter_of(request, queue, f"refused: {error}", 1, orchestrator._engine.now())
    stored = f"; it is dead letter {letter.letter_id}"
    if orchestrator.settings.tenant is not None or isinstance(error, Overloaded | Erased):
        stored = ""
    else:
        try:
            orchestrator._engine.tasks.dead_letters.add(letter)
        except TransientError as away:
            stored = f"; its dead letter cannot be stored ({away})"
    _log.warning("Celery task %s (%s) is refused%s: %s", request.id, TEAM_TASK, stored, redact_error(error))

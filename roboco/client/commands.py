"""commands: handle the Celery tasks by which other services submit and control tasks.

    message ─► handler of its name ─► arguments checked ─► accept ─► accepted
                                           └─► UsageError, also published to the task's followers

A command may be delivered twice. The Celery task id is the default item id, so the second delivery changes nothing.
"""

from typing import Any

from roboco.broker import names
from roboco.client.run_handler import SentCommand, publish_refusal, run_handler
from roboco.client.task_commands import TASK_HANDLERS
from roboco.client.team_lookup import resolve_sent_team
from roboco.domain.inbox.submission import parse_submission
from roboco.domain.notification import check_callback
from roboco.engine.coordinate.shop_task import TaskAnswer, accept_task_answer
from roboco.engine.coordinate.submit import submit
from roboco.engine.engine import Engine
from roboco.errors import Forbidden, UsageError
from roboco.settings import Settings


def handle(engine: Engine, settings: Settings, name: str, arguments: dict[str, Any], item_id: str) -> None:
    """Handle the command of this name. If it is refused, publish the error to the task's followers and raise it.

    If the arguments have a `tenant`, their task ids are those that the tenant uses.
    """
    handler = _handle_submit if name == names.SUBMIT_TASK else TASK_HANDLERS[name]
    run_handler(handler, engine, settings, SentCommand(name, arguments, item_id, "celery"))


def handle_task_answer(engine: Engine, given: TaskAnswer) -> None:
    """Accept the answer of a shop's Celery task. If it is late, publish the error to followers and raise it."""
    try:
        accept_task_answer(engine, given)
    except Forbidden:
        raise  # anyone may have sent it: followers of the task would get as many events as messages
    except UsageError as error:
        publish_refusal(engine, given.task_id, error)
        raise


def _handle_submit(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    submission = parse_submission(arguments)
    for target in submission.notify:
        check_callback(target, settings.allowlist.callbacks)
    submit(engine, submission, resolve_sent_team(settings, submission.team))

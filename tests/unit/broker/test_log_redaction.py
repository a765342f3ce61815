"""The log of failed Celery tasks: no text of an external caller's error, and all of any other error."""

import logging
import sys
from typing import Any

import pytest

from roboco.broker.names import OUTSIDE_TASKS
from roboco.broker.redacted_request import LogRedaction
from roboco.errors import UsageError

MESSAGE_FORMAT = "Task %(name)s raised: %(exc)s"


def log_error(name: str, error: Exception, expected: bool) -> logging.LogRecord:
    """Return the record that Celery creates while it handles the error."""
    try:
        raise error
    except type(error):
        context: dict[str, Any] = {"name": name, "exc": repr(error), "traceback": f'  File "a.py", line 1\n    {error}'}
        exc_info = None if expected else sys.exc_info()
        record = logging.getLogger("x").makeRecord(
            "x", 20, "f", 1, MESSAGE_FORMAT, (context,), exc_info, extra={"data": context}
        )
        assert LogRedaction().filter(record)
        return record


@pytest.mark.parametrize("name", OUTSIDE_TASKS)
@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (UsageError("prompt: is wrong (found 'canary')"), True, "UsageError: prompt: is wrong (found ...)"),
        (UsageError("no team 'canary or so'"), True, "UsageError: no team ..."),
        (KeyError("canary"), False, 'KeyError\n  File "a.py", line 1'),
    ],
)
def test_the_error_of_an_external_task_is_redacted(name: str, error: Exception, expected: bool, message: str) -> None:
    record = log_error(name, error, expected)
    assert record.getMessage() == f"Task {name} raised: {message}"
    assert "canary" not in logging.Formatter().format(record) + repr(record.__dict__)


def test_the_error_of_an_internal_task_is_logged_whole() -> None:
    record = log_error("roboco.turn", KeyError("which"), expected=False)
    text = logging.Formatter().format(record)
    assert "Task roboco.turn raised: KeyError('which')" in text
    assert "raise error\nKeyError: 'which'" in text

"""The log of failed Celery tasks: of an error from outside no words, of all others everything."""

import logging
import sys
from typing import Any

import pytest

from roboco.adapters.celery.log_redaction import LogRedaction
from roboco.errors import UsageError

FORMAT = "Task %(name)s raised: %(exc)s"


def logged(name: str, error: Exception, foreseen: bool) -> logging.LogRecord:
    """The record as Celery makes it while it handles the error."""
    try:
        raise error
    except type(error):
        told: dict[str, Any] = {"name": name, "exc": repr(error), "traceback": f'  File "a.py", line 1\n    {error}'}
        caught = None if foreseen else sys.exc_info()
        record = logging.getLogger("x").makeRecord("x", 20, "f", 1, FORMAT, (told,), caught, extra={"data": told})
        assert LogRedaction().filter(record)
        return record


@pytest.mark.parametrize(
    ("error", "foreseen", "message"),
    [
        (UsageError("prompt: is wrong (found 'canary')"), True, "UsageError: prompt: is wrong (found ...)"),
        (UsageError("no team 'canary or so'"), True, "UsageError: no team ..."),
        (KeyError("canary"), False, 'KeyError\n  File "a.py", line 1'),
    ],
)
def test_an_error_from_outside(error: Exception, foreseen: bool, message: str) -> None:
    record = logged("roboco.submit", error, foreseen)
    assert record.getMessage() == f"Task roboco.submit raised: {message}"
    assert "canary" not in logging.Formatter().format(record) + repr(record.__dict__)


def test_what_is_not_from_outside_is_told_whole() -> None:
    record = logged("roboco.turn", KeyError("which"), foreseen=False)
    text = logging.Formatter().format(record)
    assert "Task roboco.turn raised: KeyError('which')" in text
    assert "raise error\nKeyError: 'which'" in text

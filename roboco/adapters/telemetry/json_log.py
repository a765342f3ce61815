"""Logs of a worker as JSON: one object a line, Celery's own lines too."""

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Any

from celery import Celery
from celery.signals import celeryd_after_setup, setup_logging

from roboco.adapters.telemetry.log_context import NAMED
from roboco.adapters.telemetry.redaction import Hidden

_OTHERS = ("celery", "celery.task", "celery.redirected", "multiprocessing")
"""Loggers that may have handlers of their own."""
_PRINTED: Any = "WARNING"
"""The level of what is printed; Celery wants its name."""


class JsonFormatter(logging.Formatter):
    """A record as a JSON object: when, how grave, by whom, what, in which process, and for which work.

    Only what is named here goes out, and secrets of the environment do not: neither in the message nor in exceptions.
    """

    def __init__(self, hidden: Hidden) -> None:
        super().__init__()
        self._hidden = hidden

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self._hidden(_message(record)),
            "process": record.process,
        }
        line |= NAMED.get() or {}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self._hidden(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = self._hidden(self.formatStack(record.stack_info))
        return json.dumps(line)


def log_as_json(app: Celery, hidden: Hidden) -> None:
    """Have the worker of this process, and its children, log as JSON, to its log file or to stderr; no banner."""

    def configure(loglevel: int, logfile: str | None) -> None:
        handler = WatchedFileHandler(logfile) if logfile else logging.StreamHandler(sys.__stderr__)
        handler.setFormatter(JsonFormatter(hidden))
        root = logging.getLogger()
        root.handlers = [handler]
        root.setLevel(loglevel)
        for name in _OTHERS:
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [], True

    def configure_worker(**told: Any) -> None:
        configure(told["loglevel"], told["logfile"])
        app.log.redirect_stdouts(_PRINTED)  # what anybody prints, as without us

    def be_quiet(instance: Any, **_: Any) -> None:
        instance.quiet = True

    configure(logging.WARNING, None)  # until Celery says how: it warns before that
    logging.captureWarnings(True)
    setup_logging.connect(configure_worker, weak=False)
    celeryd_after_setup.connect(be_quiet, weak=False)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # arguments that do not fit: the line must be JSON all the same
        return f"{record.msg} ({error})"

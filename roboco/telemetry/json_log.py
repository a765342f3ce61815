"""Logs of a worker as JSON: one object for each line, Celery's lines included."""

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Any

from celery import Celery
from celery.signals import celeryd_after_setup, setup_logging

from roboco.telemetry.redaction import Redactor
from roboco.telemetry.telemetry import LOG_CONTEXT

_OTHER_LOGGERS = ("celery", "celery.task", "celery.redirected", "multiprocessing")
"""Loggers that may have handlers."""
_STDOUT_LEVEL: Any = "WARNING"
"""The level of printed text; Celery wants its name."""


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object: time, level, logger, message, process, and the work that it belongs to.

    It contains no other attributes of the record. Secrets of the environment are masked in messages and exceptions.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self._redactor(_message(record)),
            "process": record.process,
        }
        line |= LOG_CONTEXT.get() or {}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self._redactor(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = self._redactor(self.formatStack(record.stack_info))
        return json.dumps(line)


def log_as_json(app: Celery, redactor: Redactor) -> None:
    """Let the worker of this process and its children log as JSON, to its log file or to stderr, without a banner."""

    def configure(loglevel: int, logfile: str | None) -> None:
        handler = WatchedFileHandler(logfile) if logfile else logging.StreamHandler(sys.__stderr__)
        handler.setFormatter(JsonFormatter(redactor))
        root = logging.getLogger()
        root.handlers = [handler]
        root.setLevel(loglevel)
        for name in _OTHER_LOGGERS:
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [], True

    def configure_worker(**options: Any) -> None:
        configure(options["loglevel"], options["logfile"])
        app.log.redirect_stdouts(_STDOUT_LEVEL)  # printed text becomes log lines, as in any Celery worker

    def be_quiet(instance: Any, **_: Any) -> None:
        instance.quiet = True

    configure(logging.WARNING, None)  # until Celery sends the signal: it logs warnings before
    logging.captureWarnings(True)
    setup_logging.connect(configure_worker, weak=False)
    celeryd_after_setup.connect(be_quiet, weak=False)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # arguments that do not fit the message: the line must be JSON all the same
        return f"{record.msg} ({error})"

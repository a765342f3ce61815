"""logs: the loggers of `roboco serve`, each line a JSON object on stderr.

`roboco.access` has a line for each response, and `roboco.audit` one for each accepted or refused control, approval,
submission and sign-in. Neither contains a key, a cookie, a query or a body.
"""

import logging
import os
import sys
from typing import Final

from roboco.telemetry.json_log import JsonFormatter
from roboco.telemetry.redaction import Redactor

ACCESS: Final = logging.getLogger("roboco.access")
AUDIT: Final = logging.getLogger("roboco.audit")


def log_to_stderr() -> None:
    """Send the log of this process to stderr. The lines of ACCESS and AUDIT are JSON objects already."""
    lines = logging.StreamHandler(sys.stderr)
    for logger in (ACCESS, AUDIT):
        logger.handlers, logger.propagate = [lines], False
        logger.setLevel(logging.INFO)
    others = logging.StreamHandler(sys.stderr)
    others.setFormatter(JsonFormatter(Redactor(os.environ)))
    root = logging.getLogger()
    root.handlers = [others]
    root.setLevel(logging.WARNING)

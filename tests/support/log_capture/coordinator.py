"""roboco.workers.coordinator that also stores each log record, with the fields that the log format does not show."""

import logging
import os
from pathlib import Path
from typing import Any

from celery.signals import celeryd_after_setup

from roboco.workers import coordinator


class RecordStore(logging.Handler):
    """A log handler that appends each record to a file."""

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record as one line."""
        with (Path(os.environ["TEST_FOLDER"]) / "records.txt").open("a") as file:
            file.write(f"{record.__dict__!r} {record.getMessage()!r}\n")


@celeryd_after_setup.connect
def add_handler(**_: Any) -> None:
    """Add the handler once Celery has set up its log and before it starts a child."""
    logging.getLogger().addHandler(RecordStore())


app = coordinator.app

"""roboco.workers.coordinator, which also keeps every field of each log record, also those its format does not show."""

import logging
import os
from pathlib import Path
from typing import Any

from celery.signals import celeryd_after_setup

from roboco.workers import coordinator


class Everything(logging.Handler):
    """One line for each record."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write down the record."""
        with (Path(os.environ["TEST_FOLDER"]) / "records.txt").open("a") as file:
            file.write(f"{record.__dict__!r} {record.getMessage()!r}\n")


@celeryd_after_setup.connect
def keep(**_: Any) -> None:
    """Begin when Celery has set its log up, and no child is there yet."""
    logging.getLogger().addHandler(Everything())


app = coordinator.app

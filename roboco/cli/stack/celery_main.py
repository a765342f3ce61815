"""The command `celery` with the modules of the current folder: `python -P -m roboco.cli.stack.celery_main ...`."""

import os
import sys

from celery.__main__ import main as celery


def main() -> None:
    """Run Celery's command line."""
    sys.path.insert(0, os.getcwd())
    celery()


if __name__ == "__main__":
    main()

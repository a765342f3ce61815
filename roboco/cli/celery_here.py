"""The command `celery` with the current folder's modules importable: `python -P -m roboco.cli.celery_here ...`."""

import os
import sys

from celery.__main__ import main as celery


def main() -> None:
    """Run Celery's command line."""
    sys.path.insert(0, os.getcwd())
    celery()


if __name__ == "__main__":
    main()

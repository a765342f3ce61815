"""The command `celery` with the current folder's modules importable: `python -P -m roboco.cli.celery_here ...`."""

import importlib
import os
import sys

from celery.__main__ import main as celery


def main() -> None:
    """Run Celery's command line."""
    importlib.import_module("workers")  # ours, before the current folder comes first: a shop may well have its own
    sys.path.insert(0, os.getcwd())
    celery()


if __name__ == "__main__":
    main()

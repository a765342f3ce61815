"""The tool `nap` of the benches."""

import time

from roboco import tool

SECONDS = 0.1


@tool
def nap(number: int) -> int:
    """Sleep for a tenth of a second."""
    time.sleep(SECONDS)
    return number

"""The team of the load, and its tools. A payment is irreversible, and leaves a line that the tests count."""

import os
import time
from pathlib import Path

from roboco import ToolContext, parse_team, tool

TURNS = 5
TEAM = parse_team(
    {
        "name": "till",
        "agents": [{"name": "clerk", "prompt": "clerk", "tools": ["add", "pay"]}],
        "tools": [
            {"name": "add", "function": f"{__name__}:add", "effect": "pure"},
            {"name": "pay", "function": f"{__name__}:pay", "timeout": 20},
        ],
        "limits": {"max_steps": 100},
    }
)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    time.sleep(0.5)
    return a + b


@tool
def pay(context: ToolContext) -> str:
    """Append the id of the call to the file of payments."""
    time.sleep(0.5)
    with Path(os.environ["PAYMENTS"]).open("a") as file:
        file.write(f"{context.call_id}\n")
    time.sleep(0.5)
    return "paid"

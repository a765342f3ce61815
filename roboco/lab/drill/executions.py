"""Executions: the calls of tools that the workers of a drill have begun, and the orders that stand-ins get.

Processes share a folder. `executions.jsonl` has a line for each execution, appended in one write, so that none is lost
if its process dies on the next line. An order is a file that one execution takes by renaming it.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

FOLDER_VARIABLE: Final = "DRILL_FOLDER"
"""The environment variable of the workers with the folder."""

ToolOrder = Literal["wait", "hang", "raise", "die"]
"""Behavior of an execution after it was noted: wait for `release`, hang, raise, or die."""


@dataclass(frozen=True)
class Execution:
    """One execution of a tool. `key` names the call: it is the same for each execution of a call."""

    tool: str
    task_id: str
    call_id: str
    key: str


class Executions:
    """The shared folder of a drill."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "executions.jsonl"
        self._order = folder / "order.json"
        self._taken = folder / "order-taken.json"
        self._released = folder / "order-released"

    def note(self, execution: Execution) -> None:
        """Append the execution."""
        with self._log.open("ab", buffering=0) as log:
            log.write(f"{json.dumps(asdict(execution))}\n".encode())

    def read(self) -> list[Execution]:
        """Return all executions so far, in their order."""
        with suppress(FileNotFoundError):
            return [Execution(**json.loads(line)) for line in self._log.read_bytes().splitlines()]
        return []

    def order(self, tool: str, order: ToolOrder) -> None:
        """Give the order to the next execution of the tool."""
        self.withdraw()
        draft = self._order.with_suffix(".draft")
        draft.write_text(json.dumps([tool, order]))
        draft.replace(self._order)

    def take(self, tool: str) -> ToolOrder | None:
        """Return the order for this tool if this execution is the first to take it, else None."""
        with suppress(FileNotFoundError):
            ordered_tool, order = json.loads(self._order.read_text())
            if ordered_tool == tool:
                self._order.rename(self._taken)
                return order  # type: ignore[no-any-return]
        return None

    def was_taken(self) -> bool:
        """Return True if an execution has taken the order."""
        return self._taken.exists()

    def release(self) -> None:
        """Let the execution that waits continue."""
        self._released.touch()

    def is_released(self) -> bool:
        """Return True if the execution that waits may continue."""
        return self._released.exists()

    def withdraw(self) -> None:
        """Remove the order, taken or not."""
        for path in (self._order, self._taken, self._released):
            path.unlink(missing_ok=True)

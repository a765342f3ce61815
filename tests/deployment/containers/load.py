"""Tasks with followers, in a container: `python -m tests.deployment.containers.load --tasks 6`.

It prints a line "submitted TASK" for each, a line "running" when every task has written text, and at the end one line
of JSON with all findings that contradict the guarantees: a task without an end, a step that is lost or doubled, a gap
in a stream, a second payment.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from roboco import Orchestrator, Task
from roboco.domain.history.step import TaskStep, verify_chain
from roboco.errors import TransientError
from roboco.lab.transcript import Transcript
from tests.deployment.containers.shop import TEAM, TURNS

THREADS = 50
END_SECONDS = 240.0
"""Seconds after which a task without an end hangs."""


class Followed:
    """A task, and the transcript of its follower."""

    def __init__(self, orchestrator: Orchestrator, task: Task) -> None:
        self._orchestrator = orchestrator
        self.task = task
        self.transcript = Transcript()
        self.writing = threading.Event()
        self.interruptions = 0

    def follow(self) -> list[str]:
        """Read the stream to its end, and return the findings. Resume after an error that says to try again."""
        deadline = time.monotonic() + END_SECONDS
        cursor = None
        while True:
            try:
                for item in self.task.stream(cursor):
                    self.transcript.take(item)
                    self.writing.set()
                    cursor = item.cursor
                break
            except TransientError as error:
                self.interruptions += 1
                if time.monotonic() > deadline:
                    return [f"{self.task.task_id}: its stream ended with {error!r}"]
                time.sleep(1)
        return [f"{self.task.task_id}: {finding}" for finding in self._findings(deadline)]

    def _findings(self, deadline: float) -> Iterator[str]:
        result = self.task.result(max(1.0, deadline - time.monotonic()))
        if result.status != "completed":
            yield f"it ended as {result.status}: {self.task.summary().reason}"
        steps = self.task.history()
        turns = [step for step in steps if step.by_agent]
        chained = verify_chain(self._orchestrator._engine.workspace.histories.lines(self.task.task_id))
        texts = {step_id: text for step_id, text in self.transcript.texts.items() if text}
        places = list(range(len(steps)))
        for what, found, expected in (
            ("positions", [step.seq for step in steps], places),
            ("chained steps", chained, len(steps)),
            ("steps that its follower saw", self.transcript.finals, places),
            ("turns", len(turns), TURNS),
            ("texts that its follower read", texts, {step.step_id: step.text for step in turns}),
        ):
            if found != expected:
                yield f"{what}: {found}, not {expected}"
        yield from _wrong_payments(steps)


def _wrong_payments(steps: Sequence[TaskStep]) -> Iterator[str]:
    """Yield each call that paid twice, or that reports a payment which was not made."""
    made = Path(os.environ["PAYMENTS"])
    paid = Counter(made.read_text().split() if made.exists() else ())
    for outcome in (outcome for step in steps for outcome in step.results):
        times = paid[outcome.tool_call_id]
        if times > 1 or (outcome.result == "paid" and times != 1):
            yield f"call {outcome.tool_call_id} paid {times} times, and its result is {outcome.result!r}"


def main() -> None:
    """Submit, follow, and print the findings. Exit with 1 if there are any."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=6)
    parser.add_argument("--continue", nargs="*", dest="continued", metavar="TASK", help="follow these, and submit none")
    options = parser.parse_args()
    with Orchestrator() as orchestrator, ThreadPoolExecutor(THREADS) as threads:
        if options.continued:
            tasks = [orchestrator.task(task_id) for task_id in options.continued]
        else:
            tasks = [orchestrator.run(TEAM, f"Order {number}.") for number in range(options.tasks)]
        for task in tasks:
            print("submitted", task.task_id, flush=True)
        all_followed = [Followed(orchestrator, task) for task in tasks]
        futures = [threads.submit(followed.follow) for followed in all_followed]
        for followed in all_followed:
            followed.writing.wait(END_SECONDS)
        print("running", flush=True)
        findings = [finding for future in futures for finding in future.result()]
        restarts = sum(one.transcript.types.count("event_turn_restart") for one in all_followed)
        resumed = sum(one.interruptions for one in all_followed)
    print(json.dumps({"findings": findings, "restarts": restarts, "resumed": resumed}), flush=True)
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()

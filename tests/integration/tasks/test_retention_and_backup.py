"""Retention by real coordinators, and a backup that is restored beside an empty Redis."""

import shutil
from pathlib import Path

import pytest

from roboco.errors import UsageError
from tests.support.journeys import GRAPH, MANUAL, answer
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.redis]


def test_coordinators_remove_the_tasks_of_a_rule(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        stack.model.script(answer)
        kept = stack.orchestrator.run(GRAPH.team, GRAPH.prompt, task_id="kept")
        task = stack.orchestrator.run(GRAPH.team, GRAPH.prompt, task_id="old:t1")
        for one in (kept, task):
            one.result(60).raise_for_status()
        # Coordinators scan at their start, and then once a day: the tasks must have ended before the first scan.
        stack.settings = stack.settings.model_copy(update={"retention_rules": ("tenant=old delete=0h", "keep")})
        stack.restart("coordinator")

        def is_erased() -> bool:
            try:
                return stack.orchestrator.operator.erasure("old:t1").status == "erased"
            except UsageError:
                return False

        until(is_erased, 60, "the task is removed")
        assert kept.summary().status == "completed"


def test_a_backup_in_the_documented_order_continues_beside_an_empty_redis(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with Stack(tmp_path / "first") as stack:
        stack.model.script(answer)
        stack.orchestrator.run(GRAPH.team, GRAPH.prompt, task_id="done").result(60)
        stack.orchestrator.run(GRAPH.team, GRAPH.prompt, task_id="erased").result(60)
        waiting = stack.orchestrator.run(MANUAL.team, MANUAL.prompt, task_id="waits")
        waiting.result(60)
        steps = len(waiting.history())
        workspace = tmp_path / "first" / "workspace"
        shutil.copytree(workspace / "_open", backup / "_open")
        rest = shutil.ignore_patterns("_open", ".*")  # names with a dot are locks and temporary files, which vanish
        for _ in range(2):
            shutil.copytree(workspace, backup, ignore=rest, dirs_exist_ok=True)
        assert stack.orchestrator.operator.erase("erased", timeout=60).status == "erased"
    shutil.copytree(backup, tmp_path / "second" / "workspace")
    with Stack(tmp_path / "second") as stack:
        stack.model.script(answer)
        task = stack.orchestrator.task("waits")
        task.send("more")
        until(lambda: len(task.history()) >= steps + 2, 60, "the waiting task continues")
        assert stack.orchestrator.task("done").summary().status == "completed"
        assert stack.orchestrator.operator.erase("erased", timeout=60).status == "erased", (
            "it was erased since the backup"
        )

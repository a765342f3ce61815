"""Every release reads what earlier ones have recorded, and finishes their tasks. It also reads fields of later ones."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis

from roboco.domain.history.step import TaskStep, verify_chain
from roboco.domain.paths import WORKSPACE_FILE
from roboco.domain.status import TaskStatus
from roboco.engine.registration import FIRST_RELEASE
from roboco.engine.worker_status import FORMAT, workspace_name
from roboco.errors import UsageError
from roboco.local.valkey import ValkeyServer
from roboco.settings import Settings
from roboco.workers.draining import DrainDeadline
from roboco.workers.registration import Registrar
from roboco.workspace.open import open_workspace
from tests.releases.deployment import Deployment
from tests.releases.dump import Dump, restore
from tests.releases.states import ALL_JOURNEYS, STATES, State
from tests.support.memory_ports.world import TASK

RECORDED = {path.name.removesuffix(".json.gz"): path for path in (Path(__file__).parent / "recorded").glob("*.json.gz")}
BY_NAME = {state.name: state for state in STATES}
LATER = "a_field_of_a_later_release"


@cache
def recorded_states(release: str) -> dict[str, Dump]:
    """Return the states that a release has recorded, by name."""
    states: dict[str, Dump] = json.loads(gzip.decompress(RECORDED[release].read_bytes()))
    return states


def with_later_fields(data: Dump) -> Dump:
    """Return the data as a later release may store them, with more fields in each record, but not in steps."""
    changed: Dump = json.loads(json.dumps(data))
    changed["files"] = {path: _later_file(path, text) for path, text in data["files"].items()}
    for kind, value in changed["redis"].values():
        if kind == "hash":
            value.update({name: _later_record(text) for name, text in value.items() if name != "first_step"})
            value |= {LATER: "1"} if "epoch" in value else {}
        elif kind == "stream":
            for _, fields in value:
                fields["m"] = _later_record(fields["m"])
    return changed


def _later_file(path: str, text: str) -> str:
    name = path.rpartition("/")[2]
    if name == "team.json":
        return json.dumps(_later_team(json.loads(text)))
    if name == "notify.json":
        return json.dumps([{LATER: 1} | target for target in json.loads(text)])
    return _later_record(text) if name.endswith(".json") else text


def _later_record(text: str) -> str:
    return text[:-1] + f',"{LATER}":1}}' if text.startswith("{") and len(text) > 2 else text


def _later_team(team: dict[str, Any]) -> dict[str, Any]:
    parts = [*team.get("agents", []), *team.get("tools", []), *team.get("models", {}).values()]
    for part in (*parts, team.get("limits", {}), team["collaboration_model"]):
        part[LATER] = {"more": [1]}
    teams = {name: _later_team(other) for name, other in team.get("teams", {}).items()}
    return team | {LATER: "text"} | ({"teams": teams} if teams else {})


CASES = [(release, name) for release in sorted(RECORDED) for name in recorded_states(release)]


def content(step: TaskStep) -> list[Any]:
    """Return what a step says, whichever release has written it."""
    results = [(result.result, result.is_error) for result in step.results]
    return [step.agent_name, step.text, [(call.tool_name, call.args) for call in step.calls], results]


@cache
def run_of_this_release(name: str, retried: bool) -> tuple[list[Any], TaskStatus]:
    """Return the content of the steps of a whole run of the journey, or of its retry, and the status."""
    world = ALL_JOURNEYS[name].run(ALL_JOURNEYS[name].world())
    task_id = world.summary().retried_as if retried else TASK
    return [content(step) for step in world.history(task_id)], world.summary(task_id).status


def finish(state: State, data: Dump, client: redis.Redis, prefix: str, folder: Path) -> None:
    """Restore the data, and require that this release finishes the task as if it had run all of it."""
    restore(data, client, prefix, folder)
    journey = ALL_JOURNEYS[state.journey]
    deployment = Deployment.of(journey, client, prefix, folder)
    before = list(deployment.histories.lines(TASK))
    state.finish(deployment)
    assert deployment.failures == []
    after = list(deployment.histories.lines(TASK))
    assert after[: len(before)] == before
    assert verify_chain(after) == len(after)
    retried_in_place = any(step.is_retry for step in deployment.history())  # as an earlier release did
    found = [content(step) for step in deployment.history()], deployment.summary().status
    assert found == run_of_this_release(state.journey, retried_in_place)
    assert deployment.open_tasks() == []


@pytest.mark.parametrize(("release", "name"), CASES)
def test_a_recorded_task_is_finished(release: str, name: str, client: redis.Redis, prefix: str, tmp_path: Path) -> None:
    finish(BY_NAME[name], recorded_states(release)[name], client, prefix, tmp_path)


@pytest.mark.parametrize(("release", "name"), CASES[::4])
def test_a_recorded_workspace_suffices(
    release: str, name: str, client: redis.Redis, prefix: str, tmp_path: Path
) -> None:
    finish(BY_NAME[name], recorded_states(release)[name] | {"redis": {}}, client, prefix, tmp_path)


@pytest.mark.parametrize(("release", "name"), CASES[::2])
def test_unknown_fields_of_a_later_release_are_read(
    release: str, name: str, client: redis.Redis, prefix: str, tmp_path: Path
) -> None:
    finish(BY_NAME[name], with_later_fields(recorded_states(release)[name]), client, prefix, tmp_path)


def a_deployment(client: redis.Redis, prefix: str, folder: Path) -> Deployment:
    """Return a deployment with a task of this release that waits."""
    state = BY_NAME["manual-0-2"]
    restore(recorded_states("0.1.0")[state.name], client, prefix, folder)
    return Deployment.of(ALL_JOURNEYS[state.journey], client, prefix, folder)


def start(pool: str, url: str, prefix: str, folder: Path) -> None:
    """Register a worker of the pool, as at its start."""
    settings = Settings(redis_url=url, prefix=prefix, workspace=folder.as_uri())
    Registrar(settings, "worker@here", (pool,), DrainDeadline(60.0))()


def test_a_workspace_without_a_format_gets_it_if_its_tasks_can_be_read(
    client: redis.Redis, valkey: ValkeyServer, prefix: str, tmp_path: Path
) -> None:
    deployment = a_deployment(client, prefix, tmp_path)
    (tmp_path / WORKSPACE_FILE).write_text('{"id": "a1", "kept": 1}', encoding="utf-8")
    start("coordinator", valkey.url, prefix, tmp_path)
    assert json.loads(deployment.files.get(WORKSPACE_FILE) or b"") == {"id": "a1", "kept": 1, "format": FORMAT}


@pytest.mark.parametrize("has_id", [False, True])
@pytest.mark.parametrize(("pool", "part"), [("coordinator", "state"), ("agents", "team"), ("tools", "state")])
def test_no_worker_starts_beside_an_earlier_format(
    pool: str, part: str, has_id: bool, client: redis.Redis, valkey: ValkeyServer, prefix: str, tmp_path: Path
) -> None:
    deployment = a_deployment(client, prefix, tmp_path)
    if has_id:
        (tmp_path / WORKSPACE_FILE).write_text('{"id": "a1"}', encoding="utf-8")
    if part == "state":
        client.hdel(deployment.keys.state(TASK), "history_state")
    else:
        (tmp_path / TASK / "team.json").write_text('{"name": "desk"}', encoding="utf-8")
    with pytest.raises(UsageError, match=f"stored by a release before {FIRST_RELEASE}, which cannot run beside"):
        start(pool, valkey.url, prefix, tmp_path)
    assert b"format" not in (deployment.files.get(WORKSPACE_FILE) or b"")


def test_no_process_starts_with_a_workspace_of_a_later_format(tmp_path: Path) -> None:
    files = open_workspace(tmp_path.as_uri()).files
    files.create(WORKSPACE_FILE, b'{"id": "a1", "format": 2}')
    with pytest.raises(UsageError, match="has format 2 of a later release"):
        workspace_name(files, "here")

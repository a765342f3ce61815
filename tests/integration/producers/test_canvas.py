"""Teams as signatures in an application of a shop: chain, group and chord, failures and revokes, on real workers."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery import Celery, chain, chord
from celery.exceptions import TaskRevokedError

import roboco
from roboco.client.canvas.ended_task import continue_canvas
from roboco.client.canvas.signature import TeamTask
from roboco.domain.ids import team_task_id
from roboco.domain.paths import finished_notifications_path, open_marker_path
from tests.support.celery_shops import VISIBILITY_TIMEOUT, shop_app
from tests.support.events import capture_events
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

TEAM = {"name": "research", "agents": [{"name": "reader", "prompt": "reader for {{ context.audience }}"}]}


def answer(request: Request) -> Reply:
    """Return the text about the notes in the prompt. "refuse" is an error, "dawdle" a slow text."""
    if "refuse" in request.last_user:
        return Reply(status=400, text="the model refuses")
    if "dawdle" in request.last_user:
        return Reply(text="slowly " * 600, chunks=600, interval=0.1)
    return Reply(text=f"read {request.last_user} for {request.system.split()[-1]}", interval=0.005)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("shop"), allowlist={"callbacks": ("shop.hear@celery",)}) as running:
        running.model.script(answer)
        running.start("shop", modules="tests.support.celery_shops")
        running.wait_ready("shop")
        yield running


@pytest.fixture(scope="module")
def app(stack: Stack) -> Iterator[Celery]:
    with shop_app(stack.valkey.url, stack.settings) as made:
        yield made


def shop_lines(stack: Stack, word: str = "") -> list[str]:
    """Return the lines that Celery tasks of the shop wrote and that contain the word."""
    path = stack.folder / "shop.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if word in line]


def team(app: Celery, **options: Any) -> TeamTask:
    """Return a signature of the team, with people as the audience."""
    return roboco.team(TEAM, app=app, context={"audience": "people"}, **options)


def test_celery_events_show_a_team_as_one_celery_task(stack: Stack, app: Celery) -> None:
    """Events show the team as a Celery task that runs from its start to the team's end, and contain no text of it."""
    with capture_events(app) as seen:
        well, refused, slow = (team(app).s(f"{word} plankton").apply_async() for word in ("eat", "refuse", "dawdle"))
        until(lambda: seen.state(slow.id) == "STARTED", 60, "the team runs")
        until(lambda: seen.state(well.id) == "SUCCESS", 60, lambda: f"the task has succeeded: {seen.events}")
        until(lambda: seen.state(refused.id) == "FAILURE", 60, lambda: f"the task has failed: {seen.events}")
        assert seen.state(slow.id) == "STARTED"
        slow.revoke()
        until(lambda: seen.state(slow.id) == "REVOKED", 60, lambda: f"the task is revoked: {seen.events}")
        shown = seen.rows.tasks[well.id]
        assert (shown.name, shown.result) == ("roboco.team", f"'task {team_task_id(well.id)} is completed'")
        assert 0 < shown.runtime < 60
        assert seen.rows.tasks[refused.id].exception.startswith("TaskFailed: task celery-")
        assert seen.rows.tasks[slow.id].worker.hostname.startswith("celery@shop")
        assert "plankton" not in str(
            [event for event in seen.events if event.get("name", "roboco.team") == "roboco.team"]
        )


def test_an_object_sets_options_and_a_fixed_prompt_gets_the_previous_result_as_context(
    stack: Stack, app: Celery
) -> None:
    arguments = {"prompt": "sand", "context": {"audience": "children"}, "title": "On sand"}
    first = team(app).s(arguments).apply_async()
    assert first.get(timeout=60) == "read sand for children"
    one = chain(app.signature("shop.fetch", ("kelp",)), team(app, prompt="Go on.").s()).apply_async()
    assert one.get(timeout=60) == "read Go on. for people"
    context = stack.orchestrator.task(team_task_id(one.id)).history()[0].metadata["context"]
    assert context == {"audience": "people", "previous": "notes on kelp"}


def test_a_chord_of_twenty_teams_runs_its_body_once(stack: Stack, app: Celery) -> None:
    header = [team(app).s(f"chord {number}") for number in range(20)]
    result = chord(header, app.signature("shop.publish")).apply_async()
    expected = [f"read chord {number} for people" for number in range(20)]
    assert result.get(timeout=120) == {"published": expected}
    assert len(shop_lines(stack, "chord")) == 1


def test_no_worker_is_held_while_teams_run(stack: Stack, app: Celery) -> None:
    """The shop's only child process runs other work while three slow teams run."""
    results = [team(app).s(f"dawdle {number}").apply_async() for number in range(3)]
    tasks = [team_task_id(result.id) for result in results]
    files = stack.orchestrator._engine.workspace.files
    until(lambda: all(files.get(open_marker_path(task_id)) is not None for task_id in tasks), 60, "all are submitted")
    assert app.signature("shop.fetch", ("meanwhile",)).apply_async().get(timeout=60) == "notes on meanwhile"
    assert not any(result.ready() for result in results)
    for result in results:
        result.revoke()
    for result in results:
        with pytest.raises(TaskRevokedError):
            result.get(timeout=60)


def test_submission_that_is_refused_is_a_warning_and_a_dead_letter(stack: Stack, app: Celery) -> None:
    """A caller such as celery beat reads no result."""
    orchestrator = stack.orchestrator
    result = app.send_task("roboco.team", kwargs={"team": "no-such-team", "prompt": "secret words"})
    with pytest.raises(roboco.UsageError, match="no-such-team"):
        result.get(timeout=60)
    [letter] = [one for one in orchestrator.operator.dead_letters() if one.headers.get("id") == result.id]
    assert (letter.name, letter.attempts) == ("roboco.team", 1)
    assert letter.reason.startswith("refused: team 'no-such-team' was named")
    line = f"Celery task {result.id} (roboco.team) is refused; it is dead letter {letter.letter_id}: NotFound: team 'no"
    assert line in stack.log("shop")
    assert "secret words" not in stack.log("shop")
    with pytest.raises(
        roboco.UsageError, match=f"send it again from there; roboco dead-letters dismiss {letter.letter_id} takes"
    ):
        orchestrator.operator.requeue_dead_letter(letter.letter_id)
    assert orchestrator.operator.dismiss_dead_letter(letter.letter_id) == letter
    assert letter not in orchestrator.operator.dead_letters()


def test_repeated_messages_continue_a_chain_once(stack: Stack, app: Celery) -> None:
    result: Any = chain(team(app).s("twice"), app.signature("shop.publish")).apply_async()
    result.get(timeout=60)
    task_id, engine = team_task_id(result.parent.id), stack.orchestrator._engine
    until(
        lambda: engine.workspace.files.names(finished_notifications_path(task_id, 2)),
        60,
        "the notification is finished",
    )
    name = engine.workspace.files.names(finished_notifications_path(task_id, 2))[0].removesuffix(".json")
    for _ in range(3):
        app.send_task("roboco.ended", kwargs={"task_id": task_id, "name": name})
        app.send_task("roboco.team", args=("another",), kwargs={"team": TEAM}, task_id=result.parent.id)
    app.signature("shop.fetch", ("after that",)).apply_async().get(timeout=60)
    continue_canvas(app, engine, task_id, name)
    assert shop_lines(stack, "twice") == ["published read twice for people"]
    assert result.parent.get(timeout=60) == "read twice for people"


def test_the_shops_messages_keep_their_visibility_timeout_on_one_database(stack: Stack, app: Celery) -> None:
    """Roboco's workers restore unacknowledged messages of their own every two seconds, after half a minute."""
    client: Any = redis.Redis.from_url(stack.valkey.url, decode_responses=True)
    started = len(shop_lines(stack, "napping"))
    app.signature("shop.nap", ("visibility",)).apply_async()
    until(lambda: len(shop_lines(stack, "napping")) > started, 60, "the shop runs the Celery task")
    tags = client.zrange("unacked_index", 0, -1)  # of the nap, and of messages that wait behind it
    long_ago = time.time() - VISIBILITY_TIMEOUT / 2  # far beyond the timeout of Roboco's workers
    client.zadd("unacked_index", dict.fromkeys(tags, long_ago))
    time.sleep(5)  # Roboco's workers restore their messages at least twice
    (stack.folder / "visibility").touch()
    until(lambda: not client.exists("unacked_index"), 60, "the shop has acknowledged it")
    app.signature("shop.fetch", ("after the nap",)).apply_async().get(timeout=60)
    assert len(shop_lines(stack, "napping")) == started + 1
    client.close()

"""Teams as signatures in a shop's own application: chain, group and chord, failures and revokes, on real workers."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery, chain, chord, group
from celery.exceptions import TaskRevokedError
from celery.result import AsyncResult, allow_join_result

import roboco
from roboco import TaskFailed, UsageError
from roboco.adapters.local.valkey import ValkeyServer
from roboco.client.canvas.ended_task import continue_canvas
from roboco.client.canvas.signature import TeamTask
from roboco.client.canvas.task_ids import team_task_id
from roboco.domain.paths import finished_notifications_path, open_marker_path
from tests.support.celery_shops import VISIBILITY_TIMEOUT, shop_app
from tests.support.events import capture_events
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

TEAM = {"name": "research", "agents": [{"name": "reader", "prompt": "reader for {{ context.audience }}"}]}
ASKING = TEAM | {"collaboration_model": {"type": "graph", "routing_graph": {"reader": ["USER"]}}}


def answer(request: Request) -> Reply:
    """What the model says of the notes that it gets; it refuses and dawdles where it is told to."""
    if "refuse" in request.last_user:
        return Reply(status=400, text="the model refuses")
    if "dawdle" in request.last_user:
        return Reply(text="slowly " * 600, chunks=600, interval=0.1)
    return Reply(text=f"read {request.last_user} for {request.system.split()[-1]}", interval=0.005)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(
        tmp_path_factory.mktemp("shop"), redelivery_delay=1.0, allowed_callbacks=("shop.hear@celery",)
    ) as running:
        running.model.script(answer)
        running.start("shop", modules="tests.support.celery_shops")
        running.wait_ready("shop")
        yield running


@pytest.fixture(scope="module")
def app(stack: Stack) -> Iterator[Celery]:
    with shop_app(stack.valkey.url, stack.settings) as made:
        yield made


def done(stack: Stack, word: str = "") -> list[str]:
    """What the shop has done, where it has to do with the word."""
    path = stack.folder / "shop.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if word in line]


def team(app: Celery, **wishes: Any) -> TeamTask:
    """The team, for people."""
    return roboco.team(TEAM, app=app, context={"audience": "people"}, **wishes)


def test_a_chain_goes_on_with_what_the_team_has_said(stack: Stack, app: Celery) -> None:
    result: Any = chain(
        app.signature("shop.fetch", ("tides",)), team(app).s(), app.signature("shop.publish")
    ).apply_async()
    assert result.get(timeout=60) == {"published": "read notes on tides for people"}
    assert result.parent.get(timeout=5) == "read notes on tides for people"
    assert done(stack, "tides") == ["published read notes on tides for people"]
    task = stack.orchestrator.task(team_task_id(result.parent.id))
    assert task.summary().status == "completed"


def test_team_of_an_application_with_a_broker_that_roboco_does_not_know_fails_at_once(stack: Stack) -> None:
    """Its chain would wait for ever."""
    own = stack.valkey.url.removesuffix("/0") + "/5"
    stack.start("shop-own", modules="tests.support.celery_shops", SHOP_URL=own)
    stack.wait_ready("shop-own")
    remedy = "Set ROBOCO_CALLBACK_BROKER_URL to the address of this application's broker"
    assert remedy in stack.log("shop-own")
    with shop_app(own, stack.settings) as app:
        result: Any = chain(team(app).s("tides"), app.signature("shop.publish")).apply_async()
        with pytest.raises(UsageError, match=remedy):
            result.get(timeout=60)
        assert stack.orchestrator._engine.files.get(open_marker_path(team_task_id(result.parent.id))) is None
        assert team(app).s("alone").apply().get() == "read alone for people", "an eager application waits itself"


def test_what_celerys_tools_show_while_a_team_works_and_when_it_has_ended(stack: Stack, app: Celery) -> None:
    """As any Celery task that runs, from its start to the team's end; and nothing of what is said."""
    with capture_events(app) as seen:
        well, refused, slow = (team(app).s(f"{word} plankton").apply_async() for word in ("eat", "refuse", "dawdle"))
        until(lambda: seen.state(slow.id) == "STARTED", 20, "the team works")
        until(lambda: seen.state(well.id) == "SUCCESS", 60, lambda: f"it has ended: {seen.events}")
        until(lambda: seen.state(refused.id) == "FAILURE", 60, lambda: f"it has failed: {seen.events}")
        assert seen.state(slow.id) == "STARTED"
        slow.revoke()
        until(lambda: seen.state(slow.id) == "REVOKED", 60, lambda: f"it is revoked: {seen.events}")
        shown = seen.rows.tasks[well.id]
        assert (shown.name, shown.result) == ("roboco.team", f"'task {team_task_id(well.id)} is completed'")
        assert 0 < shown.runtime < 60
        assert seen.rows.tasks[refused.id].exception.startswith("TaskFailed: task celery-")
        assert seen.rows.tasks[slow.id].worker.hostname.startswith("celery@shop")
        assert "plankton" not in str(
            [event for event in seen.events if event.get("name", "roboco.team") == "roboco.team"]
        )


def test_two_teams_in_a_row_and_a_summary(stack: Stack, app: Celery) -> None:
    both = chain(team(app).s("moons"), team(app, result="summary").s())
    summary = both.apply_async().get(timeout=60)
    assert summary["text"] == "read read moons for people for people"
    assert (summary["status"], summary["team"], summary["steps"]) == ("completed", "research", 2)


def test_an_object_fills_the_submission_and_a_prompt_keeps_what_was_before(stack: Stack, app: Celery) -> None:
    asked = {"prompt": "sand", "context": {"audience": "children"}, "title": "On sand"}
    first = team(app).s(asked).apply_async()
    assert first.get(timeout=60) == "read sand for children"
    one = chain(app.signature("shop.fetch", ("kelp",)), team(app, prompt="Go on.").s()).apply_async()
    assert one.get(timeout=60) == "read Go on. for people"
    context = stack.orchestrator.task(team_task_id(one.id)).history()[0].metadata["context"]
    assert context == {"audience": "people", "previous": "notes on kelp"}


def test_an_eager_application_waits_for_the_team(stack: Stack, app: Celery) -> None:
    assert team(app).s("eagerly").apply().get() == "read eagerly for people"
    with pytest.raises(TaskFailed, match="the model refuses"):
        team(app).s("refuse eagerly").apply(throw=True)


def test_the_body_of_a_chord_may_be_a_team(stack: Stack, app: Celery) -> None:
    result = chord([app.signature("shop.fetch", ("ebb",)), team(app).s("flow")], team(app).s()).apply_async()
    assert result.get(timeout=60) == 'read ["notes on ebb","read flow for people"] for people'


def test_a_group_of_twenty(stack: Stack, app: Celery) -> None:
    result = group(team(app).s(f"group {number}") for number in range(20)).apply_async()
    with allow_join_result():
        assert result.get(timeout=120) == [f"read group {number} for people" for number in range(20)]


def test_a_chord_of_twenty_and_then_the_body_once(stack: Stack, app: Celery) -> None:
    header = [team(app).s(f"chord {number}") for number in range(20)]
    result = chord(header, app.signature("shop.publish")).apply_async()
    expected = [f"read chord {number} for people" for number in range(20)]
    assert result.get(timeout=120) == {"published": expected}
    assert len(done(stack, "chord")) == 1


def test_no_worker_is_held_while_teams_work(stack: Stack, app: Celery) -> None:
    """The shop's one child does other work while three teams dawdle."""
    results = [team(app).s(f"dawdle {number}").apply_async() for number in range(3)]
    tasks = [team_task_id(result.id) for result in results]
    files = stack.orchestrator._engine.files
    until(lambda: all(files.get(open_marker_path(task_id)) is not None for task_id in tasks), 30, "all are submitted")
    assert app.signature("shop.fetch", ("meanwhile",)).apply_async().get(timeout=10) == "notes on meanwhile"
    assert not any(result.ready() for result in results)
    for result in results:
        result.revoke()
    for result in results:
        with pytest.raises(TaskRevokedError):
            result.get(timeout=60)


def test_a_failing_team_fails_its_chain_as_a_celery_task_does(stack: Stack, app: Celery) -> None:
    complain = app.signature("shop.complain")
    failing = chain(app.signature("shop.fetch", ("refuse it",)), team(app).s(), app.signature("shop.publish"))
    result: Any = failing.apply_async(link_error=[complain, app.signature("shop.explain")])
    with pytest.raises(TaskFailed, match="the model refuses") as raised:
        result.get(timeout=60)
    assert raised.value.status == "failed"
    assert (result.state, result.parent.state, result.parent.parent.state) == ("FAILURE", "FAILURE", "SUCCESS")
    until(lambda: done(stack, f"complained {result.parent.id}"), 20, "link_error ran")
    assert not done(stack, "published read notes on refuse")
    explained = f"explained {result.parent.id}: task {raised.value.task_id} is failed: "
    assert [line.startswith(explained) for line in done(stack, "explained")] == [True]
    assert len(done(stack, "complained")) == 1


def test_a_submission_that_is_wrong_fails_at_once(stack: Stack, app: Celery) -> None:
    result = roboco.team("nobody", app=app).s("go").apply_async()
    with pytest.raises(roboco.UsageError, match="nobody"):
        result.get(timeout=30)


def test_submission_that_is_refused_is_a_warning_and_a_dead_letter(stack: Stack, app: Celery) -> None:
    """As from celery beat, which reads no result."""
    orchestrator = stack.orchestrator
    result = app.send_task("roboco.team", kwargs={"team": "no-such-team", "prompt": "secret words"})
    with pytest.raises(roboco.UsageError, match="no-such-team"):
        result.get(timeout=20)
    [letter] = [one for one in orchestrator.dead_letters() if one.headers.get("id") == result.id]
    assert (letter.name, letter.attempts) == ("roboco.team", 1)
    assert letter.reason.startswith("refused: team 'no-such-team' was named")
    line = (
        f"Celery task {result.id} (roboco.team) is refused; it is dead letter {letter.letter_id}: UsageError: team 'no"
    )
    assert line in stack.log("shop")
    assert "secret words" not in stack.log("shop")
    with pytest.raises(
        roboco.UsageError, match=f"send it again from there; roboco dead-letters delete {letter.letter_id} takes"
    ):
        orchestrator.requeue_dead_letter(letter.letter_id)
    assert orchestrator.delete_dead_letter(letter.letter_id) == letter
    assert letter not in orchestrator.dead_letters()


def test_a_failing_team_fails_its_chord(stack: Stack, app: Celery) -> None:
    result = chord([team(app).s("well"), team(app).s("refuse")], app.signature("shop.publish")).apply_async()
    with pytest.raises(Exception, match="the model refuses"):
        result.get(timeout=60)
    assert not done(stack, "published ['read well")


def test_a_team_that_waits_for_its_user_ends_nothing_unless_it_may_not(stack: Stack, app: Celery) -> None:
    waiting = roboco.team(ASKING, app=app, context={"audience": "people"}).s("ask").apply_async()
    until(lambda: _status(stack, waiting) == "user_turn", 30, "it waits")
    impatient = roboco.team(ASKING, app=app, context={"audience": "people"}, on_wait="fail").s("ask").apply_async()
    with pytest.raises(TaskFailed) as raised:
        impatient.get(timeout=60)
    assert raised.value.status == "user_turn"
    until(lambda: _status(stack, impatient) == "cancelled", 30, "the impatient one is stopped")
    assert not waiting.ready()
    stack.orchestrator.task(team_task_id(waiting.id)).stop()
    with pytest.raises(TaskRevokedError):
        waiting.get(timeout=60)
    assert impatient.state == "FAILURE"


def _status(stack: Stack, result: AsyncResult[Any]) -> str:
    files = stack.orchestrator._engine.files
    task_id = team_task_id(result.id)
    return "" if files.get(f"{task_id}/task.json") is None else str(stack.orchestrator.task(task_id).summary().status)


def test_who_waits_for_a_chain_hears_that_its_team_was_revoked(stack: Stack, app: Celery) -> None:
    result: Any = chain(team(app).s("dawdle in a chain"), app.signature("shop.publish")).apply_async()
    until(lambda: _status(stack, result.parent) == "running", 30, "the team works")
    result.parent.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=60)
    assert result.parent.state == "REVOKED"
    until(lambda: _status(stack, result.parent) == "cancelled", 30, "the team is stopped")
    assert not done(stack, "dawdle in a chain")


def test_revoked_before_it_starts_it_is_never_submitted(stack: Stack, app: Celery) -> None:
    """The shop's one child is busy, so that the message waits."""
    app.signature("shop.nap", ("revoked",)).apply_async()
    until(lambda: done(stack, "napping"), 20, "the child is busy")
    result = team(app).s("too late").apply_async()
    result.revoke()
    until(lambda: f"Tasks flagged as revoked: {result.id}" in stack.log("shop"), 20, "the worker knows of it")
    (stack.folder / "revoked").touch()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=30)
    assert stack.orchestrator._engine.files.names(f"{team_task_id(result.id)}/") == []


def test_messages_that_come_again_and_at_once_go_on_once(stack: Stack, app: Celery) -> None:
    result: Any = chain(team(app).s("twice"), app.signature("shop.publish")).apply_async()
    result.get(timeout=60)
    task_id, engine = team_task_id(result.parent.id), stack.orchestrator._engine
    until(lambda: engine.files.names(finished_notifications_path(task_id, 2)), 20, "the notice is settled")
    name = engine.files.names(finished_notifications_path(task_id, 2))[0].removesuffix(".json")
    for _ in range(3):
        app.send_task("roboco.ended", kwargs={"task_id": task_id, "name": name})
        app.send_task("roboco.team", args=("another",), kwargs={"team": TEAM}, task_id=result.parent.id)
    app.signature("shop.fetch", ("after that",)).apply_async().get(timeout=30)
    continue_canvas(app, engine, task_id, name)
    assert done(stack, "twice") == ["published read twice for people"]
    assert result.parent.get(timeout=5) == "read twice for people"


def test_a_callback_is_told(stack: Stack, app: Celery) -> None:
    notify = [{"celery": dict(app.signature("shop.hear", queue="celery")), "on": ["completed"]}]
    task = stack.orchestrator.run(
        roboco.parse_team(TEAM), "callback", context={"audience": "people"}, notify=notify, task_id="told-1"
    )
    task.result(60)
    until(lambda: done(stack, "heard"), 30, "the shop heard of it")
    assert done(stack, "heard") == ["heard completed of told-1: read callback for people"]


def test_nothing_else_of_the_application_changes(stack: Stack) -> None:
    plain = Celery("plain", broker=stack.valkey.url, backend=stack.valkey.url, set_as_current=False)
    plain.conf.update(broker_transport_options={"visibility_timeout": 99})
    before, tasks = dict(plain.conf), set(plain.tasks)
    queues, routes = dict(plain.amqp.queues), list(plain.amqp.routes)
    roboco.celery.install(plain, stack.settings)
    roboco.celery.install(plain, stack.settings)
    assert dict(plain.conf) == before
    assert (dict(plain.amqp.queues), list(plain.amqp.routes)) == (queues, routes)
    assert set(plain.tasks) - tasks == {"roboco.team", "roboco.ended"}
    assert set(roboco.celery.__all__) == {"install", "team"}


def test_the_shops_messages_keep_their_visibility_timeout_on_one_database(stack: Stack, app: Celery) -> None:
    """Roboco's own workers look after their messages every two seconds, with a timeout of half a minute."""
    client: Any = redis.Redis.from_url(stack.valkey.url, decode_responses=True)
    begun = len(done(stack, "napping"))
    app.signature("shop.nap", ("looked after",)).apply_async()
    until(lambda: len(done(stack, "napping")) > begun, 20, "the shop works")
    (tag,) = client.zrange("unacked_index", 0, -1)
    long_ago = time.time() - VISIBILITY_TIMEOUT / 2  # far beyond Roboco's own timeout
    client.zadd("unacked_index", {tag: long_ago})
    time.sleep(5)  # in which Roboco's workers look after their own messages, twice at least
    (stack.folder / "looked after").touch()
    until(lambda: not client.exists("unacked_index"), 20, "the shop has acknowledged it")
    app.signature("shop.fetch", ("after the nap",)).apply_async().get(timeout=30)
    assert len(done(stack, "napping")) == begun + 1
    client.close()


def test_a_shop_on_a_server_of_its_own(tmp_path: Path, valkey: ValkeyServer) -> None:
    with Stack(tmp_path, callback_broker_url=valkey.url) as apart:
        apart.model.script(answer)
        apart.start("shop", modules="tests.support.celery_shops", SHOP_URL=valkey.url)
        apart.wait_ready("shop")
        with shop_app(valkey.url, apart.settings) as other:
            result = chain(team(other).s("afar"), other.signature("shop.publish")).apply_async()
            assert result.get(timeout=60) == {"published": "read afar for people"}

"""Attempts, which count work that starts and never finishes, and dead letters."""

from datetime import UTC, datetime, timedelta

import pytest

from roboco.adapters.redis import dead_letters as dead_letters
from roboco.domain.canonical_json import canonical_json
from roboco.domain.dead_letter import DeadLetter, dead_letter_of_lost_work
from roboco.ports.attempts import Attempts
from roboco.ports.dead_letters import DeadLetters
from roboco.ports.lease_renewals import AttemptLease, LeaseStatus
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import SHORT_LEASE, TaskUnderTest


def test_attempts_that_never_finish_are_counted(task: TaskUnderTest) -> None:
    attempts: Attempts = task.attempts
    assert [attempts.start_without_lease("a") for _ in range(3)] == [0, 1, 2]
    assert attempts.start_without_lease("b") == 0
    attempts.finish("a")
    assert attempts.start_without_lease("a") == 0


def test_an_attempt_excludes_others_until_its_lease_expires(task: TaskUnderTest) -> None:
    assert task.attempts.start("a") == 0
    assert task.attempts.start("a") is None
    task.short_lease_renewals.renew([AttemptLease("a")])
    task.pass_time(SHORT_LEASE)
    assert task.renew_attempt("a") is LeaseStatus.LOST
    assert task.attempts.start("a") == 1
    assert task.renew_attempt("a") is LeaseStatus.HELD
    task.attempts.finish("a")
    assert task.attempts.start("a") == 0
    task.attempts.finish("never started")


def make_letter(name: str, minute: int) -> DeadLetter:
    time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    return dead_letter_of_lost_work("turn", name, "writer, step 3", "lost", 5, time)


def test_dead_letters_are_kept_by_id_oldest_first(task: TaskUnderTest) -> None:
    dead: DeadLetters = task.dead_letters
    assert dead.entries() == []
    newer, older = make_letter("newer", 2), make_letter("older", 1)
    for one in (newer, older, newer):
        dead.add(one)
    assert dead.entries() == [older, newer]
    assert (dead.get(older.letter_id), dead.get("another")) == (older, None)
    dead.remove(older.letter_id)
    dead.remove("another")
    assert dead.entries() == [newer]


def test_the_oldest_dead_letters_are_removed_above_the_maximum_number(
    redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "MAX_LETTERS", 2)
    letters = [make_letter(str(number), number) for number in range(4)]
    for one in letters:
        redis_task.dead_letters.add(one)
    assert redis_task.dead_letters.entries() == letters[2:]


def test_the_oldest_dead_letters_are_removed_above_the_maximum_size(
    redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(canonical_json(make_letter("0", 0).model_dump(mode="json")))
    monkeypatch.setattr(dead_letters, "MAX_BYTES", 3 * size)
    letters = [make_letter(str(number), number) for number in range(6)]
    for one in [*letters, letters[5]]:
        redis_task.dead_letters.add(one)
    assert redis_task.dead_letters.entries() == letters[3:]
    redis_task.dead_letters.remove(letters[3].letter_id)
    redis_task.dead_letters.remove(letters[3].letter_id)
    redis_task.dead_letters.add(letters[0])
    assert redis_task.dead_letters.entries() == [letters[0], *letters[4:]]
    redis_task.dead_letters.add(letters[1])
    assert redis_task.dead_letters.entries() == [letters[0], letters[1], letters[5]]


def test_a_dead_letter_with_a_lone_surrogate_is_stored(redis_task: TaskOnRedis) -> None:
    redis_task.dead_letters.add(make_letter("half \ud800", 1))
    [kept] = redis_task.dead_letters.entries()
    assert kept.task_id == "half \ufffd"

"""Attempts, which count work that starts and never finishes, and dead letters."""

from datetime import UTC, datetime, timedelta

import pytest

from roboco.domain.canonical_json import canonical_json
from roboco.domain.dead_letter import DeadLetter, dead_letter_of_lost_work
from roboco.ports.dead_letters import DeadLetters
from roboco.redis import dead_letters as dead_letters
from roboco.redis.dead_letters import RedisDeadLetters
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest


def make_letter(name: str, minute: int) -> DeadLetter:
    time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    return dead_letter_of_lost_work("turn", name, "writer, step 3", "lost", 5, time)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_of_dead_letters_have_each_letter_once_newest_first(task: TaskUnderTest, limit: int) -> None:
    letters = [make_letter(str(number), number) for number in range(5)]
    for one in letters:
        task.dead_letters.add(one)
    assert read_pages(task.dead_letters, limit) == letters[::-1]
    assert task.dead_letters.entries() == letters


def read_pages(dead: DeadLetters, limit: int, cursor: str = "") -> list[DeadLetter]:
    """Return all letters from a cursor on."""
    found: list[DeadLetter] = []
    while True:
        page = dead.page(limit, cursor)
        assert len(page.letters) <= limit
        found, cursor = found + page.letters, page.cursor
        if not cursor:
            return found


def test_a_page_has_bounded_bytes_and_at_least_one_letter(
    redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(canonical_json(make_letter("0", 0).model_dump(mode="json")))
    monkeypatch.setattr(dead_letters, "MAX_PAGE_BYTES", 2 * size)
    for number in range(5):
        redis_task.dead_letters.add(make_letter(str(number), number))
    assert len(redis_task.dead_letters.page(100).letters) == 2
    monkeypatch.setattr(dead_letters, "MAX_PAGE_BYTES", 1)
    assert len(redis_task.dead_letters.page(100).letters) == 1
    assert len(read_pages(redis_task.dead_letters, 100)) == 5


def test_a_letter_that_this_release_cannot_read_is_listed_and_hides_no_other(redis_task: TaskOnRedis) -> None:
    redis_task.dead_letters.add(make_letter("1", 1))
    store = RedisDeadLetters(lambda: redis_task.client, redis_task.keys)
    store.add_record({"letter_id": "dead_x", "form": "of a later release"})
    odd, other = redis_task.dead_letters.page(5).letters
    assert (odd.letter_id, odd.truncated) == ("dead_x", True)
    assert "cannot read" in odd.reason
    assert other == make_letter("1", 1)
    assert redis_task.dead_letters.get("dead_x") == odd, "an operator who dismisses it first reads it"
    assert redis_task.dead_letters.entries() == [other, odd]
    redis_task.dead_letters.remove("dead_x")
    assert redis_task.dead_letters.page(5).letters == [other]


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

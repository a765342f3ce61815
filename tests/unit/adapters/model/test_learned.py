"""Lessons: what a process has learned, for people."""

from dataclasses import fields

from roboco.adapters.model.learned import Lessons


def test_each_lesson_has_a_sentence() -> None:
    lessons = Lessons(
        omitted={"temperature"},
        renamed={"max_tokens": "max_completion_tokens"},
        message_fields={"reasoning"},
        max_output=4096,
        values={"reasoning_effort": "none"},
        answers_tools=True,
        all_reasoning=True,
        short_call_ids=True,
        system_as_user=True,
    )
    assert all(getattr(lessons, one.name) for one in fields(Lessons))
    assert len(lessons.sentences()) == len(fields(Lessons))
    assert lessons.omittable == ["reasoning", "temperature"]
    assert Lessons().sentences() == []

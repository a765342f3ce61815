"""Places: ids of frames, which arrive as hostile input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.stream.merged import Cursor
from roboco.gateway.problem import Problem
from roboco.gateway.streams.place import MAX_TASKS, check_place, end_place, split_places
from roboco.gateway.streams.query import MAX_PLACES_CHARS
from roboco.gateway.streams.task_list_source import check_list_place

NUMBERS = st.integers(0, 10**15 - 1)
CURSORS = st.builds(
    Cursor, st.text("0123456789abcdef", max_size=12), NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.booleans()
)
PLACES = st.one_of(st.just(""), st.builds(str, CURSORS), st.builds(lambda cursor: end_place(str(cursor)), CURSORS))
NAMES = st.lists(st.from_regex(r"\A(t:)?[a-z]{1,5}\Z"), max_size=MAX_TASKS, unique=True)


@given(NAMES, st.data())
def test_an_id_of_several_tasks_holds_the_place_of_each(names: list[str], data: st.DataObject) -> None:
    places = {name: data.draw(PLACES) for name in names}
    joined = ",".join(places.values())
    assert split_places(joined, names) == places
    assert list(split_places(joined, names)) == names
    assert split_places(joined, [*names, "added"]) == places | {"added": ""}
    assert len(joined) <= MAX_PLACES_CHARS


@given(st.one_of(st.text(), st.text("0123456789abcdeft.~-,", max_size=300)))
def test_any_other_text_is_a_wrong_request(text: str) -> None:
    for parse in (check_place, check_list_place, lambda found: split_places(found, ["task"])):
        try:
            parse(text)
        except Problem as problem:
            assert (problem.status, problem.code) == (400, "invalid")  # noqa: PT017 - or it is a place


@pytest.mark.parametrize(
    "text",
    [
        "17",
        f".{'9' * 5000}.0.0.1.0",
        "a.0.0.0.1.0~~",
        "a.٣.0.0.1.0",
        "a.0.0.0.1.0\n",
        "a.0.0.0.1.0-",
        "0123456789-a.0.0.0.1.0",
        f"list-{'9' * 15}",
        "list--1",
    ],
)
def test_texts_that_almost_are_places_are_refused(text: str) -> None:
    for parse in (check_place, check_list_place, lambda found: split_places(found, ["task"])):
        with pytest.raises(Problem, match="is not the id of an event"):
            parse(text)


def test_places_in_sub_tasks_are_those_of_a_stream_with_them_alone() -> None:
    place = ".1.0.0.1.0,,-,(a.2.1.0.1.0,-)"
    assert check_place(place, subtasks=True) == place
    assert check_place(end_place(place), subtasks=True) == end_place(place)
    for wrong in (place, f"{place},x", ",".join([".1.0.0.1.0"] * 102)):
        with pytest.raises(Problem, match="is not the id of an event"):
            check_place(wrong, subtasks=wrong != place)


def test_an_id_of_more_tasks_than_the_stream_has_is_refused() -> None:
    with pytest.raises(Problem, match="the id has 3 places, and the stream 2 tasks"):
        split_places(",,a.0.0.0.1.0", ["one", "two"])

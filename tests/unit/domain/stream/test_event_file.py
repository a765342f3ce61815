"""The file of events: the merge of its parts, each read at another moment."""

import json

from roboco.domain.stream.event_file import merged_log, place_of


def lines(*numbers: int, generation: str = "1", text: str = "") -> list[bytes]:
    """Return the lines of the events with these numbers."""
    return [json.dumps({"seq": seq, "generation": generation, "type": "x", "text": text}).encode() for seq in numbers]


def joined(found: list[bytes]) -> bytes:
    """Return the lines as a file."""
    return b"".join(line + b"\n" for line in found)


def test_a_log_that_was_trimmed_between_two_pages_removes_no_event_of_a_segment() -> None:
    merged = merged_log(b"", [joined(lines(*range(1, 9)))], lines(1, 2, 3, 8, 9))
    assert merged is not None
    assert [place_of(line)[1] for line in merged.splitlines()] == list(range(1, 10))


def test_a_log_whose_numbers_were_used_again_replaces_the_lost_events() -> None:
    """Redis was set back to event 4."""
    lost, again = lines(*range(1, 9)), lines(5, 6, text="again")
    for stored, segments in ((b"", [joined(lost)]), (joined(lost[:4]), [joined(lost[4:])])):
        merged = merged_log(stored, segments, [*lost[:4], *again])
        assert merged == joined([*lost[:4], *again])


def test_the_place_of_a_line_is_that_of_its_json() -> None:
    """Redis writes the number and the generation first; other lines have sorted fields."""
    for line in (
        b'{"seq":12,"generation":"01a","chunks":3,"type":"x"}',
        b'{"chunks":3,"generation":"01a","seq":12,"step_seq":1}',
        b'{"seq": 12, "generation": "01a"}',
        b'{"seq":12,"generation":"01a"}',
    ):
        assert place_of(line) == ("01a", 12)
    assert place_of(b'{"seq":12,"chunks":3}') == ("", 12)
    assert place_of(b'{"seq":12,"generation":"\\u0061","chunks":3}') == ("a", 12)


def test_the_end_of_a_task_counts_though_redis_was_set_back_before_the_last_generation() -> None:
    end = json.dumps({"seq": 4, "generation": "1", "type": "event_task_end"}).encode()
    log, lost = [*lines(1, 2, 3), end], lines(1, 2, generation="2")
    assert merged_log(joined([*lines(1, 2), *lost]), [], log) == joined(log)
    assert merged_log(joined([*lines(1, 2), *lost]), [], log[:3]) is None

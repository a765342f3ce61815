"""Switches: a look-up costs the same, however many things are switched off."""

from datetime import UTC, datetime
from typing import Any

from roboco.domain.switch import Switch, SwitchableWork, Switches


class CountedTuple(tuple[Switch, ...]):
    """A tuple that counts how often it is read."""

    reads = 0

    def __iter__(self) -> Any:
        type(self).reads += 1
        return super().__iter__()


def test_a_look_up_does_not_read_all_switches() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    off = CountedTuple(
        Switch(target=f"model:{number}", reason="x", since=now, interrupt=number == 7) for number in range(200)
    )
    switches = Switches.model_construct(revision=1, off=off)
    work = [SwitchableWork("agents", "", "team", "one", (f"{number}",)) for number in (3, 7, 500)]
    for _ in range(50):
        found = [switches.blocking(one) for one in work]
        assert [one and one.target for one in found] == ["model:3", "model:7", None]
        assert [bool(switches.blocking(one, interrupting=True)) for one in work] == [False, True, False]
    assert CountedTuple.reads == 1
    assert switches.find("model:3") is off[3]
    assert Switches.model_validate_json(switches.model_dump_json()) == Switches(revision=1, off=tuple(off))

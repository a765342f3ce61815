"""The stream of a task with its sub-tasks: a follower that disconnects after any item misses and repeats none."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from roboco.client.sub_task_stream import MAX_FOLLOWED, SubTaskStream
from roboco.domain.history.part import TextPart, ToolCall, ToolCallPart, ToolResult, ToolResultPart
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import sub_task_id
from roboco.domain.stream.item import ItemData, StepFinal, StreamItem, TextPartDelta, ToolResultItem, stream_item
from roboco.domain.stream.merged import COMPLETE, MAX_SUB_PLACES, Cursor, split_cursor
from roboco.errors import Erased, UsageError

TASK = "task_1"


class Recorded:
    """The stream of one task whose items exist already. A `running` one never ends."""

    def __init__(
        self, data: list[ItemData], running: bool = False, missing: bool = False, erased: bool = False
    ) -> None:
        self.running, self.missing, self.erased = running, missing, erased
        self.steps = [one.step for one in data if isinstance(one, StepFinal)]
        self.items: list[StreamItem] = []
        seen = 0
        for number, one in enumerate(data, 1):
            seen += isinstance(one, StepFinal)
            self.items.append(stream_item(one, str(Cursor("a", number, 0, seen))))

    async def step(self, seq: int) -> TaskStep | None:
        return next((step for step in self.steps if step.seq == seq), None)

    async def is_over(self) -> bool:
        return not (self.running or self.missing)

    async def items_and_gaps(self, cursor: str | None) -> AsyncGenerator[StreamItem | None, None]:
        if self.erased:
            raise Erased("it was erased")
        for item in self.items[Cursor.parse(cursor).events if cursor else 0 :]:
            yield None
            yield item
            await asyncio.sleep(0)
        if self.running or self.missing:
            await asyncio.Event().wait()


def text(said: str) -> TextPartDelta:
    return TextPartDelta(text=said, step_id="step_x", agent_name="a", attempt=1)


def step(seq: int, *parts: Any, agent: str = "lead") -> StepFinal:
    return StepFinal(
        step=TaskStep(step_id=f"step_{seq}", seq=seq, agent_name=agent, parts=parts or (TextPart(text="x"),))
    )


def family(count: int = 3, **odd: Recorded) -> dict[str, Recorded]:
    """Return a task with sub-tasks, and their streams. `odd` replaces those of some sub-tasks, by `call` and number."""
    calls = [ToolCall(id=f"tc_{n:04}", tool_name="delegate", args={}) for n in range(count)]
    results = [ToolResult(tool_call_id=call.id, result=n) for n, call in enumerate(calls)]
    root: list[ItemData] = [
        step(0, agent="user"),
        text("go"),
        step(1, *(ToolCallPart(tool_call=call) for call in calls)),
    ]
    root += [text("meanwhile")]
    root += [ToolResultItem(tool_name="delegate", part=ToolResultPart(tool_result=one)) for one in results]
    root += [step(2, *(ToolResultPart(tool_result=one) for one in results), agent="tool_executor")]
    root += [text("so"), step(3)]
    tasks = {TASK: Recorded(root)}
    for number, call in enumerate(calls):
        own = Recorded([text(f"{number}.{piece}") for piece in range(4)])
        tasks[sub_task_id(TASK, call.id)] = odd.get(f"call{number}", own)
    return tasks


async def read(tasks: dict[str, Recorded], cursor: str | None, count: int | None = None) -> list[StreamItem]:
    stream = SubTaskStream(TASK, tasks.__getitem__)
    found: list[StreamItem] = []
    items = stream.items(cursor)
    async for item in items:
        if item is not None:
            found.append(item)
        if len(found) == count:
            break
    await items.aclose()
    return found


def follow(tasks: dict[str, Recorded], cursor: str | None = None, count: int | None = None) -> list[StreamItem]:
    return asyncio.run(asyncio.wait_for(read(tasks, cursor, count), 20))


def data_of(items: list[StreamItem], task_id: str) -> list[ItemData]:
    return [item.data for item in items if item.task_id == task_id]


def deep_family() -> dict[str, Recorded]:
    """Return a task with sub-tasks, of which one has sub-tasks, of which one has sub-tasks again."""
    tasks = top = family()
    for _ in range(2):
        child = list(top)[2]
        top = {child + task_id.removeprefix(TASK): one for task_id, one in family(4).items()}
        tasks |= top
    return tasks


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_sub_tasks_of_sub_tasks_are_followed_and_resumed_with_them(size: int) -> None:
    tasks = deep_family()
    assert len(tasks) == 1 + 3 + 4 + 4
    found: list[StreamItem] = []
    cursor = None
    while part := follow(tasks, cursor, size):
        found += part
        cursor = part[-1].cursor
    for task_id, recorded in tasks.items():
        assert data_of(found, task_id) == [item.data for item in recorded.items]
    depths = {item.cursor.count("(") for item in found}
    assert (max(depths), found[-1].cursor.count(",")) == (2, 0)


def test_a_sub_task_that_does_not_end_or_never_began_does_not_hold_the_task() -> None:
    tasks = family(
        call0=Recorded([text("half")], running=True),
        call1=Recorded([], missing=True),
        call2=Recorded([], erased=True),
    )
    items = follow(tasks)
    assert data_of(items, TASK) == [item.data for item in tasks[TASK].items]
    assert all("," not in item.cursor for item in items[-3:])


def test_cursors_of_many_sub_tasks_are_bounded() -> None:
    tasks = family(150)
    items = follow(tasks)
    assert max(len(item.cursor) for item in items) < 2000
    children = list(tasks)[1:]
    shown = {item.task_id for item in items}
    assert shown >= set(children[:MAX_SUB_PLACES])
    assert not shown & set(children[MAX_SUB_PLACES:])
    for item in items:
        places = [place for place in split_cursor(item.cursor)[1:] if place not in ("", COMPLETE)]
        assert len(places) <= 2 * MAX_FOLLOWED


@pytest.mark.parametrize(
    "cursor",
    [
        *("x", ".0.0.0.1.0,x", ",", ".0.0.0.1.0" + "," * 101, ".0.0.0.1.0,~", ".0.0.0.1.0,(", ".0.0.0.1.0,)("),
        *(".0.0.0.1.0,(x)", ".0.0.0.1.0,(.0.0.0.1.0,-", ".0.0.0.1.0" + ",(.0.0.0.1.0" * 7 + ")" * 7, "(" * 50_000),
    ],
)
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(UsageError, match="is not one of a stream item"):
        SubTaskStream(TASK, dict[str, Recorded]().__getitem__).items(cursor)

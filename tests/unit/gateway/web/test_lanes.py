"""Lanes and replay of the web view: geometry and past states, without a browser."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.history.step import changed_state
from tests.support.javascript import copy_modules, evaluate

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
FOLD_ALL = """
const { addStep, fold, newTask } = await import("./js/task_state.js");
const foldAll = (id, frames, count) =>
  frames.slice(0, count).reduce((task, one) => (fold(task, one), task), newTask(id));
"""
LAYOUT = (
    FOLD_ALL
    + """
const L = await import("./js/lanes_layout.js");
const layout = L.layOut(foldAll("t", given[0]));
const start = Date.parse("2026-01-05T08:00:00Z");
const kinds = { agent: "turn", tools: "call", sub: "sub" };
const times = ({ seq, lane, row, from, begin, token, to, state, reason }) => ({
  seq, lane: lane.name, row, kind: kinds[lane.kind] ?? "point", state: state || "", reason,
  times: [from, begin, token, to].map(at => at - start) });
"""
)
BARS = LAYOUT + "return layout.bars.map(times);"
TASK_OF_N_STEPS = 'const frames = (await import("./task_frames.js")).framesOf(given[0], 12);'


STATE_CHANGES: list[dict[str, Any]] = [
    {"flight": "LH 1", "seats": [1, 2]},
    {},
    {"flight": None, "note": "ü" * 9_000},
    {"large": "x" * 20_000},
    {"__proto__": {"note": 1}, "note": "short"},
    {"flight": "LH 2", "none": {}},
]
"""The changes of steps, one of which makes the state too large."""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_modules(tmp_path_factory.mktemp("modules") / "web")


def at(ms: int) -> str:
    return (START + timedelta(milliseconds=ms)).isoformat()


def event(kind: str, ms: int, **data: Any) -> dict[str, Any]:
    return {"type": kind, "place": "g.1.0.0", "data": {"type": kind, "timestamp": at(ms), **data}}


def select(ms: int, step_id: str, agent: str = "writer") -> dict[str, Any]:
    return event("event_agent_select", ms, agent_name=agent, step_id=step_id, reason="next", routing=None)


def status(ms: int, status: str, **data: Any) -> dict[str, Any]:
    return event("event_status", ms, status=status, reason="", **data)


def step(ms: int, seq: int, agent: str, *parts: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return the frame of a committed step."""
    fields = {"seq": seq, "step_id": f"s{seq}", "agent_name": agent, "parts": parts, "metadata": metadata}
    data = {"type": "step_final", "step": fields | {"created_at": at(ms), "digest": f"d{seq}"}}
    return {"type": "step_final", "place": "g.1.0.0", "data": data}


def call(call_id: str) -> dict[str, Any]:
    return {"type": "tool_call", "tool_call": {"id": call_id, "tool_name": "add", "args": {}}}


def result(call_id: str, runtime_ms: int, is_error: bool = False) -> dict[str, Any]:
    tool_result = {"tool_call_id": call_id, "result": "1", "is_error": is_error, "runtime_ms": runtime_ms}
    return {"type": "tool_result", "tool_result": tool_result}


def begin(*frames: dict[str, Any]) -> list[dict[str, Any]]:
    return [event("event_task_start", 0, team="desk"), step(0, 0, "user"), *frames]


def test_no_bar_is_negative_although_clocks_differ(modules: Path) -> None:
    """The step was committed by a worker whose clock is 40 ms late."""
    timings = {"first_token_ms": 30, "duration_ms": 20}
    bars = evaluate(modules, BARS, begin(select(100, "s1"), step(60, 1, "writer", timings=timings)))
    assert bars[1]["times"] == [100, 100, 100, 100]


def test_a_failed_attempt_is_void_with_its_reason_also_without_text(modules: Path) -> None:
    restart = event("event_turn_restart", 900, step_id="s1", attempt=2, reason="the worker was lost", replaced=False)
    bars = evaluate(modules, BARS, begin(select(10, "s1"), restart, step(2000, 1, "writer")))
    void, last = bars[1:]
    assert (void["state"], void["reason"], void["times"]) == ("void", "the worker was lost", [10, 10, 10, 900])
    assert (last["state"], last["times"]) == ("", [900, 900, 900, 2000])


def test_a_call_begins_after_its_approval(modules: Path) -> None:
    """A person needs an hour; the call runs for a second."""
    frames = begin(step(100, 1, "writer", call("a")), status(150, "approval", calls=["a"]))
    [waiting] = [bar for bar in evaluate(modules, BARS, frames) if bar["kind"] == "call"]
    assert waiting["times"] == [100, None, None, None]
    frames += [status(3_600_000, "running"), step(3_601_010, 2, "tool_executor", result("a", 1000))]
    [ran] = [bar for bar in evaluate(modules, BARS, frames) if bar["kind"] == "call"]
    assert ran["times"] == [100, 3_600_000, 3_600_000, 3_601_000]


def test_an_agent_of_any_name_has_a_lane_of_its_own(modules: Path) -> None:
    names = ("tools", "constructor", "__proto__", "coordinator")
    steps = [step(100 * seq, seq, name) for seq, name in enumerate(names, 1)]
    frames = begin(*steps[:-1], step(400, 4, names[-1], call("a")), step(500, 5, "tool_executor", result("a", 50)))
    script = LAYOUT + "return layout.lanes.map(l => [l.name, l.kind, l.rows.length])"
    agents = [[name, "agent", 1] for name in names]
    assert evaluate(modules, script, frames) == [["user", "user", 1], *agents, ["tools", "tools", 1]]


def test_a_long_wait_is_a_break_and_the_scale_is_monotonous(modules: Path) -> None:
    frames = begin(
        status(40, "running"),
        select(50, "s1"),
        step(20_000, 1, "writer", timings={"duration_ms": 19_000}),
        status(20_010, "user_turn"),
        step(7_220_000, 2, "user"),
        status(7_220_010, "running"),
        select(7_220_020, "s3"),
        step(7_230_000, 3, "writer", timings={"duration_ms": 9_900}),
    )
    script = (
        LAYOUT
        + """
    const scale = L.newScale(layout);
    const all = Array.from({ length: 2000 }, (_, i) => scale.units(layout.start + i * 3700));
    const back = [0, 500, 15000, 7000000, 7225000].map(ms => scale.time(scale.units(start + ms)) - start);
    return { breaks: scale.breaks.map(b => [b.from - start, b.to - start]), length: scale.units(layout.end),
      rising: all.every((value, i) => i === 0 || value > all[i - 1]), back };"""
    )
    found = evaluate(modules, script, frames)
    assert found["breaks"] == [[20_010, 7_220_010]]
    assert found["rising"]
    assert found["length"] < 40_000
    assert found["back"] == pytest.approx([0, 500, 15000, 7_000_000, 7_225_000], abs=1)


def test_a_layout_that_grows_equals_a_new_one(modules: Path) -> None:
    """Open bars become final, and the layout starts anew if a step was replaced."""
    script = (
        TASK_OF_N_STEPS
        + FOLD_ALL
        + """
    const L = await import("./js/lanes_layout.js");
    const shape = ({ lanes, bars, start, end }) => JSON.stringify([start, end,
      lanes.map(({ name, y, height, rows }) => [name, y, height, rows.map(row => row.map(bar => bar.id))]),
      bars.map(({ id, row, from, begin, token, to, state }) => [id, row, from, begin, token, to, state])]);
    const task = newTask("t");
    let [layout, kept, wrong] = [null, 0, []];
    frames.forEach((frame, i) => {
      fold(task, frame);
      const before = layout;
      layout = L.layOut(task, layout);
      kept += layout === before;
      if (i % 50 === 0 && shape(layout) !== shape(L.layOut(foldAll("t", frames, i + 1)))) wrong.push(i);
    });
    const grown = shape(layout) === shape(L.layOut(task));
    addStep(task, { ...task.steps[3], digest: "other" });
    return { kept, frames: frames.length, wrong, grown, replaced: L.layOut(task, layout) !== layout };"""
    )
    found = evaluate(modules, script, 300)
    assert found["kept"] == found["frames"] - 1
    assert found["wrong"] == []
    assert found["grown"]
    assert found["replaced"]


def test_the_past_equals_a_fold_of_the_first_frames(modules: Path) -> None:
    """States are asked for in any order, so snapshots must not change by later frames."""
    script = (
        TASK_OF_N_STEPS
        + FOLD_ALL
        + """
    const { Past } = await import("./js/replay.js");
    const plain = (key, value) => (value instanceof Map ? [...value] : value);
    const text = ({ past, ...task }) => JSON.stringify(task, plain);
    const past = new Past("t", frames);
    const wrong = [];
    let seed = 11;
    const places = Array.from({ length: 60 }, () => (seed = (seed * 16807) % 2147483647) % (frames.length + 1));
    for (const count of [frames.length, 0, 1999, 2000, 2001, ...places, 4000, frames.length]) {
      if (text(past.state(count)) !== text(foldAll("t", frames, count))) wrong.push(count);
    }
    return { frames: frames.length, wrong, snapshots: past.snapshots.length };"""
    )
    found = evaluate(modules, script, 1500)
    assert found["wrong"] == []
    assert found["snapshots"] == found["frames"] // 2000 + 1


def test_the_state_is_that_of_the_workers_in_whatever_order_steps_arrive(modules: Path) -> None:
    """Steps that were lost in the stream arrive last, from the history."""
    script = (
        FOLD_ALL
        + """
    const { changedState } = await import("./js/task_state.js");
    return given[1].map(order => {
      const task = newTask("t");
      for (const seq of order) {
        addStep(task, { seq, agent_name: "user", step_id: `s${seq}`, parts: [], metadata: { state: given[0][seq] } });
      }
      return task.state ?? task.steps.reduce(changedState, {});
    });"""
    )
    values: dict[str, Any] = {}
    for changes in STATE_CHANGES:
        values = changed_state(values, changes)
    for found in evaluate(modules, script, STATE_CHANGES, [[0, 1, 2, 3, 4, 5], [0, 1, 4, 5, 2, 3], [5, 4, 3, 2, 1, 0]]):
        assert (found, list(found)) == (values, list(values))
        assert "large" not in found

"""Lanes and replay of the web view: geometry and past states, without a browser."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.javascript import copy_modules, evaluate

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
LAYOUT = """
const { foldAll } = await import("./js/task_state.js");
const L = await import("./js/lanes_layout.js");
const layout = L.layOut(foldAll("t", given[0]));
const start = Date.parse("2026-01-05T08:00:00Z");
const kinds = { agent: "turn", tools: "call", sub: "sub" };
const times = ({ seq, lane, row, from, begin, token, to, state, reason }) => ({
  seq, lane: lane.name, row, kind: kinds[lane.kind] ?? "point", state: state || "", reason,
  times: [from, begin, token, to].map(at => at - start) });
"""
BARS = LAYOUT + "return layout.bars.map(times);"
TASK_OF_N_STEPS = 'const frames = (await import("./task_frames.js")).framesOf(given[0], 12);'


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


def test_a_turn_shows_its_wait_for_a_worker_and_its_first_token(modules: Path) -> None:
    timings = {"first_token_ms": 300, "duration_ms": 2000}
    bars = evaluate(modules, BARS, begin(select(10, "s1"), step(3010, 1, "writer", timings=timings)))
    assert bars[1]["times"] == [10, 1010, 1310, 3010]
    assert (bars[0]["kind"], bars[1]["lane"], bars[1]["seq"]) == ("point", "writer", 1)


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


def test_a_replaced_turn_leaves_only_its_void_attempt(modules: Path) -> None:
    restart = event("event_turn_restart", 900, step_id="s1", attempt=2, reason="stopped", replaced=True)
    bars = evaluate(modules, BARS, begin(select(10, "s1"), restart))
    assert [bar["state"] for bar in bars[1:]] == ["void"]


def test_a_running_turn_is_open(modules: Path) -> None:
    """A bar that waits for its first token has no time of it."""
    frames = begin(select(10, "s1"))
    assert evaluate(modules, BARS, frames)[1]["times"] == [10, 10, None, None]
    delta = {"type": "text_part_delta", "text": "a", "step_id": "s1", "agent_name": "writer", "attempt": 1}
    frames.append({"type": "text_part_delta", "place": "g.1.1.0", "data": delta})
    assert evaluate(modules, BARS, frames)[1]["times"] == [10, 10, 10, None]


def test_parallel_calls_have_rows_and_their_runtime(modules: Path) -> None:
    calls = step(100, 1, "writer", call("a"), call("b"))
    bars = evaluate(modules, BARS, begin(calls, step(2200, 2, "tool_executor", result("a", 2000), result("b", 700))))
    found = [(bar["row"], bar["times"][0], bar["times"][3]) for bar in bars if bar["kind"] == "call"]
    assert found == [(0, 100, 2100), (1, 100, 800)]


def test_a_call_begins_after_its_approval(modules: Path) -> None:
    """A person needs an hour; the call runs for a second."""
    frames = begin(step(100, 1, "writer", call("a")), status(150, "approval", calls=["a"]))
    [waiting] = [bar for bar in evaluate(modules, BARS, frames) if bar["kind"] == "call"]
    assert waiting["times"] == [100, None, None, None]
    frames += [status(3_600_000, "running"), step(3_601_010, 2, "tool_executor", result("a", 1000))]
    [ran] = [bar for bar in evaluate(modules, BARS, frames) if bar["kind"] == "call"]
    assert ran["times"] == [100, 3_600_000, 3_600_000, 3_601_000]


def test_failed_and_interrupted_steps_are_marked(modules: Path) -> None:
    error = {"type": "error", "message": "refused", "code": "status"}
    frames = begin(step(1000, 1, "writer", error), step(2000, 2, "writer", interrupted=True))
    assert [bar["state"] for bar in evaluate(modules, BARS, frames)[1:]] == ["failed", "interrupted"]


def test_a_sub_task_has_a_lane_below_the_tools(modules: Path) -> None:
    delegated = event("event_sub_task", 150, tool_call_id="a", sub_task_id="t.a", team="chat")
    frames = begin(step(100, 1, "writer", call("a")), delegated)
    script = LAYOUT + "return layout.lanes.map(l => [l.name, l.kind, l.taskId])"
    names = [["user", "user", ""], ["writer", "agent", ""], ["tools", "tools", ""], ["chat", "sub", "t.a"]]
    assert evaluate(modules, script, frames) == names


@pytest.mark.parametrize("name", ["tools", "constructor", "__proto__", "coordinator"])
def test_an_agent_of_any_name_has_a_lane_of_its_own(modules: Path, name: str) -> None:
    frames = begin(step(100, 1, name, call("a")), step(500, 2, "tool_executor", result("a", 300)))
    script = LAYOUT + "return layout.lanes.map(l => [l.name, l.kind, l.rows.length])"
    assert evaluate(modules, script, frames) == [["user", "user", 1], [name, "agent", 1], ["tools", "tools", 1]]


def test_waits_are_queued_and_waiting_statuses(modules: Path) -> None:
    frames = begin(status(40, "running"), status(1000, "user_turn"), status(5000, "running"), status(6000, "paused"))
    script = LAYOUT + "return layout.waits.map(w => [w.status, w.from - start, w.to && w.to - start])"
    assert evaluate(modules, script, frames) == [["queued", 0, 40], ["user_turn", 1000, 5000], ["paused", 6000, None]]


def test_the_axis_begins_with_a_step_that_is_older_than_the_task(modules: Path) -> None:
    frames = [event("event_task_start", 500, team="desk"), step(0, 0, "user"), select(600, "s1")]
    assert evaluate(modules, LAYOUT + "return [layout.start - start, layout.end - start]", frames) == [0, 600]


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


def test_the_present_wait_of_a_live_task_is_a_break(modules: Path) -> None:
    frames = begin(
        status(10, "running"), step(9000, 1, "writer", timings={"duration_ms": 8900}), status(9010, "user_turn")
    )
    script = (
        LAYOUT
        + """const now = [9500, 60000, 86400000].map(ms => start + ms);
    const scales = now.map(at => L.newScale(layout, at));
    return [scales.map((scale, i) => scale.units(now[i])), scales[2].breaks.map(b => b.to - start)];"""
    )
    lengths, breaks = evaluate(modules, script, frames)
    assert lengths[0] == 9500
    assert lengths[1] == lengths[2] < 12_000
    assert breaks == [86_400_000]


def test_bars_below_a_pixel_are_merged_and_failures_remain(modules: Path) -> None:
    script = (
        TASK_OF_N_STEPS
        + """
    const { foldAll } = await import("./js/task_state.js");
    const L = await import("./js/lanes_layout.js");
    const layout = L.layOut(foldAll("t", frames));
    const scale = L.newScale(layout);
    const rate = 300 / scale.units(layout.end);
    const axis = { x: at => scale.units(at) * rate, time: x => scale.time(x / rate) };
    const rows = layout.lanes.flatMap(lane => lane.rows);
    const drawn = rows.map(row => L.spans(row, axis, 0, 300));
    const wrong = layout.bars.filter(b => !(b.from <= b.begin && b.begin <= b.token && b.token <= b.to));
    const overlaps = rows.filter(row => row.some((bar, i) => i && bar.from < row[i - 1].to)).length;
    const counted = drawn.flat().reduce((sum, one) => sum + one.count, 0);
    const most = Math.max(...drawn.map(row => row.length));
    const alone = row => L.spans(row, axis, 0, 300, [row[5]?.id]).filter(s => s.count === 1 && s.bar === row[5]).length;
    return { bars: layout.bars.length, counted, most, wrong: wrong.length, overlaps,
      failed: drawn.flat().some(s => s.count > 1 && s.bar.state === "failed"),
      negative: drawn.flat().some(s => s.x1 < s.x0),
      alone: rows.every(row => row.length < 6 || alone(row) === 1) };"""
    )
    found = evaluate(modules, script, 3000)
    assert found["counted"] == found["bars"] > 3000
    assert found["most"] <= 100
    assert (found["wrong"], found["overlaps"], found["negative"]) == (0, 0, False)
    assert found["failed"]
    assert found["alone"]


def test_a_window_shows_only_its_bars(modules: Path) -> None:
    script = """const L = await import("./js/lanes_layout.js");
    const row = Array.from({ length: 100 }, (_, i) => ({ id: i, from: i * 10, to: i * 10 + 8 }));
    const axis = { x: at => (at - 205) * 20, time: x => x / 20 + 205 };
    return L.spans(row, axis, 0, 600).map(s => [s.bar.id, s.x0, s.x1]);"""
    assert evaluate(modules, script) == [[20, -100, 60], [21, 100, 260], [22, 300, 460], [23, 500, 660]]


def test_arrows_go_along_a_lane_and_to_the_nearest_bar_of_the_next_one(modules: Path) -> None:
    frames = begin(
        step(1000, 1, "writer", timings={"duration_ms": 900}),
        step(2000, 2, "critic", timings={"duration_ms": 900}),
        step(3000, 3, "writer", timings={"duration_ms": 900}),
    )
    script = (
        LAYOUT
        + """
    const [user, first, critic, second] = layout.bars;
    const go = (bar, key) => L.neighbour(layout, bar, `Arrow${key}`)?.seq;
    return [go(first, "Right"), go(second, "Left"), go(second, "Right"), go(first, "Left"),
      go(second, "Down"), go(critic, "Up"), go(first, "Up"), go(user, "Up"), go(critic, "Down")];"""
    )
    assert evaluate(modules, script, frames) == [3, 1, None, 1, 2, 1, 0, None, None]


def test_ticks_are_round_and_apart(modules: Path) -> None:
    script = """const L = await import("./js/lanes_layout.js");
    const axis = { x: at => (at - 1000) / 60, time: x => x * 60 + 1000 };
    return L.ticks(axis, 1000, 0, 1001);"""
    labels = ["0 ms", "10 s", "20 s", "30 s", "40 s", "50 s", "1 min"]
    assert evaluate(modules, script) == [{"at": 1000 + i * 10_000, "text": label} for i, label in enumerate(labels)]


def test_a_layout_that_grows_equals_a_new_one(modules: Path) -> None:
    """Open bars become final, and the layout starts anew if a step was replaced."""
    script = (
        TASK_OF_N_STEPS
        + """
    const { fold, foldAll, newTask, addStep } = await import("./js/task_state.js");
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
        + """
    const { Past } = await import("./js/replay.js");
    const { foldAll } = await import("./js/task_state.js");
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

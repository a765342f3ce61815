"""FLUSHALL while clients follow a task through gateways: they show the exact text, void text is announced."""

import asyncio
from typing import Any

import pytest
import redis

from roboco.gateway.streams.form import LinesOfJson
from tests.integration.gateway.test_streams import path_of, run, slow_answer, start
from tests.support.gateway_process import GatewayProcess, StreamClient
from tests.support.gateway_streams import Frame
from tests.support.journeys import GRAPH
from tests.support.stack import Stack

pytestmark = pytest.mark.workers


class ShownText:
    """The text that a client shows, which applies each frame as the guide demands. `data` is that of a frame."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.finals: dict[int, str] = {}
        self.order: list[int] = []
        self.kinds: list[str] = []

    def apply(self, kind: str, data: dict[str, Any]) -> None:
        """Apply one frame."""
        self.kinds.append(kind)
        match kind:
            case "text_part_delta":
                before = "" if data["replace"] else self.texts.get(data["step_id"], "")
                self.texts[data["step_id"]] = before + data["text"]
            case "event_turn_restart":
                self.texts.pop(data["step_id"], None)
            case "event_stream_reset":
                self.texts.clear()
            case "step_final":
                step = data["step"]
                self.order.append(step["seq"])
                self.finals[step["seq"]] = self.texts.pop(step["step_id"], "")
            case _:
                pass

    @classmethod
    def of(cls, frames: list[Frame]) -> "ShownText":
        """Return the text of a client that has received these frames."""
        shown = cls()
        for frame in frames:
            shown.apply(frame.kind, frame.data)
        return shown


@pytest.mark.parametrize("frames", [pytest.param(3, marks=pytest.mark.nightly), 45])
def test_clients_hold_the_exact_text_after_flushall(folder_stack: Stack, frames: int) -> None:
    folder_stack.model.script(slow_answer)

    async def main() -> None:
        with GatewayProcess(folder_stack) as first, GatewayProcess(folder_stack) as second:
            task = await start(folder_stack)
            urls = [first.url, second.url]
            clients = [
                StreamClient(urls, path_of(task)),
                StreamClient(urls[1:], path_of(task), LinesOfJson),
                StreamClient(urls, path_of(task)),
            ]
            several = StreamClient(urls, "/v1/events", tasks=task.task_id)
            often = clients[-1].follow(lambda read: len(read) > 10)
            following = [asyncio.create_task(one.follow()) for one in (*clients[:-1], several)]
            following.append(asyncio.create_task(often))
            async with asyncio.timeout(120):
                while not all(len(client.shown) > frames for client in (*clients, several)):
                    await asyncio.sleep(0.01)
            with redis.Redis.from_url(folder_stack.valkey.url) as connection:
                connection.flushall()
            assert first.lives()
            assert second.lives()
            await asyncio.gather(*following)
            late = await StreamClient(urls, path_of(task)).follow()
            assert (await asyncio.to_thread(task.result, 30)).status == "completed"
            steps = await asyncio.to_thread(lambda: list(task.history()))
            assert len(steps) == len(GRAPH.expected)
            expected = {step.seq: step.text for step in steps if step.by_agent}
            of_several = [Frame(one.place, one.kind, one.data["data"]) for one in several.shown]
            for received in (*(client.shown for client in clients), of_several, late.shown):
                shown = ShownText.of(received)
                assert shown.order == [step.seq for step in steps]
                assert {seq: shown.finals[seq] for seq in expected} == expected
                assert shown.kinds[-1] == "event_task_end"
            for client in clients:
                assert "event_stream_reset" in ShownText.of(client.shown).kinds

    run(main(), 120)

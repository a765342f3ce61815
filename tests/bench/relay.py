"""relay: from the model's writing of a chunk to the follower's having it, against plain PUBLISH of the same size.

The chunks say when they were sent. The bare stream of the openai package stands beside it: a relay can be no faster
than that and PUBLISH together. The first half second of a stream is left out everywhere: the tasks begin then.
"""

import json
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from redis import Redis

from roboco import Team
from roboco.adapters.redis.client import connect_subscriber
from roboco.adapters.redis.keys import Keys
from tests.bench.bare import lags
from tests.bench.figures import Measure, Result, in_turn, ratio
from tests.bench.listener import Listener
from tests.bench.stage import Size, Stage, fresh, team_of
from tests.stack import until

CHUNKS = 50
BEGINNING = 10
INTERVAL = 0.05
STREAMS = (1, 20)


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """One stream of 20 chunks a second, and 20 of them at the same time."""
    chunks = size.of(CHUNKS, BEGINNING + 5)
    prompt = f"stream {chunks} {INTERVAL}"
    team = team_of("writer", prompt=prompt)
    size_of_message = _message_size(stage, team)
    for streams in STREAMS:
        measures: dict[str, Measure] = {
            "relay": partial(_relayed, stage, team, streams),
            "plain PUBLISH": partial(_published, stage, streams, chunks, size_of_message),
            "bare model stream": partial(_streamed, stage, prompt, streams),
        }
        lanes = in_turn(measures, size.rounds)
        relay, publish, bare = lanes
        ratios = (ratio(relay, publish), ratio(relay, publish, less=bare))
        yield Result(f"relay, {streams} stream{'s' * (streams > 1)}", lanes, ratios)


def _message_size(stage: Stage, team: Team) -> int:
    """The size of the messages on a content channel."""
    task = stage.finished(team)
    log: Any = stage.redis.xrevrange(Keys(stage.settings.prefix).content(task.task_id), count=1)
    return len(log[0][1]["m"])


def _relayed(stage: Stage, team: Team, streams: int, _: int) -> list[float]:
    listeners = [Listener(stage) for _ in range(streams)]
    for listener in listeners:
        listener.connected()
    for listener in listeners:
        stage.orchestrator.run(team, "Go.", task_id=listener.task_id)
    for listener in listeners:
        listener.join()
    return _steady([[lag for now, text in listener.texts for lag in lags(text, now)] for listener in listeners])


def _streamed(stage: Stage, prompt: str, streams: int, _: int) -> list[float]:
    return _steady(stage.bare.relay(prompt, streams, INTERVAL))


def _published(stage: Stage, streams: int, chunks: int, size: int, _: int) -> list[float]:
    channel = fresh("bench")
    found: list[list[float]] = [[] for _ in range(streams)]
    threads = [
        threading.Thread(target=_subscribe, args=(stage.settings.redis_url, f"{channel}:{number}", chunks, own))
        for number, own in enumerate(found)
    ]
    for thread in threads:
        thread.start()
    until(lambda: _subscribed(stage.redis, channel, streams), 30, "the subscribers listen")
    options = {"channel": channel, "streams": streams, "chunks": chunks, "interval": INTERVAL, "size": size}
    with stage.process("tests.bench.publisher", url=stage.settings.redis_url, **options):
        for thread in threads:
            thread.join(60)
    assert all(len(own) == chunks for own in found), "messages were lost"
    return _steady(found)


def _steady(found: list[list[float]]) -> list[float]:
    return [lag for own in found for lag in own[BEGINNING:]]


def _subscribed(client: Redis, channel: str, streams: int) -> bool:
    return all(n for _, n in client.pubsub_numsub(*(f"{channel}:{number}" for number in range(streams))))


def _subscribe(url: str, channel: str, chunks: int, found: list[float]) -> None:
    """Note the lag of each message, in a thread with a connection of its own, as a follower has."""
    deadline = time.monotonic() + 60
    with connect_subscriber(url) as client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(channel)
        while len(found) < chunks and time.monotonic() < deadline:
            message = pubsub.get_message(timeout=1)
            if message is not None:
                found += lags(json.loads(message["data"])["text"], time.time_ns())

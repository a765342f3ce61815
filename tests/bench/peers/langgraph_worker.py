"""`python -m tests.bench.peers.langgraph_worker`: the errand as a LangGraph graph whose agents are nodes.

The library runs a graph in the process that calls it and has no queue. Here the worker takes errands from a list in
Redis, and publishes the tokens that the graph streams within the process for readers elsewhere. Checkpoints are written
to PostgreSQL before the next node begins (`durability="sync"`).
"""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from itertools import count
from operator import add
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from openai import AsyncOpenAI
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from redis.asyncio import Redis

from tests.bench.peers.errand import AGENTS
from tests.bench.peers.model_call import astream_tokens

ERRANDS = "errands"
CONCURRENCY = 100
CHECKPOINTERS = 8
"""Number of graphs in a process; a checkpointer writes one checkpoint at a time."""
REDIS_OPTIONS: Any = {"max_connections": 2 * CONCURRENCY, "socket_timeout": None}
"""Options of the Redis client, which waits for the next errand without a timeout."""
CONNECTION = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


class State(TypedDict):
    """The state that the nodes share."""

    prompts: list[str]
    texts: Annotated[list[str], add]


def node_of(number: int, model: AsyncOpenAI) -> Callable[[State], Awaitable[dict[str, Any]]]:
    """Return the node of the agent with this number."""

    async def node(state: State) -> dict[str, Any]:
        write = get_stream_writer()
        reply = ""
        async for text in astream_tokens(model, state["prompts"][number], state["texts"]):
            write(text)
            reply += text
        return {"texts": [reply]}

    return node


def builder(model: AsyncOpenAI) -> Any:
    """Return the graph, not yet compiled."""
    graph: Any = StateGraph(State)
    for number, agent in enumerate(AGENTS):
        graph.add_node(agent, node_of(number, model))
    for before, after in zip((START, *AGENTS), (*AGENTS, END), strict=True):
        graph.add_edge(before, after)
    return graph


async def run(graph: Any, redis: Redis, task: str, prompts: list[str] | None) -> None:
    """Run the errand. Without prompts, continue it from its last checkpoint."""
    start = {"prompts": prompts, "texts": []} if prompts else None
    thread = {"configurable": {"thread_id": task}}
    last: dict[str, Any] = {}
    async for mode, item in graph.astream(start, thread, stream_mode=["custom", "values"], durability="sync"):
        if mode == "custom":
            await redis.publish(f"errand:{task}", item)
        else:
            last = item
    await redis.rpush(f"result:{task}", last["texts"][-1])


async def serve() -> None:
    """Run errands until SIGTERM."""
    database = os.environ["PEER_DATABASE"]
    async with (
        AsyncConnectionPool(
            database, min_size=CHECKPOINTERS, max_size=CHECKPOINTERS, kwargs=CONNECTION, open=False
        ) as pool,
        Redis.from_url(os.environ["PEER_REDIS"], decode_responses=True, **REDIS_OPTIONS) as redis,
        AsyncOpenAI(max_retries=0) as model,
        asyncio.TaskGroup() as group,
    ):
        savers = [AsyncPostgresSaver(pool) for _ in range(CHECKPOINTERS)]
        graphs = [builder(model).compile(checkpointer=saver) for saver in savers]
        room = asyncio.Semaphore(CONCURRENCY)
        print("ready.", flush=True)
        for number in count():
            await room.acquire()
            item: Any = await redis.brpop([ERRANDS], timeout=0)
            task = group.create_task(run(graphs[number % CHECKPOINTERS], redis, **json.loads(item[1])))
            task.add_done_callback(lambda _: room.release())


def main() -> None:
    """Run errands until SIGTERM, which also ends the running ones."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(serve())


if __name__ == "__main__":
    main()

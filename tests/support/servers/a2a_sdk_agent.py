"""An agent that is written with a2a-sdk: its tasks say a word after another, until they are cancelled."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, Part, Task, TaskState, TaskStatus
from starlette.applications import Starlette

PATH = "/a2a"


class SdkAgent(AgentExecutor):
    """The agent. `running` and `cancelled` hold ids of tasks, and `messages` those of messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.running: set[str] = set()
        self.cancelled: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Say words for a minute, or, if the message is short, two words."""
        assert context.task_id
        assert context.context_id
        assert context.message
        self.messages.append(context.message.message_id)
        self.running.add(context.task_id)
        status = TaskStatus(state=TaskState.TASK_STATE_WORKING)
        await event_queue.enqueue_event(Task(id=context.task_id, context_id=context.context_id, status=status))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        for number in range(2 if "short" in context.get_user_input() else 600):
            if context.task_id not in self.running:
                return
            word = [Part(text=f"word{number} ")]
            await updater.add_artifact(word, artifact_id="answer", append=number > 0)
            await asyncio.sleep(0.1)
        self.running.discard(context.task_id)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancel a task."""
        assert context.task_id
        assert context.context_id
        self.running.discard(context.task_id)
        self.cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


@contextmanager
def sdk_agent(port: int) -> Iterator[SdkAgent]:
    """Yield the agent, which answers at this port."""
    agent = SdkAgent()
    card = AgentCard(name="words", capabilities=AgentCapabilities(streaming=True))
    handler = DefaultRequestHandler(agent, InMemoryTaskStore(), card)
    app = Starlette(routes=create_jsonrpc_routes(handler, PATH))
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield agent
    finally:
        server.should_exit = True
        thread.join(10)

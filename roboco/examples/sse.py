"""Server-sent events: browsers follow tasks, and go on where they were after a lost connection.

Run it with `pip install fastapi uvicorn` and `uvicorn roboco.examples.sse:app`, beside workers. A page follows with
`new EventSource("/tasks/ID/events")`, and closes it at `event_task_end`; else it would ask again.
"""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse, StreamingResponse

from roboco import Orchestrator, StreamItem, UsageError

app = FastAPI()
orchestrator = Orchestrator()
UNBUFFERED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@app.post("/tasks")
def submit(team: str, prompt: str) -> dict[str, str]:
    """Submit a task for a team of ROBOCO_TEAMS."""
    return {"task_id": orchestrator.run(team, prompt).task_id}


@app.get("/tasks/{task_id}/events")
def follow(task_id: str, last_event_id: Annotated[str | None, Header()] = None) -> StreamingResponse:
    """Everything of the task after the event that the browser had last, live until the task has ended."""
    items = orchestrator.task(task_id).astream(last_event_id)
    return StreamingResponse(events(items), media_type="text/event-stream", headers=UNBUFFERED)


async def events(items: AsyncIterator[StreamItem]) -> AsyncIterator[str]:
    """The items as server-sent events, whose ids are the cursors after them."""
    async for item in items:
        yield f"id: {item.cursor}\nevent: {item.type}\ndata: {item.item.model_dump_json()}\n\n"


@app.exception_handler(UsageError)
def refuse(_: Request, error: UsageError) -> JSONResponse:
    """What the caller has to mend."""
    return JSONResponse({"detail": str(error)}, status_code=400)

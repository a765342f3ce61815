"""Server-sent events: browsers follow tasks, and go on where they were after a lost connection.

`pip install fastapi uvicorn`; beside workers, `uvicorn roboco.examples.sse:app --timeout-graceful-shutdown 3`. A page
follows with `new EventSource("/tasks/ID/events")`, and closes it at `event_task_end`; else it would ask again.
"""

from typing import Annotated

from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import Response, StreamingResponse

from roboco import Orchestrator, TransientError, UsageError

app = FastAPI()
orchestrator = Orchestrator()
EVENTS = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@app.get("/tasks/{task_id}/events")
def follow(task_id: str, last_event_id: Annotated[str | None, Header()] = None) -> Response:
    """Everything of the task after the event that the browser had last, live until the task has ended."""
    try:
        items = orchestrator.task(task_id).astream(last_event_id)
    except UsageError as error:  # there is no such task, or no such place in one
        raise HTTPException(404, str(error)) from error
    except TransientError:  # no event, and no error either, after which a browser would not ask again
        return Response(headers=EVENTS)
    events = (f"id: {i.cursor}\nevent: {i.data.type}\ndata: {i.data.model_dump_json()}\n\n" async for i in items)
    return StreamingResponse(events, headers=EVENTS)

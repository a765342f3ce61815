"""The gateway, with a page that follows a task and reports its content, for a real browser.

The page never closes its EventSource: after the end of the task the gateway answers 204, and the browser stops.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from roboco.gateway import GatewaySettings, create_app
from tests.support.documents import example
from tests.support.servers import sse_page

gateway = create_app(settings=GatewaySettings(authentication=False))
CLOSE = 'source.close(); report("end")'
END = """source.onerror = () => { if (source.readyState === EventSource.CLOSED) report("end") }"""
assert CLOSE in sse_page.PAGE


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    """Run the lifespan of the gateway in that of the application that mounts it."""
    async with gateway.router.lifespan_context(gateway):
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/pages/{task_id}", response_class=HTMLResponse)
async def page(task_id: str) -> str:
    """Return the page of a task."""
    return sse_page.PAGE.replace("`/tasks/", "`/v1/tasks/").replace(CLOSE, END)


app.post("/shown/{moment}")(sse_page.store_shown)


@app.get("/follow.html", response_class=HTMLResponse)
async def example_page() -> str:
    """Return the page of the guide."""
    return example("file", "follow.html")


app.mount("/", gateway)

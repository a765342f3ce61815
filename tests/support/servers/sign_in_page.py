"""The gateway with authentication, and beside it a page of the same host with the script of the guide's quick start.

The page has the key in its address, as a user would type it into a form, and reports its text to the file SHOWN.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from roboco.gateway.app import create_app
from tests.support.documents import example

gateway = create_app()
PAGE = """<!doctype html><body></body><script type="module">
const key = new URLSearchParams(location.search).get("key")
const report = () => fetch("/shown", {method: "POST", body: document.body.innerText})
new MutationObserver(report).observe(document.body, {childList: true})
%s
</script>"""


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    """Run the lifespan of the gateway in that of the application that mounts it."""
    async with gateway.router.lifespan_context(gateway):
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/page.html", response_class=HTMLResponse)
async def page() -> str:
    """Return the page."""
    return PAGE % example("file", "quick_start.js")


@app.post("/shown")
async def shown(request: Request) -> None:
    """Store the text that the page shows."""
    Path(os.environ["SHOWN"]).write_bytes(await request.body())


app.mount("/", gateway)

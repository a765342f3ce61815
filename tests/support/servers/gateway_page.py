"""The gateway, and the page of its guide with a script that reports what it shows, for a real browser.

The page never closes its EventSource: after the end of the task the gateway answers 204, and the browser stops.
"""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import Body, FastAPI
from fastapi.responses import HTMLResponse

from roboco.gateway import GatewaySettings, create_app
from tests.support.documents import example

gateway = create_app(settings=GatewaySettings(authentication=False))
REPORTS = """<script>
const pre = document.querySelector("pre")
const report = moment => fetch(`/shown/${moment}`, {method: "POST", headers: {"Content-Type": "application/json"},
  body: JSON.stringify({pre: pre.textContent})})
let opened = 0, resets = 0, most = 0
source.addEventListener("open", () => report(`opened-${++opened}`))
source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) report("end") })
source.addEventListener("event_stream_reset", () => report(`reset-${++resets}`))
new MutationObserver(() => { while (most < texts.size) report(`started-${++most}`) }).observe(pre, {childList: true})
</script>"""


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    """Run the lifespan of the gateway in that of the application that mounts it."""
    async with gateway.router.lifespan_context(gateway):
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/shown/{moment}")
def store_shown(moment: str, texts: Annotated[dict[str, str], Body()]) -> None:
    """Store the texts by step that the page shows. The file appears once it is complete."""
    complete = Path(os.environ["TEST_FOLDER"]) / f"{moment}.json"
    partial = complete.with_suffix(".started")
    partial.write_text(json.dumps(texts))
    partial.rename(complete)


@app.get("/follow.html", response_class=HTMLResponse)
async def example_page() -> str:
    """Return the page of the guide."""
    return example("file", "follow.html") + REPORTS


app.mount("/", gateway)

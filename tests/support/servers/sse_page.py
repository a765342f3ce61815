"""The example of server-sent events, with a page that follows a task and tells what it shows, for a real browser."""

import json
import os
from pathlib import Path
from typing import Annotated

from fastapi import Body
from fastapi.responses import HTMLResponse

from roboco.examples.sse import app

PAGE = """<!doctype html><title>A task</title><main></main><script>
const source = new EventSource(`/tasks/${location.pathname.split("/").pop()}/events`)
const main = document.querySelector("main")
const on = (type, act) => source.addEventListener(type, event => act(event.data && JSON.parse(event.data)))
const tell = what => fetch(`/told/${what}`, {method: "POST", headers: {"Content-Type": "application/json"},
  body: JSON.stringify(Object.fromEntries([...main.children].map(step => [step.id, step.textContent])))})
let opened = 0
on("open", () => tell(`opened-${++opened}`))
on("text_part_delta", item => {
  let step = document.getElementById(item.step_id)
  if (!step) {
    step = document.createElement("p")
    step.id = item.step_id
    main.append(step)
    tell(`begun-${main.children.length}`)
  }
  step.textContent = (item.replace ? "" : step.textContent) + item.text
})
on("event_task_end", () => { source.close(); tell("end") })
</script>"""


@app.get("/pages/{task_id}", response_class=HTMLResponse)
def page(task_id: str) -> str:
    """The page of a task."""
    return PAGE


@app.post("/told/{what}")
def tell(what: str, texts: Annotated[dict[str, str], Body()]) -> None:
    """Keep the texts by step as the page shows them, in a file that is there when it is whole."""
    told = Path(os.environ["TEST_FOLDER"]) / f"{what}.json"
    begun = told.with_suffix(".begun")
    begun.write_text(json.dumps(texts))
    begun.rename(told)

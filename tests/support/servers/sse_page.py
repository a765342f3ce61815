"""The example of server-sent events, with a page that follows a task and reports its content, for a real browser."""

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
const report = moment => fetch(`/shown/${moment}`, {method: "POST", headers: {"Content-Type": "application/json"},
  body: JSON.stringify(Object.fromEntries([...main.children].map(step => [step.id, step.textContent])))})
let opened = 0
on("open", () => report(`opened-${++opened}`))
on("text_part_delta", item => {
  let step = document.getElementById(item.step_id)
  if (!step) {
    step = document.createElement("p")
    step.id = item.step_id
    main.append(step)
    report(`started-${main.children.length}`)
  }
  step.textContent = (item.replace ? "" : step.textContent) + item.text
})
on("event_task_end", () => { source.close(); report("end") })
</script>"""


@app.get("/pages/{task_id}", response_class=HTMLResponse)
def page(task_id: str) -> str:
    """Return the page of a task."""
    return PAGE


@app.post("/shown/{moment}")
def store_shown(moment: str, texts: Annotated[dict[str, str], Body()]) -> None:
    """Store the texts by step that the page shows. The file appears once it is complete."""
    complete = Path(os.environ["TEST_FOLDER"]) / f"{moment}.json"
    partial = complete.with_suffix(".started")
    partial.write_text(json.dumps(texts))
    partial.rename(complete)

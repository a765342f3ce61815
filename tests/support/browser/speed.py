"""Measurements of a page: times of frames while it scrolls, and processor time of its renderer process.

Frames are counted by `requestAnimationFrame`, which the browser calls at most 60 times a second. Other processes on the
machine slow frames down too. So a frame's time is reported beside the main thread's own work, which they do not change
as much: style, layout and scripts.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from playwright.sync_api import Browser, ElementHandle, Page

SCROLL: Final = """
async (box, {seconds, pixels, sideways}) => {
  const [at, shown, size] = sideways ? ["scrollLeft", "clientWidth", "scrollWidth"]
    : ["scrollTop", "clientHeight", "scrollHeight"]
  const times = []
  let direction = 1
  await new Promise(done => requestAnimationFrame(done))
  const start = performance.now()
  await new Promise(done => {
    const frame = time => {
      times.push(time)
      if (box[at] + box[shown] >= box[size] - 1) direction = -1
      else if (box[at] <= 0) direction = 1
      box[at] += direction * pixels
      if (performance.now() - start < seconds * 1000 || times.length < 3) requestAnimationFrame(frame)
      else done()
    }
    requestAnimationFrame(frame)
  })
  return times
}
"""
WORK: Final = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
"""Metrics of Chromium: seconds of processor time of the main thread."""


@dataclass(frozen=True)
class Frames:
    """Milliseconds between consecutive frames."""

    gaps: list[float]

    @property
    def per_second(self) -> float:
        """The mean number of frames in a second."""
        return 1000 * len(self.gaps) / sum(self.gaps)

    def percentile(self, share: float) -> float:
        """Return the gap that this share of all gaps does not exceed."""
        return sorted(self.gaps)[min(len(self.gaps) - 1, int(share * len(self.gaps)))]

    def __str__(self) -> str:
        gaps = f"gaps p50 {self.percentile(0.5):.1f}, p95 {self.percentile(0.95):.1f}, max {max(self.gaps):.1f} ms"
        return f"{self.per_second:.1f} frames a second ({gaps})"


@dataclass
class Work:
    """Processor time of a block. `cpu` is that of all renderer processes, `main` that of the page's main thread."""

    seconds: float = 0.0
    cpu: float = 0.0
    main: dict[str, float] = field(default_factory=dict)

    @property
    def cores(self) -> float:
        """The cores that the renderer processes used on average."""
        return self.cpu / self.seconds

    def __str__(self) -> str:
        main = ", ".join(f"{name} {value:.2f} s" for name, value in self.main.items())
        return f"{self.cores:.2f} cores of renderers in {self.seconds:.1f} s; main thread: {main}"


def scroll(box: ElementHandle, seconds: float, pixels: int = 40, sideways: bool = False) -> Frames:
    """Scroll an element to and fro for these seconds, some pixels a frame, and return the gaps between its frames."""
    return _frames(box.evaluate(SCROLL, {"seconds": seconds, "pixels": pixels, "sideways": sideways}))


@contextmanager
def measured(browser: Browser, page: Page) -> Iterator[Work]:
    """Yield the work of a block, which is filled in at its end."""
    system = browser.new_browser_cdp_session()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    work, began, before, cpu = Work(), time.monotonic(), _metrics(session), _renderer_seconds(system)
    yield work
    after = _metrics(session)
    work.seconds = time.monotonic() - began
    work.cpu = _renderer_seconds(system) - cpu
    work.main = {name.removesuffix("Duration").lower(): after[name] - before[name] for name in WORK}
    session.detach()
    system.detach()


def heap_megabytes(page: Page) -> float:
    """Return the megabytes of live JavaScript objects of the page, after a garbage collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used / 1e6


def _frames(times: list[float]) -> Frames:
    return Frames([later - earlier for earlier, later in pairwise(times)])


def _metrics(session: Any) -> dict[str, float]:
    return {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}


def _renderer_seconds(system: Any) -> float:
    processes = system.send("SystemInfo.getProcessInfo")["processInfo"]
    return sum(float(process["cpuTime"]) for process in processes if process["type"] == "renderer")

"""Draw a real run of `roboco demo --web`: draw_web.py FOLDER [--team NAME] writes web-NAME.png for each view.

The command runs with its local model. Once the task has ended, Chromium opens its page. It needs the extra `browser`
and an installed Chromium.
"""

import argparse
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

SIZE: Final = {"width": 1280, "height": 860}
PHONE: Final = {"width": 390, "height": 844}
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+/#/tasks/\S+")


def main() -> None:
    """Run the team, and save the pictures."""
    parser = argparse.ArgumentParser(prog="draw_web.py")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--team", default="demo")
    options = parser.parse_args()
    command = [sys.executable, "-m", "roboco.cli.main", "demo", "--web", "--team", options.team]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        try:
            address = ""
            for line in demo.stdout:
                address = address or (found[0] if (found := _ADDRESS.search(line)) else "")
                if "the web view stays" in line:
                    break
            draw(address, options.folder)
        finally:
            demo.send_signal(signal.SIGINT)


def draw(address: str, folder: Path) -> None:
    """Save the pictures of the task at this address, and of the operations page."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    root = address.partition("#")[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_context(viewport=SIZE, device_scale_factor=1.5, color_scheme="light").new_page()
        page.goto(address)
        page.wait_for_selector("[data-integrity]:has-text('complete')")
        page.mouse.move(SIZE["width"] / 2, SIZE["height"] / 2)
        page.mouse.wheel(0, -SIZE["height"] * 10)  # the page follows to the last step, and cuts the one at its top
        _save(page, folder / "web-task.png")
        page.goto(f"{root}#/operations")
        page.wait_for_selector("[data-page=operations] a[href*=erase_tasks]")
        _save(page, folder / "web-operations.png")
        page.emulate_media(color_scheme="dark")
        page.goto(f"{address}/steps/1")
        page.wait_for_selector("[role=tabpanel] dl")
        _save(page, folder / "web-step.png")
        page.set_viewport_size(PHONE)
        page.goto(address)
        page.wait_for_selector("[data-integrity]:has-text('complete')")
        _save(page, folder / "web-phone.png")
        browser.close()


def _save(page: Page, path: Path) -> None:
    page.wait_for_timeout(800)  # the lanes are drawn by then
    page.screenshot(path=path, animations="disabled", caret="hide")


if __name__ == "__main__":
    main()

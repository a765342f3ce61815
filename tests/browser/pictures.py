"""`python -m tests.browser.pictures FOLDER`: screenshots of all states of the web view, for a person who inspects them.

state x light, dark x 1440, 390 px ─► FOLDER/STATE-SCHEME-WIDTH.png, and a line for each problem of a page

    python -m tests.browser.pictures pictures --only '^task' --scheme dark --width 390
"""

import argparse
import sys
import tempfile
from itertools import product
from pathlib import Path

from playwright.sync_api import Browser, Error

from tests.support.browser.axe import violations
from tests.support.browser.chromium import HEIGHTS, SCHEMES, Scheme, open_context, start_browser
from tests.support.browser.stack import WebStack, web_stack
from tests.support.browser.states import EXPECTED_PROBLEMS, State, states_named


def main() -> None:
    """Make the pictures. Exit with 1 if a state was not reached, or a page had a problem."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.pictures")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="a pattern of the names of states")
    parser.add_argument("--scheme", choices=SCHEMES, action="append")
    parser.add_argument("--width", type=int, choices=list(HEIGHTS), action="append")
    parser.add_argument("--axe", action="store_true", help="report accessibility, too")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    variants = list(product(options.scheme or SCHEMES, options.width or HEIGHTS))
    failed = False
    with (
        tempfile.TemporaryDirectory(prefix="roboco-pictures-") as folder,
        web_stack(Path(folder)) as web,
        start_browser() as browser,
    ):
        for (name, state), (scheme, width) in product(states_named(options.only).items(), variants):
            picture = options.folder / f"{name}-{scheme}-{width}.png"
            problems = take_picture(web, browser, state, picture, scheme, width, axe=options.axe)
            failed = failed or bool(problems)
            print(f"{picture.name}: {'; '.join(problems) or 'ok'}", flush=True)
    sys.exit(failed)


def take_picture(
    web: WebStack, browser: Browser, state: State, picture: Path, scheme: Scheme, width: int, *, axe: bool = False
) -> list[str]:
    """Bring a page into the state, save its picture, and return the problems. The picture is saved in any case."""
    problems: list[str] = []
    with open_context(browser, web.url, scheme=scheme, width=width) as watched:
        watched.watch.allow(*(pattern for name, pattern in EXPECTED_PROBLEMS.items() if picture.name.startswith(name)))
        try:
            state(web, watched.page)
        except (Error, AssertionError) as error:
            problems.append(f"not reached: {str(error).splitlines()[0]}")
        watched.page.wait_for_timeout(300)
        watched.page.screenshot(path=picture, animations="disabled", caret="hide")
        if watched.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            problems.append("wider than the window")
        if axe:
            problems += violations(watched.page)
        problems += watched.watch.problems
        watched.watch.allow("")  # they are reported
    return problems


if __name__ == "__main__":
    main()

"""Explanations of the web view: lanes, the inspector of a step, the chain of digests, and the replay."""

import json

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.page import assert_no_injection, assert_page_equals_history, button, step
from tests.support.browser.stack import WebStack
from tests.support.browser.states import open_task, run_example

pytestmark = [pytest.mark.slow, pytest.mark.workers]

TABS = ("Why", "Context", "Usage", "Raw", "Digest")


def expect_tab(page: Page, name: str) -> None:
    """Expect that the inspector shows this tab, with its content and without a problem."""
    expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
    panel = page.get_by_role("tabpanel")
    expect(panel).not_to_have_text("")
    expect(panel).not_to_contain_text("reading …")
    expect(panel.get_by_role("alert")).to_have_count(0)


def test_the_inspector_needs_no_mouse_and_the_lanes_follow(web: WebStack, light_page: Page) -> None:
    task = run_example(web, "handoffs")
    open_task(light_page, web, task, 0)
    keyboard = light_page.keyboard
    step(light_page, 1).wait_for()
    keyboard.press("j")
    expect(light_page.locator("[data-inspector]")).to_have_attribute("data-inspector", "1")
    expect(light_page.locator('[data-turn="1"][aria-current="step"]')).to_be_visible()
    light_page.get_by_role("tab", name="Why").focus()
    for name in TABS[1:]:
        keyboard.press("ArrowRight")
        expect(light_page.get_by_role("tab", name=name)).to_be_focused()
        expect_tab(light_page, name)
    keyboard.press("Escape")
    expect(light_page.locator("[data-inspector]")).to_have_count(0)


def test_the_browser_finds_a_step_that_was_changed_in_the_workspace(web: WebStack, light_page: Page) -> None:
    task = run_example(web, "line")
    open_task(light_page, web, task, 1)
    light_page.get_by_role("tab", name="Digest").click()
    chain = light_page.locator("[data-chain]")
    expect(chain).to_have_attribute("data-chain", "intact")
    expect(chain).to_contain_text(f"{len(task.history())} steps, each intact")
    path = web.stack.folder / "workspace" / task.task_id / "history.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    text = json.dumps(task.history()[2].text, ensure_ascii=False)[1:-1]
    assert text in lines[2]
    lines[2] = lines[2].replace(text, text.replace("e", "3"))
    path.write_text("".join(lines))
    light_page.get_by_role("tab", name="Why").click()
    light_page.get_by_role("tab", name="Digest").click()
    expect(chain).to_have_attribute("data-chain", "broken")
    expect(chain).to_contain_text("Step 2 is wrong: it was changed")


def test_the_replay_shows_the_past_and_returns(web: WebStack, light_page: Page) -> None:
    task = run_example(web, "handoffs")
    open_task(light_page, web, task)
    assert_page_equals_history(light_page, task)
    button(light_page, "replay").click()
    slider = light_page.get_by_role("slider", name="Place in the stream")
    slider.focus()
    slider.press("Home")
    expect(light_page.locator('[data-replay="0"]')).to_be_visible()
    expect(light_page.locator("[data-step]")).to_have_count(0)
    expect(button(light_page, "fork")).to_have_count(0)
    while light_page.locator('[data-step="1"]').count() == 0:
        slider.press("ArrowRight")
    assert light_page.locator("[data-step]").count() == 2
    elapsed = light_page.locator('[data-fact="Time"]')
    moment = elapsed.inner_text()
    light_page.wait_for_timeout(1_500)
    expect(elapsed).to_have_text(moment)
    light_page.get_by_role("button", name="Play").click()
    expect(light_page.locator(f'[data-step="{len(task.history()) - 1}"]')).to_be_visible()
    button(light_page, "live").click()
    expect(button(light_page, "fork")).to_be_enabled()
    assert_page_equals_history(light_page, task)


def test_a_typed_output_and_the_state_are_shown_as_text(web: WebStack, light_page: Page) -> None:
    task = run_example(web, "typed")
    open_task(light_page, web, task)
    output = step(light_page, 1).locator(".value pre")
    expect(output).to_contain_text('"verdict": "<script>window.canary = 1; alert(1)</script>')
    expect(output).to_contain_text("a\\u202ereversed\\u202c b")
    box = output.bounding_box()
    assert box is not None
    assert box["height"] <= 200
    state = light_page.locator("[data-shared]")
    expect(state.locator("pre")).to_be_hidden()
    state.locator("summary").click()
    expect(state.locator("pre")).to_be_visible()
    expect(state).to_contain_text("a\\u202ereversed\\u202c b")
    assert_no_injection(light_page)

"""Explanations of the web view: lanes, the inspector of a step, the chain of digests, and the replay."""

import json

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.axe import assert_accessible
from tests.support.browser.page import assert_page_equals_history, button, step
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


def test_a_click_on_a_bar_explains_its_step(web: WebStack, light_page: Page) -> None:
    task = run_example(web, "handoffs")
    open_task(light_page, web, task)
    for name in ("user", "planner", "solver"):
        expect(light_page.locator(f'[data-lane="{name}"]').first).to_be_visible()
    last = len(task.history()) - 1
    light_page.locator(f'[data-turn="{last}"]').first.click()
    inspector = light_page.locator("[data-inspector]")
    expect(inspector).to_have_attribute("data-inspector", str(last))
    assert light_page.url.endswith(f"/steps/{last}")
    expect(step(light_page, last)).to_have_attribute("aria-current", "step")
    for name in TABS:
        light_page.get_by_role("tab", name=name).click()
        expect_tab(light_page, name)
    assert_accessible(light_page)
    light_page.get_by_role("button", name="Close the inspector").click()
    expect(inspector).to_have_count(0)
    assert_page_equals_history(light_page, task)


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


def test_bars_of_the_lanes_are_reached_by_tab_and_arrows(web: WebStack, light_page: Page) -> None:
    """The box is one stop. Zoomed in, the next bar is no element before the arrow."""
    task = run_example(web, "handoffs")
    open_task(light_page, web, task)
    assert_page_equals_history(light_page, task)
    zoom = light_page.get_by_role("button", name="Zoom in")
    for _ in range(12):
        zoom.click()
    light_page.get_by_role("button", name="Show all").focus()
    keyboard = light_page.keyboard
    keyboard.press("Tab")
    expect(light_page.locator(".lanes-box")).to_be_focused()
    for _ in range(6):  # to the first lane, from the bar that was visible
        keyboard.press("ArrowUp")
        expect(light_page.locator(".lane :focus")).to_be_in_viewport()
    for key, lane in (
        ("ArrowUp", "user"),
        ("ArrowDown", "planner"),
        ("ArrowRight", "planner"),
        ("ArrowDown", "solver"),
    ):
        keyboard.press(key)
        expect(light_page.locator(f'[data-lane="{lane}"] :focus')).to_be_in_viewport()
    seq = light_page.locator(".lane :focus").get_attribute("data-turn")
    keyboard.press("Enter")
    expect(light_page.locator("[data-inspector]")).to_have_attribute("data-inspector", str(seq))


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


def test_steps_are_reached_by_keys_and_links(web: WebStack, light_page: Page) -> None:
    task = run_example(web, "delegation")
    open_task(light_page, web, task, 1)
    expect(step(light_page, 1)).to_have_attribute("aria-current", "step")
    expect(step(light_page, 2)).to_be_attached()
    keyboard = light_page.keyboard
    keyboard.press("j")
    expect(step(light_page, 2)).to_be_focused()
    expect(light_page.locator("[data-inspector]")).to_have_attribute("data-inspector", "2")
    keyboard.press("Escape")
    expect(light_page.locator("[data-inspector]")).to_have_count(0)
    keyboard.press("k")
    expect(step(light_page, 1)).to_be_focused()
    keyboard.press("Enter")
    expect(light_page.locator("[data-inspector]")).to_have_attribute("data-inspector", "1")
    card = light_page.locator("[data-call]")
    expect(card).to_contain_text("done")
    expect(card).not_to_contain_text("person")
    card.locator("[data-sub-task]").click()
    light_page.locator("[data-parent]").click()
    expect(step(light_page, 1)).to_have_attribute("aria-current", "step")

"""Sign-in to the web view: with a key, a wrong key, a key of few scopes, and a key of another tenant."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.axe import assert_accessible
from tests.support.browser.chromium import WatchedContext
from tests.support.browser.fixtures import OpenContext
from tests.support.browser.page import button, root
from tests.support.browser.stack import WebStack, web_stack
from tests.support.stack import until

SETTINGS = {"authentication": True, "cookie_secret": "0123456789abcdef0123456789abcdef"}
pytestmark = [pytest.mark.slow, pytest.mark.workers]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebStack]:
    """Yield a deployment whose gateway asks for keys."""
    with web_stack(tmp_path_factory.mktemp("web"), gateway=SETTINGS) as started:
        yield started


@pytest.fixture
def signed_out(open_watched: OpenContext) -> WatchedContext:
    """Return a context that has no cookie yet. Each request without one is an error of its console."""
    watched = open_watched()
    watched.watch.allow("status of 401")
    return watched


def new_key(web: WebStack, tenant: str, *scopes: str) -> str:
    """Return the text of a new key."""
    return web.stack.orchestrator.operator.create_key(name="test", tenant=tenant, scopes=scopes or None).text


def start_task(web: WebStack, key: str) -> str:
    """Return the id of a task of the key's tenant that waits for a message."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=web.url, headers=headers) as client:
        body = {"team": "chat", "prompt": "Hello.", "conversation": True}
        task_id = str(client.post("/v1/tasks", json=body).raise_for_status().json()["task_id"])
        address = f"/v1/tasks/{task_id}"
        until(lambda: client.get(address).json()["status"] == "user_turn", 60, "the task waits")
    return task_id


def sign_in(page: Page, key: str) -> None:
    """Type a key, and send it."""
    page.get_by_label("Key").fill(key)
    page.keyboard.press("Enter")


def test_a_key_opens_the_page_that_was_asked_for(web: WebStack, signed_out: WatchedContext) -> None:
    page = signed_out.page
    key = new_key(web, "acme")
    page.goto(f"{web.url}/#/tasks/{start_task(web, key)}")
    expect(root(page, "sign-in")).to_be_visible()
    assert_accessible(page)
    sign_in(page, "rbk_wrong")
    expect(page.get_by_role("alert")).to_contain_text("no such key")
    sign_in(page, key)
    expect(root(page, "task")).to_contain_text("guide answers: Hello.")
    assert page.evaluate("document.cookie + JSON.stringify(localStorage)").count("rbk_") == 0
    page.reload()
    expect(button(page, "stop")).to_be_enabled()
    page.get_by_role("button", name="Sign out").click()
    expect(root(page, "sign-in")).to_be_visible()
    page.reload()
    expect(root(page, "sign-in")).to_be_visible()


def test_controls_say_which_scope_the_key_lacks(web: WebStack, signed_out: WatchedContext) -> None:
    page = signed_out.page
    page.goto(f"{web.url}/#/tasks/{start_task(web, new_key(web, 'acme'))}")
    sign_in(page, new_key(web, "acme", "read"))
    expect(root(page, "task")).to_contain_text("guide answers: Hello.")
    for action in ("send", "interrupt", "pause", "stop", "limits"):
        expect(button(page, action)).to_be_disabled()
        expect(button(page, action)).to_have_accessible_description("your key lacks the scope control")
    expect(page.get_by_role("link", name="Operations")).to_have_count(0)
    assert_accessible(page)


def test_a_task_of_another_tenant_is_unknown(web: WebStack, signed_out: WatchedContext) -> None:
    signed_out.watch.allow("status of 404")
    page = signed_out.page
    task_id = start_task(web, new_key(web, "acme"))
    page.goto(f"{web.url}/#/tasks/{task_id}")
    sign_in(page, new_key(web, "other"))
    alert = page.get_by_role("alert").first
    expect(alert).to_contain_text(task_id)
    refused = root(page, "task").inner_text().replace(task_id, "ID")
    page.goto(f"{web.url}/#/tasks/no-such-task")
    expect(alert).to_contain_text("no-such-task")
    assert root(page, "task").inner_text().replace("no-such-task", "ID") == refused
    page.goto(f"{web.url}/#/")
    expect(root(page, "list")).to_contain_text("No tasks yet")

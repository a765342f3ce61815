"""Fixtures of the browser's tests. Without the extra `browser` only `test_installed.py` is collected."""

from importlib.util import find_spec

if find_spec("playwright") and find_spec("axe_playwright_python"):
    from tests.support.browser.fixtures import browser, light_page, open_watched, web

    __all__ = ["browser", "light_page", "open_watched", "web"]
else:
    collect_ignore_glob = ["test_[!i]*.py", "test_i[!n]*.py"]

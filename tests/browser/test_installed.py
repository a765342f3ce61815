"""The programs of the browser's tests."""

import os
import shutil
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("module", ["playwright", "axe_playwright_python"])
def test_the_extra_of_the_browser_is_installed(module: str) -> None:
    """CI fails without the extra, which leaves all other tests of this folder out."""
    if find_spec(module) is None:
        assert not os.environ.get("CI"), f"{module} is not installed; `.ci/run` installs the extra `browser`"
        pytest.skip("the extra `browser` is not installed")


def test_chromium_is_installed() -> None:
    """CI fails without Chromium."""
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        assert not os.environ.get("CI"), "Chromium is not installed; `.ci/run` installs it"
        pytest.skip("Chromium is not installed")

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, sync_playwright

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


def pytest_collection_finish() -> None:
    """Takes what is imported out of the search for garbage, which statsmodels starts at each correction.

    With torch and transformers that search takes half a second, in hundreds of tests.
    """
    gc.freeze()


NO_BROWSER = "no chromium on this machine: apt-get install chromium"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        if os.environ.get("MEDTUNE_REQUIRE_SHARED") == "1":
            pytest.fail(NO_BROWSER, pytrace=False)
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Lets a test without its browser fail; pytest calls what a fixture says an error of the test's preparation."""
    report = yield
    if call.when == "setup" and report.failed and NO_BROWSER in str(report.longrepr):
        report.when = "call"
    return report

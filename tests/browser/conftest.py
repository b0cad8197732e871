"""One browser and one server for all tests of this folder; skipped where there is no Chromium."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import SETTING, browsing, program, served
from tests.support.cli.played_chain import played_chain

__all__ = ["played_chain"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if program() is None and "QOS_ORACLE_TESTS_SKIP_NOTHING" not in os.environ:
        pytest.skip(f"no Chromium: apt-get install chromium, or name one in {SETTING}")
    with browsing() as opened:
        yield opened


@pytest.fixture(scope="session")
def url(browser: Browser, played_chain: Path, tmp_path_factory) -> Iterator[str]:
    """The server's address; `browser` first, so that nothing is played where there is none."""
    with served(played_chain, tmp_path_factory.mktemp("serve") / "serve.log") as address:
        yield address

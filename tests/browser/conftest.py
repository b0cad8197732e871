"""Fixtures: one browser and one server for all tests of this folder; skipped without Chromium."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import SETTING, browsing, program
from tests.support.cli.daemon import serve_config
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
    """Return the server's address; `browser` comes first,
    so that nothing is played without one.
    """
    with serve_config(played_chain, tmp_path_factory.mktemp("serve") / "serve.log") as address:
        yield address

"""Every page over an indexed chain: no console message, strict policy, WCAG AA,
no sideways scroll.
"""

import pytest

from oracle.daemon.web.pages.chain_pages import PAGES
from tests.browser.walking import NO_PAGES, View, walk_pages

pytestmark = [pytest.mark.slow, pytest.mark.evm, pytest.mark.timeout(900)]

_CI = [View("light", 360), View("dark", 1280)]
_NIGHT = [View("dark", 360), View("light", 1440), View("dark", 2560), View("light", 3840)]
VIEWS = [*_CI, *(pytest.param(view, marks=pytest.mark.nightly) for view in _NIGHT)]


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_every_page_passes_accessibility_csp_and_console_checks(browser, url, view: View):
    walk = walk_pages(browser, url, view)
    assert set(PAGES) - walk.kinds == NO_PAGES
    assert walk.faults == []

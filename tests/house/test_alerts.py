"""Whoever is woken by an alert is led to the line of the manual that says what to do."""

import re

import pytest

from tests.house.test_documents import ALERTS, OPERATING, ROOT

# Name of every alert, and what stands below it.
_ALERT = re.compile(r"^ +- alert: (\w+)\n((?:(?! +- alert:).*\n?)*)", re.MULTILINE)
BODIES = dict(_ALERT.findall(ALERTS))
_ROW = re.compile(r'^\| <a id="(\w+)"></a>`(\w+)` \|(.+)\|$', re.MULTILINE)
ROWS = {anchor: (name, cells.split(" | ")) for anchor, name, cells in _ROW.findall(OPERATING)}


@pytest.mark.parametrize("alert", BODIES)
def test_every_alert_names_its_line_of_the_manual(alert: str):
    (runbook,) = re.findall(r"^ +runbook: (.+)$", BODIES[alert], re.MULTILINE)
    path, _, anchor = runbook.partition("#")
    assert (ROOT / path).read_text("utf-8") == OPERATING
    assert OPERATING.count(f'<a id="{anchor}">') == 1
    assert ROWS[anchor][0] == alert


@pytest.mark.parametrize("anchor", ROWS)
def test_every_line_says_what_it_means_where_to_look_and_what_to_do(anchor: str):
    name, cells = ROWS[anchor]
    assert name in BODIES
    assert len(cells) == 3
    assert all(len(cell.strip()) >= 7 for cell in cells)

"""Whoever is woken by an alert is led to a page that says what to do, and no page is lost."""

import re
from pathlib import Path

import pytest

from reference.alerts_page import list_alerts

ROOT = Path(__file__).resolve().parents[3]
RUNBOOK = ROOT / "docs" / "how-to" / "runbook"
INDEX = (RUNBOOK / "README.md").read_text("utf-8")
PAGES = {path.name: path.read_text("utf-8") for path in RUNBOOK.glob("*.md")}
SECTIONS = ["Symptoms", "Meaning", "Diagnosis", "Resolution", "Escalation"]


@pytest.mark.parametrize("alert", list_alerts(), ids=lambda one: one.name)
def test_every_alert_runbook_names_its_alert(alert):
    page = ROOT / alert.runbook
    assert page.parent == RUNBOOK
    assert f"`{alert.name}`" in page.read_text("utf-8")


@pytest.mark.parametrize("alert", list_alerts(), ids=lambda one: one.name)
def test_every_alert_is_in_index_with_its_page(alert):
    (row,) = re.findall(rf"^\|.*`{alert.name}`.*\|$", INDEX, re.MULTILINE)
    assert f"]({Path(alert.runbook).name})" in row


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"README.md"}))
def test_every_runbook_page_is_linked_and_has_all_sections(name: str):
    assert re.search(rf"^\|.*\]\({name}\).*\|$", INDEX, re.MULTILINE)
    parts = re.split(r"^## (.+)\n", PAGES[name], flags=re.MULTILINE)
    text_by_section = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(text_by_section) == SECTIONS
    assert all(len(text.split()) >= 2 for text in text_by_section.values())
    named = set(re.findall(r"`(Oracle[A-Z]\w+)`", text_by_section["Symptoms"]))
    assert named <= {alert.name for alert in list_alerts()}

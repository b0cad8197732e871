"""Every alert links to a runbook page, and every runbook page is linked."""

import re
from pathlib import Path

from reference.alerts_page import read_alerts

ROOT = Path(__file__).resolve().parents[3]
RUNBOOK = ROOT / "docs" / "how-to" / "runbook"
INDEX = (RUNBOOK / "README.md").read_text("utf-8")
PAGES = {path.name: path.read_text("utf-8") for path in RUNBOOK.glob("*.md")}
SECTIONS = ["Symptoms", "Meaning", "Diagnosis", "Resolution", "Escalation"]


def test_every_alert_runbook_names_its_alert():
    for alert in read_alerts():
        page = ROOT / alert.runbook
        assert page.parent == RUNBOOK, alert.name
        assert f"`{alert.name}`" in page.read_text("utf-8"), alert.name


def test_every_runbook_page_is_linked_and_has_all_sections():
    for name in sorted(PAGES.keys() - {"README.md"}):
        assert re.search(rf"^\|.*\]\({name}\).*\|$", INDEX, re.MULTILINE), name
        parts = re.split(r"^## (.+)\n", PAGES[name], flags=re.MULTILINE)
        text_by_section = dict(zip(parts[1::2], parts[2::2], strict=True))
        assert list(text_by_section) == SECTIONS, name
        assert all(len(text.split()) >= 2 for text in text_by_section.values()), name
        named = set(re.findall(r"`(Oracle[A-Z]\w+)`", text_by_section["Symptoms"]))
        assert named <= {alert.name for alert in read_alerts()}, name

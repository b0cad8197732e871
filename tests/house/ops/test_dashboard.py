"""The dashboard shows every metric, and no metric that does not exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path

from dashboard.drawing import ROWS, build_dashboard, format_dashboard_json
from reference.metrics_page import get_metric_labels
from tests.house.ops.test_prometheus import with_promtool
from tests.house.pages.test_documents import ALERTS, RULES

SHIPPED = Path(__file__).resolve().parents[3] / "ops" / "grafana" / "qos-oracle.json"
LINES = [line for row in ROWS for panel in row.panels for line in panel.lines]
_ENDS = re.compile(r"_(bucket|count|sum)$")
# The registry's own metrics, including those without samples.
LABELS = {name: set(labels) for name, labels in get_metric_labels().items()}


def metric_names(expression: str) -> set[str]:
    return set(re.findall(r"\boracle_\w+", expression))


def test_shipped_dashboard_equals_the_generated_one():
    assert SHIPPED.read_text("utf-8") == format_dashboard_json(), "`make dashboard` draws it anew"


def test_dashboard_shows_exactly_the_exported_metrics():
    on_it = {_ENDS.sub("", name) for line in LINES for name in metric_names(line.expression)}
    assert on_it == set(LABELS)


def test_every_panel_uses_existing_labels():
    for line in LINES:
        used = set(re.findall(r"\{\{(\w+)\}\}", line.legend))
        for group in re.findall(r"by \(([^)]*)\)", line.expression):
            used |= set(group.split(", "))
        for name in metric_names(line.expression):
            assert used <= {"instance", "le"} | LABELS[_ENDS.sub("", name)], name


def test_every_alert_uses_existing_labels():
    for alert, expression in RULES:
        for name, matchers in re.findall(r"\b(oracle_\w+)\{([^}]*)\}", expression):
            labels = set(re.findall(r"(\w+)\s*(?:=|!)", matchers))
            assert labels <= {"instance", "le"} | LABELS[_ENDS.sub("", name)], alert


def test_every_alert_summary_uses_existing_labels():
    for body in re.split(r"^ +- alert: ", ALERTS, flags=re.MULTILINE)[1:]:
        named = set(re.findall(r"\$labels\.(\w+)", body))
        for name in set(re.findall(r"\boracle_\w+", body.split("\n")[1])):
            assert named <= LABELS[_ENDS.sub("", name)], body


def test_every_panel_has_a_description():
    silent = [
        panel["title"]
        for panel in build_dashboard()["panels"]
        if panel["type"] != "row" and not panel["description"]
    ]
    assert silent == []


def test_panels_do_not_overlap_and_have_unique_ids():
    panels = build_dashboard()["panels"]
    occupied_cells: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & occupied_cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        occupied_cells |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


@with_promtool
def test_every_dashboard_query_is_valid(tmp_path):
    # As recording rules, because promtool can parse those. Grafana inserts the length of a
    # step.
    rules = [
        {"record": f"panel:{number}", "expr": line.expression.replace("$__rate_interval", "1m")}
        for number, line in enumerate(LINES)
    ]
    written = tmp_path / "queries.yml"
    written.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}), "utf-8")
    checked = subprocess.run(
        [shutil.which("promtool") or "promtool", "check", "rules", str(written)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(LINES)} rules found" in checked.stdout

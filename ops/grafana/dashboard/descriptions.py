"""Builds the descriptions of panels from the help texts of their metrics."""

import re

from dashboard.panels import Panel
from reference.metrics_page import list_metric_families

_HISTOGRAM_SUFFIX = re.compile(r"_(bucket|count|sum)$")


def get_help_texts() -> dict[str, str]:
    """Return the help text of every metric, by its name."""
    return {name: about for name, _, _, about in list_metric_families()}


def build_panel_description(panel: Panel, help_by_metric: dict[str, str]) -> str:
    """Build a panel's description from its metrics' help texts, one per paragraph."""
    metric_names = [
        name for line in panel.lines for name in re.findall(r"\boracle_\w+", line.expression)
    ]
    help_texts = dict.fromkeys(
        help_by_metric[_HISTOGRAM_SUFFIX.sub("", name)]
        for name in metric_names
        if _HISTOGRAM_SUFFIX.sub("", name) in help_by_metric
    )
    return "\n\n".join(help_texts)

"""Builds the dashboard as Grafana's JSON.

When run as a script, this module writes the named file.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dashboard import (
    endpoint_rows,
    feed_rows,
    gateway_rows,
    home_rows,
    index_rows,
    score_rows,
    sending_rows,
)
from dashboard.descriptions import build_panel_description, get_help_texts
from dashboard.panels import Kind, Line, Panel, Row

# Rows are in the order in which an operator asks questions while handling an alert.
ROWS = (
    *home_rows.ROWS,
    *index_rows.ROWS,
    *sending_rows.ROWS,
    *score_rows.ROWS,
    *endpoint_rows.ROWS,
    *feed_rows.ROWS,
    *gateway_rows.ROWS,
)

# Grafana's grid has 24 columns, so three panels of this width fill a line.
_PANEL_WIDTH, _PANEL_HEIGHT, _ROW_TITLE_HEIGHT = 8, 7, 1
_GRID_WIDTH = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def build_dashboard() -> dict[str, Any]:
    """Build the dashboard in Grafana's JSON model.

    It is schema 39 (Grafana 10 and newer).
    """
    return {
        "uid": "qos-oracle",
        "title": "qos-oracle",
        "tags": ["qos-oracle"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_build_datasource_variable(), _build_instance_variable()]},
        "annotations": {"list": [_build_alert_annotation()]},
        "panels": list(_iter_panels()),
    }


def format_dashboard_json() -> str:
    """Format the dashboard's file in stable order, with one value per line."""
    return json.dumps(build_dashboard(), indent=1) + "\n"


def _iter_panels() -> Iterator[dict[str, Any]]:
    panel_id, y = 1, 0
    help_by_metric = get_help_texts()
    for row in ROWS:
        yield _build_row_header(row, panel_id, y)
        panel_id = panel_id + 1
        y = y + _ROW_TITLE_HEIGHT
        for index, panel in enumerate(row.panels):
            row_index, x = divmod(index * _PANEL_WIDTH, _GRID_WIDTH)
            grid_position = {
                "x": x,
                "y": y + row_index * _PANEL_HEIGHT,
                "w": _PANEL_WIDTH,
                "h": _PANEL_HEIGHT,
            }
            yield _build_panel(panel, panel_id, grid_position) | {
                "description": build_panel_description(panel, help_by_metric)
            }
            panel_id += 1
        y += -(-len(row.panels) * _PANEL_WIDTH // _GRID_WIDTH) * _PANEL_HEIGHT


def _build_row_header(row: Row, panel_id: int, y: int) -> dict[str, Any]:
    return {
        "id": panel_id,
        "type": "row",
        "title": row.title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": y, "w": _GRID_WIDTH, "h": _ROW_TITLE_HEIGHT},
        "panels": [],
    }


def _build_panel(panel: Panel, panel_id: int, grid_position: dict[str, int]) -> dict[str, Any]:
    custom = {"fillOpacity": 8} if panel.kind is Kind.TIME_SERIES else {}
    return {
        "id": panel_id,
        "type": panel.kind.value,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": grid_position,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "custom": custom,
                **({} if panel.min_value is None else {"min": panel.min_value}),
            },
            "overrides": [],
        },
        "options": _OPTIONS[panel.kind],
        "targets": [
            _build_query(line, chr(ord("A") + index), panel.kind)
            for index, line in enumerate(panel.lines)
        ],
        **(_TABLE if panel.kind is Kind.TABLE else {}),
    }


def _build_query(line: Line, query_id: str, kind: Kind) -> dict[str, Any]:
    target = {
        "refId": query_id,
        "datasource": _SOURCE,
        "expr": line.expression,
        "legendFormat": line.legend,
    }
    # A stat or table shows only the current value, so it needs no range query.
    return target if kind is Kind.TIME_SERIES else target | {"instant": True, "range": False}


_OPTIONS: dict[Kind, dict[str, Any]] = {
    Kind.TIME_SERIES: {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    Kind.STAT: {
        "colorMode": "value",
        "graphMode": "none",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    },
    Kind.TABLE: {"showHeader": True, "cellHeight": "sm"},
}
# The table has one row per series. Its name is the same as in the legend.
_TABLE = {
    "transformations": [
        {"id": "reduce", "options": {"reducers": ["lastNotNull"], "labelsToFields": False}},
    ],
}


def _build_datasource_variable() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }


def _build_instance_variable() -> dict[str, Any]:
    query = "label_values(oracle_build_info, instance)"
    return {
        "name": "instance",
        "label": "Daemon",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": "instances"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def _build_alert_annotation() -> dict[str, Any]:
    """Build the annotation that marks firing alerts in every panel.

    The watchdog is left out.
    """
    return {
        "name": "Alerts",
        "enable": True,
        "datasource": _SOURCE,
        "expr": 'ALERTS{alertname=~"Oracle.+", alertname!="OracleWatchdog", alertstate="firing"}',
        "titleFormat": "{{alertname}}",
        "textFormat": "{{severity}}",
        "iconColor": "red",
        "step": "60s",
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(format_dashboard_json(), "utf-8")

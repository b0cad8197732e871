"""The dashboard's row for a gateway's selection service."""

from dashboard.panels import COUNT, PER_SECOND, Panel, Row, current_value, rate

ROWS = (
    Row(
        "Gateway",
        (
            Panel(
                "Selections and outcomes",
                PER_SECOND,
                (
                    rate("oracle_gateway_selections_total", "result"),
                    rate("oracle_gateway_outcomes_total", "result", legend="reported: {{result}}"),
                ),
            ),
            Panel(
                "Requests answered with an error",
                PER_SECOND,
                (rate("oracle_gateway_requests_refused_total", "status"),),
            ),
            Panel(
                "Checked nodes and buffered outcomes",
                COUNT,
                (
                    current_value("oracle_gateway_checked_nodes", "chain", "state"),
                    current_value("oracle_gateway_buffered_outcomes", legend="buffered outcomes"),
                ),
            ),
        ),
    ),
)

"""The dashboard's row for a gateway's selection service."""

from dashboard.panels import COUNT, PER_SECOND, Panel, Row, build_gauge_line, build_rate_line

ROWS = (
    Row(
        "Gateway",
        (
            Panel(
                "Selections and outcomes",
                PER_SECOND,
                (
                    build_rate_line("oracle_gateway_selections_total", "result"),
                    build_rate_line(
                        "oracle_gateway_outcomes_total", "result", legend="reported: {{result}}"
                    ),
                ),
            ),
            Panel(
                "Requests answered with an error",
                PER_SECOND,
                (build_rate_line("oracle_gateway_requests_refused_total", "status"),),
            ),
            Panel(
                "Checked nodes and buffered outcomes",
                COUNT,
                (
                    build_gauge_line("oracle_gateway_checked_nodes", "chain", "state"),
                    build_gauge_line(
                        "oracle_gateway_buffered_outcomes", legend="buffered outcomes"
                    ),
                ),
            ),
        ),
    ),
)

"""The dashboard's row for the feed."""

from dashboard.panels import COUNT, PER_SECOND, SECONDS, Panel, Row, current_value, rate

ROWS = (
    Row(
        "Feed",
        (
            Panel(
                "Polls and stored rows",
                PER_SECOND,
                (
                    rate("oracle_feed_polls_total", "result"),
                    rate("oracle_feed_rows_total", legend="rows"),
                    rate("oracle_feed_unknown_rows_total", legend="rows of unknown kinds"),
                ),
            ),
            Panel(
                "Time since the last poll and the last row",
                SECONDS,
                (
                    current_value("oracle_feed_stuck_seconds", legend="since last poll"),
                    current_value("oracle_feed_silent_seconds", legend="since last row"),
                ),
            ),
            Panel(
                "Waiting rows and open faults",
                COUNT,
                (
                    current_value("oracle_feed_waiting_rows", legend="waiting rows"),
                    current_value("oracle_feed_open_faults", legend="open faults"),
                ),
            ),
        ),
    ),
)

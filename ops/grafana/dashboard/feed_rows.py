"""The dashboard's row for the feed."""

from dashboard.panels import (
    COUNT,
    PER_SECOND,
    SECONDS,
    Panel,
    Row,
    build_gauge_line,
    build_rate_line,
)

ROWS = (
    Row(
        "Feed",
        (
            Panel(
                "Polls and stored rows",
                PER_SECOND,
                (
                    build_rate_line("oracle_feed_polls_total", "result"),
                    build_rate_line("oracle_feed_rows_total", legend="rows"),
                    build_rate_line(
                        "oracle_feed_unknown_rows_total", legend="rows of unknown kinds"
                    ),
                ),
            ),
            Panel(
                "Time since the last poll and the last row",
                SECONDS,
                (
                    build_gauge_line("oracle_feed_stuck_seconds", legend="since last poll"),
                    build_gauge_line("oracle_feed_silent_seconds", legend="since last row"),
                ),
            ),
            Panel(
                "Waiting rows and open faults",
                COUNT,
                (
                    build_gauge_line("oracle_feed_waiting_rows", legend="waiting rows"),
                    build_gauge_line("oracle_feed_open_faults", legend="open faults"),
                ),
            ),
        ),
    ),
)

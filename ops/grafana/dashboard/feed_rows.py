"""A row of the dashboard: does the feed beside the chain come, whole and in time?"""

from dashboard.panels import COUNT, PER_SECOND, SECONDS, Panel, Row, now, rate

ROWS = (
    Row(
        "Does the feed come?",
        (
            Panel(
                "Polls, and rows that were stored",
                PER_SECOND,
                (
                    rate("oracle_feed_polls_total", "result"),
                    rate("oracle_feed_rows_total", legend="rows"),
                    rate("oracle_feed_unknown_rows_total", legend="rows of unknown kinds"),
                ),
            ),
            Panel(
                "Time since the last poll, and since the last row",
                SECONDS,
                (
                    now("oracle_feed_stuck_seconds", legend="since a poll"),
                    now("oracle_feed_silent_seconds", legend="since a row"),
                ),
            ),
            Panel(
                "Rows that wait, and open faults",
                COUNT,
                (
                    now("oracle_feed_waiting_rows", legend="rows that wait"),
                    now("oracle_feed_open_faults", legend="open faults"),
                ),
            ),
        ),
    ),
)

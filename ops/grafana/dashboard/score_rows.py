"""The dashboard's rows for scores, kickouts and dispatch."""

from dashboard.panels import (
    COUNT,
    ETHER,
    SHARE,
    WEI,
    Panel,
    Row,
    build_gauge_line,
    build_hourly_increase_line,
    build_percentile_lines,
)

ROWS = (
    Row(
        "Nodes and scores",
        (
            Panel(
                "Nodes",
                COUNT,
                (
                    build_gauge_line("oracle_nodes", "status"),
                    build_gauge_line("oracle_excluded_nodes", legend="excluded"),
                ),
            ),
            Panel("QoS of the members", SHARE, build_percentile_lines("oracle_qos_ratio")),
            Panel("Long-term score", SHARE, build_percentile_lines("oracle_long_term_ratio")),
            Panel("Reliability", SHARE, build_percentile_lines("oracle_reliability_ratio")),
            Panel(
                "Kickouts in the index and on chain",
                COUNT,
                (
                    build_gauge_line("oracle_kickouts", "state"),
                    build_gauge_line(
                        "oracle_kickout_calls", "state", legend="on chain: {{state}}"
                    ),
                ),
            ),
            Panel(
                "Kickouts revoked per hour; rate limit left",
                COUNT,
                (
                    build_hourly_increase_line("oracle_kickouts_revoked_total", "when"),
                    build_gauge_line("oracle_kickout_tokens", legend="tokens left"),
                ),
            ),
            Panel(
                "Hot set behind the last round (with [hot_set])",
                COUNT,
                (
                    build_gauge_line("oracle_hot_set_rounds_behind", legend="rounds"),
                    build_gauge_line("oracle_hot_set_words_left", legend="words to bring"),
                ),
            ),
        ),
    ),
    Row(
        "Dispatch (with [dispatch])",
        (
            Panel(
                "Tasks",
                COUNT,
                (
                    build_gauge_line("oracle_tasks_waiting", legend="waiting for a node"),
                    build_gauge_line("oracle_draws_active", legend="drawn, not started"),
                ),
            ),
            Panel(
                "Blocks since the oldest pending draw",
                COUNT,
                (build_gauge_line("oracle_draws_oldest_blocks", legend="blocks"),),
            ),
            Panel(
                "Failed starts per hour",
                COUNT,
                (build_hourly_increase_line("oracle_starts_failed_total", "reason"),),
            ),
            Panel(
                "Model download requests of the last day",
                COUNT,
                (build_gauge_line("oracle_download_requests", "state"),),
            ),
            Panel(
                "Dispatcher balance",
                ETHER,
                (build_gauge_line("oracle_dispatcher_balance_wei", legend="ether", divisor=WEI),),
            ),
        ),
    ),
)

"""The dashboard's rows for scores, kickouts and dispatch."""

from dashboard.panels import (
    COUNT,
    ETHER,
    SHARE,
    WEI,
    Panel,
    Row,
    current_value,
    deciles,
    hourly_increase,
)

ROWS = (
    Row(
        "Nodes and scores",
        (
            Panel(
                "Nodes",
                COUNT,
                (
                    current_value("oracle_nodes", "status"),
                    current_value("oracle_excluded_nodes", legend="excluded"),
                ),
            ),
            Panel("QoS of the members", SHARE, deciles("oracle_qos_ratio")),
            Panel("Long-term score", SHARE, deciles("oracle_long_term_ratio")),
            Panel("Reliability", SHARE, deciles("oracle_reliability_ratio")),
            Panel(
                "Kickouts in the index and on chain",
                COUNT,
                (
                    current_value("oracle_kickouts", "state"),
                    current_value("oracle_kickout_calls", "state", legend="on chain: {{state}}"),
                ),
            ),
            Panel(
                "Kickouts revoked per hour; rate limit left",
                COUNT,
                (
                    hourly_increase("oracle_kickouts_revoked_total", "when"),
                    current_value("oracle_kickout_tokens", legend="tokens left"),
                ),
            ),
            Panel(
                "Hot set behind the last round (with [hot_set])",
                COUNT,
                (
                    current_value("oracle_hot_set_rounds_behind", legend="rounds"),
                    current_value("oracle_hot_set_words_left", legend="words to bring"),
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
                    current_value("oracle_tasks_waiting", legend="waiting for a node"),
                    current_value("oracle_draws_active", legend="drawn, not started"),
                ),
            ),
            Panel(
                "Blocks since the oldest pending draw",
                COUNT,
                (current_value("oracle_draws_oldest_blocks", legend="blocks"),),
            ),
            Panel(
                "Failed starts per hour",
                COUNT,
                (hourly_increase("oracle_starts_failed_total", "reason"),),
            ),
            Panel(
                "Model download requests of the last day",
                COUNT,
                (current_value("oracle_download_requests", "state"),),
            ),
            Panel(
                "Dispatcher balance",
                ETHER,
                (current_value("oracle_dispatcher_balance_wei", legend="ether", over=WEI),),
            ),
        ),
    ),
)

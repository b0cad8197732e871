"""The dashboard's rows for scores, kickouts and dispatch."""

from dashboard.panels import (
    COUNT,
    ETHER,
    SHARE,
    WEI,
    Panel,
    Row,
    now,
    rise,
    spread,
)

ROWS = (
    Row(
        "Nodes and scores",
        (
            Panel(
                "Nodes",
                COUNT,
                (
                    now("oracle_nodes", "status"),
                    now("oracle_excluded_nodes", legend="excluded"),
                ),
            ),
            Panel("QoS of the members", SHARE, spread("oracle_qos_ratio")),
            Panel("Long-term score", SHARE, spread("oracle_long_term_ratio")),
            Panel("Reliability", SHARE, spread("oracle_reliability_ratio")),
            Panel(
                "Kickouts in the index and on chain",
                COUNT,
                (
                    now("oracle_kickouts", "state"),
                    now("oracle_kickout_calls", "state", legend="on chain: {{state}}"),
                ),
            ),
            Panel(
                "Kickouts revoked per hour; rate limit left",
                COUNT,
                (
                    rise("oracle_kickouts_revoked_total", "when"),
                    now("oracle_kickout_tokens", legend="tokens left"),
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
                    now("oracle_tasks_waiting", legend="waiting for a node"),
                    now("oracle_draws_active", legend="drawn, not started"),
                ),
            ),
            Panel(
                "Blocks since the oldest pending draw",
                COUNT,
                (now("oracle_draws_oldest_blocks", legend="blocks"),),
            ),
            Panel(
                "Failed starts per hour",
                COUNT,
                (rise("oracle_starts_failed_total", "reason"),),
            ),
            Panel(
                "Model download requests of the last day",
                COUNT,
                (now("oracle_download_requests", "state"),),
            ),
            Panel(
                "Dispatcher balance",
                ETHER,
                (now("oracle_dispatcher_balance_wei", legend="ether", over=WEI),),
            ),
        ),
    ),
)

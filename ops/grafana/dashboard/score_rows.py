"""Rows of the dashboard: what are the scores, who is kicked out, what is dispatched?"""

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
        "How are the nodes?",
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
                "Kickouts here, and proposals on chain",
                COUNT,
                (
                    now("oracle_kickouts", "state"),
                    now("oracle_kickout_calls", "state", legend="on chain: {{state}}"),
                ),
            ),
            Panel(
                "Kickouts withdrawn in an hour; tokens of the bucket",
                COUNT,
                (
                    rise("oracle_kickouts_revoked_total", "when"),
                    now("oracle_kickout_tokens", legend="tokens left"),
                ),
            ),
        ),
    ),
    Row(
        "Are tasks given out? (with [dispatch])",
        (
            Panel(
                "Tasks",
                COUNT,
                (
                    now("oracle_tasks_waiting", legend="wait for a node"),
                    now("oracle_draws_active", legend="drawn, not started"),
                ),
            ),
            Panel(
                "Blocks since the oldest draw",
                COUNT,
                (now("oracle_draws_oldest_blocks", legend="blocks"),),
            ),
            Panel(
                "Starts that did not land, in an hour",
                COUNT,
                (rise("oracle_starts_failed_total", "reason"),),
            ),
            Panel(
                "Requests to download a model, in a day",
                COUNT,
                (now("oracle_download_requests", "state"),),
            ),
            Panel(
                "Dispatcher's balance",
                ETHER,
                (now("oracle_dispatcher_balance_wei", legend="ether", over=WEI),),
            ),
        ),
    ),
)

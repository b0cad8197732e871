"""The dashboard's rows for reports, nonces, the reporter quorum and costs."""

from dashboard.panels import (
    COUNT,
    ETHER,
    PER_SECOND,
    SECONDS,
    SHARE,
    WEI,
    Panel,
    Row,
    build_gauge_line,
    build_hourly_increase_line,
    build_median_and_p99_lines,
    build_rate_line,
)

_REPORTS = Row(
    "Reports and transactions",
    (
        Panel(
            "Rounds",
            COUNT,
            (
                build_gauge_line("oracle_round", legend="folded"),
                build_gauge_line("oracle_report_round_on_chain", legend="on chain"),
            ),
            min_value=None,
        ),
        Panel(
            "Newest report: words; largest change (0.0001)",
            COUNT,
            (
                build_gauge_line("oracle_report_changed_nodes", legend="nodes"),
                build_gauge_line("oracle_report_deviation_max", legend="largest change"),
            ),
        ),
        Panel(
            "Blocks from the report's block to the head",
            COUNT,
            (build_gauge_line("oracle_report_asof_lag_blocks", legend="blocks"),),
        ),
        Panel(
            "Outbox calls", COUNT, (build_gauge_line("oracle_outbox_intents", "kind", "state"),)
        ),
        Panel(
            "Oldest call by state",
            SECONDS,
            (build_gauge_line("oracle_txmgr_intent_age_seconds", "kind", "state"),),
        ),
        Panel(
            "Final transactions per hour",
            COUNT,
            (
                build_hourly_increase_line(
                    "oracle_txmgr_transactions_final_total", "kind", "outcome"
                ),
                build_hourly_increase_line(
                    "oracle_txmgr_missing_effect_total", legend="without effect"
                ),
            ),
        ),
        Panel(
            "Time from nonce to receipt",
            SECONDS,
            build_median_and_p99_lines("oracle_txmgr_time_to_mined_seconds", "kind"),
        ),
        Panel(
            "Time from nonce to finality",
            SECONDS,
            build_median_and_p99_lines("oracle_txmgr_time_to_final_seconds", "kind"),
        ),
        Panel(
            "Blocks from nonce to receipt",
            COUNT,
            build_median_and_p99_lines("oracle_txmgr_blocks_to_mined", "kind"),
        ),
    ),
)

_NONCES = Row(
    "Nonces and fees",
    (
        Panel(
            "Nonces",
            COUNT,
            (
                build_gauge_line("oracle_txmgr_nonce_next", "account", legend="next: {{account}}"),
                build_gauge_line(
                    "oracle_txmgr_nonce_chain_latest", "account", legend="used: {{account}}"
                ),
                build_gauge_line(
                    "oracle_txmgr_nonce_chain_finalized",
                    "account",
                    legend="final: {{account}}",
                ),
            ),
            min_value=None,
        ),
        Panel(
            "Open, undecided and missing nonces",
            COUNT,
            (
                build_gauge_line(
                    "oracle_txmgr_nonces_open", "account", legend="open: {{account}}"
                ),
                build_gauge_line(
                    "oracle_txmgr_nonces_without_agreement",
                    "account",
                    legend="undecided: {{account}}",
                ),
                build_gauge_line(
                    "oracle_txmgr_nonces_without_receipt",
                    "account",
                    legend="without receipt: {{account}}",
                ),
                build_gauge_line("oracle_txmgr_nonce_gap", "account", legend="gap: {{account}}"),
            ),
        ),
        Panel(
            "Foreign or reorged transactions per hour",
            COUNT,
            (
                build_hourly_increase_line("oracle_txmgr_foreign_nonces_total", legend="foreign"),
                build_hourly_increase_line(
                    "oracle_txmgr_reorged_transactions_total", legend="reorged"
                ),
            ),
        ),
        Panel(
            "Signed attempts per hour",
            COUNT,
            (build_hourly_increase_line("oracle_txmgr_attempts_total", "kind", "reason"),),
        ),
        Panel(
            "Fee bumps per transaction",
            COUNT,
            build_median_and_p99_lines("oracle_txmgr_bumps_per_transaction", "kind"),
        ),
        Panel(
            "Blocked by cap, attempts or block gas (1: yes)",
            COUNT,
            (
                build_gauge_line(
                    "oracle_txmgr_fee_capped", "account", legend="capped: {{account}}"
                ),
                build_gauge_line(
                    "oracle_txmgr_attempts_exhausted",
                    "account",
                    legend="no attempts left: {{account}}",
                ),
                build_gauge_line(
                    "oracle_txmgr_over_block_gas", "account", legend="over block gas: {{account}}"
                ),
                build_gauge_line(
                    "oracle_quorum_statements_abandoned", legend="statements abandoned"
                ),
            ),
        ),
        Panel(
            "Broadcast results",
            PER_SECOND,
            (build_rate_line("oracle_txmgr_broadcasts_total", "endpoint", "result"),),
        ),
        Panel(
            "Simulation results",
            PER_SECOND,
            (build_rate_line("oracle_txmgr_simulations_total", "kind", "result"),),
        ),
    ),
)

_REPORTERS = Row(
    "Reporter quorum",
    (
        Panel(
            "Signatures of the newest statement",
            COUNT,
            (build_gauge_line("oracle_quorum_signatures_collected", "signer"),),
        ),
        Panel(
            "Disagreements and equivocations per hour",
            COUNT,
            (
                build_hourly_increase_line("oracle_quorum_disagreements_total", "signer"),
                build_hourly_increase_line(
                    "oracle_quorum_equivocations_total",
                    "signer",
                    legend="equivocation: {{signer}}",
                ),
                build_hourly_increase_line(
                    "oracle_quorum_unknown_signatures_total", legend="unknown signature"
                ),
            ),
        ),
        Panel(
            "Peer responses",
            PER_SECOND,
            (
                build_rate_line("oracle_quorum_peer_responses_total", "host", "result"),
                build_rate_line("oracle_quorum_statements_refused_total", legend="not signed"),
            ),
        ),
    ),
)

_MONEY = Row(
    "Costs",
    (
        Panel(
            "Balance and reserved amount",
            ETHER,
            (
                build_gauge_line("oracle_txmgr_balance_wei", "account", divisor=WEI),
                build_gauge_line(
                    "oracle_txmgr_reserved_wei",
                    "account",
                    legend="reserved: {{account}}",
                    divisor=WEI,
                ),
                build_gauge_line(
                    "oracle_transmitter_balance_wei",
                    legend="transmitter (from the database)",
                    divisor=WEI,
                ),
            ),
        ),
        Panel("Runway", SECONDS, (build_gauge_line("oracle_txmgr_runway_seconds", "account"),)),
        Panel(
            "Used share of the budget",
            SHARE,
            (build_gauge_line("oracle_txmgr_budget_used_ratio", "account", "window"),),
        ),
        Panel(
            "Gas price at the last pricing",
            ETHER,
            (
                build_gauge_line("oracle_txmgr_base_fee_wei", legend="base fee", divisor=WEI),
                build_gauge_line("oracle_txmgr_tip_wei", legend="tip", divisor=WEI),
                build_gauge_line("oracle_txmgr_fee_cap_wei", legend="fee cap", divisor=WEI),
            ),
        ),
        Panel(
            "Ether per second",
            ETHER,
            (build_rate_line("oracle_txmgr_spend_wei_total", "kind", divisor=WEI),),
        ),
        Panel(
            "Gas per second",
            PER_SECOND,
            (build_rate_line("oracle_txmgr_gas_used_total", "kind"),),
        ),
    ),
)

ROWS = (_REPORTS, _NONCES, _REPORTERS, _MONEY)

"""Rows of the dashboard: do reports reach the chain, do the reporters agree, what does it cost?"""

from dashboard.panels import (
    COUNT,
    ETHER,
    PER_SECOND,
    SECONDS,
    SHARE,
    WEI,
    Panel,
    Row,
    half_and_worst,
    now,
    rate,
    rise,
)

_REPORTS = Row(
    "Do reports reach the chain?",
    (
        Panel(
            "Rounds",
            COUNT,
            (
                now("oracle_round", legend="folded"),
                now("oracle_report_round_on_chain", legend="on chain"),
            ),
            least=None,
        ),
        Panel(
            "Words of the newest report; largest change in 0.0001",
            COUNT,
            (
                now("oracle_report_words", legend="words"),
                now("oracle_report_deviation_max", legend="largest change"),
            ),
        ),
        Panel(
            "Blocks from the report's block to the head",
            COUNT,
            (now("oracle_report_asof_lag_blocks", legend="blocks"),),
        ),
        Panel("What we want on chain", COUNT, (now("oracle_outbox_intents", "kind", "state"),)),
        Panel(
            "Longest wait in a state",
            SECONDS,
            (now("oracle_txmgr_intent_age_seconds", "kind", "state"),),
        ),
        Panel(
            "Transactions over, in an hour",
            COUNT,
            (
                rise("oracle_txmgr_transactions_final_total", "kind", "outcome"),
                rise("oracle_txmgr_missing_effect_total", legend="without effect"),
            ),
        ),
        Panel(
            "From the nonce to the receipt",
            SECONDS,
            half_and_worst("oracle_txmgr_time_to_mined_seconds", "kind"),
        ),
        Panel(
            "From the nonce to its end",
            SECONDS,
            half_and_worst("oracle_txmgr_time_to_final_seconds", "kind"),
        ),
        Panel(
            "Blocks to the receipt",
            COUNT,
            half_and_worst("oracle_txmgr_blocks_to_mined", "kind"),
        ),
    ),
)

_NONCES = Row(
    "Are our nonces in order?",
    (
        Panel(
            "Nonces",
            COUNT,
            (
                now("oracle_txmgr_nonce_next", "account", legend="next: {{account}}"),
                now("oracle_txmgr_nonce_chain_latest", "account", legend="used: {{account}}"),
                now(
                    "oracle_txmgr_nonce_chain_finalized",
                    "account",
                    legend="final: {{account}}",
                ),
            ),
            least=None,
        ),
        Panel(
            "Open, undecided, missing",
            COUNT,
            (
                now("oracle_txmgr_nonces_open", "account", legend="open: {{account}}"),
                now(
                    "oracle_txmgr_nonces_without_agreement",
                    "account",
                    legend="undecided: {{account}}",
                ),
                now(
                    "oracle_txmgr_nonces_without_receipt",
                    "account",
                    legend="without receipt: {{account}}",
                ),
                now("oracle_txmgr_nonce_gap", "account", legend="gap: {{account}}"),
            ),
        ),
        Panel(
            "Used by others, taken back by reorgs, in an hour",
            COUNT,
            (
                rise("oracle_txmgr_foreign_nonces_total", legend="foreign"),
                rise("oracle_txmgr_reorged_transactions_total", legend="taken back"),
            ),
        ),
        Panel(
            "Signed, in an hour",
            COUNT,
            (rise("oracle_txmgr_attempts_total", "kind", "reason"),),
        ),
        Panel(
            "Fee bumps of a transaction",
            COUNT,
            half_and_worst("oracle_txmgr_bumps_per_transaction", "kind"),
        ),
        Panel(
            "A cap, an end of tries, or a block's gas in the way (1: yes)",
            COUNT,
            (
                now("oracle_txmgr_fee_capped", "account", legend="capped: {{account}}"),
                now(
                    "oracle_txmgr_attempts_exhausted",
                    "account",
                    legend="no tries left: {{account}}",
                ),
                now("oracle_txmgr_over_block_gas", "account", legend="too big: {{account}}"),
                now("oracle_quorum_statements_abandoned", legend="statements given up"),
            ),
        ),
        Panel(
            "What endpoints made of our bytes",
            PER_SECOND,
            (rate("oracle_txmgr_broadcasts_total", "endpoint", "result"),),
        ),
        Panel(
            "What a call would do",
            PER_SECOND,
            (rate("oracle_txmgr_simulations_total", "kind", "result"),),
        ),
    ),
)

_REPORTERS = Row(
    "Do the reporters agree?",
    (
        Panel(
            "Signatures of our newest statement",
            COUNT,
            (now("oracle_quorum_signatures_collected", "signer"),),
        ),
        Panel(
            "Signers that differ from us or from themselves, in an hour",
            COUNT,
            (
                rise("oracle_quorum_disagreements_total", "signer"),
                rise("oracle_quorum_equivocations_total", "signer", legend="twice: {{signer}}"),
                rise("oracle_quorum_unknown_signatures_total", legend="our key, not by us"),
            ),
        ),
        Panel(
            "Answers of other reporters",
            PER_SECOND,
            (
                rate("oracle_quorum_peer_responses_total", "host", "result"),
                rate(
                    "oracle_quorum_statements_refused_total",
                    "kind",
                    legend="not signed by us: {{kind}}",
                ),
            ),
        ),
    ),
)

_MONEY = Row(
    "What does it cost?",
    (
        Panel(
            "Balance and what open nonces may cost",
            ETHER,
            (
                now("oracle_txmgr_balance_wei", "account", over=WEI),
                now(
                    "oracle_txmgr_reserved_wei",
                    "account",
                    legend="reserved: {{account}}",
                    over=WEI,
                ),
                now("oracle_transmitter_balance_wei", legend="transmitter, as counted", over=WEI),
            ),
        ),
        Panel("Runway", SECONDS, (now("oracle_txmgr_runway_seconds", "account"),)),
        Panel(
            "Share of a budget that is used",
            SHARE,
            (now("oracle_txmgr_budget_used_ratio", "account", "window"),),
        ),
        Panel(
            "Price of a unit of gas, when last asked",
            ETHER,
            (
                now("oracle_txmgr_base_fee_wei", legend="base fee", over=WEI),
                now("oracle_txmgr_tip_wei", legend="tip", over=WEI),
                now("oracle_txmgr_fee_cap_wei", legend="our cap", over=WEI),
            ),
        ),
        Panel(
            "Ether a second",
            ETHER,
            (rate("oracle_txmgr_spend_wei_total", "kind", over=WEI),),
        ),
        Panel(
            "Gas a second",
            PER_SECOND,
            (rate("oracle_txmgr_gas_used_total", "kind"),),
        ),
    ),
)

ROWS = (_REPORTS, _NONCES, _REPORTERS, _MONEY)

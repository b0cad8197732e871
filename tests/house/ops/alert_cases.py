"""When each alert of ops/prometheus must fire, and when it must not; read by test_prometheus."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlertCase:
    """Series in promtool's notation, one sample per minute, and the minute to evaluate.

    `fires`: the alert fires then. `rests`: it does not, although its metric exists.
    """

    alert: str
    fires: dict[str, str]
    rests: dict[str, str]
    minute: int = 10


def _case(alert: str, series: str, fires: str, rests: str, minute: int = 10) -> AlertCase:
    """Return a case of one series, with a history that fires the alert and one that does not."""
    return AlertCase(alert, {series: fires}, {series: rests}, minute)


# Values: `0x10` is eleven times 0, `0+1x10` counts up by 1.
CASES = (
    _case("OracleDown", 'up{job="qos-oracle"}', "0x10", "0x1 1x10"),
    AlertCase(
        "OracleHealthDown",
        {'oracle_health_condition{condition="gap"}': "1x10"},
        {
            'oracle_health_condition{condition="behind"}': "1x10",
            'oracle_health_condition{condition="refused"}': "0x8 1x2",
        },
    ),
    AlertCase(
        "OracleHealthAttention",
        {'oracle_health_condition{condition="low_disk"}': "1x20"},
        {
            'oracle_health_condition{condition="gap"}': "1x20",
            # Active for ten minutes, then inactive.
            'oracle_health_condition{condition="held"}': "1x10 0x10",
            'oracle_health_condition{condition="behind"}': "0x20",
        },
        18,
    ),
    _case("OracleHealthUnreported", "oracle_health_write_failures_total", "0+5x10", "0+1x10"),
    _case("OracleIndexerBehind", "oracle_lag_seconds", "301x10", "300x10"),
    _case("OracleStepFailing", 'oracle_step_failures_total{step="index"}', "0+3x10", "0+1x10"),
    _case("OracleNotifyStuck", 'oracle_notify_consecutive_failures{target="a"}', "6x10", "5x10"),
    AlertCase(
        "OracleRpcFailing",
        {"oracle_rpc_errors_total": "0+30x30", "oracle_rpc_calls_total": "0+100x30"},
        {"oracle_rpc_errors_total": "0+10x30", "oracle_rpc_calls_total": "0+100x30"},
        25,
    ),
    _case("OracleFinalityViolation", "oracle_finality_violation", "1x10", "0x10"),
    _case("OracleFeedStuck", "oracle_feed_stuck_seconds", "301x10", "300x10"),
    _case("OracleFeedSilent", "oracle_feed_silent_seconds", "1801x10", "1800x10"),
    _case("OracleFeedFault", "oracle_feed_open_faults", "1x10", "0x10"),
    _case(
        "OracleForkClaimsDenied",
        'oracle_reorgs_rejected_total{reason="outvoted"}',
        "0+1x10",
        "0+0x8 1x2",
    ),
    _case(
        "OracleKickoutWithdrawn",
        'oracle_kickouts_revoked_total{when="after"}',
        "0x5 1x5",
        "0x10",
    ),
    _case(
        "OracleEndpointQuarantined", 'oracle_endpoint_quarantined{endpoint="a"}', "1x10", "0x10"
    ),
    _case(
        "OracleEndpointProvenWrong", 'oracle_endpoint_proven_wrong{endpoint="a"}', "1x10", "0x10"
    ),
    _case("OracleSuspectBlocks", "oracle_suspect_blocks", "7x30", "7x5 0x25", minute=25),
    _case("OracleEndpointsDown", "oracle_endpoints_usable", "0x10", "1x10"),
    _case(
        "OracleEndpointInconsistent",
        'oracle_endpoint_inconsistent_total{endpoint="a",check="head"}',
        "0x5 1x5",
        "3x10",
    ),
    _case("OracleChainStalled", "oracle_chain_stalled", "1x10", "0x9 1x1"),
    _case(
        "OracleFinalityStalled",
        'oracle_block_number{state="final"}',
        "7x130",
        "7x60 8x70",
        minute=125,
    ),
    _case(
        "OracleLogsMissing",
        'oracle_verify_missing_logs_total{endpoint="a"}',
        "0x5 2x5",
        "2x10",
    ),
    _case(
        "OracleVerificationDowngraded",
        'oracle_verification_downgrades_total{feature="bloom"}',
        "0x5 1x5",
        "1x10",
    ),
    _case("OracleBlockRefused", "oracle_block_refused", "0x5 1x5", "0x10"),
    _case("OracleAuditUnproven", 'oracle_audits_total{result="unproven"}', "0x5 1x5", "1x10"),
    _case(
        "OracleCountersDiffer",
        'oracle_contract_count_difference{counter="rounds"}',
        "1x150",
        "1x90 0x60",
        140,
    ),
    _case("OracleDeadLetters", "oracle_dead_letters", "1x10", "0x10"),
    _case("OracleBlocksUncovered", "oracle_uncovered_blocks", "5x20", "5x5 0x15", 15),
    AlertCase(
        "OracleRereadStuck",
        # New ones do not count as progress.
        {"oracle_blocks_below_level": "900x5 400x20 410x20"},
        {
            'oracle_blocks_below_level{instance="slow"}': "900x20 899x25",
            'oracle_blocks_below_level{instance="sawtooth"}': "900x15 880 900x29",
            'oracle_blocks_below_level{instance="was-down"}': "900x20 stale 900x24",
            'oracle_blocks_below_level{instance="just-begun"}': "0x15 900x29",
            'oracle_blocks_below_level{instance="done"}': "0x45",
        },
        40,
    ),
    AlertCase(
        "OracleRoundStale",
        {"oracle_round_age_seconds": "5401x10", "oracle_report_heartbeat_seconds": "3600x10"},
        # A longer heartbeat allows more.
        {"oracle_round_age_seconds": "5401x10", "oracle_report_heartbeat_seconds": "7200x10"},
    ),
    _case(
        "OracleOutboxStuck",
        'oracle_txmgr_intent_age_seconds{kind="push",state="live"}',
        "0+100x10",
        "0+50x10",
    ),
    _case("OracleOutboxHeld", 'oracle_outbox_intents{kind="push",state="held"}', "1x10", "0x10"),
    _case(
        "OracleTransactionReverted",
        'oracle_txmgr_transactions_final_total{kind="push",outcome="reverted"}',
        "0x5 1x5",
        "1x10",
    ),
    _case("OracleTransmitterLow", "oracle_transmitter_balance_wei", "4e16x20", "6e16x20", 15),
    _case("OracleTaskStartsStuck", "oracle_draws_oldest_blocks", "21x10", "20x10"),
    _case(
        "OracleContestOpen",
        'oracle_txmgr_intent_age_seconds{kind="settle_contest",state="planned"}',
        "3601x10",
        "3600x10",
    ),
    AlertCase(
        "OracleDownloadsUnanswered",
        {
            'oracle_download_requests{state="unanswered"}': "5x10",
            'oracle_download_requests{state="answered"}': "4x10",
        },
        {
            'oracle_download_requests{state="unanswered"}': "5x10",
            'oracle_download_requests{state="answered"}': "5x10",
            # Too few tasks to judge the nodes.
            'oracle_download_requests{instance="few",state="unanswered"}': "3x10",
            'oracle_download_requests{instance="few",state="answered"}': "0x10",
        },
    ),
    _case("OracleDispatcherLow", "oracle_dispatcher_balance_wei", "9e15x10", "2e16x10"),
    _case("OracleHotSetBehind", "oracle_hot_set_rounds_behind", "4x20", "3x20", 15),
    _case("OracleObjectionUnanswered", 'oracle_kickouts{state="objected"}', "1x80", "0x80", 70),
    _case("OracleKickoutDue", 'oracle_kickouts{state="due"}', "1x10", "0x10"),
    AlertCase(
        "OracleDeepReorg",
        {
            "oracle_reorg_depth_blocks_count": "0x5 1x5",
            'oracle_reorg_depth_blocks_bucket{le="8.0"}': "0x10",
        },
        {
            "oracle_reorg_depth_blocks_count": "0x5 1x5",
            'oracle_reorg_depth_blocks_bucket{le="8.0"}': "0x5 1x5",
        },
    ),
    _case(
        "OracleForeignNonce",
        'oracle_txmgr_transactions_final_total{kind="push",outcome="foreign"}',
        "0x5 1x5",
        "0x10",
    ),
    _case("OracleNonceGap", 'oracle_txmgr_nonce_gap{account="transmitter"}', "1x10", "1x3 0x7"),
    _case("OracleFeeCapped", 'oracle_txmgr_fee_capped{account="transmitter"}', "1x20", "0x20", 20),
    _case(
        "OracleAttemptsExhausted",
        'oracle_txmgr_attempts_exhausted{account="dispatcher"}',
        "1x20",
        "1x10 0x10",
        20,
    ),
    _case("OracleStatementAbandoned", "oracle_quorum_statements_abandoned", "0x5 1x5", "1x5 0x5"),
    _case(
        "OracleTransactionExceedsBlockGas",
        'oracle_txmgr_over_block_gas{account="transmitter"}',
        "1x10",
        "0x10",
    ),
    _case(
        "OracleRunwayLow",
        'oracle_txmgr_runway_seconds{account="transmitter"}',
        "259199x20",
        "259200x20",
        15,
    ),
    _case(
        "OracleRunwayCritical",
        'oracle_txmgr_runway_seconds{account="transmitter"}',
        "43199x20",
        "43200x20",
        15,
    ),
    _case(
        "OracleBudgetUsed",
        'oracle_txmgr_budget_used_ratio{account="transmitter",window="day"}',
        "0.81x10",
        "0.8x10",
    ),
    _case(
        "OracleBudgetSpent",
        'oracle_txmgr_budget_used_ratio{account="transmitter",window="hour"}',
        "1x10",
        "0.9x10",
    ),
    _case(
        "OracleSenderPaused",
        'oracle_txmgr_paused{account="transmitter",kind="foreign"}',
        "1x10",
        "0x10",
    ),
    _case(
        "OracleSimulationUnknown",
        'oracle_txmgr_simulations_total{kind="push",result="unknown"}',
        "0+2x15",
        "0x10 1x5",
        15,
    ),
    _case(
        "OracleUnknownBroadcastResult",
        'oracle_txmgr_broadcasts_total{endpoint="a",result="unknown"}',
        "0+1x10",
        "0x8 1x2",
    ),
    _case(
        "OracleNonceWithoutAgreement",
        "oracle_txmgr_nonces_without_agreement",
        "1x40",
        "1x20 0x20",
        40,
    ),
    _case("OracleMissingEffect", "oracle_txmgr_missing_effect_total", "0x5 1x5", "0x10"),
    _case("OracleReportHeld", "oracle_report_held", "1x10", "0x10"),
    _case(
        "OracleReportDisagreement",
        'oracle_quorum_disagreements_total{signer="0x1"}',
        "0x5 1x5",
        "4x10",
    ),
    _case("OracleNoQuorum", "oracle_report_disputed", "1x10", "0x9 1x1"),
    _case(
        "OracleEquivocation",
        'oracle_quorum_equivocations_total{signer="0x1"}',
        "0x5 1x5",
        "0x10",
    ),
    _case("OracleUnknownSignature", "oracle_quorum_unknown_signatures_total", "0x5 1x5", "1x10"),
    _case("OracleRulesMismatch", "oracle_report_rules_agree", "0x10", "1x10"),
    _case(
        "OracleAnnouncedRulesMissing",
        'oracle_health_condition{condition="announced_rules_missing"}',
        "1x30",
        "0x30",
    ),
    _case("OracleContractPaused", "oracle_report_contract_paused_until", "601x10", "600x10"),
    _case("OracleKickoutAccused", 'oracle_kickout_calls{state="accused"}', "1x10", "0x10"),
    _case(
        "OracleKickoutRefused",
        'oracle_kickout_calls{state="refused"}',
        "1x70",
        "1x30 0x40",
        minute=65,
    ),
    _case("OracleKickoutBucketEmpty", "oracle_kickout_tokens", "0x20", "1x20", 15),
    _case(
        "OracleCertificateExpires",
        'oracle_server_certificate_expiry_timestamp_seconds{server="https://rpc.example.org"}',
        # Prometheus' test begins at time 0.
        "604800x90",
        "612000x90",
        90,
    ),
    AlertCase(
        "OracleConnectionsRefused",
        {'oracle_http_refused_total{listener="web",reason="slow"}': "0+400x20"},
        {
            # Ten a minute of each; and a short burst.
            'oracle_http_refused_total{listener="web",reason="slow"}': "0+10x20",
            'oracle_http_refused_total{listener="web",reason="rate"}': "0+10x20",
            'oracle_http_refused_total{listener="statements",reason="slow"}': "0x15 9000x5",
        },
        18,
    ),
    AlertCase(
        "OracleNoLeader",
        {'oracle_lease_held{instance="a"}': "0x10", 'oracle_lease_held{instance="b"}': "0x10"},
        {'oracle_lease_held{instance="a"}': "0x10", 'oracle_lease_held{instance="b"}': "1x10"},
    ),
    _case("OracleLeaseFlapping", "oracle_lease_epoch", "1+1x10", "1x5 2x5"),
    AlertCase("OracleWatchdog", {}, {}),
)

# It always fires; its absence is the alarm.
ALWAYS = frozenset({"OracleWatchdog"})

"""Rows of the dashboard: is anything stopped, and is the index at the head?"""

from dashboard.panels import (
    COUNT,
    HERE,
    PER_SECOND,
    SECONDS,
    Line,
    Panel,
    Row,
    half_and_worst,
    now,
    rate,
    rise,
)

ROWS = (
    Row(
        "Is anything stopped?",
        (
            Panel(
                "Stopped by itself (1: yes)",
                COUNT,
                (
                    now("oracle_finality_violation", legend="final block is not the chain's"),
                    now("oracle_report_held", legend="reports held by the gate"),
                    now("oracle_report_disputed", legend="no quorum to be had"),
                    now("oracle_report_pending_score_drops", legend="falls left for later rounds"),
                    now("oracle_chain_stalled", legend="chain stalled"),
                    now("oracle_kickout_paused", legend="contract takes no kickouts"),
                ),
            ),
            Panel(
                "Senders that rest",
                COUNT,
                (now("oracle_txmgr_paused", "account", "kind"),),
            ),
            Panel(
                "Age of the last accepted round",
                SECONDS,
                (
                    now("oracle_round_age_seconds", legend="age"),
                    now("oracle_report_heartbeat_seconds", legend="heartbeat"),
                ),
            ),
            Panel(
                "Who leads (1) and who stands by (0)",
                COUNT,
                (
                    now("oracle_lease_held", "instance"),
                    now(
                        "oracle_build_info",
                        "instance",
                        legend="{{instance}} runs {{version}}, rules {{rules}}",
                    ),
                ),
            ),
            Panel(
                "Number of the lease",
                COUNT,
                (now("oracle_lease_epoch", "instance"),),
                least=None,
            ),
            Panel(
                "Time since the start",
                SECONDS,
                (Line(f"time() - oracle_start_time_seconds{{{HERE}}}", "{{instance}}"),),
            ),
            Panel(
                "Time since a step last turned well",
                SECONDS,
                (
                    Line(
                        f"time() - oracle_step_last_success_timestamp_seconds{{{HERE}}}",
                        "{{step}}",
                    ),
                ),
            ),
            Panel(
                "Health: severity, and which conditions hold",
                COUNT,
                (
                    now("oracle_health_severity", legend="severity"),
                    Line(f"oracle_health_condition{{{HERE}}} > 0", "{{condition}}"),
                    rise("oracle_health_write_failures_total", legend="reports not stored"),
                ),
            ),
            Panel(
                "Steps and renewals of the lease that failed, in an hour",
                COUNT,
                (
                    rise("oracle_step_failures_total", "step"),
                    rise("oracle_lease_renew_failures_total", legend="lease"),
                ),
            ),
            Panel(
                "Connections and requests turned away, by listener",
                PER_SECOND,
                (rate("oracle_http_refused_total", "listener", "reason"),),
            ),
            Panel(
                "Contract and daemon agree on the rules; the contract is paused",
                COUNT,
                (
                    now("oracle_report_rules_agree", legend="rules agree"),
                    Line(
                        f"oracle_report_contract_paused_until{{{HERE}}} > bool time()",
                        "contract paused",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Is the index at the head?",
        (
            Panel("Newest block", COUNT, (now("oracle_block_number", "state"),), least=None),
            Panel("Blocks behind", COUNT, (now("oracle_lag_blocks", legend="behind"),)),
            Panel("Behind in block time", SECONDS, (now("oracle_lag_seconds", legend="behind"),)),
            Panel("Events folded", PER_SECOND, (rate("oracle_events_total", "kind"),)),
            Panel(
                "Logs and windows",
                PER_SECOND,
                (
                    rate("oracle_logs_total", legend="logs written"),
                    rate("oracle_window_splits_total", "reason"),
                    rate("oracle_new_heads_total", legend="new head notices"),
                ),
            ),
            Panel(
                "Ranges of workers, in an hour", COUNT, (rise("oracle_segments_total", "outcome"),)
            ),
            Panel("Blocks of a window", COUNT, (now("oracle_window_blocks", "endpoint"),)),
            Panel(
                "Reorganisations, in an hour",
                COUNT,
                (
                    rise("oracle_reorgs_total", legend="undone"),
                    rise("oracle_reorgs_rejected_total", "reason"),
                ),
            ),
            Panel("Depth of reorganisations", COUNT, half_and_worst("oracle_reorg_depth_blocks")),
            Panel(
                "Passed over or not read",
                COUNT,
                (
                    now("oracle_anomalies_total", legend="events against a rule"),
                    now("oracle_dead_letters", legend="dead letters"),
                    now("oracle_uncovered_blocks", legend="blocks not read"),
                    now("oracle_state_differing_rows", legend="rows unlike their logs"),
                ),
            ),
            Panel(
                "Samples of the state compared, in an hour",
                COUNT,
                (rise("oracle_state_samples_total", legend="samples"),),
            ),
            Panel("Folding a window", SECONDS, half_and_worst("oracle_fold_seconds")),
            Panel("Committing a window", SECONDS, half_and_worst("oracle_commit_seconds")),
            Panel("One turn of a step", SECONDS, half_and_worst("oracle_step_seconds", "step")),
        ),
    ),
)

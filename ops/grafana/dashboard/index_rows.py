"""The dashboard's rows for halts, health and indexing."""

from dashboard.panels import (
    COUNT,
    HERE,
    PER_SECOND,
    SECONDS,
    Line,
    Panel,
    Row,
    build_gauge_line,
    build_hourly_increase_line,
    build_median_and_p99_lines,
    build_rate_line,
)

ROWS = (
    Row(
        "Halts and health",
        (
            Panel(
                "Active halts (1: yes)",
                COUNT,
                (
                    build_gauge_line("oracle_finality_violation", legend="finality violation"),
                    build_gauge_line("oracle_report_held", legend="reports held by the gate"),
                    build_gauge_line("oracle_report_disputed", legend="no quorum"),
                    build_gauge_line("oracle_chain_stalled", legend="chain stalled"),
                    build_gauge_line("oracle_kickout_paused", legend="kickouts paused"),
                ),
            ),
            Panel(
                "Paused senders",
                COUNT,
                (build_gauge_line("oracle_txmgr_paused", "account", "kind"),),
            ),
            Panel(
                "Age of the last accepted round",
                SECONDS,
                (
                    build_gauge_line("oracle_round_age_seconds", legend="age"),
                    build_gauge_line("oracle_report_heartbeat_seconds", legend="heartbeat"),
                ),
            ),
            Panel(
                "Leader (1) and standby (0)",
                COUNT,
                (
                    build_gauge_line("oracle_lease_held", "instance"),
                    build_gauge_line(
                        "oracle_build_info",
                        "instance",
                        legend="{{instance}} runs {{version}}, rules {{rules}}",
                    ),
                ),
            ),
            Panel(
                "Lease epoch",
                COUNT,
                (build_gauge_line("oracle_lease_epoch", "instance"),),
                min_value=None,
            ),
            Panel(
                "Time since the start",
                SECONDS,
                (Line(f"time() - oracle_start_time_seconds{{{HERE}}}", "{{instance}}"),),
            ),
            Panel(
                "Time since a step last succeeded",
                SECONDS,
                (
                    Line(
                        f"time() - oracle_step_last_success_timestamp_seconds{{{HERE}}}",
                        "{{step}}",
                    ),
                ),
            ),
            Panel(
                "Health: severity and active conditions",
                COUNT,
                (
                    build_gauge_line("oracle_health_severity", legend="severity"),
                    Line(f"oracle_health_condition{{{HERE}}} > 0", "{{condition}}"),
                    build_hourly_increase_line(
                        "oracle_health_write_failures_total", legend="write failures"
                    ),
                ),
            ),
            Panel(
                "Failed steps and lease renewals per hour",
                COUNT,
                (
                    build_hourly_increase_line("oracle_step_failures_total", "step"),
                    build_hourly_increase_line(
                        "oracle_lease_renew_failures_total", legend="lease"
                    ),
                ),
            ),
            Panel(
                "Refused connections and requests by listener",
                PER_SECOND,
                (build_rate_line("oracle_http_refused_total", "listener", "reason"),),
            ),
            Panel(
                "Rules match the contract; contract paused",
                COUNT,
                (
                    build_gauge_line("oracle_report_rules_agree", legend="rules match"),
                    Line(
                        f"oracle_report_contract_paused_until{{{HERE}}} > bool time()",
                        "contract paused",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Indexing",
        (
            Panel(
                "Newest block",
                COUNT,
                (build_gauge_line("oracle_block_number", "state"),),
                min_value=None,
            ),
            Panel(
                "Blocks behind", COUNT, (build_gauge_line("oracle_lag_blocks", legend="behind"),)
            ),
            Panel(
                "Lag in block time",
                SECONDS,
                (build_gauge_line("oracle_lag_seconds", legend="behind"),),
            ),
            Panel("Events folded", PER_SECOND, (build_rate_line("oracle_events_total", "kind"),)),
            Panel(
                "Logs and windows",
                PER_SECOND,
                (
                    build_rate_line("oracle_logs_total", legend="logs written"),
                    build_rate_line("oracle_window_splits_total", "reason"),
                    build_rate_line("oracle_new_heads_total", legend="new heads"),
                ),
            ),
            Panel(
                "Worker segments per hour",
                COUNT,
                (build_hourly_increase_line("oracle_segments_total", "outcome"),),
            ),
            Panel(
                "Blocks per window", COUNT, (build_gauge_line("oracle_window_blocks", "endpoint"),)
            ),
            Panel(
                "Reorgs per hour",
                COUNT,
                (
                    build_hourly_increase_line("oracle_reorgs_total", legend="rolled back"),
                    build_hourly_increase_line("oracle_reorgs_rejected_total", "reason"),
                ),
            ),
            Panel("Reorg depth", COUNT, build_median_and_p99_lines("oracle_reorg_depth_blocks")),
            Panel(
                "Skipped or unread",
                COUNT,
                (
                    build_gauge_line("oracle_anomalies_total", legend="rule-breaking events"),
                    build_gauge_line("oracle_dead_letters", legend="dead letters"),
                    build_gauge_line("oracle_uncovered_blocks", legend="blocks not read"),
                    build_gauge_line("oracle_state_differing_rows", legend="differing state rows"),
                ),
            ),
            Panel(
                "State samples compared per hour",
                COUNT,
                (build_hourly_increase_line("oracle_state_samples_total", legend="samples"),),
            ),
            Panel("Window fold time", SECONDS, build_median_and_p99_lines("oracle_fold_seconds")),
            Panel(
                "Window commit time", SECONDS, build_median_and_p99_lines("oracle_commit_seconds")
            ),
            Panel(
                "Duration of a step's tick",
                SECONDS,
                build_median_and_p99_lines("oracle_step_seconds", "step"),
            ),
        ),
    ),
)

"""The dashboard's row for endpoint health and data verification."""

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
        "Endpoint health and data verification",
        (
            Panel(
                "Endpoints",
                COUNT,
                (
                    build_gauge_line("oracle_endpoints_usable", legend="usable"),
                    build_gauge_line(
                        "oracle_endpoint_quarantined",
                        "endpoint",
                        legend="quarantined: {{endpoint}}",
                    ),
                    build_gauge_line(
                        "oracle_endpoint_proven_wrong",
                        "endpoint",
                        legend="proven wrong: {{endpoint}}",
                    ),
                ),
            ),
            Panel(
                "Newest block by endpoint",
                COUNT,
                (build_gauge_line("oracle_endpoint_head_number", "endpoint"),),
                min_value=None,
            ),
            Panel(
                "Requests by outcome",
                PER_SECOND,
                (build_rate_line("oracle_endpoint_calls_total", "endpoint", "outcome"),),
            ),
            Panel(
                "Contradictions per hour",
                COUNT,
                (
                    build_hourly_increase_line(
                        "oracle_endpoint_inconsistent_total", "endpoint", "check"
                    ),
                    build_hourly_increase_line(
                        "oracle_verify_failures_total", "endpoint", "check"
                    ),
                    build_hourly_increase_line(
                        "oracle_endpoint_final_regressions_total", "endpoint"
                    ),
                ),
            ),
            Panel(
                "Omitted or duplicate logs per hour",
                COUNT,
                (
                    build_hourly_increase_line(
                        "oracle_verify_missing_logs_total",
                        "endpoint",
                        legend="omitted: {{endpoint}}",
                    ),
                    build_hourly_increase_line(
                        "oracle_duplicate_logs_total", "endpoint", legend="duplicate: {{endpoint}}"
                    ),
                    build_hourly_increase_line(
                        "oracle_endpoint_truncated_responses_total",
                        "endpoint",
                        legend="truncated: {{endpoint}}",
                    ),
                    build_hourly_increase_line(
                        "oracle_verify_unproven_senders_total",
                        "endpoint",
                        legend="unproven sender: {{endpoint}}",
                    ),
                    build_hourly_increase_line(
                        "oracle_log_timestamp_mismatches_total",
                        "endpoint",
                        legend="timestamp: {{endpoint}}",
                    ),
                ),
            ),
            Panel(
                "Endpoint switches per hour",
                COUNT,
                (
                    build_hourly_increase_line(
                        "oracle_endpoint_switches_total", "endpoint", "reason"
                    ),
                    build_hourly_increase_line("oracle_websocket_failures_total", "reason"),
                ),
            ),
            Panel(
                "Time until a server's certificate expires",
                SECONDS,
                (
                    Line(
                        f"oracle_server_certificate_expiry_timestamp_seconds{{{HERE}}} - time()",
                        "{{server}}",
                    ),
                ),
            ),
            Panel(
                "Response time",
                SECONDS,
                (build_gauge_line("oracle_endpoint_latency_seconds", "endpoint", "method"),),
            ),
            Panel(
                "Circuit breaker: open (2), half-open (1)",
                COUNT,
                (build_gauge_line("oracle_endpoint_circuit_state", "endpoint", "method"),),
            ),
            Panel(
                "Learned rate limit; supported block tags",
                COUNT,
                (
                    build_gauge_line("oracle_endpoint_rate_limit", "endpoint"),
                    build_gauge_line("oracle_endpoint_tag_known", "endpoint", "tag"),
                ),
            ),
            Panel(
                "JSON-RPC calls",
                PER_SECOND,
                (
                    build_rate_line("oracle_rpc_calls_total", "method"),
                    build_rate_line(
                        "oracle_rpc_errors_total", "method", legend="failed: {{method}}"
                    ),
                ),
            ),
            Panel(
                "Request duration",
                SECONDS,
                build_median_and_p99_lines("oracle_rpc_seconds", "method"),
            ),
            Panel(
                "Header features (1 proven, -1 unusable)",
                COUNT,
                (
                    build_gauge_line("oracle_chain_calibrated", "feature"),
                    build_hourly_increase_line(
                        "oracle_verification_downgrades_total",
                        "feature",
                        legend="downgraded: {{feature}}",
                    ),
                ),
                min_value=-1,
            ),
            Panel(
                "Rejected block; blocks below level",
                COUNT,
                (
                    build_gauge_line("oracle_block_refused", legend="refused"),
                    build_gauge_line("oracle_blocks_below_level", legend="below level"),
                ),
            ),
            Panel(
                "Backfill windows checked by a second endpoint",
                COUNT,
                (build_hourly_increase_line("oracle_witnessed_windows_total", "result"),),
            ),
            Panel(
                "Blocks by verification level",
                COUNT,
                (
                    build_gauge_line("oracle_covered_blocks", "level"),
                    build_gauge_line("oracle_audited_blocks", legend="audited"),
                ),
            ),
            Panel(
                "Proofs and audits",
                PER_SECOND,
                (
                    build_rate_line("oracle_verified_blocks_total", "level"),
                    build_rate_line("oracle_audits_total", "result"),
                    build_gauge_line("oracle_audit_possible", legend="audit possible"),
                    build_gauge_line("oracle_suspect_blocks", legend="suspect blocks"),
                ),
            ),
            Panel(
                "Contract counters minus indexed counts",
                COUNT,
                (
                    build_gauge_line("oracle_contract_count_difference", "counter"),
                    build_hourly_increase_line(
                        "oracle_counters_compared_total", legend="comparisons per hour"
                    ),
                ),
                min_value=None,
            ),
        ),
    ),
)

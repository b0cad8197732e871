"""Rows of the dashboard: do the endpoints tell the truth?"""

from dashboard.panels import (
    COUNT,
    PER_SECOND,
    SECONDS,
    Panel,
    Row,
    half_and_worst,
    now,
    rate,
    rise,
)

ROWS = (
    Row(
        "Do the endpoints tell the truth?",
        (
            Panel(
                "Endpoints",
                COUNT,
                (
                    now("oracle_endpoints_usable", legend="usable"),
                    now("oracle_endpoint_quarantined", "endpoint", legend="out: {{endpoint}}"),
                    now("oracle_endpoint_proven_wrong", "endpoint", legend="lied: {{endpoint}}"),
                ),
            ),
            Panel(
                "Newest block shown",
                COUNT,
                (now("oracle_endpoint_head_number", "endpoint"),),
                least=None,
            ),
            Panel(
                "Requests by how they ended",
                PER_SECOND,
                (rate("oracle_endpoint_calls_total", "endpoint", "outcome"),),
            ),
            Panel(
                "Contradictions, in an hour",
                COUNT,
                (
                    rise("oracle_endpoint_inconsistent_total", "endpoint", "check"),
                    rise("oracle_verify_failures_total", "endpoint", "check"),
                    rise("oracle_endpoint_final_regressions_total", "endpoint"),
                ),
            ),
            Panel(
                "Logs left out or doubled, in an hour",
                COUNT,
                (
                    rise(
                        "oracle_verify_missing_logs_total",
                        "endpoint",
                        legend="left out: {{endpoint}}",
                    ),
                    rise("oracle_duplicate_logs_total", "endpoint", legend="twice: {{endpoint}}"),
                    rise(
                        "oracle_endpoint_truncated_responses_total",
                        "endpoint",
                        legend="cut off: {{endpoint}}",
                    ),
                    rise(
                        "oracle_verify_unproven_senders_total",
                        "endpoint",
                        legend="unproven sender: {{endpoint}}",
                    ),
                    rise(
                        "oracle_log_timestamp_mismatches_total",
                        "endpoint",
                        legend="time: {{endpoint}}",
                    ),
                ),
            ),
            Panel(
                "Work that changed over, in an hour",
                COUNT,
                (
                    rise("oracle_endpoint_switches_total", "endpoint", "reason"),
                    rise("oracle_websocket_failures_total", "reason"),
                ),
            ),
            Panel(
                "Time of an answer",
                SECONDS,
                (now("oracle_endpoint_latency_seconds", "endpoint", "method"),),
            ),
            Panel(
                "Methods left alone (2) or on trial (1)",
                COUNT,
                (now("oracle_endpoint_circuit_state", "endpoint", "method"),),
            ),
            Panel(
                "Calls a second that it bears; tags it knows",
                COUNT,
                (
                    now("oracle_endpoint_rate_limit", "endpoint"),
                    now("oracle_endpoint_tag_known", "endpoint", "tag"),
                ),
            ),
            Panel(
                "JSON-RPC calls",
                PER_SECOND,
                (
                    rate("oracle_rpc_calls_total", "method"),
                    rate("oracle_rpc_errors_total", "method", legend="failed: {{method}}"),
                ),
            ),
            Panel("Time of a request", SECONDS, half_and_worst("oracle_rpc_seconds", "method")),
            Panel(
                "What headers are worth (-1: nothing)",
                COUNT,
                (
                    now("oracle_chain_calibrated", "feature"),
                    rise(
                        "oracle_verification_downgrades_total",
                        "feature",
                        legend="lost: {{feature}}",
                    ),
                ),
                least=-1,
            ),
            Panel(
                "Refused, and below what can be reached",
                COUNT,
                (
                    now("oracle_block_refused", legend="refused"),
                    now("oracle_blocks_below_level", legend="below the level"),
                ),
            ),
            Panel(
                "Windows of history, by a second endpoint",
                COUNT,
                (rise("oracle_witnessed_windows_total", "result"),),
            ),
            Panel(
                "Blocks read, by proof",
                COUNT,
                (
                    now("oracle_covered_blocks", "level"),
                    now("oracle_audited_blocks", legend="asked of a second endpoint"),
                ),
            ),
            Panel(
                "Proofs and audits",
                PER_SECOND,
                (
                    rate("oracle_verified_blocks_total", "level"),
                    rate("oracle_audits_total", "result"),
                    now("oracle_audit_possible", legend="audit possible"),
                    now("oracle_suspect_blocks", legend="blocks of a liar alone"),
                ),
            ),
            Panel(
                "Contract's counters less ours",
                COUNT,
                (
                    now("oracle_contract_count_difference", "counter"),
                    rise("oracle_counters_compared_total", legend="compared, in an hour"),
                ),
                least=None,
            ),
        ),
    ),
)

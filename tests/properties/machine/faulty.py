"""Faults by name, to be drawn at random."""

from collections.abc import Callable

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import (
    block_faults,
    log_faults,
    message_faults,
    transport_faults,
)

# The index detects these at once, and requests the data again.
LOUD: dict[str, Callable[[], InjectedFault]] = {
    "throttled": lambda: transport_faults.build_429_fault(1),
    "throttled in 200": transport_faults.build_429_in_200_fault,
    "status 503": lambda: transport_faults.build_http_status_fault(503),
    "a page for people": transport_faults.build_html_fault,
    "an empty body": transport_faults.build_empty_body_fault,
    "a cut connection": transport_faults.build_cut_connection_fault,
    "a reset connection": transport_faults.build_reset_connection_fault,
    "half of the JSON": transport_faults.build_truncated_body_fault,
    "no gzip": transport_faults.build_corrupt_gzip_fault,
    "a shuffled batch": transport_faults.build_reversed_batch_fault,
    "a batch with a hole": lambda: transport_faults.build_omitted_response_fault(0),
    "a batch with an error": lambda: transport_faults.build_failed_call_fault(0),
    "small batches": lambda: transport_faults.build_batch_limit_fault(2),
    "no blocks": block_faults.build_null_result_fault,
    "short ranges": lambda: message_faults.build_range_limit_fault(3),
    "few results": lambda: message_faults.build_result_limit_fault(4),
    "an unknown language": lambda: message_faults.build_error_fault(
        message_faults.UNKNOWN_MESSAGE
    ),
    "a log twice": log_faults.build_duplicated_log_fault,
    "two logs at one place": log_faults.build_conflicting_log_fault,
    "logs last to first": log_faults.build_reversed_logs_fault,
    "logs of other blocks": lambda: log_faults.build_shifted_block_numbers_fault(100),
    "removed logs": log_faults.build_removed_logs_fault,
    "pending logs": log_faults.build_pending_logs_fault,
    "half a byte": log_faults.build_odd_hex_length_fault,
    "capitals": log_faults.build_uppercase_hex_fault,
    "headers that do not link": block_faults.build_wrong_parent_fault,
    "another chain": lambda: block_faults.build_wrong_chain_id_fault(1),
}

# Plausible responses: only the header's roots, or another endpoint, reveal them.
QUIET: dict[str, Callable[[], InjectedFault]] = {
    "no logs": log_faults.build_omitted_logs_fault,
    "one log left out": lambda: log_faults.build_omitted_log_fault(0),
    "ranges that leave out": log_faults.build_omitted_range_logs_fault,
    "a silent cap": lambda: log_faults.build_capped_logs_fault(3),
    "empty where unknown": log_faults.build_empty_logs_for_unknown_block_fault,
}

"""Faults by name, for whoever draws them by lot."""

from collections.abc import Callable

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import (
    block_faults,
    log_faults,
    message_faults,
    transport_faults,
)

# Whatever happens, the index sees these at once and asks again.
LOUD: dict[str, Callable[[], InjectedFault]] = {
    "throttled": lambda: transport_faults.return_429(1),
    "throttled in 200": transport_faults.return_429_in_200,
    "status 503": lambda: transport_faults.return_status(503),
    "a page for people": transport_faults.return_html,
    "an empty body": transport_faults.return_empty_body,
    "a cut connection": transport_faults.cut_connection,
    "a reset connection": transport_faults.reset_connection,
    "half of the JSON": transport_faults.truncate_body,
    "no gzip": transport_faults.corrupt_gzip,
    "a shuffled batch": transport_faults.reverse_batch,
    "a batch with a hole": lambda: transport_faults.omit_response(0),
    "a batch with an error": lambda: transport_faults.fail_one_call(0),
    "small batches": lambda: transport_faults.reject_batch(2),
    "no blocks": block_faults.return_null,
    "short ranges": lambda: message_faults.limit_range(3),
    "few results": lambda: message_faults.limit_results(4),
    "an unknown language": lambda: message_faults.fail_with(message_faults.UNKNOWN_MESSAGE),
    "a log twice": log_faults.duplicate_log,
    "two logs at one place": log_faults.add_conflicting_log,
    "logs last to first": log_faults.reverse_logs,
    "logs of other blocks": lambda: log_faults.shift_log_blocks(100),
    "removed logs": log_faults.mark_logs_removed,
    "pending logs": log_faults.mark_logs_pending,
    "half a byte": log_faults.append_half_byte,
    "capitals": log_faults.uppercase_hex,
    "headers that do not link": block_faults.serve_wrong_parent,
    "another chain": lambda: block_faults.return_wrong_chain_id(1),
}

# What looks right: only a header's own roots tell, or another endpoint.
QUIET: dict[str, Callable[[], InjectedFault]] = {
    "no logs": log_faults.omit_logs,
    "one log left out": lambda: log_faults.omit_log(0),
    "ranges that leave out": log_faults.omit_logs_of_ranges,
    "a silent cap": lambda: log_faults.cap_logs(3),
    "empty where unknown": log_faults.return_empty_for_unknown,
}

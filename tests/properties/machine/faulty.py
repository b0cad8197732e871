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
    "throttled": lambda: transport_faults.throttled(1),
    "throttled in 200": transport_faults.throttled_in_200,
    "status 503": lambda: transport_faults.status(503),
    "a page for people": transport_faults.web_page,
    "an empty body": transport_faults.empty_body,
    "a cut connection": transport_faults.cut_off,
    "a reset connection": transport_faults.reset,
    "half of the JSON": transport_faults.truncated,
    "no gzip": transport_faults.broken_gzip,
    "a shuffled batch": transport_faults.shuffled_batch,
    "a batch with a hole": lambda: transport_faults.batch_without(0),
    "a batch with an error": lambda: transport_faults.batch_with_error(0),
    "small batches": lambda: transport_faults.refused_batch(2),
    "no blocks": block_faults.nothing,
    "short ranges": lambda: message_faults.limited_range(3),
    "few results": lambda: message_faults.limited_results(4),
    "an unknown language": lambda: message_faults.fails(message_faults.FOREIGN_WORDS),
    "a log twice": log_faults.doubled,
    "two logs at one place": log_faults.contradicted,
    "logs last to first": log_faults.shuffled_logs,
    "logs of other blocks": lambda: log_faults.of_blocks_moved(100),
    "removed logs": log_faults.removed,
    "pending logs": log_faults.pending,
    "half a byte": log_faults.odd_hex,
    "capitals": log_faults.upper_case,
    "headers that do not link": block_faults.other_parent,
    "another chain": lambda: block_faults.other_chain(1),
}

# What looks right: only a header's own roots tell, or another endpoint.
QUIET: dict[str, Callable[[], InjectedFault]] = {
    "no logs": log_faults.omits_logs,
    "one log left out": lambda: log_faults.omits_one(0),
    "ranges that leave out": log_faults.omits_in_ranges,
    "a silent cap": lambda: log_faults.capped(3),
    "empty where unknown": log_faults.empty_where_unknown,
}

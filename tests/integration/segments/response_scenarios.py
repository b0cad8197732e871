"""Scenarios of the ingest cases about the responses of endpoints: 22 to 57, see cases.toml."""

from collections.abc import Callable
from threading import Event

from devnet.fakechain.block_json import Block
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import (
    block_faults as blocks,
    log_faults as logs,
    message_faults as messages,
    transport_faults as transport,
)
from devnet.fakechain.provider import Provider
from devnet.fakechain.requests import FakeRequest
from devnet.fakechain.tree import BlockTree
from tests.integration.segments.faulty_worlds import World
from tests.support.ingest.indexer import Indexer

Scenario = Callable[[World], Indexer]
Make = Callable[[], InjectedFault]

# In the middle of the history, which workers read.
MIDDLE = (30, 60)
# More blocks than a window of any scenario.
_MORE = 45
# More than the number of requests to an endpoint before the first range of history.
_BEFORE_HISTORY = 25
_LATE_SECONDS = 0.02
_NOWHERE = "http://127.0.0.1:9"


def await_history_requests() -> Callable[[FakeRequest], bool]:
    """Begin when history is being read, not earlier."""
    return blocks.match_after_requests(_BEFORE_HISTORY)


def fault_at_first(*make: Make) -> Scenario:
    """Add these faults to the preferred endpoint; the other one is healthy."""

    def scenario(world: World) -> Indexer:
        world.spoil(*(make_fault() for make_fault in make))
        return world.read(world.indexer())

    return scenario


def fault_at_all(*make: Make) -> Scenario:
    """Add these faults to every endpoint."""

    def scenario(world: World) -> Indexer:
        for make_fault in make:
            world.spoil_all(make_fault)
        return world.read(world.indexer())

    return scenario


def _later(blocks_more: int, scenario: Callable[[World], object]) -> Scenario:
    """Run the scenario at some later block; the blocks before it are read without faults."""

    def run_scenario(world: World) -> Indexer:
        indexer = world.read(world.indexer())
        scenario(world)
        world.chain.live(blocks_more)
        return world.read(indexer)

    return run_scenario


def burst(world: World) -> Indexer:
    """Mine ten blocks at once, and then more than a window of history."""
    indexer = world.read(world.indexer())
    world.chain.live(10)
    world.read(indexer)
    world.chain.live(60)
    return world.read(indexer)


def _lag(world: World) -> None:
    world.chain.following = world.chain.providers[1:]


def _lagging(world: World) -> Provider:
    return Provider(world.chain.tree, world.chain.back(25))


def elsewhere(world: World) -> Indexer:
    """Two nodes behind one address: the head from one, some logs from one that lags."""
    lagging = _lagging(world)
    world.spoil(
        logs.build_foreign_logs_fault(lagging, when=blocks.match_every_second_request(), times=20)
    )
    return world.read(world.indexer())


def unknown_is_empty(world: World) -> Indexer:
    """The same, and the lagging node returns `[]` for unknown blocks."""
    lagging = _lagging(world)
    lagging.faults.append(logs.build_empty_logs_for_unknown_block_fault())
    world.spoil(
        logs.build_foreign_logs_fault(lagging, when=blocks.match_every_second_request(), times=20)
    )
    return world.read(world.indexer())


def _other_fork(world: World) -> Block:
    """A fork of the middle of history with the same transactions, a second later."""
    last = world.chain.back(40)
    newest = world.chain.head
    for _ in range(41):
        last = world.chain.tree.mine((), last, 13)
    world.chain.tree.last_mined = newest
    return last


def two_forks(world: World) -> Indexer:
    """Headers of one fork, and logs of another."""
    fork = Provider(world.chain.tree, _other_fork(world))
    world.spoil(
        logs.build_foreign_logs_fault(
            fork, when=lambda request: not request.is_by_block_hash, times=10
        )
    )
    return world.read(world.indexer())


def alone_dense(world: World) -> Indexer:
    """A single block has more logs than an endpoint returns."""
    world.spoil_all(lambda: messages.build_result_limit_fault(1))
    return world.read(world.indexer())


def prune_first_half(world: World) -> Indexer:
    """One endpoint has pruned the first half."""
    world.chain.providers[0].pruned_below = MIDDLE[1]
    return world.read(world.indexer())


def cached_by_proxy(world: World) -> Indexer:
    """A proxy keeps returning cached responses, even for orphaned blocks."""
    by_number = blocks.build_stale_cache_fault(
        methods="eth_getBlockByNumber",
        when=lambda request: str(request.params[0]).startswith("0x"),
    )
    world.spoil(by_number)
    indexer = world.read(world.indexer())
    indexer.source.fetch_witnesses(world.chain.head.number)
    world.chain.live(40, on=world.chain.back(1))
    return world.read(indexer)


def another_chain(world: World) -> Indexer:
    """The preferred endpoint switches to a longer chain with our chain id and other blocks."""
    tree = BlockTree(31337, start=1_600_000_000)
    foreign_provider = Provider(tree)
    foreign_provider.tag_targets = dict(world.chain.provider.tag_targets)
    foreign_provider.head = tree.mine_empty_blocks(250)
    indexer = world.indexer()
    indexer.source.add_checkpoint(0, world.chain.tree.genesis.hash, "the database")  # type: ignore[arg-type]
    world.read(indexer)
    world.spoil(blocks.build_forwarding_fault(foreign_provider))
    world.chain.live(_MORE)
    return world.read(indexer)


def all_down_for_long(world: World) -> Indexer:
    """All endpoints are down for a long time, in the middle of history."""
    world.spoil_all(
        lambda: transport.build_http_status_fault(
            503, b"down", when=await_history_requests(), times=60
        )
    )
    return world.read(world.indexer())


def unreachable(world: World) -> Indexer:
    """The preferred endpoint is unreachable."""
    world.chain.urls.insert(0, _NOWHERE)
    return world.read(world.indexer())


def slow_endpoint(world: World) -> Indexer:
    """The preferred endpoint is slow for all requests."""

    def late(_request: object) -> None:
        Event().wait(_LATE_SECONDS)

    world.spoil(transport.build_callback_fault(late))
    return world.read(world.indexer())


_SUGGESTS = "query exceeds max results {limit}, retry with the range "


def _suggesting(suggestion: str) -> Make:
    return lambda: messages.build_result_limit_fault(
        3, messages.ErrorMessage(-32602, _SUGGESTS + suggestion)
    )


def _misshaped(*make: Make) -> dict[str, Scenario]:
    return {make_fault().name: fault_at_first(make_fault) for make_fault in make}


ANSWERS: dict[str, dict[str, Scenario]] = {
    "22": {"": burst},
    "23": {"": _later(60, _lag)},
    "24": {"": elsewhere},
    "25": {"": unknown_is_empty},
    "26": {"": two_forks},
    "27": {
        "": fault_at_first(
            lambda: logs.build_omitted_logs_fault(when=blocks.match_every_second_request())
        )
    },
    "28": {
        "": fault_at_first(logs.build_omitted_range_logs_fault),
        "all": fault_at_all(logs.build_omitted_range_logs_fault),
    },
    "29": {"": fault_at_first(lambda: logs.build_omitted_log_fault(0, for_blocks=MIDDLE))},
    "30": {
        "10": fault_at_all(lambda: logs.build_capped_logs_fault(10)),
        "7": fault_at_all(lambda: logs.build_capped_logs_fault(7)),
    },
    "31": {"": fault_at_all(lambda: messages.build_result_limit_fault(3))},
    "32": {"": alone_dense},
    "33": {
        "quota": fault_at_all(
            lambda: messages.build_error_fault(
                messages.RATE_MESSAGE, times=3, when=await_history_requests()
            )
        ),
        "size": fault_at_all(
            lambda: messages.build_result_limit_fault(4, messages.DENSITY_MESSAGE)
        ),
    },
    "34": {
        "the same": fault_at_all(_suggesting("{first}-{last}")),
        "inverted": fault_at_all(_suggesting("{last}-{first}")),
        "outside": fault_at_all(_suggesting("1000-2000")),
    },
    "35": {
        "one": fault_at_first(
            lambda: messages.build_error_fault(messages.UNKNOWN_MESSAGE, methods="eth_getLogs")
        ),
        "all": fault_at_all(
            lambda: messages.build_result_limit_fault(3, messages.UNKNOWN_MESSAGE)
        ),
    },
    "36": {
        "": fault_at_all(
            lambda: messages.build_range_limit_fault(6, messages.ErrorMessage(-32000, "Max range"))
        )
    },
    "37": {
        "seconds": fault_at_first(
            lambda: transport.build_429_fault(1, times=2, when=await_history_requests())
        ),
        "date": fault_at_first(
            lambda: transport.build_429_fault(
                transport.IN_NINETY_SECONDS, times=2, when=await_history_requests()
            )
        ),
    },
    "38": {
        "an error": fault_at_first(
            lambda: transport.build_429_in_200_fault(times=3, when=await_history_requests())
        ),
        "a text": fault_at_first(
            lambda: transport.build_rate_limit_text_fault(times=3, when=await_history_requests())
        ),
    },
    "39": {
        "": fault_at_first(
            lambda: transport.build_http_status_fault(403, when=await_history_requests())
        )
    },
    "40": {
        "": fault_at_all(
            lambda: transport.build_http_status_fault(
                504, b"timed out", times=4, when=await_history_requests()
            )
        )
    },
    "41": _misshaped(
        lambda: transport.build_cut_connection_fault(times=3, when=await_history_requests()),
        lambda: transport.build_reset_connection_fault(times=3, when=await_history_requests()),
        lambda: transport.build_truncated_body_fault(times=3, when=await_history_requests()),
        lambda: transport.build_corrupt_gzip_fault(times=3, when=await_history_requests()),
    ),
    "42": _misshaped(transport.build_html_fault, transport.build_empty_body_fault),
    "43": _misshaped(
        transport.build_reversed_batch_fault,
        lambda: transport.build_omitted_response_fault(0, times=4),
        lambda: transport.build_failed_call_fault(0, times=4),
        lambda: transport.build_batch_limit_fault(2),
    ),
    "44": {
        "": fault_at_all(
            lambda: blocks.build_null_result_fault(times=3, when=await_history_requests())
        )
    },
    "45": _misshaped(
        logs.build_duplicated_log_fault,
        lambda: logs.build_conflicting_log_fault(for_blocks=MIDDLE),
    ),
    "46": _misshaped(
        logs.build_removed_logs_fault,
        logs.build_pending_logs_fault,
        logs.build_zero_tx_hashes_fault,
        logs.build_uppercase_hex_fault,
        logs.build_odd_hex_length_fault,
    ),
    "47": _misshaped(
        lambda: logs.build_shifted_block_numbers_fault(1_000),
        lambda: logs.build_wrong_log_address_fault("0x" + "77" * 20),
    ),
    "48": {
        "zero": fault_at_all(blocks.build_zero_bloom_fault),
        "saturated": fault_at_all(blocks.build_saturated_bloom_fault),
        "zero, one": fault_at_first(lambda: blocks.build_zero_bloom_fault(for_blocks=MIDDLE)),
    },
    "49": {
        "all": fault_at_all(blocks.build_wrong_receipts_root_fault),
        "one": fault_at_first(lambda: blocks.build_omitted_receipt_fault(0, for_blocks=MIDDLE)),
    },
    "50": {
        "told": prune_first_half,
        "silent": fault_at_first(lambda: logs.build_silent_pruning_fault(MIDDLE[1])),
    },
    "51": {"": cached_by_proxy},
    "52": {"": another_chain},
    "53": {"": all_down_for_long},
    "54": {
        "": fault_at_first(
            lambda: transport.build_http_status_fault(
                503, b"down", when=await_history_requests(), times=6
            )
        )
    },
    "56": {"": unreachable},
    "57": {"": slow_endpoint},
}

"""One endpoint returns a false state of the oracle contract."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from oracle.bindings.codec import encode_call
from oracle.bindings.qos_roots import CONTRACT
from oracle.domain.health import Condition
from oracle.quorum.quorum_context import find_status_mismatch
from oracle.reporting.report_planner import plan_push
from oracle.store.raw.feed_repository import FeedCursor
from oracle.telemetry.rpc_metrics import INCONSISTENT
from tests.support.harness import Harness, create_sending_jobs, run_next_step
from tests.support.sending.faults import Answer, Fault, Question, return_status
from tests.support.sending.proxy import Proxy

_WORD_DIGITS = 64


def change_word(view: str, change: Callable[[int], int], index: int) -> Fault:
    """Return a fault that changes the word at `index` of a view's result."""
    start = 2 + index * _WORD_DIGITS
    end = start + _WORD_DIGITS
    selector = encode_call(CONTRACT, view)[:10]

    def answer(request: Question, response: Answer) -> Answer:
        call = request["params"][0]
        if call["data"][:10] != selector:
            return response
        result = response["result"]
        word = change(int(result[start:end], 16))
        return {**response, "result": f"{result[:start]}{word:064x}{result[end:]}"}

    return Fault(answer=answer)


# The positions of fields in the contract's struct `Head`.
PUSHED_AT, PAUSED_UNTIL, CONFIG_COUNT = 2, 3, 7

FALSE_STATUSES: dict[str, tuple[str, Callable[[int], int], int]] = {
    "later round": ("head", lambda number: number + 1, 0),
    "earlier round": ("head", lambda number: number - 1, 0),
    "later push": ("head", lambda pushed_at: pushed_at + 10**6, PUSHED_AT),
    "pause": ("head", lambda _paused_until: 2**39, PAUSED_UNTIL),
    "other configuration count": ("head", lambda count: count + 1, CONFIG_COUNT),
    "other root": ("lastRoot", lambda root: root ^ 1, 0),
    "other configuration": ("configDigest", lambda digest: digest ^ 1, 0),
    "other rules": ("rulesHash", lambda rules_hash: rules_hash ^ 1, 0),
    "longer interval": ("limits", lambda min_interval: min_interval + 3600, 0),
}


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("falsehood", FALSE_STATUSES)
def test_rounds_continue_despite_a_false_contract_status(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], falsehood: str, place: int
):
    harness = proxied_harness
    harness.pushed()
    proxies[place].rule("eth_call", change_word(*FALSE_STATUSES[falsehood]))
    count = INCONSISTENT.labels(harness.urls[0], "contract")
    count_before = count._value.get()
    harness.pushed()
    harness.pushed()
    assert harness.testbed.round == 3
    # The second endpoint is requested only if the first one contradicts the events.
    assert (count._value.get() > count_before) == (place == 0)


def test_pause_that_ended_before_the_first_indexed_block_delays_no_round(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness, endpoint = proxied_harness, proxies[0]
    harness.pushed()
    harness.restart(urls=[endpoint.url])
    endpoint.rule("eth_call", change_word("head", lambda _paused_until: 1, PAUSED_UNTIL))
    harness.pushed()
    assert find_held_reason(harness) is None


def change_newest_block(blocks: int, seconds: int = 0) -> Fault:
    """Return a fault that changes the number and the timestamp of the newest block."""

    def answer(request: Question, response: Answer) -> Answer:
        if request["params"][0] != "latest":
            return response
        block = response["result"]
        changed_fields = {
            "number": hex(max(0, int(block["number"], 16) + blocks)),
            "timestamp": hex(max(0, int(block["timestamp"], 16) + seconds)),
        }
        return {**response, "result": {**block, **changed_fields}}

    return Fault(answer=answer)


def call_at_newest_block(fault: Fault) -> Fault:
    """Return the fault for an endpoint that runs each call at its true newest block."""

    def ask(request: Question) -> Question:
        return {**request, "params": [request["params"][0], "latest"]}

    return replace(fault, ask=ask)


# The false status of an endpoint, and the blocks and seconds that it adds to its newest block.
FALSE_STATUSES_AT_FALSE_BLOCKS = {
    "later round far above": ("later round", 10**6, 1),
    "old time of the previous block": (None, -1, -(10**6)),
    "old time of an old block": (None, -20, -(10**6)),
}


@pytest.mark.parametrize("case", FALSE_STATUSES_AT_FALSE_BLOCKS)
def test_rounds_continue_despite_a_wrong_newest_block_number(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], case: str
):
    harness, liar = proxied_harness, proxies[0]
    falsehood, blocks, seconds = FALSE_STATUSES_AT_FALSE_BLOCKS[case]
    harness.pushed()
    false_status = Fault() if falsehood is None else change_word(*FALSE_STATUSES[falsehood])
    liar.rule("eth_call", call_at_newest_block(false_status))
    liar.rule("eth_getBlockByNumber", change_newest_block(blocks, seconds))
    for restarts in (False, True):
        if restarts:
            harness.restart()
        # The false block may delay the index by a tick.
        for _ in range(2):
            harness.period()
            harness.tick()
        harness.mine()
        harness.tick()
    assert harness.testbed.round >= 3
    assert find_held_reason(harness) is None


def test_false_status_at_an_invented_block_is_reported(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness, (liar, limited) = proxied_harness, proxies
    harness.pushed()
    liar.rule("eth_call", call_at_newest_block(change_word(*FALSE_STATUSES["later round"])))
    liar.rule("eth_getBlockByNumber", change_newest_block(10**6, 1))
    limited.rule("eth_call", return_status(429))
    harness.period()
    harness.tick()
    assert find_held_reason(harness) is None
    for _ in range(3):
        harness.period()
        harness.tick()
    reason = find_held_reason(harness)
    assert reason is not None
    assert liar.url in reason

    liar.heal()
    harness.pushed()
    assert find_held_reason(harness) is None


def change_time(seconds: int) -> Fault:
    """Return a fault that changes the timestamp of the newest block."""
    return change_newest_block(0, seconds)


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_rounds_continue_despite_a_wrong_newest_block_timestamp(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], seconds: int
):
    harness = proxied_harness
    harness.pushed()
    proxies[0].rule("eth_getBlockByNumber", change_time(seconds))
    harness.pushed()
    harness.pushed()


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_wrong_newest_block_timestamp_neither_ends_nor_delays_a_planned_push(
    sqlite_harness: Harness, seconds: int
):
    harness = sqlite_harness
    harness.pushed()
    harness.period()
    harness.index()
    heads = harness.source.fetch_heads()
    harness.repeat(plan_push)
    false_block = heads.latest._replace(time=heads.latest.time + seconds)

    while run_next_step(harness.context, replace(heads, latest=false_block)) is not None:
        pass

    assert harness.states() == ["mined", "live"]


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_wrong_block_timestamp_from_the_only_endpoint_is_reported(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], seconds: int
):
    harness, liar = proxied_harness, proxies[0]
    harness.pushed()
    harness.restart(urls=[liar.url])
    liar.rule("eth_getBlockByNumber", change_time(seconds))
    for _ in range(3):
        harness.period()
        harness.tick()
    assert "but the indexed block" in (find_held_reason(harness) or "")

    liar.heal()
    harness.pushed()


def test_index_of_a_feed_network_may_lag_far_behind_the_newest_block(harness: Harness):
    harness.pushed()
    status = harness.quorum.fetch_contract_status()
    much_later_block = status.block._replace(
        number=status.block.number + 1, time=status.block.time + 600
    )
    later_status = replace(status, block=much_later_block)
    with harness.store.transaction() as uow:
        assert "but the indexed block" in (find_status_mismatch(uow, later_status) or "")
        uow.feed.move_cursor(FeedCursor(), 0)
        assert find_status_mismatch(uow, later_status) is None


def test_status_of_an_endpoint_that_is_ahead_of_a_fast_chains_index_is_used(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    harness.pushed()
    harness.mine(50)
    status = harness.quorum.fetch_contract_status()
    with harness.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        assert cursor is not None
        assert status.block.number == cursor.number + 50
        assert find_status_mismatch(uow, status) is None


@pytest.mark.parametrize("is_orphaned", [False, True])
def test_status_at_another_block_than_the_indexed_one_is_no_inconsistency(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], *, is_orphaned: bool
):
    """The first endpoint is on a sibling of the newest block, or has a newer block and round."""
    harness = proxied_harness
    harness.pushed()

    def move_block(request: Question, response: Answer) -> Answer:
        if request["params"][0] != "latest":
            return response
        block = response["result"]
        changed_fields = (
            {"hash": "0x" + "ab" * 32}
            if is_orphaned
            else {"number": hex(int(block["number"], 16) + 1), "hash": "0x" + "cd" * 32}
        )
        return {**response, "result": {**block, **changed_fields}}

    proxies[0].rule("eth_getBlockByNumber", Fault(answer=move_block))
    status_fault = Fault() if is_orphaned else change_word(*FALSE_STATUSES["later round"])
    proxies[0].rule("eth_call", call_at_newest_block(status_fault))
    count = INCONSISTENT.labels(harness.urls[0], "contract")
    count_before = count._value.get()

    proxies[1].received_requests.clear()
    status = harness.quorum.fetch_contract_status()

    with harness.store.read_transaction() as uow:
        assert find_status_mismatch(uow, status) is None
    assert proxies[1].received_requests
    assert count._value.get() == count_before


def find_held_reason(harness: Harness) -> str | None:
    """Run the daemon's job once, and return the detail of `HELD`, or None."""
    jobs = create_sending_jobs(harness)
    jobs.advance_reports()
    details = {
        finding.condition: finding.detail for finding in jobs.health.build_report().findings
    }
    return details.get(Condition.HELD)


@pytest.mark.parametrize("falsehood", FALSE_STATUSES)
def test_false_contract_status_from_the_only_endpoint_is_reported(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], falsehood: str
):
    harness, liar = proxied_harness, proxies[0]
    harness.pushed()
    harness.restart(urls=[liar.url])
    liar.rule("eth_call", change_word(*FALSE_STATUSES[falsehood]))
    harness.period()
    harness.tick()
    assert find_held_reason(harness) is None
    for _ in range(2):
        harness.period()
        harness.tick()
    reason = find_held_reason(harness)
    assert reason is not None
    assert "contradicts its indexed events" in reason
    assert liar.url in reason
    assert harness.testbed.round == 1

    liar.heal()
    harness.pushed()
    assert find_held_reason(harness) is None

"""A kind of call that txmgr does not know is sent and settled, alone or in a batch."""

from dataclasses import replace

import pytest
from typing_extensions import override

from oracle.bindings.codec import encode_call
from oracle.chain.heads import Heads
from oracle.errors import FatalError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest, Intent, IntentState
from oracle.txmgr.admission import admit_calls
from oracle.txmgr.call_registry import CallKind, CallStage, Decision
from oracle.txmgr.confirmer import confirm_transactions
from tests.support.harness import FINALITY, Harness, run_next_step

COUNT = 5


class Ping(CallKind):
    """A call without an effect, which records the order and the outcome of its calls."""

    name = "ping"

    def __init__(self) -> None:
        self.closed: list[tuple[str, str | None]] = []
        self.unwanted: set[str] = set()

    @override
    def review_call(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        if call.request.subject in self.unwanted:
            return Decision.end(IntentState.SUPERSEDED, "nobody asks any more")
        return Decision.proceed()

    @override
    def on_closed(
        self,
        uow: UnitOfWork,
        call: Intent,
        reason: str | None,
        *,
        replaced_by: Intent | None = None,
    ) -> None:
        self.closed.append((call.request.subject, reason))


def register_batched_pings(harness: Harness, size: int) -> Ping:
    """Let the harness send pings in batches of `size`."""
    harness.context = replace(harness.context, batch_size=size)
    kind = Ping()
    harness.context.registry.register(kind)
    return kind


def plan_pings(harness: Harness, exclusive_key: str | None = None) -> list[str]:
    account = harness.context.account
    names = [f"ping={number}" for number in range(COUNT)]
    with harness.context.write_transaction() as uow:
        for name in names:
            ping = CallRequest(
                account=account,
                contract=harness.testbed.address,
                kind="ping",
                dedup_key=name,
                calldata=encode_call("roots/QoSRoots", "head"),
                subject=name,
                exclusive_key=exclusive_key,
            )
            assert uow.outbox.intents.add(ping, harness.context.stamp) is not None
    return names


@pytest.mark.parametrize("size", [1, 3, 100])
def test_call_of_a_registered_kind_becomes_final_at_any_batch_size(
    sqlite_harness: Harness, size: int
):
    harness = sqlite_harness
    kind = register_batched_pings(harness, size)
    names = plan_pings(harness)
    harness.index()
    steps = harness.repeat(run_next_step)
    # Each batch is made ready, gets its nonces, is signed and sent.
    assert len(steps) == 4 * -(-COUNT // size)
    assert harness.states("ping") == ["live"] * COUNT

    harness.mine()
    harness.index()
    harness.repeat(confirm_transactions)
    assert (harness.states("ping"), kind.closed) == (["mined"] * COUNT, [])
    harness.mine(FINALITY + 1)
    harness.index()
    harness.repeat(confirm_transactions)
    assert harness.states("ping") == ["final"] * COUNT
    assert kind.closed == [(name, None) for name in names]
    nonces = [intent.nonce or 0 for intent in harness.intents("ping")]
    assert nonces == list(range(nonces[0], nonces[0] + COUNT))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_call_that_is_no_longer_wanted_leaves_no_nonce_gap(sqlite_harness: Harness, size: int):
    harness = sqlite_harness
    kind = register_batched_pings(harness, size)
    names = plan_pings(harness)
    harness.index()
    while harness.states("ping").count("assigned") == 0:
        assert run_next_step(harness.context, harness.source.fetch_heads()) is not None
    kind.unwanted = {names[0]}
    # A call that is given back waits for the next block.
    harness.repeat(run_next_step)
    harness.mine()
    harness.index()
    harness.repeat(run_next_step)
    assert harness.states("ping") == ["superseded"] + ["live"] * (COUNT - 1)
    assert kind.closed == [(names[0], "nobody asks any more")]
    nonces = sorted(intent.nonce for intent in harness.intents("ping") if intent.nonce is not None)
    assert nonces == list(range(nonces[0], nonces[0] + COUNT - 1))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_calls_with_the_same_exclusive_key_are_sent_sequentially(
    sqlite_harness: Harness, size: int
):
    """An operator who releases a held call makes it planned next to its successor."""
    harness = sqlite_harness
    register_batched_pings(harness, size)
    plan_pings(harness, exclusive_key="ping")
    for _ in range(COUNT):
        harness.index()
        harness.repeat(run_next_step)
        harness.mine()
    assert set(harness.states("ping")) <= {"live", "mined"}
    nonces = sorted(call.nonce or 0 for call in harness.intents("ping"))
    assert nonces == list(range(nonces[0], nonces[0] + COUNT))


@pytest.mark.parametrize("size", [1, 100])
def test_second_call_with_an_exclusive_key_waits_with_a_reason(sqlite_harness: Harness, size: int):
    harness = sqlite_harness
    register_batched_pings(harness, size)
    plan_pings(harness, exclusive_key="ping")
    harness.index()
    while harness.states("ping").count("ready") == 0:
        assert run_next_step(harness.context, harness.source.fetch_heads()) is not None
    register_batched_pings(harness, COUNT)
    admit_calls(harness.context, harness.source.fetch_heads())
    assert harness.states("ping") == ["ready"] + ["planned"] * (COUNT - 1)
    second = harness.intents("ping")[1]
    assert second.error_class == "exclusive_call_pending"
    assert second.error_text == "intent 1 for ping is sent first; only one is prepared at a time"


def test_call_of_an_unregistered_kind_is_not_sent(sqlite_harness: Harness):
    harness = sqlite_harness
    plan_pings(harness)
    harness.index()
    with pytest.raises(FatalError, match="call kind ping is not registered"):
        harness.repeat(run_next_step)


def test_duplicate_call_kind_name_is_rejected(sqlite_harness: Harness):
    register_batched_pings(sqlite_harness, 1)
    with pytest.raises(FatalError, match="call kind ping is already registered"):
        sqlite_harness.context.registry.register(Ping())

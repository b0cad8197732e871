"""A harness whose transactions wait, because the blocks are too expensive for them."""

from dataclasses import replace

from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import Attempt, Intent, NonceSlot
from oracle.txmgr.context import SendSettings
from tests.support.harness import Harness, run_next_step
from tests.support.sending.faults import Answer, Fault, Question
from tests.support.sending.proxy import SEND, Proxy

GWEI = 10**9
# Only blocks count for a fee bump, because blocks are one second apart here.
BY_BLOCKS = SendSettings(bump_seconds=0)


def mine_expensive_blocks(harness: Harness, base_fee: int, blocks: int = 1) -> None:
    """Mine blocks with this base fee, so that transactions with a lower fee stay in the pool."""
    for _ in range(blocks):
        harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(base_fee))
        harness.mine()


def send_unmined_push(harness: Harness, settings: SendSettings = BY_BLOCKS) -> None:
    """Send a push at a base fee of one gwei, and mine no block with it."""
    mine_expensive_blocks(harness, GWEI)
    harness.period()
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.context = replace(harness.context, send_settings=settings)
    harness.tick()
    assert harness.states() == ["live"], harness.intents()


def assign_push(harness: Harness) -> None:
    """Plan a push at a base fee of one gwei, and assign a nonce to it without signing it."""
    mine_expensive_blocks(harness, GWEI)
    harness.period()
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.index()
    harness.repeat(plan_push)
    run_until_assigned(harness)


def run_until_assigned(harness: Harness) -> None:
    """Run single steps until the newest call has a nonce, but no signature."""
    while harness.states()[-1] != "assigned":
        assert run_next_step(harness.context, harness.source.fetch_heads()), harness.intents()


def reject_known_transactions(*proxies: Proxy) -> None:
    """Let the endpoints reject transactions that they already know, as most nodes do.

    Anvil checks the base fee first.
    """
    known_raw_txs: set[str] = set()

    def answer(request: Question, response: Answer) -> Answer:
        raw = request["params"][0]
        if raw in known_raw_txs:
            return {
                **start_response(request),
                "error": {"code": -32000, "message": "already known"},
            }
        if "error" not in response:
            known_raw_txs.add(raw)
        return response

    for proxy in proxies:
        proxy.rule(SEND, Fault(answer=answer))


def start_response(request: Question) -> Answer:
    """Return the first fields of a response to a request."""
    return {"jsonrpc": "2.0", "id": request["id"]}


def list_slots(harness: Harness) -> list[NonceSlot]:
    """Return all nonce slots of the transmitter, by number."""
    with harness.store.read_transaction() as uow:
        intents = uow.outbox.intents.list_newest(1000)
        nonces = sorted({intent.nonce for intent in intents if intent.nonce is not None})
        stored_slots = [
            uow.outbox.slots.find_slot(harness.context.account, nonce) for nonce in nonces
        ]
        return [slot for slot in stored_slots if slot is not None]


def list_attempts(harness: Harness, nonce: int | None = None) -> list[Attempt]:
    """Return the attempts for a nonce, by default the lowest, oldest first."""
    nonce_slots = list_slots(harness)
    chosen = (
        nonce_slots[0]
        if nonce is None
        else next(slot for slot in nonce_slots if slot.nonce == nonce)
    )
    with harness.store.read_transaction() as uow:
        return uow.outbox.slots.list_attempts(chosen)


def list_attempt_fees(harness: Harness) -> list[tuple[int, int]]:
    """Return (max fee, tip) of every attempt for the lowest nonce."""
    return [
        (attempt.signed.max_fee_wei, attempt.signed.tip_wei) for attempt in list_attempts(harness)
    ]


def get_only_intent(harness: Harness) -> Intent:
    """Return the only intent."""
    (intent,) = harness.intents()
    return intent


def is_accepted_replacement(old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Return whether a pool accepts the replacement: both fees are at least 10 % higher."""
    return all(
        fresh > last and 10 * fresh >= 11 * last for last, fresh in zip(old, new, strict=True)
    )

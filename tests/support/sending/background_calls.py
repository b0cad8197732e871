"""Calls without an effect, which use nonces next to a push, and checks of sent transactions."""

from oracle.rpc.endpoints.rate_limiter import Backoff, RateLimiter
from oracle.store.outbox.records import NOOP, CallRequest, IntentState, PauseKind
from tests.support.harness import Harness, run_next_step
from tests.support.sending.in_flight import GWEI, mine_expensive_blocks


class Clock:
    """A clock whose seconds pass only when a test advances it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def set_backoff_clock(harness: Harness, clock: Clock) -> None:
    """Let endpoints return from a backoff by this clock, without randomness."""
    for endpoint in harness.context.sender_account.pool:
        endpoint.health.backoff = Backoff(clock, lambda: 1.0)
        endpoint.health.rate_limiter = RateLimiter(clock, lambda: 1.0)


def send_background_call(harness: Harness, name: str) -> str:
    """Send an empty call to the account itself with the next nonce; return the sent bytes."""
    account = harness.context.account
    request = CallRequest(account, account.address, NOOP, f"background:{name}", "0x")
    with harness.context.write_transaction() as uow:
        number = uow.outbox.intents.add(request, harness.context.stamp)
    harness.repeat(run_next_step)
    with harness.store.read_transaction() as uow:
        intent = uow.outbox.intents.get(number or 0)
        assert intent is not None
        assert (intent.state, intent.nonce is not None) == (IntentState.LIVE, True), intent
        slot = uow.outbox.slots.find_slot(account, intent.nonce or 0)
        assert slot is not None
        (attempt,) = uow.outbox.slots.list_attempts(slot)
    return "0x" + attempt.signed.raw.hex()


def lower_base_fee(harness: Harness) -> None:
    """Set a base fee at which `mine_expensive_blocks` keeps later calls in the pool."""
    mine_expensive_blocks(harness, GWEI)
    harness.index()
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))


def send_rival_push(harness: Harness, calldata: str) -> str:
    """Send the same push from another account with a fee that fits any block; return its hash."""
    chain = harness.testbed.chain
    call = {
        "from": chain.accounts[3],
        "to": harness.testbed.address,
        "data": calldata,
        "gas": hex(1_000_000),
        "maxFeePerGas": hex(1_000 * GWEI),
        "maxPriorityFeePerGas": hex(GWEI),
    }
    return str(chain.rpc("eth_sendTransaction", call))


def get_pause_kind(harness: Harness) -> PauseKind | None:
    """Return why nothing new is signed, or None."""
    with harness.store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(harness.context.account)
    return None if pause is None else pause.kind

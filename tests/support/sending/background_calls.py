"""Calls without an effect, which use nonces next to a push, and checks of sent transactions."""

from oracle.rpc.endpoints.rate_limiter import Backoff, RateLimiter
from oracle.store.outbox.records import NOOP, CallRequest, IntentState, PauseKind
from tests.support.office import Office, next_step
from tests.support.sending.in_flight import GWEI, mine_expensive_blocks


class Clock:
    """A clock whose seconds pass only when a test advances it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def set_backoff_clock(office: Office, clock: Clock) -> None:
    """Let endpoints return from a backoff by this clock, without randomness."""
    for endpoint in office.context.sender_account.pool:
        endpoint.health.backoff = Backoff(clock, lambda: 1.0)
        endpoint.health.rate_limiter = RateLimiter(clock, lambda: 1.0)


def send_background_call(office: Office, name: str) -> str:
    """Send an empty call to the account itself with the next nonce; return the sent bytes."""
    account = office.context.account
    request = CallRequest(account, account.address, NOOP, f"background:{name}", "0x")
    with office.context.write_transaction() as uow:
        number = uow.outbox.intents.add(request, office.context.stamp)
    office.repeat(next_step)
    with office.store.read_transaction() as uow:
        intent = uow.outbox.intents.get(number or 0)
        assert intent is not None
        assert (intent.state, intent.nonce is not None) == (IntentState.LIVE, True), intent
        slot = uow.outbox.slots.get_slot(account, intent.nonce or 0)
        assert slot is not None
        (attempt,) = uow.outbox.slots.list_attempts(slot)
    return "0x" + attempt.signed.raw.hex()


def lower_base_fee(office: Office) -> None:
    """Set a fee so low that `dear_blocks` leave later transactions in the pool."""
    mine_expensive_blocks(office, GWEI)
    office.index()
    office.premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))


def send_rival_push(office: Office, calldata: str) -> str:
    """Send the same push from another account with a fee that fits any block; return its hash."""
    chain = office.premises.chain
    call = {
        "from": chain.accounts[3],
        "to": office.premises.address,
        "data": calldata,
        "gas": hex(1_000_000),
        "maxFeePerGas": hex(1_000 * GWEI),
        "maxPriorityFeePerGas": hex(GWEI),
    }
    return str(chain.rpc("eth_sendTransaction", call))


def get_pause_kind(office: Office) -> PauseKind | None:
    """Return why nothing new is signed, or None."""
    with office.store.read_transaction() as uow:
        pause = uow.outbox.accounts.get_pause(office.context.account)
    return None if pause is None else pause.kind

"""What may be spent: per transaction, hour and day, and our ether.

Looked at again in the commit that reserves, bumps and no-ops included. Amounts in wei.
See docs/explanation/transactions.md#fees.
"""

from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    Account,
    Attempt,
    Intent,
    IntentKind,
    IntentState,
    NonceSlot,
    Paid,
    PauseKind,
)
from oracle.telemetry.txmgr_metrics import BUDGET_USED
from oracle.txmgr.client.l1_fees import operator_fee
from oracle.txmgr.client.receipts import Receipt
from oracle.txmgr.context import StepResult, TxContext

HOUR = 3_600
DAY = 86_400

# A class and a text, as an intent keeps them.
Why = tuple[str, str]
SPENT: Why = ("day_cap", "max_cost_per_day_wei or max_cost_per_hour_wei is spent or reserved")


def role(context: TxContext) -> str:
    """Return what the account is for, as metrics name it."""
    return "transmitter" if context.dispatch is None else "dispatcher"


def left(uow: UnitOfWork, context: TxContext) -> int:
    """Return what the limits of an hour and a day leave for new transactions."""
    return min(limit - spent for _, limit, spent in _spent(uow, context))


def room(uow: UnitOfWork, context: TxContext, slot: NonceSlot) -> int:
    """Return what a nonce without a receipt may cost: what it reserves already is included."""
    return tightest(uow, context, slot)[0]


def tightest(uow: UnitOfWork, context: TxContext, slot: NonceSlot) -> tuple[int, str]:
    """Return what a nonce without a receipt may cost in all, and which setting says so."""
    own = uow.outbox.slots.cost_of(slot)
    rooms = [(context.publisher.caps.cost_per_transaction, "limits.max_cost_per_transaction_wei")]
    for seconds, limit, spent in _spent(uow, context):
        name = "hour" if seconds == HOUR else "day"
        # What is open is a part of what is spent, however old it is.
        rooms.append((limit - spent + own, f"limits.max_cost_per_{name}_wei"))
    return min(rooms)


def kept_from(context: TxContext, intent: Intent) -> int:
    """Return what of the budgets is not for this call of the dispatcher, in wei.

    Whoever floods the queue does not keep the starts from being paid for.
    """
    caps = context.publisher.caps
    most = min(caps.cost_per_day, caps.cost_per_hour or caps.cost_per_day)
    return 0 if intent.wish.kind is IntentKind.START_TASK else most // 2


def why_not(uow: UnitOfWork, context: TxContext, cost: int) -> Why | None:
    """Tell why a new transaction may not cost so much now; None: it may."""
    most = context.publisher.caps.cost_per_transaction
    if cost > most:
        return "cost_cap", f"up to {cost} wei, above max_cost_per_transaction_wei {most}"
    for seconds, limit, spent in _spent(uow, context):
        name = "hour" if seconds == HOUR else "day"
        if spent + cost > limit:
            return (
                f"{name}_cap",
                f"{spent} wei of max_cost_per_{name}_wei are spent or reserved",
            )
    return None


def why_poor(
    uow: UnitOfWork, context: TxContext, balance: int, cost: int, own: NonceSlot | None = None
) -> Why | None:
    """Tell why our ether does not suffice; None: it does.

    Everything that is open may yet cost what is reserved for it. `own`: the nonce that the
    cost is for, where it has one already.
    """
    slots = uow.outbox.slots
    reserved = slots.reserved(context.account)
    if own is not None:
        reserved -= slots.cost_of(own)
    if balance >= reserved + cost:
        return None
    needed = f"needs {reserved + cost} wei; send ether to it"
    return "funds", f"{context.account.address} has {balance} wei and {needed}"


def paid(context: TxContext, slot: NonceSlot, won: Attempt, receipt: Receipt) -> Paid:
    """Return what a mined call is booked with.

    No more for gas than was signed: no block takes more. And no more in all than was reserved for
    the nonce, unless enough endpoints tell the same: one that shows a huge fee for data uses up
    no budget. Ask for it outside of a transaction.

    Raises:
        TransientError: no endpoint tells what the operator of a rollup takes.
    """
    price = min(receipt.gas_price, won.signed.max_fee_wei)
    beside = receipt.l1_fee
    beside += operator_fee(context.publisher.lines, context.sending.l1_fee, receipt.gas_used)
    if not receipt.is_priced:
        with context.store.reading() as uow:
            most = uow.outbox.slots.reserved_at_most(slot)
        beside = min(beside, max(0, most - receipt.gas_used * price))
    return Paid(price, beside)


def runway(uow: UnitOfWork, account: Account, balance: int, now: int) -> float | None:
    """Return for how many seconds the balance lasts at the pace of the last 24 hours.

    None: nothing was spent. `now` in unix seconds.
    """
    spent = uow.outbox.slots.committed_since(account, now - DAY)
    return balance * DAY / spent if spent else None


def show(uow: UnitOfWork, context: TxContext) -> None:
    """Let the metrics know how much of each limit is used."""
    for seconds, limit, spent in _spent(uow, context):
        window = "hour" if seconds == HOUR else "day"
        BUDGET_USED.labels(role(context), window).set(spent / limit)


def _spent(uow: UnitOfWork, context: TxContext) -> list[tuple[int, int, int]]:
    """Return (seconds, limit, what is spent or reserved), for every window with a limit.

    What lies more than a day ahead is of a clock that was wrong: it would count for ever. What
    lies less far ahead counts, for it was paid not long ago, whatever a clock said.
    """
    caps, now, slots = context.publisher.caps, context.stamp.at, uow.outbox.slots
    windows = ((HOUR, caps.cost_per_hour), (DAY, caps.cost_per_day))
    return [
        (seconds, limit, slots.committed_since(context.account, now - seconds, now + DAY))
        for seconds, limit in windows
        if limit is not None
    ]


def resume_funded(context: TxContext) -> StepResult | None:
    """End a pause for funds when the balance pays what is open and what is ready next.

    Raises:
        TransientError: no endpoint answers.
    """
    with context.store.reading() as uow:
        pause = uow.outbox.senders.paused_because(context.account)
    if pause is None or pause.kind is not PauseKind.FUNDS:
        return None
    balance = context.balance()
    with context.writing() as uow:
        ready = uow.outbox.intents.in_states(context.account, [IntentState.READY])
        cost = (ready[0].max_cost_wei or 0) if ready else 0
        if why_poor(uow, context, balance, cost) is not None:
            return None
        uow.outbox.senders.resume(context.account, context.stamp)
    return StepResult("resumed", None, f"{context.account.address} has {balance} wei")

"""What may be spent: per transaction, hour and day, and our ether.

Looked at again in the commit that reserves, bumps and no-ops included. Amounts in wei.
See docs/explanation/transactions.md#fees.
"""

from dataclasses import dataclass

from oracle.rpc.fanout import EndpointCaller, number_of, understood
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    Account,
    Attempt,
    Intent,
    IntentState,
    NonceSlot,
    Paid,
    PauseKind,
)
from oracle.telemetry.txmgr_metrics import BUDGET_USED
from oracle.txmgr.client.fee_quote import gas_limit, least_gas
from oracle.txmgr.client.l1_fees import l1_fee, operator_fee
from oracle.txmgr.client.receipts import Receipt
from oracle.txmgr.context import StepResult, TxContext

HOUR = 3_600
DAY = 86_400

# A class and a text, as an intent keeps them.
Why = tuple[str, str]


@dataclass(slots=True)
class Budget:
    """What new transactions may cost in one turn; counted down, call by call.

    `balance`: our ether; `reserved`: what is open may yet cost so much of it. `windows`: of an
    hour and a day their name, limit, and what is spent or reserved.
    """

    context: TxContext
    balance: int
    reserved: int
    windows: list[tuple[str, int, int]]

    @classmethod
    def of(cls, uow: UnitOfWork, context: TxContext, balance: int) -> "Budget":
        """Look how much of each limit is used."""
        windows = [(_name(seconds), most, spent) for seconds, most, spent in _spent(uow, context)]
        return cls(context, balance, uow.outbox.slots.reserved(context.account), windows)

    @property
    def left(self) -> int:
        """What the limits of an hour and a day still leave."""
        return min(limit - spent for _, limit, spent in self.windows)

    def obstacle(self, intent: Intent, cost: int) -> Why | None:
        """Tell why a call may not cost so much now; None: it may."""
        most = self.context.publisher.caps.cost_per_transaction
        if cost > most:
            return "cost_cap", f"up to {cost} wei, above max_cost_per_transaction_wei {most}"
        kept = self._kept_from(intent)
        for name, limit, spent in self.windows:
            if spent + cost + kept > limit:
                beside = f", and {kept} are kept for others" if kept else ""
                text = f"{spent} wei of max_cost_per_{name}_wei are spent or reserved{beside}"
                return f"{name}_cap", text
        if self.balance < self.reserved + cost:
            return _poor(self.context, self.balance, self.reserved + cost)
        return None

    def take(self, cost: int) -> None:
        """Let a call have so much of it."""
        self.reserved += cost
        self.windows = [(name, limit, spent + cost) for name, limit, spent in self.windows]

    def _kept_from(self, intent: Intent) -> int:
        """Return what is not for a call of this kind, whoever floods us with them."""
        caps = self.context.publisher.caps
        most = min(caps.cost_per_day, caps.cost_per_hour or caps.cost_per_day)
        return most * self.context.registry.kind_of(intent).reserve_share // 100


def nonce_budget(uow: UnitOfWork, context: TxContext, slot: NonceSlot) -> int:
    """Return what a nonce without a receipt may cost: what it reserves already is included."""
    return tightest(uow, context, slot)[0]


def tightest(uow: UnitOfWork, context: TxContext, slot: NonceSlot) -> tuple[int, str]:
    """Return what a nonce without a receipt may cost in all, and which setting says so."""
    own = uow.outbox.slots.cost_of(slot)
    bounds = [(context.publisher.caps.cost_per_transaction, "limits.max_cost_per_transaction_wei")]
    for seconds, limit, spent in _spent(uow, context):
        # What is open is a part of what is spent, however old it is.
        bounds.append((limit - spent + own, f"limits.max_cost_per_{_name(seconds)}_wei"))
    return min(bounds)


def balance_obstacle(
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
    return None if balance >= reserved + cost else _poor(context, balance, reserved + cost)


def _poor(context: TxContext, balance: int, needed: int) -> Why:
    return (
        "funds",
        f"{context.account.address} has {balance} wei and needs {needed} wei; send ether to it",
    )


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
        BUDGET_USED.labels(context.role, _name(seconds)).set(spent / limit)


def _name(seconds: int) -> str:
    return "hour" if seconds == HOUR else "day"


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
        pause = uow.outbox.accounts.paused_because(context.account)
    if pause is None or pause.kind is not PauseKind.FUNDS:
        return None
    balance = context.balance()
    with context.writing() as uow:
        ready = uow.outbox.intents.in_states(context.account, [IntentState.READY])
        cost = (ready[0].max_cost_wei or 0) if ready else 0
        if balance_obstacle(uow, context, balance, cost) is not None:
            return None
        uow.outbox.accounts.resume(context.account, context.stamp)
    return StepResult("resumed", None, f"{context.account.address} has {balance} wei")


def limit_for(gas: int, calldata: str, most: int) -> int | None:
    """Return the limit to set for an estimate; None: a block has only `most` gas, and less."""
    least = max(gas, least_gas(calldata))
    return min(max(gas_limit(gas), least), most) if least <= most else None


def gas_of_block(context: TxContext) -> int:
    """Return how much gas the newest block may hold, by the endpoint that tells the most.

    One that tells nonsense keeps no call waiting; too much is refused by a pool.

    Raises:
        TransientError: no endpoint answers.
    """

    def read(endpoint: EndpointCaller) -> int:
        block = endpoint.ask("eth_getBlockByNumber", "latest", False)
        with understood("the newest block"):
            return number_of(block["gasLimit"])

    return max(gas for _, gas in context.publisher.lines.each(read))


def l1_cost(context: TxContext, calldata: str, gas: int) -> int:
    """Return what a rollup takes for a call of `gas` beside it, in wei; elsewhere 0."""
    return l1_fee(context.publisher.lines, context.sending.l1_fee, calldata, gas)

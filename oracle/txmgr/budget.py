"""Spending limits: per transaction, per hour and per day, and the account's balance.

The limits are checked again in the commit that reserves the cost, fee bumps and no-ops included.
Amounts are in wei. See docs/explanation/transactions.md#fees.
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

# An error class and a text, as an intent stores them.
Why = tuple[str, str]


@dataclass(slots=True)
class Budget:
    """The amount that new transactions may cost in one step; each accepted call reduces it.

    `balance` is the account's balance; `reserved` is the maximum cost of its open transactions.
    `windows` holds the name, the limit and the amount spent or reserved, for the hour and the day.
    """

    context: TxContext
    balance: int
    reserved: int
    windows: list[tuple[str, int, int]]

    @classmethod
    def of(cls, uow: UnitOfWork, context: TxContext, balance: int) -> "Budget":
        """Load how much of each limit is used."""
        windows = [(_name(seconds), most, spent) for seconds, most, spent in _spent(uow, context)]
        return cls(context, balance, uow.outbox.slots.reserved(context.account), windows)

    @property
    def left(self) -> int:
        """The amount that the hourly and daily limits still allow."""
        return min(limit - spent for _, limit, spent in self.windows)

    def obstacle(self, intent: Intent, cost: int) -> Why | None:
        """Return why a call may not cost this much now, or None if it may."""
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
        """Reserve the cost of a call."""
        self.reserved += cost
        self.windows = [(name, limit, spent + cost) for name, limit, spent in self.windows]

    def _kept_from(self, intent: Intent) -> int:
        """Return what is not for a call of this kind, whoever floods us with them."""
        caps = self.context.publisher.caps
        most = min(caps.cost_per_day, caps.cost_per_hour or caps.cost_per_day)
        return most * self.context.registry.kind_of(intent).reserve_share // 100


def nonce_budget(uow: UnitOfWork, context: TxContext, slot: NonceSlot) -> int:
    """Return the maximum cost of a nonce without a receipt, its present reservation included."""
    return tightest(uow, context, slot)[0]


def tightest(uow: UnitOfWork, context: TxContext, slot: NonceSlot) -> tuple[int, str]:
    """Return the maximum cost of a nonce without a receipt, and the setting that limits it."""
    own = uow.outbox.slots.cost_of(slot)
    bounds = [(context.publisher.caps.cost_per_transaction, "limits.max_cost_per_transaction_wei")]
    for seconds, limit, spent in _spent(uow, context):
        # The spent amount includes open transactions, however old they are.
        bounds.append((limit - spent + own, f"limits.max_cost_per_{_name(seconds)}_wei"))
    return min(bounds)


def balance_obstacle(
    uow: UnitOfWork, context: TxContext, balance: int, cost: int, own: NonceSlot | None = None
) -> Why | None:
    """Return why the balance does not suffice, or None if it does.

    The reserved cost of every open transaction counts in full. `own` is the slot that the cost is
    for, if the call already has a nonce.
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
    """Return the cost that is booked for a mined call.

    The gas price is at most the signed one, because no block charges more. The total is at most
    the amount reserved for the nonce unless enough endpoints report the same prices, so that one
    endpoint with a huge data fee cannot use up a budget. Call it outside of a database
    transaction.

    Raises:
        TransientError: no endpoint returns the operator fee of a rollup.
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
    """Return for how many seconds the balance lasts at the spending rate of the last 24 hours.

    The result is None if nothing was spent. `now` is in unix seconds.
    """
    spent = uow.outbox.slots.committed_since(account, now - DAY)
    return balance * DAY / spent if spent else None


def show(uow: UnitOfWork, context: TxContext) -> None:
    """Set the metrics of how much of each limit is used."""
    for seconds, limit, spent in _spent(uow, context):
        BUDGET_USED.labels(context.role, _name(seconds)).set(spent / limit)


def _name(seconds: int) -> str:
    return "hour" if seconds == HOUR else "day"


def _spent(uow: UnitOfWork, context: TxContext) -> list[tuple[int, int, int]]:
    """Return (seconds, limit, amount spent or reserved) for every window that has a limit.

    Entries more than a day in the future come from a wrong clock and are ignored, because they
    would count for ever. Entries less far in the future count: they were paid recently, whatever a
    clock showed.
    """
    caps, now, slots = context.publisher.caps, context.stamp.at, uow.outbox.slots
    windows = ((HOUR, caps.cost_per_hour), (DAY, caps.cost_per_day))
    return [
        (seconds, limit, slots.committed_since(context.account, now - seconds, now + DAY))
        for seconds, limit in windows
        if limit is not None
    ]


def resume_funded(context: TxContext) -> StepResult | None:
    """End a pause for lack of funds once the balance covers open transactions and the next call.

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
    """Return the gas limit for an estimate, or None if a block has less gas than the call needs."""
    least = max(gas, least_gas(calldata))
    return min(max(gas_limit(gas), least), most) if least <= most else None


def gas_of_block(context: TxContext) -> int:
    """Return the gas limit of the newest block, the highest that any endpoint reports.

    An endpoint that reports too little delays no call; a pool rejects a gas limit that is too
    high.

    Raises:
        TransientError: no endpoint answers.
    """

    def read(endpoint: EndpointCaller) -> int:
        block = endpoint.ask("eth_getBlockByNumber", "latest", False)
        with understood("the newest block"):
            return number_of(block["gasLimit"])

    return max(gas for _, gas in context.publisher.lines.each(read))


def l1_cost(context: TxContext, calldata: str, gas: int) -> int:
    """Return what a rollup charges for a call of `gas` in addition to its gas, in wei.

    Elsewhere 0.
    """
    return l1_fee(context.publisher.lines, context.sending.l1_fee, calldata, gas)

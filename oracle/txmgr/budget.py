"""Limits spending by transaction, hour and day, and by the account's balance.

The limits are checked again in the commit that reserves the cost of a call, a fee bump or a no-op.
Amounts are in wei. See docs/explanation/transactions.md#fees.
"""

from dataclasses import dataclass

from oracle.rpc.fanout import EndpointCaller, expect_response_format, parse_quantity
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    Account,
    Attempt,
    CallCost,
    Intent,
    IntentState,
    NonceSlot,
    PauseKind,
)
from oracle.telemetry.txmgr_metrics import BUDGET_USED
from oracle.txmgr.client.fee_quote import add_gas_margin, compute_floor_gas
from oracle.txmgr.client.l1_fees import fetch_l1_fee, fetch_operator_fee
from oracle.txmgr.client.receipts import Receipt
from oracle.txmgr.context import AccountContext, StepResult

HOUR_SECONDS = 3_600
DAY_SECONDS = 86_400

# (Error class, text), as they are stored with an intent.
Reason = tuple[str, str]


@dataclass(slots=True)
class Budget:
    """The amount that new transactions may still cost in this step.

    Each accepted call reduces the amount. `balance` is the account's balance, and `reserved` the
    maximum cost of its open transactions. `windows` contains, for the hour and for the day, the
    name, the limit, and the amount that is spent or reserved. All amounts are in wei.
    """

    context: AccountContext
    balance: int
    reserved: int
    windows: list[tuple[str, int, int]]

    @classmethod
    def from_outbox(cls, uow: UnitOfWork, context: AccountContext, balance: int) -> "Budget":
        """Load from the outbox how much of each limit is used."""
        windows = [
            (_format_window_name(seconds), limit, spent_wei)
            for seconds, limit, spent_wei in _load_spending_windows(uow, context)
        ]
        return cls(context, balance, uow.outbox.slots.sum_reserved_wei(context.account), windows)

    @property
    def remaining(self) -> int:
        """The amount that the hourly and daily limits still allow."""
        return min(limit - spent_wei for _, limit, spent_wei in self.windows)

    def find_spending_obstacle(self, intent: Intent, cost: int) -> Reason | None:
        """Return why a call must not cost `cost` wei now, or None if it may."""
        max_cost = self.context.sender_account.caps.cost_per_transaction
        if cost > max_cost:
            return "cost_cap", f"up to {cost} wei, above max_cost_per_transaction_wei {max_cost}"
        reserved_for_others = self._compute_reserve_for_other_kinds(intent)
        for name, limit, spent_wei in self.windows:
            if spent_wei + cost + reserved_for_others > limit:
                reserve_note = (
                    f", and {reserved_for_others} are reserved for other kinds"
                    if reserved_for_others
                    else ""
                )
                spent_text = f"{spent_wei} wei of max_cost_per_{name}_wei are spent or reserved"
                return f"{name}_cap", f"{spent_text}{reserve_note}"
        if self.balance < self.reserved + cost:
            return _build_insufficient_funds_reason(
                self.context, self.balance, self.reserved + cost
            )
        return None

    def reserve_cost(self, cost: int) -> None:
        """Reserve the cost of a call."""
        self.reserved += cost
        self.windows = [(name, limit, spent_wei + cost) for name, limit, spent_wei in self.windows]

    def _compute_reserve_for_other_kinds(self, intent: Intent) -> int:
        """Compute the part of the limits that this kind of call must leave to other kinds."""
        caps = self.context.sender_account.caps
        smallest_limit = min(caps.cost_per_day, caps.cost_per_hour or caps.cost_per_day)
        return smallest_limit * self.context.registry.get_kind(intent).reserve_share // 100


def compute_nonce_budget(uow: UnitOfWork, context: AccountContext, slot: NonceSlot) -> int:
    """Return the maximum cost of a nonce that has no receipt, in wei.

    The amount that is already reserved for the nonce is included.
    """
    return find_tightest_limit(uow, context, slot)[0]


def find_tightest_limit(
    uow: UnitOfWork, context: AccountContext, slot: NonceSlot
) -> tuple[int, str]:
    """Return the maximum cost of a nonce without a receipt, and the setting that limits it.

    The cost is in wei.
    """
    slot_cost = uow.outbox.slots.compute_cost_wei(slot)
    limits_with_settings = [
        (context.sender_account.caps.cost_per_transaction, "limits.max_cost_per_transaction_wei")
    ]
    for seconds, limit, spent_wei in _load_spending_windows(uow, context):
        # The amount spent includes the reserved cost of open transactions, no matter how old they
        # are.
        limits_with_settings.append(
            (
                limit - spent_wei + slot_cost,
                f"limits.max_cost_per_{_format_window_name(seconds)}_wei",
            )
        )
    return min(limits_with_settings)


def find_balance_obstacle(
    uow: UnitOfWork,
    context: AccountContext,
    balance: int,
    cost: int,
    own_slot: NonceSlot | None = None,
) -> Reason | None:
    """Return why the balance is too low, or None if it suffices.

    The cost reserved for every open transaction is subtracted from the balance. `own_slot` is the
    nonce slot of the call if the call already has a nonce; its reservation is not subtracted.
    """
    slots = uow.outbox.slots
    reserved_wei = slots.sum_reserved_wei(context.account)
    if own_slot is not None:
        reserved_wei -= slots.compute_cost_wei(own_slot)
    if balance >= reserved_wei + cost:
        return None
    return _build_insufficient_funds_reason(context, balance, reserved_wei + cost)


def _build_insufficient_funds_reason(context: AccountContext, balance: int, needed: int) -> Reason:
    return (
        "funds",
        f"{context.account.address} has {balance} wei and needs {needed} wei; send ether to it",
    )


def compute_paid_cost(
    context: AccountContext, slot: NonceSlot, mined_attempt: Attempt, receipt: Receipt
) -> CallCost:
    """Compute the cost to record for a mined call.

    The gas price is limited to the signed maximum, because no block charges more. Unless enough
    endpoints report the same prices, the total is limited to the amount reserved for the nonce.
    Otherwise one endpoint that reports a huge data fee could use up a budget. Do not call this
    function inside a database transaction.

    Raises:
        TransientError: no endpoint returns the operator fee of a rollup.
    """
    gas_price = min(receipt.gas_price, mined_attempt.signed.max_fee_wei)
    l1_cost_wei = receipt.l1_fee
    l1_cost_wei += fetch_operator_fee(
        context.sender_account.pool_view, context.send_settings.l1_fee, receipt.gas_used
    )
    if not receipt.has_agreed_price:
        with context.store.read_transaction() as uow:
            max_reserved_wei = uow.outbox.slots.compute_max_reserved_wei(slot)
        l1_cost_wei = min(l1_cost_wei, max(0, max_reserved_wei - receipt.gas_used * gas_price))
    return CallCost(gas_price, l1_cost_wei)


def compute_runway_seconds(
    uow: UnitOfWork, account: Account, balance: int, now: int
) -> float | None:
    """Return how many seconds the balance lasts at the spending rate of the last 24 hours.

    The result is None if nothing was spent. `now` is in unix seconds.
    """
    spent_wei = uow.outbox.slots.sum_committed_wei(account, now - DAY_SECONDS)
    return balance * DAY_SECONDS / spent_wei if spent_wei else None


def update_budget_metrics(uow: UnitOfWork, context: AccountContext) -> None:
    """Set the metrics that show how much of each limit is used."""
    for seconds, limit, spent_wei in _load_spending_windows(uow, context):
        BUDGET_USED.labels(context.role, _format_window_name(seconds)).set(spent_wei / limit)


def _format_window_name(seconds: int) -> str:
    return "hour" if seconds == HOUR_SECONDS else "day"


def _load_spending_windows(uow: UnitOfWork, context: AccountContext) -> list[tuple[int, int, int]]:
    """Load the limit and the spent amount of each limited time span.

    Each value is (seconds, limit, amount spent or reserved). Entries dated more than a day in the
    future come from a wrong clock. They are ignored, because they would count for years. Entries
    dated less than a day in the future do count, because they were paid recently even if the clock
    was wrong.
    """
    caps, now, slots = context.sender_account.caps, context.stamp.at, uow.outbox.slots
    spending_windows = ((HOUR_SECONDS, caps.cost_per_hour), (DAY_SECONDS, caps.cost_per_day))
    return [
        (
            seconds,
            limit,
            slots.sum_committed_wei(context.account, now - seconds, now + DAY_SECONDS),
        )
        for seconds, limit in spending_windows
        if limit is not None
    ]


def resume_account_if_funded(context: AccountContext) -> StepResult | None:
    """End a pause for lack of funds when the balance suffices again.

    The balance must cover open transactions and a new call.

    Raises:
        TransientError: no endpoint answers.
    """
    with context.store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(context.account)
    if pause is None or pause.kind is not PauseKind.FUNDS:
        return None
    balance = context.fetch_balance()
    with context.write_transaction() as uow:
        ready_intents = uow.outbox.intents.list_in_states(context.account, [IntentState.READY])
        ready_cost_wei = (ready_intents[0].max_cost_wei or 0) if ready_intents else 0
        if find_balance_obstacle(uow, context, balance, ready_cost_wei) is not None:
            return None
        uow.outbox.accounts.resume(context.account, context.stamp)
    return StepResult("resumed", None, f"{context.account.address} has {balance} wei")


def compute_gas_limit(gas: int, calldata: str, block_gas_limit: int) -> int | None:
    """Return the gas limit for a gas estimate, or None if it does not fit into a block."""
    min_gas = max(gas, compute_floor_gas(calldata))
    if min_gas <= block_gas_limit:
        return min(max(add_gas_margin(gas), min_gas), block_gas_limit)
    return None


def fetch_block_gas_limit(context: AccountContext) -> int:
    """Fetch the gas limit of the newest block from every endpoint, and return the highest.

    The highest limit is used, so that no endpoint can delay calls by reporting a limit that is too
    low. A limit that is too high does no harm, because a pool then rejects the call.

    Raises:
        TransientError: no endpoint answers.
    """

    def read_gas_limit(endpoint: EndpointCaller) -> int:
        block = endpoint.request("eth_getBlockByNumber", "latest", False)
        with expect_response_format("the newest block"):
            return parse_quantity(block["gasLimit"])

    return max(gas for _, gas in context.sender_account.pool_view.read_from_each(read_gas_limit))


def fetch_l1_cost(context: AccountContext, calldata: str, gas: int) -> int:
    """Return the extra fee of a rollup for a call in wei, or 0 on other chains."""
    return fetch_l1_fee(
        context.sender_account.pool_view, context.send_settings.l1_fee, calldata, gas
    )

"""Computes a transaction's fees from the fee market within caps, and raises them.

The fee market is requested from every endpoint, so that no single endpoint determines the fees.
Amounts are in wei, and fees in wei per gas. See docs/explanation/transactions.md#fees.
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from oracle.errors import TransientError
from oracle.rpc.client import Json
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.rpc_errors import CallRefusedError
from oracle.signing.signer import Fees
from oracle.telemetry.txmgr_metrics import BASE_FEE, FEE_CAP, TIP

# An estimate is raised by 20 % and by 10,000 gas, because the state may change before the
# transaction is included.
_GAS_MARGIN_PERCENT = 120
_GAS_MARGIN = 10_000
# Transaction pools accept a replacement only if both of its fees are at least 10 % higher. Some
# clients used to require 12.5 %. `raise_fee` therefore adds an eighth.
_RAISE_PERCENT = 10
# Gas of a plain transfer, and minimum price of calldata per token (EIP-2028, EIP-7623). A nonzero
# byte has four tokens.
PLAIN_GAS = 21_000
_FLOOR_PER_TOKEN = 10
_TOKENS_PER_BYTE = 4
# Forms in which go-ethereum and Nethermind state the required tip or base fee in an error message.
_REQUIRED_TIP = re.compile(r"minimum needed:? (\d+)|too low \d+ < (\d+)", re.IGNORECASE)
_REQUIRED_FEE = re.compile(r"base ?fee:? (\d+)|queued:? (\d+)", re.IGNORECASE)
# Number of blocks that the fee history covers, and percentile of their tips that is used.
_HISTORY_BLOCKS, _TIP_PERCENTILE = 10, 50
# The limit is one ether per gas. Broken endpoints report even more.
_MAX_PLAUSIBLE_FEE = 10**18
_NO_FEES = Fees(0, 0)


@dataclass(frozen=True, slots=True)
class SendLimits:
    """Limits in wei that no transaction exceeds.

    If `cost_per_hour` is None, there is only a daily limit. `min_tip` is the lowest tip that a
    transaction offers.
    """

    fee_per_gas: int
    cost_per_transaction: int
    cost_per_day: int
    cost_per_hour: int | None = None
    min_tip: int = 0


@dataclass(frozen=True, slots=True)
class FeeMarket:
    """The base fee and the tip that the chain requires now."""

    base_fee: int
    tip: int


def build_fee_market(base_fee: int, rewards: Sequence[int], min_tip: int = 0) -> FeeMarket:
    """Build a fee market from the base fee and the median tips of the newest blocks.

    `min_tip` is the lowest tip that is offered.
    """
    median_tip = int(statistics.median(rewards)) if rewards else 0
    return FeeMarket(base_fee, max(median_tip, min_tip))


def combine_fee_markets(markets: Sequence[FeeMarket], cap: int) -> FeeMarket | None:
    """Combine the fee markets of several endpoints, or return None if there are none.

    The highest base fee within the cap is used. This is the safest choice, because a transaction
    pays the base fee of its block, even if it offers more. The lowest tip is used, because the
    offered tip is paid in full, and no single endpoint must make the account overpay.
    """
    if not markets:
        return None
    base_fees = [fee_market.base_fee for fee_market in markets]
    base_fee = max((fee for fee in base_fees if fee <= cap), default=min(base_fees))
    return FeeMarket(base_fee, min(fee_market.tip for fee_market in markets))


def compute_fees(fee_market: FeeMarket, cap: int) -> Fees | None:
    """Compute fees for the market, or return None if the cap is below the base fee.

    The maximum fee is twice the base fee plus the tip, within the cap.
    """
    if fee_market.base_fee > cap:
        return None
    max_fee = min(2 * fee_market.base_fee + fee_market.tip, cap)
    return Fees(max_fee, min(fee_market.tip, max_fee))


def raise_fee(fee: int) -> int:
    """Raise a fee by an eighth, but by at least one wei."""
    return max(-(-9 * fee // 8), fee + 1)


def raise_both_fees(last_fees: Fees, cap: int) -> Fees | None:
    """Raise both fees by an eighth without regard to the market.

    The result is None if the fees would exceed the cap. A smaller raise up to the cap is not
    tried, because it would make any later raise impossible.
    """
    fees = Fees(raise_fee(last_fees.max_fee), raise_fee(last_fees.tip))
    return fees if fees.tip <= fees.max_fee <= cap else None


def bump_fees(
    last_fees: Fees, fee_market: FeeMarket, cap: int, pool_min_fees: Fees = _NO_FEES
) -> Fees | None:
    """Compute fees within the cap that replace `last_fees` in every pool.

    The result is None if the cap is too low for such fees. The result is also None while the cap
    is below the market. Offering the whole cap then would make a later raise impossible, when the
    market has fallen below the cap. `pool_min_fees` contains the fees that a pool required in an
    error message, or zeros.
    """
    if fee_market.base_fee + fee_market.tip > cap:
        return None
    min_tip = max(raise_fee(last_fees.tip), fee_market.tip, pool_min_fees.tip)
    # If the cap permits it, pay up to twice the base fee, because the base fee may rise before the
    # transaction is included.
    required_fee = fee_market.base_fee + max(fee_market.tip, pool_min_fees.tip)
    market_fee = (
        required_fee
        if required_fee + fee_market.base_fee > cap
        else required_fee + fee_market.base_fee
    )
    max_fee = min(max(raise_fee(last_fees.max_fee), market_fee, pool_min_fees.max_fee), cap)
    tip = min(min_tip, max_fee)
    is_raise_sufficient = all(
        new > old and 100 * new >= (100 + _RAISE_PERCENT) * old
        for new, old in ((max_fee, last_fees.max_fee), (tip, last_fees.tip))
    )
    return Fees(max_fee, tip) if is_raise_sufficient else None


def add_gas_margin(estimate: int) -> int:
    """Return the gas limit for a gas estimate, including a margin."""
    return estimate * _GAS_MARGIN_PERCENT // 100 + _GAS_MARGIN


def compute_floor_gas(calldata: str) -> int:
    """Compute the minimum gas that a call with this calldata needs.

    It satisfies both pricing rules. Some endpoints return estimates below the minimum of EIP-7623,
    and some pools refuse transactions with less gas.
    """
    calldata_bytes = bytes.fromhex(calldata.removeprefix("0x"))
    zero_count = calldata_bytes.count(0)
    token_count = zero_count + _TOKENS_PER_BYTE * (len(calldata_bytes) - zero_count)
    return PLAIN_GAS + _FLOOR_PER_TOKEN * token_count


def parse_required_fees(text: str) -> Fees:
    """Parse the fees that a pool requires in an error message.

    A fee without a number is 0.
    """
    return Fees(_parse_fee_amount(_REQUIRED_FEE, text), _parse_fee_amount(_REQUIRED_TIP, text))


def _parse_fee_amount(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    if match is None:
        return 0
    return int(next(group for group in match.groups() if group is not None))


def fetch_fee_market(pool_view: PoolView, caps: SendLimits) -> FeeMarket:
    """Fetch the base fee and the tip for the next block.

    Raises:
        TransientError: no endpoint returns plausible fees.
    """
    fee_markets: list[FeeMarket] = []
    last_error: TransientError | None = None
    for endpoint in pool_view.callers:
        try:
            fee_markets.append(_fetch_fee_market(endpoint, caps.min_tip))
        except TransientError as error:
            last_error = error
    combined_market = combine_fee_markets(fee_markets, caps.fee_per_gas)
    if combined_market is None:
        raise last_error or TransientError("no endpoint is configured")
    BASE_FEE.set(combined_market.base_fee)
    TIP.set(combined_market.tip)
    FEE_CAP.set(caps.fee_per_gas)
    return combined_market


def _fetch_fee_market(endpoint: EndpointCaller, min_tip: int) -> FeeMarket:
    try:
        fee_history = endpoint.request(
            "eth_feeHistory", hex(_HISTORY_BLOCKS), "latest", [_TIP_PERCENTILE]
        )
    except CallRefusedError:
        # An endpoint without eth_feeHistory still returns the newest block with its base fee.
        block = endpoint.request("eth_getBlockByNumber", "latest", False)
        fee_history = {"baseFeePerGas": [_get_response_field(block, "baseFeePerGas")]}
    try:
        base_fees = [
            int(fee, 16) for fee in _get_response_field(fee_history, "baseFeePerGas") or []
        ]
        rewards = [
            int(tips[0], 16) for tips in _get_response_field(fee_history, "reward") or [] if tips
        ]
    except (TypeError, ValueError, IndexError, KeyError):
        raise TransientError(f"{endpoint.name}: malformed eth_feeHistory response") from None
    if not base_fees or not all(
        0 <= fee_wei < _MAX_PLAUSIBLE_FEE for fee_wei in [base_fees[-1], *rewards]
    ):
        raise TransientError(f"{endpoint.name}: the base fee or the tip is missing or implausible")
    return build_fee_market(base_fees[-1], rewards, min_tip)


def _get_response_field(answer: Json, name: str) -> Json:
    return answer.get(name) if isinstance(answer, dict) else None

"""Fetches the fee market from every endpoint; no single endpoint decides the fees."""

from oracle.errors import TransientError
from oracle.rpc.client import Json
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.rpc_errors import CallRefusedError
from oracle.telemetry.txmgr_metrics import BASE_FEE, FEE_CAP, TIP
from oracle.txmgr.client.fee_quote import FeeMarket, SendLimits, build_fee_market, combine_markets

# The number of blocks of the fee history, and the percentile of their tips.
_HISTORY_BLOCKS, _TIP_PERCENTILE = 10, 50
# One ether per gas: no chain charges it, but broken endpoints report it.
_MAX_PLAUSIBLE_FEE = 10**18


def ask_market(pool_view: PoolView, caps: SendLimits) -> FeeMarket:
    """Return the base fee and the tip of the next block.

    Raises:
        TransientError: no endpoint returns plausible fees.
    """
    markets: list[FeeMarket] = []
    last_error: TransientError | None = None
    for endpoint in pool_view.callers:
        try:
            markets.append(_request_fees(endpoint, caps.min_tip))
        except TransientError as error:
            last_error = error
    combined = combine_markets(markets, caps.fee_per_gas)
    if combined is None:
        raise last_error or TransientError("no endpoint is configured")
    BASE_FEE.set(combined.base_fee)
    TIP.set(combined.tip)
    FEE_CAP.set(caps.fee_per_gas)
    return combined


def _request_fees(endpoint: EndpointCaller, min_tip: int) -> FeeMarket:
    try:
        history = endpoint.request(
            "eth_feeHistory", hex(_HISTORY_BLOCKS), "latest", [_TIP_PERCENTILE]
        )
    except CallRefusedError:
        # Endpoints without eth_feeHistory at least return the newest block with its base fee.
        block = endpoint.request("eth_getBlockByNumber", "latest", False)
        history = {"baseFeePerGas": [_get_field(block, "baseFeePerGas")]}
    try:
        fees = [int(fee, 16) for fee in _get_field(history, "baseFeePerGas") or []]
        rewards = [int(tips[0], 16) for tips in _get_field(history, "reward") or [] if tips]
    except (TypeError, ValueError, IndexError, KeyError):
        raise TransientError(f"{endpoint.name}: malformed eth_feeHistory response") from None
    if not fees or not all(0 <= fee_wei < _MAX_PLAUSIBLE_FEE for fee_wei in [fees[-1], *rewards]):
        raise TransientError(f"{endpoint.name}: missing or implausible base fee or tip")
    return build_fee_market(fees[-1], rewards, min_tip)


def _get_field(answer: Json, name: str) -> Json:
    return answer.get(name) if isinstance(answer, dict) else None

"""Fetches the fee market from every endpoint, and trusts no single one."""

from oracle.errors import TransientError
from oracle.rpc.client import Json
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.rpc_errors import CallRefusedError
from oracle.telemetry.txmgr_metrics import BASE_FEE, FEE_CAP, TIP
from oracle.txmgr.client.fee_quote import Market, SendLimits, market, most_likely

# The number of blocks of the fee history, and the percentile of their tips.
_FEE_BLOCKS, _MEDIAN = 10, 50
# One ether per gas: no chain charges it, but broken endpoints report it.
_ABSURD = 10**18


def ask_market(lines: PoolView, caps: SendLimits) -> Market:
    """Return the base fee and the tip of the next block.

    Raises:
        TransientError: no endpoint returns plausible fees.
    """
    told: list[Market] = []
    silence: TransientError | None = None
    for line in lines.all:
        try:
            told.append(_request_fees(line, caps.least_tip))
        except TransientError as error:
            silence = error
    found = most_likely(told, caps.fee_per_gas)
    if found is None:
        raise silence or TransientError("no endpoint is configured")
    BASE_FEE.set(found.base_fee)
    TIP.set(found.tip)
    FEE_CAP.set(caps.fee_per_gas)
    return found


def _request_fees(line: EndpointCaller, least_tip: int) -> Market:
    try:
        history = line.ask("eth_feeHistory", hex(_FEE_BLOCKS), "latest", [_MEDIAN])
    except CallRefusedError:
        # Endpoints without eth_feeHistory at least return the newest block with its base fee.
        block = line.ask("eth_getBlockByNumber", "latest", False)
        history = {"baseFeePerGas": [_field(block, "baseFeePerGas")]}
    try:
        fees = [int(fee, 16) for fee in _field(history, "baseFeePerGas") or []]
        rewards = [int(tips[0], 16) for tips in _field(history, "reward") or [] if tips]
    except (TypeError, ValueError, IndexError, KeyError):
        raise TransientError(f"{line.name} tells nothing readable of fees") from None
    if not fees or not all(0 <= one < _ABSURD for one in [fees[-1], *rewards]):
        raise TransientError(f"{line.name} tells no base fee that can be")
    return market(fees[-1], rewards, least_tip)


def _field(answer: Json, name: str) -> Json:
    return answer.get(name) if isinstance(answer, dict) else None

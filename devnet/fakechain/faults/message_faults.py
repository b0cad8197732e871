"""Faults that are reported as JSON-RPC errors, with the messages of many providers.

In a message, `{limit}` is the limit, and `{first}` and `{last}` are the requested range. See
docs/reference/rpc-requirements.md#errors-when-reading.
"""

from collections.abc import Callable
from typing import NamedTuple, Unpack

from devnet.fakechain.fault import (
    FaultLimits,
    InjectedFault,
    add_default_methods,
    wrap_change_to_skip_errors,
)
from devnet.fakechain.requests import FakeRequest, FakeRpcError
from oracle.rpc.provider_dialects import DIALECTS, RefusedFeature


class ErrorMessage(NamedTuple):
    """The code and the message of a JSON-RPC error."""

    code: int
    message: str


def get_provider_messages(refused: RefusedFeature) -> tuple[ErrorMessage, ...]:
    """Return each provider's error message for a refused feature, from the table of dialects."""
    return tuple(
        ErrorMessage(row.code, row.example) for row in DIALECTS if row.refused_feature is refused
    )


RATE_MESSAGES = get_provider_messages(RefusedFeature.RATE)
# Messages that state the provider's limit.
RANGE_MESSAGES = tuple(
    error_message
    for error_message in get_provider_messages(RefusedFeature.BLOCKS)
    if "{limit}" in error_message.message
)
DENSITY_MESSAGES = get_provider_messages(RefusedFeature.RESULTS)
# The code -32005 may mean a rate limit or a result that is too large.
RATE_MESSAGE = RATE_MESSAGES[0]
DENSITY_MESSAGE = DENSITY_MESSAGES[0]
# This message matches no row of the table.
UNKNOWN_MESSAGE = ErrorMessage(-32099, "请求失败")


def build_error_fault(message: ErrorMessage, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that makes every call fail with this error."""
    return InjectedFault(
        message.message, lambda request, _result: _build_error(message, request, 0), limits=limits
    )


def build_range_limit_fault(
    max_blocks: int, message: ErrorMessage = RANGE_MESSAGES[0], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that rejects `eth_getLogs` for more than `max_blocks` blocks."""

    def is_too_wide(request: FakeRequest, _result: object) -> bool:
        return (
            request.block_range is not None
            and request.block_range[1] - request.block_range[0] + 1 > max_blocks
        )

    return _build_log_limit_fault(max_blocks, message, is_too_wide, limits)


def build_result_limit_fault(
    max_logs: int, message: ErrorMessage = DENSITY_MESSAGES[0], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that rejects results of more than `max_logs` logs."""

    def is_too_long(_request: FakeRequest, result: object) -> bool:
        return isinstance(result, list) and len(result) > max_logs

    return _build_log_limit_fault(max_logs, message, is_too_long, limits)


def _build_log_limit_fault(
    limit: int,
    message: ErrorMessage,
    exceeds_limit: Callable[[FakeRequest, object], bool],
    limits: FaultLimits,
) -> InjectedFault:
    def change_result(request: FakeRequest, result: object) -> object:
        return _build_error(message, request, limit) if exceeds_limit(request, result) else result

    return InjectedFault(
        message.message,
        wrap_change_to_skip_errors(change_result),
        limits=add_default_methods(limits, "eth_getLogs"),
    )


def _build_error(error_message: ErrorMessage, request: FakeRequest, limit: int) -> FakeRpcError:
    first_block, last_block = request.block_range or (0, 0)
    middle_block = (first_block + last_block) // 2
    message = error_message.message.format(
        limit=limit,
        first=first_block,
        last=last_block,
        half=middle_block,
        hexes=f"{first_block:#x}, {middle_block:#x}",
        asked=last_block - first_block + 1,
        method=request.method,
    )
    return FakeRpcError(error_message.code, message)

"""Views of QoSOracle: its kick bucket, which limits kickouts, and its signers."""

from dataclasses import dataclass

from oracle.bindings.codec import decode_result, encode_call
from oracle.bindings.contract_errors import CONTRACT
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address
from oracle.rpc.fanout import EndpointCaller, PoolView, expect_response_format


@dataclass(frozen=True, slots=True)
class KickBucket:
    """The contract's kick bucket, which limits the rate of kickouts.

    `left` of at most `most` kickouts remain, and `per_frame` are added every `frame` seconds.
    `since` is the start of the current frame in unix seconds.
    """

    most: int
    left: int
    per_frame: int
    frame: int
    since: int


def get_kick_bucket(pool_view: PoolView, contract: Address, block: BlockRef) -> KickBucket:
    """Return the kick bucket at a block.

    Raises:
        TransientError: no endpoint responds.
    """
    requests = [
        ("eth_call", ({"to": contract, "data": encode_call(CONTRACT, name)}, hex(block.number)))
        for name in ("kickLimits", "bucket")
    ]
    limits, bucket = pool_view.request_first(requests)
    with expect_response_format("the bucket of the contract"):
        ((_, _, max_kickouts, per_frame, frame),) = decode_result(CONTRACT, "kickLimits", limits)
        kickouts_left, frame_start = decode_result(CONTRACT, "bucket", bucket)
        return KickBucket(max_kickouts, kickouts_left, per_frame, frame, frame_start)


def get_signers(pool_view: PoolView, contract: Address, block: BlockRef) -> tuple[Address, ...]:
    """Return the signers at the end of a block, in the contract's order.

    Raises:
        TransientError: no endpoint responds.
    """
    call = {"to": contract, "data": encode_call(CONTRACT, "signers")}

    def read_signers(endpoint: EndpointCaller) -> tuple[Address, ...]:
        with expect_response_format("the signers of the contract"):
            # An endpoint that lacks the block may return an empty result.
            result = endpoint.request("eth_call", call, hex(block.number))
            (signers,) = decode_result(CONTRACT, "signers", result)
            return tuple(Address(signer.lower()) for signer in signers)

    return pool_view.read_first(read_signers)

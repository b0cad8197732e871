"""Views of QoSOracle: its kick bucket, which limits kickouts, and its signers."""

from dataclasses import dataclass

from oracle.bindings.codec import call_input, call_output
from oracle.bindings.contract_errors import CONTRACT
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address
from oracle.rpc.fanout import EndpointCaller, PoolView, understood


@dataclass(frozen=True, slots=True)
class KickBucket:
    """The kick bucket: `left` of `most` kickouts; `per_frame` are added every `frame` seconds.

    `since`: the start of the current frame, unix seconds.
    """

    most: int
    left: int
    per_frame: int
    frame: int
    since: int


def bucket_of(lines: PoolView, contract: Address, block: BlockRef) -> KickBucket:
    """Return the kick bucket at a block.

    Raises:
        TransientError: no endpoint responds.
    """
    asked = [
        ("eth_call", ({"to": contract, "data": call_input(CONTRACT, name)}, hex(block.number)))
        for name in ("kickLimits", "bucket")
    ]
    limits, bucket = lines.first(asked)
    with understood("the bucket of the contract"):
        ((_, _, most, per_frame, frame),) = call_output(CONTRACT, "kickLimits", limits)
        left, since = call_output(CONTRACT, "bucket", bucket)
        return KickBucket(most, left, per_frame, frame, since)


def signers_of(lines: PoolView, contract: Address, block: BlockRef) -> tuple[Address, ...]:
    """Return the signers at the end of a block, in the contract's order.

    Raises:
        TransientError: no endpoint responds.
    """
    call = {"to": contract, "data": call_input(CONTRACT, "signers")}

    def read(line: EndpointCaller) -> tuple[Address, ...]:
        with understood("the signers of the contract"):
            # An endpoint that lacks the block may return an empty result.
            answer = line.ask("eth_call", call, hex(block.number))
            (signers,) = call_output(CONTRACT, "signers", answer)
            return tuple(Address(signer.lower()) for signer in signers)

    return lines.first_that(read)

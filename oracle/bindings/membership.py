"""Who may sign for the contract, as it says at one block."""

from oracle.bindings.codec import call_input, call_output
from oracle.bindings.contract_errors import CONTRACT
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address
from oracle.rpc.fanout import JsonRpcClient, PoolView
from oracle.rpc.understanding import first_that_tells, understood


def signers_of(lines: PoolView, contract: Address, block: BlockRef) -> tuple[Address, ...]:
    """Return the signers at the end of a block, in the contract's order.

    Raises:
        TransientError: no endpoint answers.
    """
    call = {"to": contract, "data": call_input(CONTRACT, "signers")}

    def read(line: JsonRpcClient) -> tuple[Address, ...]:
        with understood("the signers of the contract"):
            # An endpoint that does not have the block may answer nothing.
            answer = line.ask("eth_call", call, hex(block.number))
            (signers,) = call_output(CONTRACT, "signers", answer)
            return tuple(Address(signer.lower()) for signer in signers)

    return first_that_tells(lines, read)

"""ArbSys, the precompile of every Arbitrum chain, which numbers the blocks of the chain.

On such a chain, `block.number` is the block number of the parent chain. The oracle must therefore
be deployed with `arbitrum` set, because otherwise it would accept no report.
"""

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from oracle.rpc.fanout import PoolView
from oracle.rpc.rpc_errors import RevertError

ARB_SYS = Address("0x0000000000000000000000000000000000000064")
_BLOCK_NUMBER_CALL = "0x" + keccak(b"arbBlockNumber()")[:4].hex()
# The length of `0x` and one word.
_WORD_LENGTH = 66


def is_arbitrum_chain(pool_view: PoolView) -> bool:
    """Return whether the chain has Arbitrum's system contract, ArbSys.

    Raises:
        TransientError: no endpoint responds.
    """
    call = {"to": ARB_SYS, "data": _BLOCK_NUMBER_CALL}
    try:
        block_number = pool_view.request("eth_call", call, "latest")
    except RevertError:
        # The address belongs to another precompile or contract.
        return False
    return isinstance(block_number, str) and len(block_number) == _WORD_LENGTH

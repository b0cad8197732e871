"""Who the signers are: an endpoint that has nothing to say of the block is passed by."""

import pytest

from oracle.bindings.oracle_views import signers_of
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Address
from oracle.errors import TransientError
from oracle.rpc.views.fanout import JsonRpcClient, PoolView

CONTRACT = Address("0x" + 40 * "c")
SIGNER = "0x" + 40 * "a"
TOLD = f"0x{32:064x}{1:064x}{SIGNER[2:]:0>64}"
BLOCK = BlockRef(7, ZERO_HASH, ZERO_HASH, 0)


def told(answer: object) -> JsonRpcClient:
    """Says the same whatever it is asked."""
    line = JsonRpcClient("http://node.example")
    line.ask = lambda *_: answer  # type: ignore[method-assign]  # no endpoint is asked
    return line


@pytest.mark.parametrize("nothing", [None, "0x", "0x00", 5, {}, f"0x{32:064x}{9:064x}"])
def test_an_answer_that_names_nobody_is_passed_by(nothing: object):
    lines = PoolView([told(nothing), told(TOLD)])
    assert signers_of(lines, CONTRACT, BLOCK) == (SIGNER,)
    with pytest.raises(TransientError):
        signers_of(PoolView([told(nothing)]), CONTRACT, BLOCK)

"""Who the signers are: an endpoint that has nothing to say of the block is passed by."""

import pytest

from oracle.bindings.qos_oracle import get_signers
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Address
from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from tests.pools import pool_of

CONTRACT = Address("0x" + 40 * "c")
SIGNER = "0x" + 40 * "a"
TOLD = f"0x{32:064x}{1:064x}{SIGNER[2:]:0>64}"
BLOCK = BlockRef(7, ZERO_HASH, ZERO_HASH, 0)


def pool_answering(*answers: object) -> PoolView:
    """Return a pool whose endpoints give these answers, one each, to every request."""
    pool = pool_of(*(f"http://{place}.example" for place in range(len(answers))))
    for endpoint, answer in zip(pool, answers, strict=True):
        batch = [answer]
        endpoint.client.send_mixed_batch = lambda *_, batch=batch, **__: batch  # type: ignore[method-assign]
    return pool.create_view()


@pytest.mark.parametrize("nothing", [None, "0x", "0x00", 5, {}, f"0x{32:064x}{9:064x}"])
def test_responses_without_signers_are_skipped(nothing: object):
    lines = pool_answering(nothing, TOLD)
    assert get_signers(lines, CONTRACT, BLOCK) == (SIGNER,)
    with pytest.raises(TransientError):
        get_signers(pool_answering(nothing), CONTRACT, BLOCK)

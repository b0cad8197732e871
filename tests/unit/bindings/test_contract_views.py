"""Views of a contract are read from the first endpoint that has the state of the block."""

import pytest

from oracle.bindings import qos_roots
from oracle.bindings.contract_views import DeployedContract, ViewCall, call_views
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Address
from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from tests.pools import pool_of

CONTRACT = DeployedContract(qos_roots.CONTRACT, Address("0x" + 40 * "c"), "oracle.address")
BLOCK = BlockRef(7, ZERO_HASH, ZERO_HASH, 0)
SIGNER = "0x" + 40 * "a"
SIGNERS_RESULT = f"0x{32:064x}{1:064x}{SIGNER[2:]:0>64}"


def pool_answering(*answers: object) -> PoolView:
    """Return a pool whose endpoints each give one of these answers to every request."""
    pool = pool_of(*(f"http://{place}.example" for place in range(len(answers))))
    for endpoint, answer in zip(pool, answers, strict=True):
        batch = [answer]
        endpoint.client.send_mixed_batch = lambda *_, batch=batch, **__: batch  # type: ignore[method-assign]
    return pool.create_view()


@pytest.mark.parametrize("result", [None, "0x", "0x00", 5, {}, [], f"0x{32:064x}{9:064x}"])
def test_endpoint_that_returns_no_signers_is_skipped(result: object):
    calls = [ViewCall("signers")]
    pool_view = pool_answering(result, SIGNERS_RESULT)
    (signers,) = call_views(pool_view, CONTRACT, BLOCK, calls)
    assert [signer.lower() for signer in signers[0]] == [SIGNER]
    with pytest.raises(TransientError):
        call_views(pool_answering(result), CONTRACT, BLOCK, calls)

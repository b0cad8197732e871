"""Views of a contract are read from the first endpoint that has its state."""

import pytest

from oracle.bindings import qos_roots
from oracle.bindings.contract_views import DeployedContract, ViewCall, call_views
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Address
from oracle.errors import TransientError
from tests.unit.bindings.test_membership import SIGNER, TOLD, pool_answering

CONTRACT = DeployedContract(qos_roots.CONTRACT, Address("0x" + 40 * "c"), "oracle.address")
BLOCK = BlockRef(7, ZERO_HASH, ZERO_HASH, 0)


@pytest.mark.parametrize("result", [None, "0x", "0x00", 5, {}, [], f"0x{32:064x}{9:064x}"])
def test_endpoint_that_returns_no_signers_is_skipped(result: object):
    calls = [ViewCall("signers")]
    (signers,) = call_views(pool_answering(result, TOLD), CONTRACT, BLOCK, calls)
    assert [signer.lower() for signer in signers[0]] == [SIGNER]
    with pytest.raises(TransientError):
        call_views(pool_answering(result), CONTRACT, BLOCK, calls)

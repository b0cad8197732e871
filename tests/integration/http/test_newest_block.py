"""Which newest block the publisher trusts."""

import pytest

from devnet.fakechain.faults.block_faults import build_null_result_fault
from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.tree import BlockTree
from oracle.errors import TransientError
from oracle.txmgr.client.receipts import fetch_newest_block
from tests.pools import pool_of


def test_missing_newest_block_raises_and_is_requested_again():
    provider = Provider(BlockTree())
    provider.faults.append(build_null_result_fault(times=1))
    with serve_endpoint(provider) as served:
        pool = pool_of(served.url)
        lines = pool.create_view()
        with pytest.raises(TransientError, match="no newest block"):
            fetch_newest_block(lines)
        assert fetch_newest_block(lines).hash == provider.head.hash
        pool.close()

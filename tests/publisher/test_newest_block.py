"""What the publisher believes of the head of a chain."""

import pytest

from oracle.errors import TransientError
from oracle.fakechain.block_faults import nothing
from oracle.fakechain.provider import Provider
from oracle.fakechain.server import serving
from oracle.fakechain.tree import Tree
from oracle.publisher.contract import newest_block
from oracle.publisher.line import Line, Lines


def test_an_endpoint_that_knows_no_newest_block_is_asked_again_later():
    provider = Provider(Tree())
    provider.faults.append(nothing(times=1))
    with serving(provider) as served:
        lines = Lines([Line(served.url)])
        with pytest.raises(TransientError, match="no newest block"):
            newest_block(lines)
        assert newest_block(lines).hash == provider.head.hash
        lines.close()

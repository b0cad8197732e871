"""Builds web3 objects that need no endpoint, for encoding and decoding by a contract's ABI.

The endpoint pool sends all requests. Import this module only where it is used, because importing
web3 takes about a second.
"""

import sys
from functools import cache

_RECURSION_LIMIT = sys.getrecursionlimit()

from web3 import Web3  # noqa: E402  # between the two lines about the limit
from web3.providers import BaseProvider  # noqa: E402

# py_ecc, a dependency, raises the recursion limit so far that the C stack could overflow.
sys.setrecursionlimit(_RECURSION_LIMIT)


@cache
def build_offline_web3() -> Web3:
    """Create a web3 object without an endpoint.

    Its provider raises NotImplementedError for any request.
    """
    return Web3(BaseProvider(), middleware=[])

"""web3 without endpoints, which encodes and decodes by the ABI of a contract.

The endpoint pool sends all requests. Importing this module takes about a second, because of web3;
import it where it is used.
"""

import sys
from functools import cache

_RECURSION_LIMIT = sys.getrecursionlimit()

from web3 import Web3  # noqa: E402  # between the two lines about the limit
from web3.providers import BaseProvider  # noqa: E402

# py_ecc, a dependency, raises the recursion limit beyond what the C stack can hold.
sys.setrecursionlimit(_RECURSION_LIMIT)


@cache
def build_offline_web3() -> Web3:
    """Return a web3 object whose provider raises NotImplementedError for any request."""
    return Web3(BaseProvider(), middleware=[])

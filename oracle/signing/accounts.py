"""eth_account, imported when a key is first needed: it takes a second, and few commands sign."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eth_account import Account


def accounts() -> "type[Account]":
    """Return eth_account's door to keys: create, encrypt, decrypt, from_key, recover."""
    limit = sys.getrecursionlimit()
    from eth_account import Account  # noqa: PLC0415  see above

    # py_ecc, which comes along, raises it to what no C stack bears.
    sys.setrecursionlimit(limit)
    return Account

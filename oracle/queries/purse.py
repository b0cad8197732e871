"""What an account of ours has left to pay with, for who asks beside the daemon."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.rpc.views.fanout import JsonRpcClient, PoolView
from oracle.txmgr.client.receipts import balance_of

# Who only looks does not wait for long.
_SECONDS = 3.0
# Digits of an ether that people read.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class AccountBalance:
    """An account of ours and its ether; `unknown` says why one of them is not known."""

    address: Address | None
    balance_wei: int | None
    unknown: str | None = None

    def answer(self) -> dict[str, Any]:
        """Return it for programs: wei as decimal text."""
        wei = None if self.balance_wei is None else str(self.balance_wei)
        return {"address": self.address, "balance_wei": wei, "unknown": self.unknown}

    def text(self) -> str:
        """Return it for people, rounded down."""
        if self.balance_wei is None:
            return f"{self.address or 'unknown'}, balance unknown: {self.unknown}"
        ether = decimal_text(self.balance_wei // 10**12 * 10**12)[: -(18 - _DIGITS)]
        return f"{self.address}, {ether} ether"


def account_balance(urls: Sequence[str], address: Address) -> AccountBalance:
    """Ask an endpoint what an account has."""
    with closing(
        PoolView([JsonRpcClient(url, timeout_seconds=_SECONDS) for url in urls])
    ) as lines:
        try:
            return AccountBalance(address, balance_of(lines, address))
        except TransientError as error:
            return AccountBalance(address, None, str(error))

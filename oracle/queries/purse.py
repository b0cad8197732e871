"""What the dispatcher has left to pay with, for who asks beside the daemon."""

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from oracle.daemon.app import App
from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.rpc.pool import EndpointPool
from oracle.signing.keystore import address_in
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


def purse_of_dispatcher(app: App) -> AccountBalance | None:
    """Ask an endpoint what the dispatcher has; None: nobody is drawn, or there is no key."""
    keys = app.config.keys
    if app.dispatch_settings is None or not keys.has("dispatcher"):
        return None
    try:
        # Neither its password nor a KMS is needed to be looked at.
        address = keys.expected("dispatcher")
        if address is None and keys.dispatcher_keystore is not None:
            address = address_in(keys.dispatcher_keystore)
        if address is None and app.dispatcher is not None:
            address = app.dispatcher.address
    except InputError as error:
        return AccountBalance(None, None, str(error))
    if address is None:
        return None
    told = app.config.chain
    with closing(EndpointPool.open(told.endpoints, told.id)) as pool:
        try:
            return AccountBalance(address, balance_of(pool.view(_SECONDS), address))
        except TransientError as error:
            return AccountBalance(address, None, str(error))

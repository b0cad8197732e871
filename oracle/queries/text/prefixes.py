"""Resolves names from output back to objects: complete addresses and hashes, or their beginnings.

An address or hash may be cut after any digit. An ambiguous prefix is refused, never guessed
(docs/decisions/0207-one-face-of-the-command-line.md).
"""

import re
from collections.abc import Sequence
from typing import TypeVar

from oracle.chain.hex_names import ADDRESS_DIGITS, HASH_DIGITS, HexNameError, parse_address
from oracle.domain.ids import Address, TaskKey
from oracle.errors import InputError
from oracle.queries.text.text_tables import foreign
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent

CALLS_SHOWN = "`qos-oracle outbox list` shows them"

T = TypeVar("T", bound=str)

# Maximum number of matches that an error lists.
_SHOWN = 5
# This many digits always fit the 64-bit row ids of databases.
_NUMBER = re.compile(r"[0-9]{1,18}")


def node_named(uow: UnitOfWork, text: str) -> Address:
    """Return the node whose address is or begins with `text`.

    A complete address is returned as it is; the caller checks whether the node exists.

    Raises:
        InputError: `text` is no part of an address, no node's address begins with it, or several
            do.
    """
    digits = _address_digits(text, "node")
    if len(digits) == ADDRESS_DIGITS:
        return Address(f"0x{digits}")
    return _only("node", text, uow.nodes.beginning(digits, _SHOWN + 1))


def task_named(uow: UnitOfWork, text: str) -> TaskKey:
    """Return the task whose key is or begins with `text`. Raises as `find_node`."""
    written = _digits(text, "task", HASH_DIGITS)
    if len(written) == HASH_DIGITS:
        return TaskKey(f"0x{written}")
    return _only("task", text, uow.tasks.beginning(written, _SHOWN + 1))


def call_named(uow: UnitOfWork, text: str) -> Intent:
    """Return the outbox call with this number, or with a transaction whose hash begins with `text`.

    If several calls share a nonce, the result is the call that the transaction was signed for.

    Raises:
        InputError: there is no such call, or several transactions begin with `text`.
    """
    if not text.lower().startswith("0x"):
        found = uow.outbox.intents.named(int(text)) if _NUMBER.fullmatch(text) else None
        if found is None:
            raise InputError(f"the outbox has no {foreign(text)}; {CALLS_SHOWN}")
        return found
    written = _digits(text, "transaction", HASH_DIGITS)
    known = uow.outbox.slots.transactions_beginning(written, _SHOWN + 1)
    return call_named(uow, str(known[_only("transaction", text, list(known))]))


def address_among(known: Sequence[Address], what: str, text: str) -> Address:
    """Return the candidate that is or begins with `text`; errors call it a `kind`.

    Raises as `find_node`.
    """
    digits = _address_digits(text, what)
    if len(digits) == ADDRESS_DIGITS:
        return Address(f"0x{digits}")
    return _only(what, text, [one for one in known if one.startswith(f"0x{digits}")])


def _address_digits(text: str, what: str) -> str:
    """Return the digits in lower case; raise InputError if malformed or the checksum is wrong."""
    digits = _digits(text, what, ADDRESS_DIGITS)
    if len(digits) == ADDRESS_DIGITS:
        try:
            parse_address(text.rstrip("…."))
        except HexNameError as error:
            raise InputError(f"{text}: {error}") from error
    return digits


def _digits(text: str, what: str, most: int) -> str:
    """Return the hex digits in lower case; a shortened name may end in `…` or `...`."""
    found = re.fullmatch(r"0[xX]([0-9a-fA-F]+)(?:…|\.\.\.)?", text)
    if found is None or len(found[1]) > most:
        raise InputError(
            f"{foreign(text)}: a {what} is named by 0x and {most} hex digits, or the first of them"
        )
    return found[1].lower()


def _only(what: str, text: str, found: Sequence[T]) -> T:
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"{text}: no {what} that begins so is known")
    shown = ", ".join(found[:_SHOWN])
    more = ", …" if len(found) > _SHOWN else ""
    raise InputError(f"{text}: is ambiguous; {what}s that begin so: {shown}{more}")

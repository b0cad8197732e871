"""Finds nodes, tasks and calls by complete or shortened addresses and hashes.

An address or hash may be shortened after any digit. An ambiguous prefix is rejected, never guessed
(docs/archive/decisions/0207-one-face-of-the-command-line.md).
"""

import re
from collections.abc import Sequence
from typing import TypeVar

from oracle.chain.hex_names import ADDRESS_DIGITS, HASH_DIGITS, HexNameError, parse_address
from oracle.domain.ids import Address, TaskKey
from oracle.errors import InputError
from oracle.queries.text.text_tables import sanitize_text
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent

OUTBOX_HINT = "`qos-oracle outbox list` shows them"

T = TypeVar("T", bound=str)

# Maximum number of matches that an error lists.
_MAX_LISTED = 5
# A number with up to 18 digits always fits a 64-bit row id.
_NUMBER = re.compile(r"[0-9]{1,18}")


def find_node(uow: UnitOfWork, text: str) -> Address:
    """Return the node whose address equals `text` or begins with it.

    A complete address is returned as it is; the caller checks whether the node exists.

    Raises:
        InputError: `text` is not the beginning of an address, no node has such an address, or
            several nodes have one.
    """
    digits = _parse_address_digits(text, "node")
    if len(digits) == ADDRESS_DIGITS:
        return Address(f"0x{digits}")
    return _pick_single_match(
        "node", text, uow.nodes.list_addresses_by_prefix(digits, _MAX_LISTED + 1)
    )


def find_task(uow: UnitOfWork, text: str) -> TaskKey:
    """Return the task whose key equals `text` or begins with it.

    A complete key is returned as it is; the caller checks whether the task exists.

    Raises:
        InputError: `text` is not the beginning of a key, or not exactly one task has such a key.
    """
    digits = _parse_hex_digits(text, "task", HASH_DIGITS)
    if len(digits) == HASH_DIGITS:
        return TaskKey(f"0x{digits}")
    return _pick_single_match("task", text, uow.tasks.list_keys_by_prefix(digits, _MAX_LISTED + 1))


def find_intent(uow: UnitOfWork, text: str) -> Intent:
    """Find an outbox call by its number or by the beginning of its transaction hash.

    `text` is a number, or a complete or shortened hash. If several calls share a nonce, the result
    is the call for which the transaction was signed.

    Raises:
        InputError: there is no such call, or several transactions begin with `text`.
    """
    if not text.lower().startswith("0x"):
        intent = uow.outbox.intents.get(int(text)) if _NUMBER.fullmatch(text) else None
        if intent is None:
            raise InputError(f"the outbox has no call {sanitize_text(text)}; {OUTBOX_HINT}")
        return intent
    digits = _parse_hex_digits(text, "transaction", HASH_DIGITS)
    intent_by_transaction = uow.outbox.slots.list_intent_ids_by_hash_prefix(
        digits, _MAX_LISTED + 1
    )
    return find_intent(
        uow,
        str(
            intent_by_transaction[
                _pick_single_match("transaction", text, list(intent_by_transaction))
            ]
        ),
    )


def find_address(candidates: Sequence[Address], kind: str, text: str) -> Address:
    """Return the candidate whose address equals `text` or begins with it.

    A complete address is returned as it is. `kind` names the candidates in errors. The errors are
    those of `find_node`.
    """
    digits = _parse_address_digits(text, kind)
    if len(digits) == ADDRESS_DIGITS:
        return Address(f"0x{digits}")
    return _pick_single_match(
        kind, text, [candidate for candidate in candidates if candidate.startswith(f"0x{digits}")]
    )


def _parse_address_digits(text: str, kind: str) -> str:
    """Return an address's hex digits in lower case; raise InputError if the text is invalid."""
    digits = _parse_hex_digits(text, kind, ADDRESS_DIGITS)
    if len(digits) == ADDRESS_DIGITS:
        try:
            parse_address(text.rstrip("…."))
        except HexNameError as error:
            raise InputError(f"{text}: {error}") from error
    return digits


def _parse_hex_digits(text: str, kind: str, max_digits: int) -> str:
    """Return hex digits in lower case; a shortened text may end in `…` or `...`."""
    match = re.fullmatch(r"0[xX]([0-9a-fA-F]+)(?:…|\.\.\.)?", text)
    if match is None or len(match[1]) > max_digits:
        raise InputError(
            f"{sanitize_text(text)}: not a {kind}; expected 0x and up to {max_digits} hex digits"
        )
    return match[1].lower()


def _pick_single_match(kind: str, text: str, matches: Sequence[T]) -> T:
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise InputError(f"{text}: no known {kind} starts with this prefix")
    listed_matches_text = ", ".join(matches[:_MAX_LISTED])
    ellipsis = ", …" if len(matches) > _MAX_LISTED else ""
    raise InputError(f"{text}: ambiguous {kind} prefix; matches: {listed_matches_text}{ellipsis}")

"""Parses the enums of a profile: tables of enumeration values, each from a block on."""

from collections.abc import Mapping
from itertools import pairwise

from oracle.chain.profiles.profile import ABSENT, Enum, Literal
from oracle.chain.profiles.toml_tables import Faults, Settings, Table

_KEYS = ("words", "otherwise", "from_block")


def enum_of(key: str, written: object, settings: Settings, faults: Faults) -> Enum | None:
    """Return an enum, given as one table or as several, each from a block on."""
    before = len(faults.found)
    tables: list[tuple[int, Mapping[Literal, str]]] = []
    rests: set[str | None] = set()
    for place, table in faults.rows(key, written):
        faults.unknown(place, table, _KEYS)
        tables.append(
            (_block(place, table, settings, faults), _words(f"{place}.words", table, faults))
        )
        rests.add(_rest(f"{place}.otherwise", table, faults))
    if tables and tables[0][0] != 0:
        faults.add(key, "the first of its tables must be valid from block 0")
    if len(rests) > 1:
        faults.add(key, "otherwise must be the same in all of its tables")
    if any(one[0] > next_one[0] for one, next_one in pairwise(tables)):
        faults.add(key, "its tables must stand in the order of from_block")
    if len(faults.found) > before:
        return None
    enum = Enum(key, tuple(tables), rests.pop())
    _complain_of_gaps(enum, faults)
    return enum


def _block(key: str, table: Table, settings: Settings, faults: Faults) -> int:
    try:
        block = settings.value(table.get("from_block", 0))
        if type(block) is int and block >= 0:
            return block
        faults.add(f"{key}.from_block", "must be the number of a block")
    except ValueError as error:
        faults.add(f"{key}.from_block", str(error))
    return 0


def _words(key: str, table: Table, faults: Faults) -> Mapping[Literal, str]:
    """Return the words by input: a list is numbered from 0, a table is keyed by the input."""
    written = table.get("words")
    if isinstance(written, list):
        written = {str(place): word for place, word in enumerate(written)}
    if not isinstance(written, dict) or not written:
        faults.add(key, "must be a list of words, or a table of them")
        return {}
    if not all(isinstance(word, str) for word in written.values()):
        faults.add(key, "must all be texts")
        return {}
    if all(said.isdecimal() and said.isascii() for said in written):
        return {int(said): word for said, word in written.items()}
    return dict(written)


def _rest(key: str, table: Table, faults: Faults) -> str | None:
    rest = table.get("otherwise")
    if rest is not None and not isinstance(rest, str):
        faults.add(key, f"must be a word, or {ABSENT!r}")
        return None
    return rest


def _complain_of_gaps(enum: Enum, faults: Faults) -> None:
    """Report unmapped numbers between others, which would otherwise become dead letters."""
    if enum.otherwise is not None:
        return
    for block, table in enum.tables:
        numbers = {said for said in table if isinstance(said, int)}
        gaps = sorted(set(range(max(numbers, default=-1))) - numbers)
        if gaps:
            shown = ", ".join(map(str, gaps[:5]))
            since = f" from block {block} on" if block else ""
            faults.add(enum.key, f"has no word for {shown}{since}, and no `otherwise`")

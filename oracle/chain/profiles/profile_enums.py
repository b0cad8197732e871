"""Parses the enums of a profile: tables of enumeration values, each valid from a block on."""

from collections.abc import Mapping
from itertools import pairwise

from oracle.chain.profiles.profile import ABSENT, EnumMapping, Literal
from oracle.chain.profiles.toml_tables import FaultCollector, ProfileSettings, Table

_KEYS = ("words", "otherwise", "from_block")


def parse_enum(
    key: str, raw_value: object, settings: ProfileSettings, faults: FaultCollector
) -> EnumMapping | None:
    """Return an enum of one or several tables, each valid from a block on, or None if faulty."""
    fault_count = len(faults.messages)
    tables: list[tuple[int, Mapping[Literal, str]]] = []
    defaults: set[str | None] = set()
    for table_key, table in faults.get_rows(key, raw_value):
        faults.check_keys(table_key, table, _KEYS)
        tables.append(
            (
                _parse_from_block(table_key, table, settings, faults),
                _parse_enum_values(f"{table_key}.words", table, faults),
            )
        )
        defaults.add(_parse_otherwise(f"{table_key}.otherwise", table, faults))
    if tables and tables[0][0] != 0:
        faults.add_fault(key, "the first table must be valid from block 0")
    if len(defaults) > 1:
        faults.add_fault(key, "`otherwise` must be the same in all tables")
    if any(table_entry[0] > next_entry[0] for table_entry, next_entry in pairwise(tables)):
        faults.add_fault(key, "the tables must be in the order of `from_block`")
    if len(faults.messages) > fault_count:
        return None
    enum = EnumMapping(key, tuple(tables), defaults.pop())
    _check_for_gaps(enum, faults)
    return enum


def _parse_from_block(
    key: str, table: Table, settings: ProfileSettings, faults: FaultCollector
) -> int:
    try:
        block = settings.resolve_reference(table.get("from_block", 0))
        if type(block) is int and block >= 0:
            return block
        faults.add_fault(f"{key}.from_block", "must be a block number")
    except ValueError as error:
        faults.add_fault(f"{key}.from_block", str(error))
    return 0


def _parse_enum_values(key: str, table: Table, faults: FaultCollector) -> Mapping[Literal, str]:
    """Return the enumeration value of each input; the inputs of a list are numbered from 0."""
    raw_words = table.get("words")
    if isinstance(raw_words, list):
        raw_words = {str(index): word for index, word in enumerate(raw_words)}
    if not isinstance(raw_words, dict) or not raw_words:
        faults.add_fault(key, "must be a list of words, or a table whose values are words")
        return {}
    if not all(isinstance(word, str) for word in raw_words.values()):
        faults.add_fault(key, "all words must be strings")
        return {}
    if all(input_text.isdecimal() and input_text.isascii() for input_text in raw_words):
        return {int(input_text): word for input_text, word in raw_words.items()}
    return dict(raw_words)


def _parse_otherwise(key: str, table: Table, faults: FaultCollector) -> str | None:
    otherwise = table.get("otherwise")
    if otherwise is not None and not isinstance(otherwise, str):
        faults.add_fault(key, f"must be a word, or {ABSENT!r}")
        return None
    return otherwise


def _check_for_gaps(enum: EnumMapping, faults: FaultCollector) -> None:
    """Report gaps between the mapped numbers; an event with such a number could not be decoded."""
    if enum.otherwise is not None:
        return
    for block, table in enum.tables:
        numbers = {literal for literal in table if isinstance(literal, int)}
        gaps = sorted(set(range(max(numbers, default=-1))) - numbers)
        if gaps:
            gap_list = ", ".join(map(str, gaps[:5]))
            from_block_note = f" from block {block} on" if block else ""
            faults.add_fault(
                enum.key, f"has no word for {gap_list}{from_block_note}, and no `otherwise`"
            )

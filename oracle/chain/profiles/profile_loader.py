"""Loads a profile from its TOML file, and reports all its faults at once.

docs/how-to/add-a-network.md describes the format.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path

from oracle.chain.decode.abi import AbiSignature
from oracle.chain.profiles.profile import (
    ABSENT,
    DEFAULT_TOKEN,
    Contract,
    EnumMapping,
    Literal,
    Profile,
    Token,
)
from oracle.chain.profiles.profile_compiler import MappingCompiler
from oracle.chain.profiles.profile_contracts import parse_contract
from oracle.chain.profiles.toml_tables import FaultCollector, ProfileSettings, Table
from oracle.errors import InputError
from oracle.resources import find_shipped_path

PROFILES_FOLDER = "profiles"
_PROFILE_SUFFIX = ".toml"
# ERC-20 permits up to 255 decimals, but no token in use has more than 36.
_MAX_DECIMALS = 36
_KEYS = {
    *("name", "about", "token", "rounds", "kickouts"),
    *("options", "constants", "enums", "contracts"),
}
# The values of these keys do not enter the hash of the profile's identity directly. Some only
# describe the profile; options, constants and kickouts enter the hash separately.
_DESCRIPTIVE_KEYS = {"name", "about", "token", "kickouts", "options", "constants"}
# The valid values of `kickouts`.
_AUTOMATIC, _HELD = "automatic", "held"
_LOCATION_KEYS = {"abi", "address", "start_block", "proxy"}


def list_shipped_profiles() -> list[str]:
    """Return the names of the profiles shipped with the program."""
    return sorted(
        path.stem for path in find_shipped_path(PROFILES_FOLDER).glob(f"*{_PROFILE_SUFFIX}")
    )


def load_profile(name_or_path: str, options: Mapping[str, Literal] | None = None) -> Profile:
    """Load a shipped profile by name, or a user's profile by file path.

    Args:
        name_or_path: a name such as `crynux-vss`, or a path that ends in `.toml`.
        options: values of the profile's options that replace their defaults.

    Raises:
        InputError: there is no such profile or option, or the file has faults; the message has a
            line for each fault, with the file, the key and what is wrong.
    """
    if name_or_path.endswith(_PROFILE_SUFFIX):
        return _read_profile(Path(name_or_path), options or {})
    return _load_shipped_profile(name_or_path, tuple(sorted((options or {}).items())))


@lru_cache(maxsize=8)
def _load_shipped_profile(name: str, options: tuple[tuple[str, Literal], ...]) -> Profile:
    """Load a shipped profile once per process.

    Installed files do not change.
    """
    if name not in list_shipped_profiles():
        raise InputError(
            f"[network] profile: unknown profile {name!r}; expected one of "
            f"{', '.join(list_shipped_profiles())}, or the path of a file that ends in "
            f"{_PROFILE_SUFFIX}"
        )
    return _read_profile(
        find_shipped_path(PROFILES_FOLDER) / (name + _PROFILE_SUFFIX), dict(options)
    )


def _read_toml(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the file is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: invalid TOML: {error}") from error
    except RecursionError:
        raise InputError(f"{path}: invalid TOML: too deeply nested") from None


def _read_profile(path: Path, options: Mapping[str, Literal]) -> Profile:
    document = _read_toml(path)
    faults = FaultCollector(str(path))
    faults.check_keys("", document, _KEYS)
    settings = ProfileSettings.from_document(document, options, faults)
    enums = {
        name: enum
        for name, table in faults.get_tables("enums", document).items()
        if (enum := parse_enum_mapping(f"enums.{name}", table, settings, faults)) is not None
    }
    compiler = MappingCompiler(enums)
    parse_contract_table = partial(
        parse_contract, folder=path.parent, settings=settings, compiler=compiler, faults=faults
    )
    contracts = {
        name: contract
        for name, table in faults.get_tables("contracts", document, min_count=1).items()
        if (contract := parse_contract_table(name, table)) is not None
    }
    if contracts and not any(
        document["contracts"][contract_name].get("events") for contract_name in contracts
    ):
        faults.add_fault(
            "contracts", "at least one needs an event, because logs are requested by event topics"
        )
    name = document.get("name", path.stem)
    has_rounds = document.get("rounds", False)
    if not isinstance(name, str) or not isinstance(has_rounds, bool):
        faults.add_fault("name, rounds", "name must be a string, and rounds true or false")
    faults.messages += compiler.faults
    token = _parse_token(document, faults)
    holds_kickouts = _parse_kickout_hold(document, settings, faults)
    faults.raise_if_any()
    identity = _compute_profile_identity(
        name, document, contracts, settings.options, holds_kickouts=holds_kickouts
    )
    return Profile(
        name,
        identity,
        str(path),
        contracts,
        settings.options,
        has_rounds=has_rounds,
        holds_kickouts=holds_kickouts,
        token=token,
    )


def _parse_kickout_hold(
    document: Table, settings: ProfileSettings, faults: FaultCollector
) -> bool:
    """Return whether all due kickouts of the network wait for an operator."""
    try:
        value = settings.resolve_reference(document.get("kickouts", _AUTOMATIC))
    except ValueError as error:
        faults.add_fault("kickouts", str(error))
        return False
    if value not in (_AUTOMATIC, _HELD):
        faults.add_fault("kickouts", f"must be {_AUTOMATIC!r} or {_HELD!r}, not {value!r}")
    return value == _HELD


def _parse_token(document: Table, faults: FaultCollector) -> Token:
    """Return the token in which amounts are shown.

    The result is the default if the profile defines no token.
    """
    token_table = document.get("token", {})
    if not isinstance(token_table, dict):
        faults.add_fault("token", "must be a table with symbol and decimals")
        return DEFAULT_TOKEN
    faults.check_keys("token", token_table, {"symbol", "decimals"})
    symbol = token_table.get("symbol", "tokens")
    decimals = token_table.get("decimals", 18)
    if not isinstance(symbol, str) or not re.fullmatch(r"[A-Za-z0-9$.]{1,12}", symbol):
        faults.add_fault("token.symbol", "must have 1 to 12 letters, digits, $ or dots")
    if type(decimals) is not int or not 0 <= decimals <= _MAX_DECIMALS:
        faults.add_fault("token.decimals", f"must be a whole number from 0 to {_MAX_DECIMALS}")
    return Token(str(symbol), decimals if type(decimals) is int else 18)


def _compute_profile_identity(
    name: str,
    document: Table,
    contracts: Mapping[str, Contract],
    options: Mapping[str, Literal],
    *,
    holds_kickouts: bool,
) -> str:
    """Return the profile's name with a SHA-256 over everything that affects its results.

    These are `kickouts` and all that decoding depends on. Contract addresses, start blocks and
    descriptions are not part of the hash.
    """
    identity_content = {
        key: value for key, value in document.items() if key not in _DESCRIPTIVE_KEYS
    }
    identity_content["contracts"] = {
        key: {part: value for part, value in table.items() if part not in _LOCATION_KEYS}
        for key, table in document["contracts"].items()
    }
    identity_content["signatures"] = {
        key: [
            _list_signature_parts(mapped_signature.signature)
            for mapped_signature in (*contract.events, *contract.calls)
        ]
        for key, contract in contracts.items()
    }
    identity_content |= {"options": dict(options), "constants": document.get("constants", {})}
    if holds_kickouts:
        identity_content["kickouts"] = _HELD
    identity_json = json.dumps(identity_content, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(identity_json.encode()).hexdigest()
    return f"{name} {digest}"


def _list_signature_parts(signature: AbiSignature) -> list[object]:
    return [
        signature.name,
        [
            [parameter.name, parameter.abi_type, parameter.indexed]
            for parameter in signature.inputs
        ],
    ]


_ENUM_KEYS = ("words", "otherwise", "from_block")


def parse_enum_mapping(
    key: str, raw_value: object, settings: ProfileSettings, faults: FaultCollector
) -> EnumMapping | None:
    """Parse an enum mapping of one or more tables, or return None if a table is faulty."""
    fault_count = len(faults.messages)
    tables: list[tuple[int, Mapping[Literal, str]]] = []
    default_words: set[str | None] = set()
    for table_key, table in faults.get_keyed_tables(key, raw_value):
        faults.check_keys(table_key, table, _ENUM_KEYS)
        tables.append(
            (
                _parse_from_block(table_key, table, settings, faults),
                _parse_enum_values(f"{table_key}.words", table, faults),
            )
        )
        default_words.add(_parse_otherwise_word(f"{table_key}.otherwise", table, faults))
    if tables and tables[0][0] != 0:
        faults.add_fault(key, "the first table must be valid from block 0")
    if len(default_words) > 1:
        faults.add_fault(key, "`otherwise` must be the same in all tables")
    if any(table_entry[0] > next_entry[0] for table_entry, next_entry in pairwise(tables)):
        faults.add_fault(key, "the tables must be in the order of `from_block`")
    if len(faults.messages) > fault_count:
        return None
    enum = EnumMapping(key, tuple(tables), default_words.pop())
    _report_enum_gaps(enum, faults)
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
    """Parse the enum value of each input.

    The inputs of a list are numbered from 0.
    """
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


def _parse_otherwise_word(key: str, table: Table, faults: FaultCollector) -> str | None:
    otherwise_word = table.get("otherwise")
    if otherwise_word is not None and not isinstance(otherwise_word, str):
        faults.add_fault(key, f"must be a word, or {ABSENT!r}")
        return None
    return otherwise_word


def _report_enum_gaps(enum: EnumMapping, faults: FaultCollector) -> None:
    """Report gaps in the numbers of an enum.

    Events with a number in a gap could not be decoded.
    """
    if enum.otherwise is not None:
        return
    for block, table in enum.tables:
        mapped_numbers = {literal for literal in table if isinstance(literal, int)}
        missing_numbers = sorted(set(range(max(mapped_numbers, default=-1))) - mapped_numbers)
        if missing_numbers:
            gap_list = ", ".join(map(str, missing_numbers[:5]))
            from_block_note = f" from block {block} on" if block else ""
            faults.add_fault(
                enum.key, f"has no entry for {gap_list}{from_block_note}, and no `otherwise`"
            )

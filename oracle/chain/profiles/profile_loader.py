"""Loads a profile from its TOML file, and reports all of its faults at once.

docs/how-to/add-a-network.md describes the format.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path

from oracle.chain.decode.abi import AbiSignature
from oracle.chain.profiles.profile import DEFAULT_TOKEN, Contract, Literal, Profile, Token
from oracle.chain.profiles.profile_compiler import Compiler
from oracle.chain.profiles.profile_contracts import contract_of
from oracle.chain.profiles.profile_enums import enum_of
from oracle.chain.profiles.toml_tables import Faults, Settings, Table
from oracle.errors import InputError
from oracle.resources import shipped

FOLDER = "profiles"
_SUFFIX = ".toml"
# ERC-20 allows any uint8; more than 36 decimals are not in use.
_MAX_DECIMALS = 36
_KEYS = {"name", "about", "token", "rounds", "options", "constants", "enums", "contracts"}
# Keys that do not affect decoding: descriptions, and where contracts are.
_TELLING = {"name", "about", "token", "options", "constants"}
_PLACES = {"abi", "address", "start_block", "proxy"}


def shipped_names() -> list[str]:
    """Return the names of the profiles that are shipped with the program."""
    return sorted(path.stem for path in shipped(FOLDER).glob(f"*{_SUFFIX}"))


def open_profile(named: str, options: Mapping[str, Literal] | None = None) -> Profile:
    """Return a profile: a shipped one by name, or a user's own by the path of its file.

    Args:
        name_or_path: `crynux-vss`, or a path, which ends in `.toml`.
        options: values of the profile's options that replace their defaults.

    Raises:
        InputError: there is no such profile or option, or the file has faults; each has a line
            with the file, the key and what is wrong.
    """
    if named.endswith(_SUFFIX):
        return _read_profile(Path(named), options or {})
    return _shipped(named, tuple(sorted((options or {}).items())))


@lru_cache(maxsize=8)
def _shipped(named: str, options: tuple[tuple[str, Literal], ...]) -> Profile:
    """Load a shipped profile once; installed files do not change while a process runs."""
    if named not in shipped_names():
        raise InputError(
            f"[network] profile: no {named!r}; there is {', '.join(shipped_names())}, "
            f"or give the path of a file that ends in {_SUFFIX}"
        )
    return _read_profile(shipped(FOLDER) / (named + _SUFFIX), dict(options))


def _read(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: is not TOML: {error}") from error


def _read_profile(path: Path, options: Mapping[str, Literal]) -> Profile:
    written, faults = _read(path), Faults(str(path))
    faults.unknown("", written, _KEYS)
    settings = Settings.of(written, options, faults)
    enums = {
        name: enum
        for name, table in faults.tables("enums", written).items()
        if (enum := enum_of(f"enums.{name}", table, settings, faults)) is not None
    }
    compiler = Compiler(enums)
    read_contract = partial(
        contract_of, folder=path.parent, settings=settings, compiler=compiler, faults=faults
    )
    contracts = {
        name: contract
        for name, table in faults.tables("contracts", written, least=1).items()
        if (contract := read_contract(name, table)) is not None
    }
    if contracts and not any(written["contracts"][each].get("events") for each in contracts):
        faults.add("contracts", "need an event of one of them at least: logs are asked for by it")
    name, rounds = written.get("name", path.stem), written.get("rounds", False)
    if not isinstance(name, str) or not isinstance(rounds, bool):
        faults.add("name, rounds", "must be a text, and true or false")
    faults.found += compiler.faults
    token = _token(written, faults)
    faults.raise_any()
    identity = _identity(name, written, contracts, settings.options)
    return Profile(
        name, identity, str(path), contracts, settings.options, has_rounds=rounds, token=token
    )


def _token(written: Table, faults: Faults) -> Token:
    """Return how amounts are shown; the default if the profile does not define it."""
    table = written.get("token", {})
    if not isinstance(table, dict):
        faults.add("token", "must be a table with symbol and decimals")
        return DEFAULT_TOKEN
    faults.unknown("token", table, {"symbol", "decimals"})
    symbol, decimals = table.get("symbol", "tokens"), table.get("decimals", 18)
    if not isinstance(symbol, str) or not re.fullmatch(r"[A-Za-z0-9$.]{1,12}", symbol):
        faults.add("token.symbol", "must be 1 to 12 letters, digits, $ or dots")
    if type(decimals) is not int or not 0 <= decimals <= _MAX_DECIMALS:
        faults.add("token.decimals", f"must be a whole number from 0 to {_MAX_DECIMALS}")
    return Token(str(symbol), decimals if type(decimals) is int else 18)


def _identity(
    name: str,
    written: Table,
    contracts: Mapping[str, Contract],
    options: Mapping[str, Literal],
) -> str:
    """Return the name and the sha256 of everything that affects decoding.

    Contract addresses, start blocks and descriptions are not part of it.
    """
    meant = {key: value for key, value in written.items() if key not in _TELLING}
    meant["contracts"] = {
        key: {part: value for part, value in table.items() if part not in _PLACES}
        for key, table in written["contracts"].items()
    }
    meant["signatures"] = {
        key: [_told(speech.signature) for speech in (*contract.events, *contract.calls)]
        for key, contract in contracts.items()
    }
    meant |= {"options": dict(options), "constants": written.get("constants", {})}
    text = json.dumps(meant, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{name} {digest}"


def _told(signature: AbiSignature) -> list[object]:
    return [signature.name, [[p.name, p.kind, p.indexed] for p in signature.inputs]]

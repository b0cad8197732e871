"""Parses the contracts of a profile: their ABI, and the mappings of each event and call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from oracle.chain.decode.abi import AbiSignature, listed
from oracle.chain.decode.fragments import fragment
from oracle.chain.hex_names import HexNameError, parse_address
from oracle.chain.profiles.event_mappings import readings_of
from oracle.chain.profiles.profile import Contract, ContractVocabulary
from oracle.chain.profiles.profile_compiler import Compiler
from oracle.chain.profiles.toml_tables import Faults, Settings, Table
from oracle.chain.profiles.value_paths import hint

_KEYS = ("abi", "address", "start_block", "proxy", "events", "calls")
_JSON = ".json"


def contract_of(
    name: str,
    written: object,
    *,
    folder: Path,
    settings: Settings,
    compiler: Compiler,
    faults: Faults,
) -> Contract | None:
    """Return a contract, or None if it is not even a table.

    Its ABI files are below `folder`; its faults are added to `faults`.
    """
    key = f"contracts.{name}"
    if not isinstance(written, dict):
        faults.add(key, "must be a table")
        return None
    faults.unknown(key, written, _KEYS)
    abi = _Abi(key, {"event": [], "function": []})
    abi.read(written.get("abi", []), folder, faults)
    vocabulary = partial(_vocabulary, abi, settings=settings, compiler=compiler, faults=faults)
    events = vocabulary("event", faults.tables(f"{key}.events", written))
    calls = vocabulary("function", faults.tables(f"{key}.calls", written))
    if not {"events", "calls"} & written.keys():
        faults.add(key, "needs events or calls: nothing is read of it")
    _complain_of_duplicates(key, events, faults)
    return Contract(
        name,
        tuple(events),
        tuple(calls),
        _address(key, written, faults),
        _start(key, written, faults),
        is_proxy=_truth(f"{key}.proxy", written.get("proxy", False), faults),
    )


@dataclass(frozen=True, slots=True)
class _Abi:
    """The signatures of one contract, both events and functions."""

    key: str
    known: Mapping[str, list[AbiSignature]]

    def read(self, written: object, folder: Path, faults: Faults) -> None:
        """Add signatures given as text, and those in JSON ABI files."""
        for entry in written if isinstance(written, list) else [written]:
            try:
                self._take(entry, folder)
            except ValueError as error:
                faults.add(f"{self.key}.abi", f"{entry!r}: {error}")

    def _take(self, entry: object, folder: Path) -> None:
        if not isinstance(entry, str):
            raise ValueError("must be a signature, or the name of a JSON file")  # noqa: TRY004  # a fault of the file
        if not entry.endswith(_JSON):
            what, signature = fragment(entry)
            self.known[what].append(signature)
            return
        try:
            content = msgspec.json.decode((folder / entry).read_bytes())
        except (OSError, msgspec.DecodeError) as error:
            raise ValueError(f"cannot be read: {error}") from None
        entries = content.get("abi") if isinstance(content, dict) else content
        if not isinstance(entries, list):
            raise ValueError("holds no ABI")  # noqa: TRY004  # a fault of the file
        for what, known in self.known.items():
            known.extend(listed(entries, what))

    def named(self, what: str, name: str) -> list[AbiSignature]:
        """Return the signatures of this name or full text, also if only `indexed` differs."""
        return [each for each in self.known[what] if name in (each.name, each.text)]


def _vocabulary(
    abi: _Abi,
    what: str,
    written: Table,
    *,
    settings: Settings,
    compiler: Compiler,
    faults: Faults,
) -> list[ContractVocabulary]:
    """Return the mapped events or functions; those without an active mapping are left out."""
    found: list[ContractVocabulary] = []
    for name, rows in written.items():
        key = f"{abi.key}.{_TABLES[what]}.{name}"
        signatures = abi.named(what, name)
        if not signatures:
            known = {each.name for each in abi.known[what]}
            faults.add(key, f"the ABI has no {what} {name}{hint(name, known)}")
        readings, ruled_out = readings_of(key, rows, settings, faults)
        compile_ = compiler.event if what == "event" else compiler.call
        for signature in signatures:
            if any(signature is speech.signature for speech in found):
                faults.add(key, f"{signature.text} is read above already")
            if ruled_out:
                # Compiled only for its faults, so that they are reported before the option is set.
                compile_(signature, ruled_out)
            compiled = compile_(signature, readings) if readings else None
            if compiled is not None:
                found.append(ContractVocabulary(signature, tuple(readings), compiled))
    return found


_TABLES = {"event": "events", "function": "calls"}


def _complain_of_duplicates(
    key: str, events: Sequence[ContractVocabulary], faults: Faults
) -> None:
    """Report events that cannot be distinguished.

    Logs that share a first topic are distinguished by their topic count and the length of their
    data.
    """
    seen: dict[tuple[object, ...], str] = {}
    for signature, _, compiled in events:
        topics = sum(parameter.indexed for parameter in signature.inputs)
        look = (signature.digest, topics, compiled.digits)
        if look in seen:
            words = "stands in the ABI twice, and no log tells which one it is"
            faults.add(f"{key}.abi", f"{signature.text} {words}")
        seen[look] = signature.text


def _address(key: str, table: Table, faults: Faults) -> str | None:
    address = table.get("address")
    if address is None:
        return None
    try:
        return parse_address(str(address))
    except HexNameError as error:
        faults.add(f"{key}.address", str(error))
        return None


def _start(key: str, table: Table, faults: Faults) -> int | None:
    block = table.get("start_block")
    if block is None or (type(block) is int and block >= 0):
        return block
    faults.add(f"{key}.start_block", "must be the number of a block")
    return None


def _truth(key: str, written: object, faults: Faults) -> bool:
    if isinstance(written, bool):
        return written
    faults.add(key, "must be true or false")
    return False

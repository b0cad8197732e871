"""Parses the contracts of a profile: their ABI, and the mappings of each event and call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from oracle.chain.decode.abi import AbiSignature, parse_signatures
from oracle.chain.decode.fragments import parse_signature
from oracle.chain.hex_names import HexNameError, parse_address
from oracle.chain.profiles.event_mappings import parse_event_mappings
from oracle.chain.profiles.profile import Contract, MappedSignature
from oracle.chain.profiles.profile_compiler import MappingCompiler
from oracle.chain.profiles.toml_tables import FaultCollector, ProfileSettings, Table
from oracle.chain.profiles.value_paths import suggest_name

_KEYS = ("abi", "address", "start_block", "proxy", "events", "calls")
_JSON_SUFFIX = ".json"


def parse_contract(
    name: str,
    raw_value: object,
    *,
    folder: Path,
    settings: ProfileSettings,
    compiler: MappingCompiler,
    faults: FaultCollector,
) -> Contract | None:
    """Return the parsed contract, or None if `raw_value` is not a table.

    ABI files are looked up below `folder`; faults are added to `faults`.
    """
    key = f"contracts.{name}"
    if not isinstance(raw_value, dict):
        faults.add_fault(key, "must be a table")
        return None
    faults.check_keys(key, raw_value, _KEYS)
    abi = _ContractAbi(key, {"event": [], "function": []})
    abi.load_entries(raw_value.get("abi", []), folder, faults)
    parse_mapped = partial(
        _parse_mapped_signatures, abi, settings=settings, compiler=compiler, faults=faults
    )
    events = parse_mapped("event", faults.get_tables(f"{key}.events", raw_value))
    calls = parse_mapped("function", faults.get_tables(f"{key}.calls", raw_value))
    if not {"events", "calls"} & raw_value.keys():
        faults.add_fault(key, "needs events or calls; the contract has neither")
    _check_for_duplicates(key, events, faults)
    return Contract(
        name,
        tuple(events),
        tuple(calls),
        _parse_optional_address(key, raw_value, faults),
        _parse_start_block(key, raw_value, faults),
        is_proxy=_parse_boolean(f"{key}.proxy", raw_value.get("proxy", False), faults),
    )


@dataclass(frozen=True, slots=True)
class _ContractAbi:
    """The signatures of one contract, both events and functions."""

    key: str
    signatures_by_kind: Mapping[str, list[AbiSignature]]

    def load_entries(self, raw_value: object, folder: Path, faults: FaultCollector) -> None:
        """Add the signatures that are given as text or in JSON ABI files."""
        for entry in raw_value if isinstance(raw_value, list) else [raw_value]:
            try:
                self._load_entry(entry, folder)
            except ValueError as error:
                faults.add_fault(f"{self.key}.abi", f"{entry!r}: {error}")

    def _load_entry(self, entry: object, folder: Path) -> None:
        if not isinstance(entry, str):
            raise ValueError("must be a signature, or the name of a JSON file")  # noqa: TRY004  # a fault of the file
        if not entry.endswith(_JSON_SUFFIX):
            signature_kind, signature = parse_signature(entry)
            self.signatures_by_kind[signature_kind].append(signature)
            return
        try:
            document = msgspec.json.decode((folder / entry).read_bytes())
        except (OSError, msgspec.DecodeError) as error:
            raise ValueError(f"cannot be read: {error}") from None
        entries = document.get("abi") if isinstance(document, dict) else document
        if not isinstance(entries, list):
            raise ValueError("contains no ABI list")  # noqa: TRY004  # a fault of the file
        for signature_kind, signatures in self.signatures_by_kind.items():
            signatures.extend(parse_signatures(entries, signature_kind))

    def find_signatures(self, signature_kind: str, name: str) -> list[AbiSignature]:
        """Return the signatures with this name or full text; `indexed` inputs may differ."""
        return [
            signature
            for signature in self.signatures_by_kind[signature_kind]
            if name in (signature.name, signature.text)
        ]


def _parse_mapped_signatures(
    abi: _ContractAbi,
    signature_kind: str,
    table: Table,
    *,
    settings: ProfileSettings,
    compiler: MappingCompiler,
    faults: FaultCollector,
) -> list[MappedSignature]:
    """Return the events or functions of a table that have a mapping which the options enable."""
    mapped_signatures: list[MappedSignature] = []
    for name, rows in table.items():
        key = f"{abi.key}.{_TABLE_BY_KIND[signature_kind]}.{name}"
        signatures = abi.find_signatures(signature_kind, name)
        if not signatures:
            known_names = {
                known_signature.name for known_signature in abi.signatures_by_kind[signature_kind]
            }
            faults.add_fault(
                key, f"the ABI has no {signature_kind} {name}{suggest_name(name, known_names)}"
            )
        active, inactive = parse_event_mappings(key, rows, settings, faults)
        compile_mapping = (
            compiler.compile_event if signature_kind == "event" else compiler.compile_call
        )
        for signature in signatures:
            if any(signature is mapped.signature for mapped in mapped_signatures):
                faults.add_fault(key, f"{signature.text} is mapped by an earlier key already")
            if inactive:
                # Compiled only for its faults, so that they are reported before the option is set.
                compile_mapping(signature, inactive)
            mapped_signature = compile_mapping(signature, active) if active else None
            if mapped_signature is not None:
                mapped_signatures.append(mapped_signature)
    return mapped_signatures


_TABLE_BY_KIND = {"event": "events", "function": "calls"}


def _check_for_duplicates(
    key: str, events: Sequence[MappedSignature], faults: FaultCollector
) -> None:
    """Report events that cannot be distinguished.

    Logs that share a first topic are distinguished by their topic count and the length of their
    data.
    """
    text_by_shape: dict[tuple[object, ...], str] = {}
    for event in events:
        signature = event.signature
        topic_count = sum(parameter.indexed for parameter in signature.inputs)
        shape = (signature.digest, topic_count, event.data_length)
        if shape in text_by_shape:
            message = "is in the ABI twice, and its logs cannot be distinguished"
            faults.add_fault(f"{key}.abi", f"{signature.text} {message}")
        text_by_shape[shape] = signature.text


def _parse_optional_address(key: str, table: Table, faults: FaultCollector) -> str | None:
    address = table.get("address")
    if address is None:
        return None
    try:
        return parse_address(str(address))
    except HexNameError as error:
        faults.add_fault(f"{key}.address", str(error))
        return None


def _parse_start_block(key: str, table: Table, faults: FaultCollector) -> int | None:
    block = table.get("start_block")
    if block is None or (type(block) is int and block >= 0):
        return block
    faults.add_fault(f"{key}.start_block", "must be a block number")
    return None


def _parse_boolean(key: str, raw_value: object, faults: FaultCollector) -> bool:
    if isinstance(raw_value, bool):
        return raw_value
    faults.add_fault(key, "must be true or false")
    return False

"""Parses addresses, numbers and hashes from the command line, and formats contract values."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TypeVar

from oracle.chain.hex_names import HexNameError, parse_address, parse_hash
from oracle.cli.options import print_model
from oracle.domain.events.oracle_events import ContractKickLimits, RootsLimits
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.node_kicks import NEVER_EXPIRES
from oracle.errors import InputError
from oracle.queries.answers import ApiModel
from oracle.queries.text.human_numbers import format_duration
from oracle.queries.text.text_tables import format_block_time, print_facts

_Limits = TypeVar("_Limits", RootsLimits, ContractKickLimits)

# Field name suffixes of Unix timestamps, and of durations in seconds.
_TIME_SUFFIXES = ("_at", "paused_until")
_SPAN_SUFFIXES = (
    *("_seconds", "_delay", "_interval", "_cooldown"),
    *("kick_window", "bucket_frame"),
)
# Durations from this length on are shown in a larger unit.
_MIN_SPAN_SECONDS = 90
_SCORE_STEPS = 10_000


def _format_qos(steps: int) -> str:
    return f"QoS {steps / _SCORE_STEPS:.4f}"


def _format_node_share(parts: int) -> str:
    return f"{parts / _SCORE_STEPS:.2%} of the nodes"


# The format of each field's value. The meaning of the fields is defined in contracts/roots/core.
_FORMATTER_BY_NAME: Mapping[str, Callable[[int], str]] = {
    "kick_below": _format_qos,
    "big_fall": _format_qos,
    "fall_share": _format_node_share,
    "anchor_window": "{} blocks".format,
    "kick_gas": "{:,} gas".format,
}


def print_contract_result(result: ApiModel, *, as_json: bool) -> None:
    """Print a result as JSON, or as text without empty values."""
    if as_json:
        print_model(result)
    else:
        print_values(result.model_dump(exclude_none=True))


def print_values(values: Mapping[str, object]) -> None:
    """Print values as text, with dotted names for nested values."""
    value_by_name = dict(_flatten_values(values))
    width = max(map(len, value_by_name)) + 2
    print_facts(
        (
            (name.replace("_", " "), format_contract_value(name, value))
            for name, value in value_by_name.items()
        ),
        width,
    )


def format_contract_value(name: str, value: object) -> str:
    """Format a value as text according to the name of its field."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _format_number(name.rpartition(".")[2], value)
    if value == ZERO_ADDRESS:
        return "nobody"
    return "-" if value in {None, ""} else str(value)


def _format_number(name: str, value: int) -> str:
    if name.endswith(_TIME_SUFFIXES):
        return f"{format_block_time(value)} ({value})" if value else "never"
    if name.endswith(_SPAN_SUFFIXES):
        if value == NEVER_EXPIRES:
            return "forever"
        if value >= _MIN_SPAN_SECONDS:
            return f"{format_duration(value)} ({value} s)"
        return f"{value} s"
    formatter = _FORMATTER_BY_NAME.get(name)
    return str(value) if formatter is None else formatter(value)


def _flatten_values(
    values: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    """Yield nested values under their dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten_values(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            yield prefix + name, ", ".join(str(item) for item in value)
        else:
            yield prefix + name, value


_BYTES32_SIZE = 32


def parse_optional_address(text: str) -> Address:
    """Parse an address; an empty text means the zero address.

    Raises:
        InputError: the text is not a valid address.
    """
    return parse_required_address(text) if text else ZERO_ADDRESS


def parse_required_address(text: str) -> Address:
    """Parse a non-empty address, and return it in lower case.

    Raises:
        InputError: the text is empty or not a valid address.
    """
    if not text:
        raise InputError("the address is empty; expected 0x and 40 hex digits")
    try:
        return parse_address(text)
    except HexNameError as error:
        raise InputError(f"{text}: {error}") from error


def parse_addresses(text: str) -> list[Address]:
    """Parse a comma-separated list of addresses.

    Raises:
        InputError: an address is empty or not valid.
    """
    parts = [part.strip() for part in text.split(",")]
    if "" in parts:
        raise InputError(f"{text}: an address is empty; expected comma-separated addresses")
    return [parse_required_address(part) for part in parts]


def parse_whole_number(text: str) -> int:
    """Parse a non-negative whole number.

    Raises:
        InputError: the text is not a non-negative whole number.
    """
    if not text.isdecimal():
        raise InputError(f"{text}: must be a whole number")
    return int(text)


def parse_hash_bytes(text: str) -> bytes:
    """Parse a hash into its 32 bytes.

    Raises:
        InputError: the text is not 0x and 64 hex digits.
    """
    try:
        return bytes.fromhex(parse_hash(text)[2:])
    except HexNameError as error:
        raise InputError(f"{text}: {error}") from error


def encode_text_as_bytes32(text: str) -> bytes:
    """Encode a short text as zero-padded bytes32.

    Raises:
        InputError: the text is longer than 31 bytes.
    """
    text_bytes = text.encode()
    if len(text_bytes) >= _BYTES32_SIZE:
        raise InputError(f"{text}: the text is too long; expected at most 31 bytes")
    return text_bytes.ljust(_BYTES32_SIZE, b"\0")


def parse_limit(text: str, option: str = "--limit") -> tuple[str, int]:
    """Parse NAME=NUMBER, and return the limit's name and number.

    Raises:
        InputError: the text is not NAME=NUMBER.
    """
    name, equals, number = text.partition("=")
    if not equals or not number.isdecimal():
        raise InputError(f"{option} {text}: must be NAME=NUMBER")
    return name, int(number)


def parse_limits(limits_type: type[_Limits], text: str) -> tuple[int, ...]:
    """Parse NAME=NUMBER pairs, and return the values in the struct's field order.

    The contract replaces all limits at once, so each limit has to be given.

    Raises:
        InputError: a pair is malformed, or a limit is unknown, repeated or missing.
    """
    limit_pairs = [parse_limit(part.strip(), "limits") for part in text.split(",")]
    limit_by_name = dict(limit_pairs)
    limit_names = [limit_field.name for limit_field in fields(limits_type)]
    if len(limit_by_name) != len(limit_pairs) or limit_by_name.keys() != set(limit_names):
        raise InputError(f"limits {text}: expected each of these once: {', '.join(limit_names)}")
    return tuple(limit_by_name[name] for name in limit_names)


def parse_named_address(text: str) -> tuple[str, Address]:
    """Parse NAME=ADDRESS, and return the contract's name and address.

    Raises:
        InputError: the text is not NAME=0x…, or the address is not valid.
    """
    name, equals, address = text.partition("=")
    if not equals or not name or not address:
        raise InputError(f"--contract {text}: must be NAME=0x…")
    return name, parse_required_address(address)

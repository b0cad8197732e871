"""Builds one decoder for each event from its ABI, as closures over precomputed layouts.

A decoder checks the number of topics, the length and every unused bit, and then reads values at
fixed positions. Decoding is hundreds of times as fast as web3's `process_log`, and tested
against it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from oracle.chain.decode.abi import AbiSignature
from oracle.chain.decode.decoder_plan import plan_of
from oracle.chain.decode.record_filler import reader_of
from oracle.domain.logs import Log

# A log -> the requested values, in the requested order.
Decoder: TypeAlias = Callable[[Log], tuple[Any, ...]]


def decoder_of(event: AbiSignature, wanted: Sequence[str] | None = None) -> Decoder:
    """Return the decoder of an event; it raises ValueError for a log that is not of the event.

    Values are `int`, `bool`, `str` for strings and, as `0x` hex, for addresses and bytes, tuples
    for arrays, and the topic if an indexed value has a dynamic type. The decoder returns the
    inputs in `wanted_names` in that order, or else all inputs as declared.

    Raises:
        ValueError: the event has an input of an unsupported type.
    """
    names = wanted if wanted is not None else [parameter.name for parameter in event.inputs]
    plan = plan_of(event, names)
    take, getters = plan.take, [plan.inputs[name].read for name in names]

    def decode(log: Log) -> tuple[Any, ...]:
        parts = take(log)
        return tuple([get(parts) for get in getters])

    return decode


def log_reader(event: AbiSignature, wanted: Mapping[str, str], kind: type) -> Callable[[Log], Any]:
    """Return a reader that decodes a log and builds a `record_class` from it.

    `input_by_field` names the input for each field of that dataclass after position and time.

    Raises:
        ValueError: the event has an input of an unsupported type.
    """
    plan = plan_of(event, wanted.values())
    values = {own: plan.inputs[name].read for own, name in wanted.items()}
    return reader_of(kind, values, plan.take)

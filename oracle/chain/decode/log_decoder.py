"""Makes one decoder for each event out of its ABI: closures over what is known beforehand.

A decoder checks the number of topics, the length and every unused bit, and then takes what stands
at its place; it is hundreds of times as fast as web3's `process_log` and checked against it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from oracle.chain.decode.abi import AbiSignature
from oracle.chain.decode.decoder_plan import plan_of
from oracle.chain.decode.record_filler import reader_of
from oracle.domain.logs import Log

# A log -> the values asked for, in the order asked.
Decoder: TypeAlias = Callable[[Log], tuple[Any, ...]]


def decoder_of(event: AbiSignature, wanted: Sequence[str] | None = None) -> Decoder:
    """Return the decoder of an event; it raises ValueError for a log that is not of it.

    Values: `int`, `bool`, `str` for strings and, as `0x` hex, for addresses and bytes, tuples
    for arrays; the topic where a value of variable size is indexed. It returns those of the
    `wanted` inputs in that order; without `wanted` all, as declared.

    Raises:
        ValueError: the event has an input of a type that we do not read.
    """
    names = wanted if wanted is not None else [parameter.name for parameter in event.inputs]
    plan = plan_of(event, names)
    take, getters = plan.take, [plan.inputs[name].read for name in names]

    def decode(log: Log) -> tuple[Any, ...]:
        parts = take(log)
        return tuple([get(parts) for get in getters])

    return decode


def log_reader(event: AbiSignature, wanted: Mapping[str, str], kind: type) -> Callable[[Log], Any]:
    """Return what decodes a log as `decoder_of` does and makes a `kind` of it in one go.

    `wanted` names the input for each field of that dataclass after position and time.

    Raises:
        ValueError: the event has an input of a type that we do not read.
    """
    plan = plan_of(event, wanted.values())
    values = {own: plan.inputs[name].read for own, name in wanted.items()}
    return reader_of(kind, values, plan.take)

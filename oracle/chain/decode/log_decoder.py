"""Builds one decoder for each event from its ABI, as closures over precomputed layouts.

A decoder checks the number of topics, the length and every unused bit, and then reads values at
fixed positions. Decoding is hundreds of times as fast as web3's `process_log`, and tested
against it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from oracle.chain.decode.abi import AbiSignature
from oracle.chain.decode.decoder_plan import build_decoder_plan
from oracle.chain.decode.record_filler import build_record_reader
from oracle.domain.logs import Log

# A log -> the requested values, in the requested order.
Decoder: TypeAlias = Callable[[Log], tuple[Any, ...]]


def build_log_decoder(event: AbiSignature, wanted_names: Sequence[str] | None = None) -> Decoder:
    """Return a decoder for the logs of an event, which raises ValueError for any other log.

    The decoder returns the inputs in `wanted_names` in that order, or all inputs as declared.
    Values are `int`, `bool` or `str`; addresses and bytes are `0x` hex, and arrays are tuples. An
    indexed input of a dynamic type is returned as its topic.

    Raises:
        ValueError: the event has an input of an unsupported type.
    """
    names = (
        wanted_names
        if wanted_names is not None
        else [parameter.name for parameter in event.inputs]
    )
    plan = build_decoder_plan(event, names)
    split_log, getters = plan.split_log, [plan.value_by_input[name].getter for name in names]

    def decode_log(log: Log) -> tuple[Any, ...]:
        parts = split_log(log)
        return tuple([get_value(parts) for get_value in getters])

    return decode_log


def build_log_reader(
    event: AbiSignature, input_by_field: Mapping[str, str], record_class: type
) -> Callable[[Log], Any]:
    """Return a reader that decodes a log and builds a `record_class` from it.

    `input_by_field` names the event's input for each field of the record except position and time.

    Raises:
        ValueError: the event has an input of an unsupported type.
    """
    plan = build_decoder_plan(event, input_by_field.values())
    getter_by_field = {
        field: plan.value_by_input[name].getter for field, name in input_by_field.items()
    }
    return build_record_reader(record_class, getter_by_field, plan.split_log)

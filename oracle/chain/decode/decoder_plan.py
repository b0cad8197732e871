"""How the logs of an event, and the calls of a function, are taken apart (log_parts.py).

Taking a log apart checks the number of topics, the length and every unused bit.
"""

from binascii import unhexlify
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from oracle.chain.decode.abi import AbiSignature, Parameter
from oracle.chain.decode.abi_tails import MalformedError
from oracle.chain.decode.abi_words import BITS, Layout, layout, word_reader
from oracle.chain.decode.call_arguments import arguments_reader
from oracle.chain.decode.data_words import DataReader, DataWords, is_plain
from oracle.chain.decode.log_parts import Parts, TypedValue, in_a_row
from oracle.domain.logs import Call, Log

LogTaker: TypeAlias = Callable[[Log], Parts]
CallTaker: TypeAlias = Callable[[Call], Parts]

_PADDING = "0x" + 24 * "0"
_SELECTOR_DIGITS = 10


@dataclass(frozen=True, slots=True)
class DecoderPlan:
    """How the logs of one event are taken apart, and what reads each input of it.

    `take` raises ValueError for a log that is not of that event. An input's kind is "" where only
    a hash of its value is there. `digits`: how long the data is, in characters; None where that
    varies.
    """

    take: LogTaker
    inputs: Mapping[str, TypedValue]
    digits: int | None


def plan_of(event: AbiSignature, wanted: Collection[str]) -> DecoderPlan:
    """Return the plan for logs of an event; it reads the inputs of these names.

    Raises:
        ValueError: the event has an input of a type that we do not read.
    """
    indexed = [parameter for parameter in event.inputs if parameter.indexed]
    plain = [parameter for parameter in event.inputs if not parameter.indexed]
    inputs = {given.name: _topic(place, given) for place, given in enumerate(indexed, 1)}
    if all(is_plain(parameter.kind) for parameter in plain):
        data = DataWords.of(plain, wanted, 1 + len(indexed))
        read, digits = data.reader(), data.digits
        inputs |= data.inputs
    else:
        read, digits = arguments_reader([parameter.kind for parameter in plain]), None
        inputs |= in_a_row(plain, 1 + len(indexed))
    addresses = [place for place, given in enumerate(indexed, 1) if given.kind == "address"]
    return DecoderPlan(_taker(1 + len(indexed), addresses, digits, read), inputs, digits)


def call_inputs(function: AbiSignature) -> tuple[CallTaker, Mapping[str, TypedValue]]:
    """Return what takes a call of a function apart, and what reads each input of it.

    Behind the inputs stand sender, value and block.

    Raises:
        ValueError: the function has an input of a type that we do not read.
    """
    arguments = arguments_reader([parameter.kind for parameter in function.inputs])

    def take(call: Call) -> Parts:
        given = arguments(unhexlify(call.input[_SELECTOR_DIGITS:]))
        return (*given, call.sender, call.value, call.block)

    return take, in_a_row(function.inputs, 0)


def _taker(
    count: int, addresses: Sequence[int], digits: int | None, read: DataReader | None
) -> LogTaker:
    """Return what takes apart logs of `count` topics; without `read` nothing of the data."""

    def take(log: Log) -> Parts:
        topics, data = log.topics, log.data
        if len(topics) != count:
            raise MalformedError("number of topics")
        for place in addresses:
            if topics[place][:26] != _PADDING:
                raise MalformedError("topic")
        if read is not None:
            return topics + read(unhexlify(data[2:]))
        if len(data) != digits:
            raise MalformedError("length")
        return topics

    return take


def _topic(place: int, parameter: Parameter) -> TypedValue:
    """Return the reader of an indexed input."""
    shape = layout(parameter.kind)
    if shape is None:
        return TypedValue.at(place, "")
    if shape == Layout("bytes", BITS):
        return TypedValue.at(place, parameter.kind)
    if shape.family == "address":
        return TypedValue(lambda parts: "0x" + parts[place][26:], parameter.kind)
    word = word_reader(parameter.kind)
    return TypedValue(lambda parts: word(unhexlify(parts[place][2:])), parameter.kind)

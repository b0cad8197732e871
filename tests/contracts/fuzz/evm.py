"""The oracle and its network in an EVM in this process; results are decoded to plain words."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from eth_abi.abi import encode
from eth_utils.abi import (
    collapse_if_tuple,
    event_abi_to_log_topic,
    function_abi_to_4byte_selector,
)
from pyrevm import EVM, AccountInfo, BlockEnv

from tests.support.evm.artifacts import load_artifact

# The gas of a call, unless a caller limits it.
GAS = 12_000_000
DEPLOYER = "0x" + "d0" * 20
ARB_SYS = "0x" + "00" * 19 + "64"

# EIP-2935: the history contract of every chain with Prague, and the account that writes to it.
HISTORY = "0x0000f90827f1c53a10cb7a02335b175320002935"
HISTORY_CODE = bytes.fromhex(
    "3373fffffffffffffffffffffffffffffffffffffffe14604657602036036042575f35600143038111604257"
    "611fff81430311604257611fff9006545f5260205ff35b5f5ffd5b5f35611fff60014303065500"
)
SYSTEM = "0xfffffffffffffffffffffffffffffffffffffffe"

_OUTPUT = re.compile(r"output: 0x([0-9a-f]*)")


# Words are integers, structs tuples, arrays lists; bytes and lists are dynamic.
Argument = int | bytes | Sequence["Argument"]


class EmittedEvent(NamedTuple):
    """An event: its arguments as words, in the order of the ABI; dynamic ones as encoded."""

    name: str
    words: tuple[int, ...]


class Answer(NamedTuple):
    """The result of a call: the name of its error, or None, with its events and output."""

    error: str | None
    events: tuple[EmittedEvent, ...] = ()
    output: bytes = b""


class ConstructorError(Exception):
    """A constructor rejected its arguments; the text is the error's name."""


class Names:
    """Selectors, topics and errors of some artifacts."""

    def __init__(self, *artifacts: str) -> None:
        self.selectors: dict[str, bytes] = {}
        self.errors: dict[bytes, str] = {bytes.fromhex("4e487b71"): "Panic"}
        self.events: dict[bytes, tuple[str, list[bool]]] = {}
        for part in (part for name in artifacts for part in load_artifact(name)["abi"]):
            if part["type"] == "function":
                self.selectors[part["name"]] = function_abi_to_4byte_selector(part)
            elif part["type"] == "error":
                self.errors[function_abi_to_4byte_selector(part)] = part["name"]
            elif part["type"] == "event":
                indexed = [parameter["indexed"] for parameter in part["inputs"]]
                self.events[event_abi_to_log_topic(part)] = (part["name"], indexed)

    def encoded(self, function: str, *arguments: Argument) -> bytes:
        return self.selectors[function] + _encode_members(arguments)


def _encode_members(members: Sequence[Argument]) -> bytes:
    """Encode the members of a struct or an array; dynamic ones follow all others."""
    encoded = [(_is_dynamic(member), _encode(member)) for member in members]
    offset = sum(32 if is_dynamic else len(part) for is_dynamic, part in encoded)
    heads, tail = b"", b""
    for is_dynamic, part in encoded:
        heads += _word(offset + len(tail)) if is_dynamic else part
        tail += part if is_dynamic else b""
    return heads + tail


def _encode(argument: Argument) -> bytes:
    if isinstance(argument, int):
        return _word(argument)
    if isinstance(argument, bytes):
        return _word(len(argument)) + argument + bytes(-len(argument) % 32)
    size = _word(len(argument)) if isinstance(argument, list) else b""
    return size + _encode_members(argument)


def _is_dynamic(argument: Argument) -> bool:
    if isinstance(argument, tuple):
        return any(_is_dynamic(member) for member in argument)
    return not isinstance(argument, int)


def _word(number: int) -> bytes:
    return number.to_bytes(32)


def words_in(output: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(output[at : at + 32]) for at in range(0, len(output), 32))


@cache
def names_of(*artifacts: str) -> Names:
    """Return the names of some contracts, of the network, and of the double of ArbSys."""
    return Names(*artifacts, "testing/PlainNetwork", "testing/ArbSysDouble")


class Machine:
    """A chain without fees, whose blocks are made only on request."""

    def __init__(self, *artifacts: str) -> None:
        """Create the machine; the calls, events and errors of `artifacts` are known by name."""
        self._evm = EVM(spec_id="PRAGUE", gas_limit=30_000_000)
        self.number = self.time = 0
        self.names = names_of(*artifacts)

    def turn(self, number: int, time: int) -> None:
        """Set the block and the time of the next calls."""
        self.number, self.time = number, time
        self._evm.set_block_env(BlockEnv(number=number, timestamp=time, gas_limit=10**9))

    def remember(self, number: int, block_hash: bytes) -> None:
        """Store a block hash, as the chain does in the following block."""
        now = self.number
        self.turn(number + 1, self.time)
        self._evm.message_call(SYSTEM, HISTORY, block_hash)
        self.turn(now, self.time)

    def put(self, address: str, code: bytes) -> None:
        self._evm.insert_account_info(address, AccountInfo(nonce=1, code=code))

    def deploy(self, name: str, *arguments: Any) -> str:
        """Raises: ConstructorError: the constructor refuses."""
        compiled = load_artifact(name)
        code = bytes.fromhex(compiled["bytecode"][2:])
        constructors = [part for part in compiled["abi"] if part["type"] == "constructor"]
        kinds = [
            collapse_if_tuple(parameter) for part in constructors for parameter in part["inputs"]
        ]
        try:
            address: str = self._evm.deploy(DEPLOYER, code + encode(kinds, arguments))
        except RuntimeError as error:
            raise ConstructorError(self._reason(str(error))) from error
        return address.lower()

    @property
    def events(self) -> tuple[EmittedEvent, ...]:
        """Return the events of the last call."""
        result = self._evm.result
        return tuple(self._read(log.data) for log in result.logs) if result else ()

    def _read(self, log: Any) -> EmittedEvent:
        (topic, *indexed), log_data = log
        name, places = self.names.events[bytes(topic)]
        topics = (int.from_bytes(word) for word in indexed)
        plain = iter(words_in(bytes(log_data)))
        ordered = [next(topics if is_indexed else plain) for is_indexed in places]
        return EmittedEvent(name, (*ordered, *plain))

    def call(self, caller: str, to: str, calldata: bytes, gas: int = GAS) -> Answer:
        """Send a transaction; a failed one changes nothing."""
        try:
            output = self._evm.message_call(caller, to, calldata, gas=gas)
        except RuntimeError as error:
            return Answer(self._reason(str(error)))
        return Answer(None, self.events, bytes(output))

    def _reason(self, text: str) -> str:
        output = _OUTPUT.search(text)
        if output is None:
            return "halt"
        raw = bytes.fromhex(output[1])
        return self.names.errors.get(raw[:4], f"unnamed 0x{raw.hex()}")

    def view(self, to: str, function: str, *arguments: int) -> tuple[int, ...]:
        return words_in(
            self._evm.message_call(DEPLOYER, to, self.names.encoded(function, *arguments))
        )

    def read(self, to: str, function: str, *arguments: int) -> tuple[int, ...] | None:
        """Return what a view returns, or None if it reverts."""
        try:
            return self.view(to, function, *arguments)
        except RuntimeError:
            return None

    def mark(self) -> Any:
        """Return a snapshot of the state."""
        return self._evm.snapshot()

    def back(self, mark: Any) -> None:
        """Restore a snapshot."""
        self._evm.revert(mark)


def as_int(address: str) -> int:
    return int(address, 16)


def as_address(number: int) -> str:
    return f"0x{number:040x}"

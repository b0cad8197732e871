"""A chain that tests drive: one transaction per block, exact times, and reverts by error name."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import requests
from eth_abi.abi import decode
from eth_utils.abi import collapse_if_tuple, function_abi_to_4byte_selector
from hexbytes import HexBytes
from web3 import HTTPProvider, Web3
from web3.contract import Contract
from web3.contract.contract import ContractEvent
from web3.datastructures import AttributeDict
from web3.utils import abi as web3_abi

from tests.support.evm.artifacts import load_artifact

GAS = 12_000_000
# web3 checks an ABI when a contract is created, and again at each lookup of a function, twice per
# call: it hashes every signature to find equal selectors, which solc rejects. This took a third of
# the CPU time of reading a contract.
web3_abi.validate_abi = lambda abi: None  # type: ignore[attr-defined]  # noqa: ARG005


class RevertedError(AssertionError):
    """A transaction was mined and failed; `error` is the name of the contract's error."""

    def __init__(self, error: str, args: Sequence[Any]) -> None:
        super().__init__(f"{error}({', '.join(map(str, args))})")
        self.error = error
        self.values = tuple(args)


class DecodedEvent(NamedTuple):
    """One decoded event of a transaction."""

    event: str
    args: dict[str, Any]
    address: str


class Receipt(NamedTuple):
    """The results of a mined transaction."""

    raw: dict[str, Any]
    events: list[DecodedEvent]

    @property
    def names(self) -> list[str]:
        return [event.event for event in self.events]

    @property
    def gas(self) -> int:
        return int(self.raw["gasUsed"], 16)

    def only(self, event: str) -> dict[str, Any]:
        """Return the arguments of the only event with this name."""
        (arguments,) = (
            decoded_event.args for decoded_event in self.events if decoded_event.event == event
        )
        return arguments


class Chain:
    """Anvil through plain JSON-RPC, which is fast; web3 encodes and decodes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = requests.Session()
        # Otherwise every request searches the environment for a proxy.
        self.session.trust_env = False
        self.web3 = Web3(HTTPProvider(url, session=self.session))
        # The middleware would request the chain id before every call.
        self.web3.middleware_onion.remove("validation")
        self.accounts: list[str] = [Web3.to_checksum_address(a) for a in self.rpc("eth_accounts")]
        self.known: dict[str, Contract] = {}
        self.id = int(self.rpc("eth_chainId"), 16)
        free = int(self.rpc("eth_getBlockByNumber", "latest", False)["baseFeePerGas"], 16) == 0
        # If gas costs nothing, the tip is zero, too, so that balances are exact.
        self.price = {"gasPrice": "0x0"} if free else {}
        self._errors: dict[bytes, tuple[str, list[str]]] = {}
        self._events: dict[str, dict[bytes, ContractEvent]] = {}

    def close(self) -> None:
        self.session.close()

    # --- RPC ---

    def rpc(self, method: str, *params: Any) -> Any:
        return self.rpcs((method, *params))[0]

    def rpcs(self, *calls: tuple[Any, ...]) -> list[Any]:
        """Send all calls in one JSON-RPC batch, and return the results in order."""
        body = [
            {"jsonrpc": "2.0", "id": place, "method": call[0], "params": list(call[1:])}
            for place, call in enumerate(calls)
        ]
        answers = self.session.post(self.url, json=body, timeout=60).json()
        for answer in answers:
            if "error" in answer:
                raise RuntimeError(f"{calls[answer['id']][0]}: {answer['error']}")
        return [answer["result"] for answer in answers]

    # --- blocks and time ---

    @property
    def block(self) -> int:
        return int(self.rpc("eth_blockNumber"), 16)

    @property
    def time(self) -> int:
        """Return the timestamp of the last block."""
        return int(self.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    def steady(self) -> None:
        """Let each block follow one second after the last, however slow the machine is.

        Otherwise the outcome of a test could depend on where a second of the clock ends.
        """
        self.rpc("anvil_setBlockTimestampInterval", 1)

    def at(self, time: int) -> None:
        """Set the exact timestamp of the next block."""
        self.rpc("evm_setNextBlockTimestamp", time)

    def later(self, seconds: int) -> None:
        """Set the next block's timestamp to exactly `seconds` after the last block's."""
        self.at(self.time + seconds)

    def mine(self, blocks: int = 1) -> None:
        self.rpcs(*[("evm_mine",)] * blocks)

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Undo everything that happens within this context."""
        before = self.rpc("evm_snapshot")
        try:
            yield
        finally:
            self.rpcs(("anvil_dropAllTransactions",), ("evm_revert", before))

    # --- contracts ---

    def deploy(self, name: str, *args: Any, sender: str | None = None) -> Contract:
        return self.deploy_compiled(load_artifact(name), *args, sender=sender)

    def deploy_compiled(
        self, compiled: dict[str, Any], *args: Any, sender: str | None = None
    ) -> Contract:
        """Deploy a contract that is not in abi/, for example from another project."""
        abi = compiled["abi"]
        factory = self.web3.eth.contract(abi=abi, bytecode=compiled["bytecode"])
        code = factory.constructor(*args).data_in_transaction
        receipt = self.transact(data=code, sender=sender)
        return self._register(abi, receipt.raw["contractAddress"])

    def contract(self, name: str, address: str) -> Contract:
        """Return the contract of an artifact at an address, and register its errors and events."""
        return self._register(load_artifact(name)["abi"], address)

    def _register(self, abi: list[Any], address: str) -> Contract:
        contract = self.web3.eth.contract(address=Web3.to_checksum_address(address), abi=abi)
        for part in abi:
            if part["type"] == "error":
                kinds = [collapse_if_tuple(parameter) for parameter in part["inputs"]]
                self._errors[function_abi_to_4byte_selector(part)] = (part["name"], kinds)
        events = (
            getattr(contract.events, part["name"]) for part in abi if part["type"] == "event"
        )
        self._events[contract.address] = {bytes(HexBytes(e().topic)): e() for e in events}
        self.known[contract.address] = contract
        return contract

    # --- transactions ---

    def send(self, call: Any, *, sender: str | None = None, value: int = 0) -> Receipt:
        """Mine a contract call in its own block, and return the receipt.

        Raises:
            RevertedError: the transaction fails.
        """
        return self.transact(
            to=call.address, data=encode_calldata(call), sender=sender, value=value
        )

    def transact(self, **fields: Any) -> Receipt:
        transaction = self._request(**fields)
        sent, _ = self.rpcs(("eth_sendTransaction", transaction), ("evm_mine",))
        return self.receipt(sent)

    def together(self, *transactions: dict[str, Any]) -> list[str]:
        """Mine several transactions in one block, in this order; return their hashes.

        See `request`.
        """
        calls = [("eth_sendTransaction", transaction) for transaction in transactions]
        return [str(sent) for sent in self.rpcs(*calls, ("evm_mine",))[:-1]]

    def request(self, call: Any, *, sender: str | None = None, value: int = 0) -> dict[str, Any]:
        return self._request(
            to=call.address, data=encode_calldata(call), sender=sender, value=value
        )

    def _request(
        self, *, data: str, sender: str | None = None, to: str | None = None, value: int = 0
    ) -> dict[str, Any]:
        fields = {"from": sender or self.accounts[0], "data": data, "value": hex(value)}
        return {**fields, "gas": hex(GAS), **self.price} | ({"to": to} if to else {})

    def receipt(self, sent: str) -> Receipt:
        raw = self.rpc("eth_getTransactionReceipt", sent)
        if raw is None:
            raise RuntimeError(f"{sent} is in no block")
        if raw["status"] == "0x0":
            raise self._reason(sent)
        return Receipt(raw, [event for log in raw["logs"] for event in self._decode_log(log)])

    def _decode_log(self, log: dict[str, Any]) -> list[DecodedEvent]:
        address = Web3.to_checksum_address(log["address"])
        event = self._events.get(address, {}).get(bytes(HexBytes(log["topics"][0])))
        if event is None:
            return []
        args = event.process_log(to_web3_log(log))["args"]
        return [DecodedEvent(event.event_name, dict(args), address)]

    def _reason(self, sent: str) -> RevertedError:
        trace = self.rpc("debug_traceTransaction", sent, {"tracer": "callTracer"})
        output = bytes(HexBytes(trace.get("output", "0x")))
        name, kinds = self._errors.get(output[:4], (f"unnamed 0x{output.hex()}", []))
        return RevertedError(name, decode(kinds, output[4:]))


def encode_calldata(call: Any) -> str:
    return str(call._encode_transaction_data())


def to_web3_log(log: dict[str, Any]) -> Any:
    """Convert a log from the node's JSON to the form that web3's decoder expects."""
    numbers = {key: int(log[key], 16) for key in ("blockNumber", "logIndex", "transactionIndex")}
    byte_fields = {key: HexBytes(log[key]) for key in ("data", "blockHash", "transactionHash")}
    topics = [HexBytes(topic) for topic in log["topics"]]
    return AttributeDict({**log, **numbers, **byte_fields, "topics": topics})


__all__ = ["Chain", "DecodedEvent", "Receipt", "RevertedError", "encode_calldata"]

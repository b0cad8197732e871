"""The parts of a publisher that the world controls: HTTP, the key and the store.

Everything else is the product's code: `JsonRpcClient` with batches and errors, the services, and
SQLite.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from typing_extensions import override

from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.error_kinds import ErrorKind
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RpcError
from oracle.rpc.transport import BoundedHttp, RawHttpResponse
from oracle.signing.signer import SignedBytes, TransactionRequest
from oracle.signing.typed_data import Domain, SignableStatement
from oracle.store.database import UnitOfWork
from tests.simulation.chain import hash_of
from tests.simulation.memory import Memory
from tests.simulation.node import RefusedError
from tests.simulation.world import Died, World

SEND = "eth_sendRawTransaction"
US = Address("0x" + "5e" * 20)
SIGNER = Address("0x" + "51" * 20)
_RECEIPT, _BALANCE = "eth_getTransactionReceipt", "eth_getBalance"

# False responses by method, as parts of a JSON-RPC answer.
_FALSEHOODS: Mapping[str, Sequence[dict[str, Any]]] = {
    SEND: [
        {"error": {"code": -32000, "message": message}}
        for message in ("insufficient funds", "nonce too low", "intrinsic gas too low")
    ],
    _RECEIPT: [{"result": None}],
    _BALANCE: [{"result": "0x0"}],
    "eth_getTransactionCount": [{"result": "0x0"}, {"result": "0xffff"}],
    "eth_estimateGas": [{"error": {"code": 3, "message": "execution reverted"}}],
}

# Called with each send before the endpoint receives it.
Sending = Callable[[str], None]


@dataclass
class Talk:
    """The requests and responses of one process: hashes of receipts, and the balance in wei."""

    hashes: set[str] = field(default_factory=set)
    balance: int | None = None

    def record_requests(self, requests: list[dict[str, Any]]) -> None:
        """Record the hashes that the process looks for, whether or not the request arrives."""
        self.hashes.update(
            request["params"][0] for request in requests if request["method"] == _RECEIPT
        )

    def record_responses(
        self, requests: list[dict[str, Any]], responses: list[dict[str, Any]]
    ) -> None:
        """Record the balance that the process received."""
        for question, answer in zip(requests, responses, strict=True):
            if question["method"] == _BALANCE and "result" in answer:
                self.balance = int(answer["result"], 16)


class PaperSigner:
    """Signs without cryptography: equal transactions get equal bytes, which are not verified."""

    def __init__(self, world: World, address: Address = US) -> None:
        self._world = world
        self._address = address

    @property
    def address(self) -> Address:
        return self._address

    def sign_statement(self, statement: SignableStatement, domain: Domain) -> bytes:
        """Return 65 bytes that contain the digest."""
        self._world.point("after signing")
        return bytes.fromhex(statement.compute_digest(domain)[2:]).ljust(65, b"\x1b")

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Encode a transaction's fields as the chain decodes them.

        Raises:
            TransientError: the key cannot be reached.
        """
        if self._world.weather.strikes("key unreachable", 0.02):
            raise TransientError("the signer does not answer")
        fields = {
            "nonce": transaction.nonce,
            "calldata": transaction.calldata,
            "gas_limit": transaction.gas_limit,
            "max_fee": transaction.fees.max_fee,
            "tip": transaction.fees.tip,
        }
        raw = json.dumps(fields).encode()
        self._world.point("after signing")
        return SignedBytes(raw, Hash(hash_of(raw)))


class PaperHttp(BoundedHttp):
    """The HTTP transport of `JsonRpcClient`.

    Requests may not arrive, and responses may be lost.
    """

    def __init__(self, world: World, place: int, sending: Sending, talk: Talk) -> None:
        name = f"http://endpoint-{place}.test"
        super().__init__(name, name=name, max_bytes=2**20)
        self._world, self._place, self._sending, self._talk = world, place, sending, talk

    @override
    def post(
        self,
        body: bytes,
        timeout_seconds: float,
        whole_seconds: float,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> RawHttpResponse:
        """Send a request to the simulated endpoint."""
        world = self._world
        payload = msgspec.json.decode(body)
        requests = payload if isinstance(payload, list) else [payload]
        is_send = requests[0]["method"] == SEND
        self._talk.record_requests(requests)
        if is_send:
            world.point("before a send")
        if world.is_down(self._place) or world.weather.strikes("request lost", 0.04):
            raise self._silence()
        responses = [self._answer(request) for request in requests]
        if is_send:
            world.point("after a send")
        if world.weather.strikes("answer lost", 0.15 if is_send else 0.03):
            raise self._silence()
        self._talk.record_responses(requests, responses)
        answer = msgspec.json.encode(responses if isinstance(payload, list) else responses[0])
        return RawHttpResponse(200, {}, answer, is_truncated=False)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["method"] == SEND:
            self._sending(request["params"][0])
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        lie = self._lie(request["method"]) if self._world.setting.lies else None
        if lie is not None:
            return {**answer, **lie}
        try:
            result = self._world.nodes[self._place].answer(request["method"], request["params"])
        except RefusedError as error:
            return {**answer, "error": {"code": -32000, "message": str(error)}}
        return {**answer, "result": result}

    def _lie(self, method: str) -> dict[str, Any] | None:
        """Return a false response of the first endpoint, or None if it answers truthfully."""
        world = self._world
        falsehoods = _FALSEHOODS.get(method)
        if (
            self._place
            or falsehoods is None
            or not world.weather.strikes("lie", world.setting.lies)
        ):
            return None
        return world.dice.choice(falsehoods)

    def _silence(self) -> RpcError:
        return RpcError(self.name, ErrorKind.UNREACHABLE, "connection reset")


def pool_in(world: World, sending: Sending, talk: Talk | None = None) -> EndpointPool:
    """Return a pool of the world's endpoints; `talk` records requests and responses."""
    urls = [f"http://endpoint-{place}.test" for place in range(len(world.nodes))]
    pool = EndpointPool.from_urls(urls, 31337, world.seconds)
    for place, endpoint in enumerate(pool):
        endpoint.client._wire.http = PaperHttp(world, place, sending, talk or Talk())
    return pool


class MortalStore:
    """A store whose process may die or stall before a transaction, and around each commit.

    `judge` checks the database immediately after each write.
    """

    def __init__(self, store: Memory, world: World, judge: Callable[[], None]) -> None:
        self._store, self._world, self._judge = store, world, judge

    def read_transaction(self) -> AbstractContextManager[UnitOfWork]:
        return self._store.read_transaction()

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        self._world.point("before a transaction")
        before = self._store.writings
        with self._store.transaction() as uow:
            yield uow
            if self._world.weather.strikes("died before a commit", 0.004):
                raise Died("before a commit")
        if self._store.writings != before:
            self._judge()
        self._world.point("after a commit")

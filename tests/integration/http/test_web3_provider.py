"""web3 asks our endpoints and nobody else, and sends nothing."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from eth_typing import BlockNumber
from web3 import Web3
from web3.exceptions import ContractCustomError

from oracle.errors import FatalError, TransientError
from oracle.resources import find_shipped_path
from oracle.rpc.replies import JsonRpcErrorBody
from oracle.rpc.rpc_errors import ErrorKind, RevertError
from oracle.rpc.web3_provider import PoolProvider, build_web3

ABI = msgspec.json.decode(find_shipped_path("abi/roots/QoSRoots.json").read_bytes())["abi"]
CONTRACT = Web3.to_checksum_address("0x" + "0a" * 20)
WORD = f"{7:064x}"


class Answering:
    """Endpoints that answer in turn; an error in the list is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Sequence[Any]]] = []

    def request_all(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        self.asked += requests
        answers = [self.answers.pop(0) for _ in requests]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers


@pytest.mark.parametrize(
    "method",
    ["eth_sendRawTransaction", "eth_sendTransaction", "eth_sign", "eth_signTransaction",
     "eth_signTypedData_v4", "personal_sign", "personal_unlockAccount"],
)  # fmt: skip
def test_web3_provider_rejects_sending_and_signing(method: str):
    endpoints = Answering("0x")

    with pytest.raises(FatalError, match=method):
        PoolProvider(lambda: endpoints).make_request(method, [])  # type: ignore[arg-type]  # a NewType

    assert endpoints.asked == []


def test_web3_send_raw_transaction_fails_before_reaching_endpoint():
    endpoints = Answering("0x")

    with pytest.raises(FatalError):
        build_web3(lambda: endpoints).eth.send_raw_transaction(b"\x02")

    assert endpoints.asked == []


def test_view_is_called_at_requested_block():
    endpoints = Answering("0x" + WORD)
    contract = build_web3(lambda: endpoints).eth.contract(CONTRACT, abi=ABI)

    seconds = contract.functions.pauseSeconds().call(block_identifier=BlockNumber(18))

    assert seconds == 7
    ((method, (call, block)),) = endpoints.asked
    assert (method, call["to"], block) == ("eth_call", CONTRACT, "0x12")


def test_revert_is_raised_as_contract_custom_error():
    selector = Web3.keccak(text="TooSoon(uint256)")[:4].hex()
    reverted = RevertError(
        "a",
        ErrorKind.REFUSED,
        JsonRpcErrorBody(3, "execution reverted"),
        f"0x{selector}{WORD}",
    )
    contract = build_web3(lambda: Answering(reverted)).eth.contract(CONTRACT, abi=ABI)

    with pytest.raises(ContractCustomError) as raised:
        contract.functions.retryKick(CONTRACT).call()

    assert raised.value.data == f"0x{selector}{WORD}"


def test_unanswered_request_raises_transient_error():
    silent = Answering(TransientError("none answers"))

    with pytest.raises(TransientError, match="none answers"):
        _ = build_web3(lambda: silent).eth.block_number


def test_endpoint_pool_is_looked_up_again_for_every_request():
    first, second = Answering("0x1"), Answering("0x2")
    views = [first, second]
    web3 = build_web3(lambda: views.pop(0))

    assert [web3.eth.chain_id, web3.eth.chain_id] == [1, 2]


def test_batch_is_sent_to_one_endpoint():
    endpoints = Answering("0x" + WORD, "0x" + WORD)
    web3 = build_web3(lambda: endpoints)
    contract = web3.eth.contract(CONTRACT, abi=ABI)

    with web3.batch_requests() as batch:
        batch.add(contract.functions.pauseSeconds())
        batch.add(contract.functions.KEPT())
        returned = batch.execute()

    assert list[Any](returned) == [7, 7]
    assert [method for method, _ in endpoints.asked] == ["eth_call", "eth_call"]


def test_web3_has_no_middleware():
    assert build_web3(Answering).middleware_onion.as_tuple_of_middleware() == ()


IMPORTS = """
import sys
import oracle.cli.inspect.status_commands
from oracle.bindings.codec import encode_call, decode_result
decode_result("roots/QoSRoots", "pauseSeconds", "0x" + "00" * 32)
encode_call("roots/QoSRoots", "head")
print("web3" in sys.modules)
limit = sys.getrecursionlimit()
import oracle.rpc.web3_provider
print(limit == sys.getrecursionlimit())
"""


@pytest.mark.slow
def test_contract_view_imports_no_web3_and_web3_import_keeps_recursion_limit():
    command = [sys.executable, "-c", IMPORTS]
    stdout = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert stdout.split() == ["False", "True"]

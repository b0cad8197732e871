"""The checks of endpoints and contracts at startup."""

import json

import pytest

from oracle.chain.profiles.event_reader import EventReader
from oracle.errors import InputError, TransientError
from oracle.resources import find_shipped_path
from tests.pools import source_on
from tests.support.chain.fixtures import OpenSource, Serve
from tests.support.chain.memory_chain import MemoryChain, MemoryRpcError
from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.chain.server import Http, Request, Served


def code_of(contract: str) -> str:
    code: str = json.loads(find_shipped_path(f"abi/{contract}.json").read_text())[
        "deployedBytecode"
    ]
    return code


@pytest.fixture
def settled(served: Served) -> Served:
    """Return an endpoint whose chain has both contracts."""
    served.chain.code = {NETWORK: code_of("TaskNetwork"), ORACLE: code_of("roots/QoSRoots")}
    return served


def test_correct_contracts_pass_the_check(settled: Served, open_source: OpenSource):
    open_source(settled).check_endpoints()


def test_address_without_code_raises_input_error(settled: Served, open_source: OpenSource):
    del settled.chain.code[NETWORK]

    with pytest.raises(InputError, match=f"TaskNetwork at {NETWORK}: there is no contract"):
        open_source(settled).check_endpoints()


def test_error_for_a_wrong_contract_names_the_missing_event(
    settled: Served, open_source: OpenSource
):
    settled.chain.code[ORACLE] = code_of("TaskNetwork")

    with pytest.raises(InputError, match=r"QoSRoots at .*does not emit .*RoundAccepted"):
        open_source(settled).check_endpoints()


def test_wrong_chain_raises_input_error(settled: Served, open_source: OpenSource):
    settled.chain.chain_id = 1

    with pytest.raises(InputError, match="is on chain 1"):
        open_source(settled).check_endpoints()


@pytest.mark.parametrize(
    ("http", "reason"),
    [
        (Http(status=401), "HTTP 401"),
        (Http(body=b"<html>", headers={"Content-Type": "text/html"}), "text/html instead of JSON"),
        (
            Http(body=b"   ", headers={"Content-Type": "application/json"}),
            "returned application/json, but the body is not JSON",
        ),
        (Http(status=404), "HTTP 404"),
    ],
)
def test_http_refusal_at_startup_is_transient(
    settled: Served, open_source: OpenSource, http: Http, reason: str
):
    settled.faults.append(lambda _: http)

    with pytest.raises(TransientError, match=reason):
        open_source(settled).check_endpoints()


def test_unreachable_endpoint_at_startup_is_transient(reader: EventReader):
    source = source_on(reader, "http://127.0.0.1:1")

    with pytest.raises(TransientError, match="no endpoint answers"):
        source.check_endpoints()


def test_unavailable_endpoint_does_not_prevent_startup(
    settled: Served, serve: Serve, open_source: OpenSource
):
    down = serve(MemoryChain())
    down.faults.append(lambda _: Http(status=502))

    open_source(down, settled).check_endpoints()


@pytest.mark.parametrize("http", [Http(status=401), Http(status=404)])
def test_unusable_endpoint_is_quarantined(
    settled: Served, serve: Serve, open_source: OpenSource, http: Http
):
    wrong = serve(MemoryChain())
    wrong.faults.append(lambda _: http)
    source = open_source(wrong, settled)

    source.check_endpoints()

    assert list(source.endpoints.get_quarantine_reasons()) == [wrong.url]


def test_endpoint_of_another_chain_is_quarantined(
    settled: Served, serve: Serve, open_source: OpenSource
):
    wrong = serve(MemoryChain(chain_id=5))
    source = open_source(wrong, settled)

    source.check_endpoints()

    assert source.endpoints.get_quarantine_reasons() == {
        wrong.url: "is on chain 5, but [chain] id is 31337"
    }


def test_all_endpoints_on_another_chain_raise_input_error(serve: Serve, open_source: OpenSource):
    with pytest.raises(InputError, match="is on chain 5"):
        open_source(*(serve(MemoryChain(chain_id=5)) for _ in range(2))).check_endpoints()


def test_missing_endpoints_raise_input_error(reader: EventReader):
    for urls in ([], [""]):
        with pytest.raises(InputError, match="endpoints"):
            source_on(reader, *urls)


def test_missing_get_code_support_raises_transient_error(settled: Served, open_source: OpenSource):
    def fault(request: Request) -> None:
        if request["method"] == "eth_getCode":
            raise MemoryRpcError(-32601, "the method eth_getCode does not exist")

    settled.faults.append(fault)

    with pytest.raises(TransientError, match="not supported"):
        open_source(settled).check_endpoints()

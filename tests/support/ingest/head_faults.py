"""Faults of an endpoint that shows a newest block far above the chain's."""

from typing import Any

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.requests import FakeRequest
from tests.support.ingest.fake_chain import FakeChain


def build_invented_head_fault(lead: int) -> InjectedFault:
    """Return a fault that shows a head `lead` blocks above the chain's, and no `finalized`."""

    def change_result(request: FakeRequest, result: Any) -> object:
        if request.params[0] == "finalized":
            return None
        if request.params[0] != "latest":
            return result
        return _raise_block(result, lead)

    return InjectedFault(
        "an invented head", change_result, limits={"methods": "eth_getBlockByNumber"}
    )


def build_shown_head_fault(chain: FakeChain, lead: int) -> InjectedFault:
    """Return a fault that shows an invented head, also by its number, but no block below it."""

    def change_result(request: FakeRequest, result: Any) -> object:
        height_or_tag = request.params[0]
        if height_or_tag not in {"latest", hex(chain.head.number + lead)}:
            return result
        newest = chain.provider.handle_call("eth_getBlockByNumber", ["latest", False])
        return _raise_block(newest, lead)

    return InjectedFault("a shown head", change_result, limits={"methods": "eth_getBlockByNumber"})


def _raise_block(header: Any, lead: int) -> dict[str, Any]:
    number = int(header["number"], 16) + lead
    time = int(header["timestamp"], 16) + 12 * lead
    invented = {"number": hex(number), "timestamp": hex(time), "hash": f"0x{number:064x}"}
    return {**header, **invented}

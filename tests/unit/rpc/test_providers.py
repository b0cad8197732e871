"""Which endpoints count as the same witness."""

from socket import gaierror

import pytest
from hypothesis import given, strategies as st

from oracle.rpc.endpoints.providers import (
    WitnessQuorum,
    find_repeated_url,
    get_host,
    get_provider,
    list_shared_address_warnings,
)

labels = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://a.example.com/v3/KEY1", "https://b.example.com/v3/KEY2"),
        ("https://example.com", "http://EXAMPLE.com.:8545/x"),
        ("https://eth-mainnet.g.example.com", "https://x.y.z.example.com"),
        ("http://10.0.0.7:8545", "http://10.0.0.7:8546"),
        ("http://127.0.0.1:8545/a", "http://127.0.0.1:8545/b"),
        ("http://[2001:db8::1]:8545", "http://[2001:db8::1]:8546"),
        ("https://localhost", "https://localhost:443/key"),
        ("http://localhost:8545", "http://127.0.0.1:8545"),
        ("http://node.localhost:8545", "http://[::1]:8545"),
        ("http://127.0.0.2:8545", "http://LOCALHOST.:8545"),
        ("http://0.0.0.0:8545", "http://127.1:8545"),
        ("http://2130706433:8545", "http://[::ffff:127.0.0.1]:8545"),
        ("http://[2001:db8::1]:8545", "http://[2001:0DB8:0::1]:8545"),
        ("http://10.0.0.7:8545", "http://[::ffff:10.0.0.7]:8545"),
    ],
)
def test_urls_with_the_same_domain_or_machine_have_one_provider(first: str, second: str):
    assert get_provider(first) == get_provider(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://example.com", "https://example.net"),
        ("http://geth:8545", "http://erigon:8545"),
        ("http://a.chain.internal", "http://b.chain.internal"),
        ("http://10.0.0.7:8545", "http://10.0.0.8:8545"),
        ("http://127.0.0.1:8545", "http://127.0.0.1:8546"),
        ("http://localhost:8545", "http://localhost:8546"),
    ],
)
def test_urls_with_different_domains_have_different_providers(first: str, second: str):
    assert get_provider(first) != get_provider(second)


@pytest.mark.parametrize(
    "second",
    [
        "http://localhost:8545",
        "http://127.0.0.1:8545/",
        " HTTP://LocalHost:8545",
        "https://127.1:8545//",
    ],
)
def test_url_that_leads_to_the_same_address_counts_as_repeated(second: str):
    urls = ["http://rpc.test", "http://127.0.0.1:8545", "http://127.0.0.1:8546", second]
    assert find_repeated_url(urls, {}) == (2, 4)


def test_url_with_explicit_default_port_counts_as_repeated():
    assert find_repeated_url(["https://rpc.test/key", "https://RPC.test:443/key/"], {}) == (1, 2)


@pytest.mark.parametrize(
    "second",
    [
        "https://rpc.test/second-key",
        "https://rpc.test/key?token=second",
        "https://second:key@rpc.test/key",
        "https://rpc.test:8545/key",
    ],
)
def test_url_with_another_key_or_port_is_not_repeated(second: str):
    assert find_repeated_url(["https://rpc.test/key", second], {}) is None


def test_url_with_a_configured_provider_is_not_repeated():
    urls = ["http://127.0.0.1:8545", "http://localhost:8545"]
    assert find_repeated_url(urls, {"localhost": "second"}) is None


def test_host_belongs_to_its_configured_provider():
    named = {"eth.example.com": "one", "gateway.net": "one", "b.example.com": "two"}

    assert get_provider("https://eth.example.com/KEY", named) == "one"
    assert get_provider("https://gateway.net/KEY", named) == "one"
    assert get_provider("https://b.example.com", named) == "two"
    assert get_provider("https://c.example.com", named) == "example.com"


@given(host=st.lists(labels, min_size=2, max_size=5).map(".".join), key=labels)
def test_key_in_url_does_not_change_the_provider(host: str, key: str):
    url = f"https://{host}/{key}?token={key}"

    assert get_provider(url) == get_provider(f"https://{host}")
    assert get_host(url) == host


@pytest.mark.parametrize(
    ("providers", "agreeing", "expected"),
    [
        (["one", "one", "two"], [0, 1], False),
        (["one", "one", "two"], [0, 2], True),
        (["one", "two"], [1], False),
        (["one", "one"], [0, 1], True),
        (["one", "one"], [0], False),
        (["one"], [0], True),
        (["one", "two"], [], False),
    ],
)
def test_quorum_needs_two_providers_or_two_endpoints(
    providers: list[str], agreeing: list[int], *, expected: bool
):
    names = [f"https://{place}.test" for place in range(len(providers))]
    quorum = WitnessQuorum(dict(zip(names, providers, strict=True)))

    assert quorum.size == min(2, len(providers))
    assert quorum.is_reached_by([names[place] for place in agreeing]) is expected


def test_repeated_endpoint_is_counted_once():
    quorum = WitnessQuorum({"https://a.test": "one", "https://b.test": "one"})
    assert quorum.count_witnesses(["https://a.test", "https://a.test"]) == 1


def test_removed_endpoint_counts_as_witness_of_its_domain():
    names = ["https://b.example.com", "https://rpc.other.net"]
    quorum = WitnessQuorum(dict(zip(names, ["example.com", "other.net"], strict=True)))
    earlier = "https://a.example.com"

    assert quorum.count_witnesses([earlier, names[0]]) == 1
    assert quorum.list_endpoints_of_same_witness(earlier) == {earlier, names[0]}
    assert quorum.list_endpoints_of_same_witness(names[1]) == {names[1]}


def test_endpoints_are_separate_witnesses_if_there_is_one_provider():
    names = ["https://a.example.com", "https://b.example.com"]
    quorum = WitnessQuorum(dict.fromkeys(names, "example.com"))

    assert quorum.list_endpoints_of_same_witness(names[0]) == {names[0]}
    assert (quorum.count_witnesses(names), quorum.witness_kind) == (2, "endpoint")


SHARED_ADDRESS = "198.51.100.7"
# What DNS returns for each host.
ADDRESSES = {
    "rpc.example": ["203.0.113.1", SHARED_ADDRESS],
    "other.test": [SHARED_ADDRESS],
    SHARED_ADDRESS: [SHARED_ADDRESS],
    "separate.test": ["203.0.113.9"],
    "node.lan": ["127.0.0.1"],
    "localhost": ["::1", "127.0.0.1"],
}


def resolve(host: str, port: int, type: int) -> list[tuple[object, ...]]:  # noqa: A002  as in socket
    if host not in ADDRESSES:
        raise gaierror
    return [(None, type, 6, "", (address, port)) for address in ADDRESSES[host]]


@pytest.mark.parametrize(
    ("urls", "positions"),
    [
        (["https://rpc.example/KEY", f"http://{SHARED_ADDRESS}:8545"], "1, 2"),
        (["https://other.test", "https://separate.test", "https://rpc.example"], "1, 3"),
        (["http://localhost:8545", "http://node.lan:8545"], "1, 2"),
    ],
)
def test_providers_with_shared_address_are_reported(
    monkeypatch: pytest.MonkeyPatch, urls: list[str], positions: str
):
    monkeypatch.setattr("oracle.rpc.endpoints.providers.getaddrinfo", resolve)
    (warning,) = list_shared_address_warnings(urls, {})
    assert warning.startswith(f"endpoints {positions} have the same address ")
    assert "KEY" not in warning

    provider_by_host = {get_host(url): "same" for url in urls}
    assert list_shared_address_warnings(urls, provider_by_host) == []


@pytest.mark.parametrize(
    "urls",
    [
        ["https://rpc.example", "https://separate.test"],
        ["https://rpc.example", "https://unknown.test"],
        ["http://localhost:8545", "http://node.lan:8546"],
        ["https://rpc.example:99999", "https://other.test"],
    ],
)
def test_separate_addresses_are_not_reported(monkeypatch: pytest.MonkeyPatch, urls: list[str]):
    monkeypatch.setattr("oracle.rpc.endpoints.providers.getaddrinfo", resolve)
    assert list_shared_address_warnings(urls, {}) == []

"""`proof --bundle`, and the checks of `/verify` against a chain: logs, root and signatures."""

import copy
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests
from typing_extensions import override

from tests.integration.daemon.test_bundle_checks import change_digit
from tests.support.bundles import Bundle
from tests.support.cli.bundled_network import Json, ReaderEvidence, bundle_first_node, load_bundle
from tests.support.cli.local_network import run_local_network
from tests.support.page_scripts import needs_node, run_page_script

pytestmark = [pytest.mark.evm, pytest.mark.slow, needs_node]
SCRIPT = """async ({ cases, urls, server }) => {
  const results = [];
  for (const { bundle, anchor, events } of cases) {
    const checks = [
      ...checkEntered(bundle, anchor),
      ...checkBundle(bundle, events),
      checkEndpoints(urls, [server]),
      ...(await checkOnChain(bundle, anchor, makeComparingClient(urls), () => {})),
    ];
    results.push({ checks, verdict: summarizeChecks(checks) });
  }
  return results;
}"""
OTHER_ADDRESS = "0x" + 40 * "5"
OTHER_HASH = "0x" + 64 * "5"


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bundled")


@pytest.fixture(scope="module")
def evidence(network, folder) -> ReaderEvidence:
    return bundle_first_node(network, folder)


def run_checks(
    url: str, *cases: ReaderEvidence, server: str = "https://oracle.example"
) -> list[dict[str, Any]]:
    content = {"cases": [vars(case) for case in cases], "urls": url.split(), "server": server}
    results: list[dict[str, Any]] = run_page_script(SCRIPT, content)
    return results


def list_results(result: Json) -> dict[str, bool | None]:
    return {check["name"]: check["is_true"] for check in result["checks"]}


def list_unproven(result: Json) -> set[str]:
    return {name for name, is_true in list_results(result).items() if is_true is not True}


def test_bundle_of_accepted_round_is_confirmed(network, evidence):
    without = replace(evidence, events=None)
    confirmed, partial = run_checks(network.url, evidence, without)
    assert list_unproven(confirmed) == set()
    assert confirmed["verdict"]["state"] == "confirmed"
    assert list_unproven(partial) == {"All events"}
    assert partial["verdict"]["state"] == "partial"
    assert partial["verdict"]["headline"].endswith("Still open: All events.")


def forge(evidence: ReaderEvidence, change: Callable[[Bundle], object]) -> ReaderEvidence:
    """Return a copy of the evidence whose bundle is changed."""
    bundle = copy.deepcopy(evidence.bundle)
    change(bundle)
    assert bundle != evidence.bundle
    return replace(evidence, bundle=bundle)


def forget_signatures(bundle: Bundle) -> None:
    bundle["signed_round"].update(signatures=[], deadline=None)


def test_missing_signatures_are_read_from_the_push_transaction(network, evidence):
    (result,) = run_checks(network.url, forge(evidence, forget_signatures))
    assert list_results(result)["Signatures"] is None
    assert list_results(result)["Sent signatures"] is True
    assert result["verdict"]["state"] == "confirmed"


def change_log(bundle: Bundle) -> None:
    log = bundle["logs"][0]
    log["topics"][-1] = change_digit(log["topics"][-1])


def move_log(bundle: Bundle) -> None:
    bundle["logs"][0]["log"] += 1000


def change_event_node(bundle: Bundle) -> None:
    for event in bundle["events"]:
        if event.get("node") == bundle["node"]:
            event["node"] = "0x" + 40 * "1"


def change_event_type(bundle: Bundle) -> None:
    """State that a submission was a timeout; task and node stay."""
    next(event for event in bundle["events"] if event["type"] == "task_submitted").update(
        type="task_timed_out"
    )


def change_creators(bundle: Bundle) -> None:
    for event in bundle["events"]:
        if event["type"] == "task_created":
            event["creator"] = OTHER_ADDRESS


def detach_creation(bundle: Bundle) -> None:
    """State that an event comes from calldata; the events of a feed have no log either."""
    next(event for event in bundle["events"] if event["type"] == "task_created").update(log=-1)


def change_profile(bundle: Bundle) -> None:
    content = json.loads(bundle["rules_id"])
    content["profile"] = "own"
    bundle["rules_id"] = json.dumps(content, sort_keys=True, separators=(",", ":"))


def change_round(**values: object) -> Callable[[Bundle], None]:
    return lambda bundle: bundle["signed_round"].update(values)


# Each forgery, and the check that has to name it.
FORGERIES: dict[str, tuple[str, Callable[[Bundle], object]]] = {
    "chain": ("Oracle contract", change_round(chain_id=1)),
    "contract": ("Oracle contract", change_round(contract=OTHER_ADDRESS)),
    "root": ("Root", change_round(root=OTHER_HASH)),
    "round-that-does-not-exist": ("Root", change_round(round=1_000)),
    "as-of-hash": ("As-of block", change_round(as_of_hash=OTHER_HASH)),
    "as-of-hash-of-acceptance": ("Acceptance", change_round(as_of_hash=OTHER_HASH)),
    "as-of-time": ("As-of block", change_round(as_of_time=7)),
    "configuration": ("Acceptance", change_round(config=OTHER_HASH)),
    "acceptance": (
        "Acceptance",
        lambda bundle: bundle["signed_round"]["accepted_at"].update(block=1),
    ),
    "transaction": (
        "Acceptance",
        lambda bundle: bundle["signed_round"]["accepted_at"].update(transaction=OTHER_HASH),
    ),
    "signed-values": ("Sent signatures", change_round(root=OTHER_HASH)),
    "log": ("Logs", change_log),
    "log-position": ("Logs", move_log),
    "log-block": ("Logs", lambda bundle: bundle["logs"][0].update(block_hash=OTHER_HASH)),
    "log-address": ("Logs", lambda bundle: bundle["logs"][0].update(address=OTHER_ADDRESS)),
    "log-of-another-contract": (
        "Network contracts",
        lambda bundle: bundle["logs"][0].update(address=OTHER_ADDRESS),
    ),
    "event-time": ("Logs", lambda bundle: [event.update(time=7) for event in bundle["events"]]),
    "event-node": ("Contents", change_event_node),
    "event-creator": ("Contents", change_creators),
    "event-of-another-type": ("Profile", change_event_type),
    "unknown-hold": ("Profile", lambda bundle: bundle.update(holds_kickouts=True)),
    "event-without-log": ("Contents", lambda bundle: bundle["logs"].pop()),
}


def test_bundle_value_that_the_chain_contradicts_is_reported(network, evidence):
    forged = [forge(evidence, change) for _, change in FORGERIES.values()]
    for (name, (check, _)), result in zip(
        FORGERIES.items(), run_checks(network.url, *forged), strict=True
    ):
        assert list_results(result)[check] is False, name
        assert result["verdict"]["state"] == "wrong", name


# The parts that a reader or server omits, the check that stays open, and the state of the
# verdict.
OMISSIONS: dict[str, tuple[str, str, Callable[[ReaderEvidence], ReaderEvidence]]] = {
    "contract-not-entered": (
        "Oracle contract",
        "consistent",
        lambda document: replace(document, anchor={**document.anchor, "contract": None}),
    ),
    "chain-not-entered": (
        "Oracle contract",
        "consistent",
        lambda document: replace(document, anchor={**document.anchor, "chain_id": None}),
    ),
    "network-contracts-not-entered": (
        "Network contracts",
        "partial",
        lambda document: replace(document, anchor={**document.anchor, "network_contracts": []}),
    ),
    "configuration-left-out": (
        "Rules",
        "partial",
        lambda document: forge(document, change_round(configuration=None)),
    ),
    "time-left-out": (
        "All events",
        "partial",
        lambda document: forge(document, change_round(as_of_time=None)),
    ),
    "event-of-no-log": (
        "Contents",
        "partial",
        lambda document: replace(forge(document, detach_creation), events=None),
    ),
    "another-profile": ("Profile", "wrong", lambda document: forge(document, change_profile)),
    "no-events-in-file": ("All events", "partial", lambda document: replace(document, events=[])),
}


def test_incomplete_bundle_is_never_confirmed(network, evidence):
    cases = [change(evidence) for _, _, change in OMISSIONS.values()]
    for (name, (check, state, _)), result in zip(
        OMISSIONS.items(), run_checks(network.url, *cases), strict=True
    ):
        assert list_results(result)[check] is None, name
        assert result["verdict"]["state"] == state, name


def test_bundle_without_logs_and_events_lists_skipped_checks(network, evidence):
    """If the leaf has scores, an empty list does not prove them."""
    without_logs = forge(evidence, lambda bundle: bundle.update(logs=[]))
    without_both = forge(evidence, lambda bundle: bundle.update(logs=[], events=[]))
    only_logs, both = run_checks(network.url, without_logs, without_both)
    assert list_results(only_logs)["Logs"] is None
    assert list_results(only_logs)["Contents"] is False
    assert (list_results(both)["Logs"], list_results(both)["Contents"]) == (None, None)
    assert both["verdict"]["state"] == "wrong"


def test_endpoint_of_the_bundle_server_does_not_count_as_independent(network, evidence):
    (result,) = run_checks(network.url, evidence, server=network.url)
    assert list_results(result)["Endpoint"] is None
    assert result["verdict"]["state"] == "consistent"


def test_bundle_of_an_address_without_an_oracle_contract_is_rejected(network, evidence):
    """An invented bundle, whose contract the reader copied from the bundle itself."""
    invented = forge(evidence, change_round(contract=OTHER_ADDRESS))
    invented = replace(invented, anchor={**invented.anchor, "contract": OTHER_ADDRESS})
    (result,) = run_checks(network.url, invented)
    assert list_results(result)["Root"] is None
    assert list_results(result)["Acceptance"] is False
    assert result["verdict"]["state"] == "wrong"


def test_checks_remain_unfinished_if_the_endpoint_does_not_respond(evidence):
    """A failed request proves neither an error nor the bundle."""
    (result,) = run_checks("http://127.0.0.1:9", evidence)
    on_chain = {"Chain", "Root", "Acceptance", "Newest round", "As-of block", "Logs"}
    assert {name for name in on_chain if list_results(result)[name] is not None} == set()
    assert result["verdict"]["state"] == "consistent"


def test_older_round_is_confirmed_only_if_the_reader_chose_it(network, evidence, folder):
    """A server must not present an old round with a better score as the newest."""
    older = evidence.bundle["signed_round"]["round"] - 1
    options = ("--round", str(older))
    path = folder / "older.json"
    node = evidence.bundle["node"]
    bundle = load_bundle(folder / "config.toml", node, path, *options)
    unchosen = replace(evidence, bundle=bundle)
    chosen = replace(unchosen, anchor={**evidence.anchor, "chosen_round": older})
    first, second = run_checks(network.url, unchosen, chosen)
    assert list_results(first)["Newest round"] is None
    assert first["verdict"]["state"] == "partial"
    assert list_results(second)["Newest round"] is True
    assert second["verdict"]["state"] == "confirmed"


class LyingEndpoint(BaseHTTPRequestHandler):
    """Forwards requests to an endpoint, but returns another root for every round."""

    url: str

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        request = json.loads(body)
        answer = requests.post(self.url, json=request, timeout=30).json()
        if request["method"] == "eth_call":
            answer["result"] = OTHER_HASH
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    @override
    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def lying_url(network) -> Iterator[str]:
    handler = type("Handler", (LyingEndpoint,), {"url": network.url})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_second_endpoint_detects_a_false_root(network, evidence, lying_url):
    """Alone it would confirm an invented root; with two endpoints, the difference is reported."""
    invented = forge(evidence, change_round(root=OTHER_HASH))
    (alone,) = run_checks(lying_url, invented)
    assert list_results(alone)["Root"] is True
    (together,) = run_checks(f"{lying_url} {network.url}", invented)
    assert list_results(together)["Root"] is None
    assert together["verdict"]["state"] == "wrong"
    (honest,) = run_checks(f"{network.url} {network.url}", evidence)
    assert honest["verdict"]["state"] == "confirmed"

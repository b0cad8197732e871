"""`proof --bundle`, and the checks of `/verify` against a chain: logs, root and signatures."""

import copy
import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from oracle.cli.main import run
from tests.integration.daemon.test_bundle_checks import CHECK_SCRIPTS, change_digit
from tests.support.bundles import Bundle
from tests.support.cli.local_network import local_network, write

NODE = shutil.which("node") or ""
pytestmark = [
    pytest.mark.evm,
    pytest.mark.slow,
    pytest.mark.skipif(not NODE, reason="node runs the scripts"),
]
# With the page's means to send requests.
RUNNER = """
const { readFileSync } = require("node:fs");
const vm = require("node:vm");
const page = { input: readFileSync(0, "utf8"), TextEncoder, fetch };
page.window = page;
vm.createContext(page);
for (const path of process.argv.slice(1)) {
  vm.runInContext(readFileSync(path, "utf8"), page);
}
vm.runInContext(`(async () => {
  const { bundles, url } = JSON.parse(input);
  const results = [];
  for (const bundle of bundles) {
    const onChain = await checkOnChain(bundle, makeRpcClient(url), () => {});
    results.push({ own: checkBundle(bundle, null), on_chain: onChain });
  }
  return JSON.stringify(results);
})()`, page).then(console.log);
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


@pytest.fixture(scope="module")
def bundle(network, tmp_path_factory) -> Bundle:
    """The bundle of a node with scores in the newest round."""
    folder = tmp_path_factory.mktemp("bundled")
    config = write(network.settings(folder), folder / "config.toml")
    for _ in range(3):
        assert run(["run", "--once", "--publish", "--config", str(config)]) == 0
        network.play(2)
    assert run(["run", "--once", "--config", str(config)]) == 0
    path = folder / "bundle.json"
    node = next(iter(network.stage.nodes.values()))
    assert run(["proof", node, "--bundle", str(path), "--config", str(config)]) == 0
    written: Bundle = json.loads(path.read_text("utf-8"))
    assert written["scores"]
    return written


def run_checks(url: str, *bundles: Bundle) -> list[dict[str, list[dict[str, Any]]]]:
    completed = subprocess.run(
        [NODE, "-e", RUNNER, *CHECK_SCRIPTS],
        input=json.dumps({"bundles": bundles, "url": url}),
        capture_output=True,
        text=True,
        check=True,
    )
    results: list[dict[str, list[dict[str, Any]]]] = json.loads(completed.stdout)
    return results


def list_results(checks: list[dict[str, Any]]) -> dict[str, bool | None]:
    return {check["name"]: check["is_true"] for check in checks}


def test_bundle_of_a_real_round_is_proven_on_the_chain(network, bundle):
    (results,) = run_checks(network.url, bundle)
    assert list_results(results["on_chain"]) == dict.fromkeys(
        ("Chain", "Contract", "As-of block", "Sent signatures", "Contents", "Logs"), True
    )
    assert {name for name, is_true in list_results(results["own"]).items() if not is_true} == {
        "All events"
    }


def forget_signatures(bundle: Bundle) -> None:
    bundle["signed_round"].update(signatures=[], deadline=None)


def test_signatures_are_read_from_the_transaction_of_the_round(network, bundle):
    without = copy.deepcopy(bundle)
    forget_signatures(without)
    (results,) = run_checks(network.url, without)
    assert list_results(results["own"])["Signatures"] is None
    assert list_results(results["on_chain"])["Sent signatures"] is True


def change_log(bundle: Bundle) -> None:
    log = bundle["logs"][0]
    log["topics"][-1] = change_digit(log["topics"][-1])


def move_log(bundle: Bundle) -> None:
    bundle["logs"][0]["log"] += 1000


def change_event_node(bundle: Bundle) -> None:
    for event in bundle["events"]:
        if event.get("node") == bundle["node"]:
            event["node"] = "0x" + 40 * "1"


FORGERIES: dict[str, tuple[str, Callable[[Bundle], object]]] = {
    "chain": ("Chain", lambda bundle: bundle["signed_round"].update(chain_id=1)),
    "root": ("Contract", lambda bundle: bundle["signed_round"].update(root="0x" + 64 * "5")),
    "as-of-hash": (
        "As-of block",
        lambda bundle: bundle["signed_round"].update(as_of_hash="0x" + 64 * "5"),
    ),
    "as-of-time": ("As-of block", lambda bundle: bundle["signed_round"].update(as_of_time=7)),
    "signed-values": (
        "Sent signatures",
        lambda bundle: bundle["signed_round"].update(root="0x" + 64 * "5"),
    ),
    "log": ("Logs", change_log),
    "log-position": ("Logs", move_log),
    "log-block": ("Logs", lambda bundle: bundle["logs"][0].update(block_hash="0x" + 64 * "5")),
    "log-address": ("Logs", lambda bundle: bundle["logs"][0].update(address="0x" + 40 * "5")),
    "event-time": ("Logs", lambda bundle: [event.update(time=7) for event in bundle["events"]]),
    "event-node": ("Contents", change_event_node),
    "event-without-log": ("Contents", lambda bundle: bundle["logs"].pop()),
}


def test_each_value_that_is_not_on_the_chain_is_named(network, bundle):
    forged_bundles = []
    for _, forge in FORGERIES.values():
        forged = copy.deepcopy(bundle)
        forge(forged)
        forged_bundles.append(forged)
    results = run_checks(network.url, *forged_bundles)
    for (name, (check, _)), result in zip(FORGERIES.items(), results, strict=True):
        assert list_results(result["on_chain"])[check] is False, name


def test_endpoint_that_does_not_answer_leaves_the_checks_open(bundle):
    """A refused request is no proof that anything is wrong."""
    (results,) = run_checks("http://127.0.0.1:9", bundle)
    on_chain = list_results(results["on_chain"])
    assert on_chain.pop("Contents") is True
    assert set(on_chain.values()) == {None}

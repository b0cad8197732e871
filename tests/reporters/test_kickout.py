"""A node that deserves it is kicked out by two signatures, once, on evidence that all agree on."""

from pathlib import Path

from oracle.chain.abi import load
from oracle.demo.cast import HOPELESS
from tests.reporters.company import Company

# Waves until its pool of fifty is full, and rounds until all that has to pass has passed.
_WAVES, _MOST_ROUNDS = 52, 14


def test_a_kickout_is_proposed_and_executed_once_by_two_signatures_through_the_doors(
    three: Company,
):
    three.network.play(_WAVES)
    three.start()
    for _ in range(_MOST_ROUNDS):
        if logs(three, "KickExecuted"):
            break
        three.round_of(*three.members)
    three.caught_up()

    node = three.network.stage.nodes[HOPELESS.name]
    (proposed,) = logs(three, "KickProposed")
    (executed,) = logs(three, "KickExecuted")
    assert executed["topics"][2] == proposed["topics"][2] == "0x" + node[2:].rjust(64, "0")
    shown = [one.get(f"/v1/kick/{node}").json()["statements"][0] for one in three.members]
    assert len({one["digest"] for one in shown}) == 1
    assert len({one["signer"] for one in shown}) == len(three.members)
    # The same file at each, named by the hash that is on the chain.
    files = [evidence(one.folder) for one in three.members]
    assert files[0]
    assert files == [files[0]] * len(files)
    three.check_digests()


def logs(three: Company, event: str) -> list[dict[str, list[str]]]:
    """The contract's events of this name."""
    topic = load("QoSOracle").event(event).digest
    asked = {"address": three.contract, "fromBlock": "0x0", "topics": [topic]}
    return list(three.network.stage.chain.ask("eth_getLogs", asked))


def evidence(folder: Path) -> dict[str, bytes]:
    """Every file of evidence that was laid down there."""
    return {one.name: one.read_bytes() for one in sorted((folder / "evidence").iterdir())}

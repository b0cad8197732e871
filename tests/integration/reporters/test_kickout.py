"""A node that deserves it is kicked out by two signatures, once, on evidence that all agree on."""

from collections import Counter
from hashlib import sha256

from devnet.demo.cast import HOPELESS
from oracle.chain.decode.abi import load_abi
from tests.integration.reporters.company import QUORUM, Company
from tests.integration.reporters.member import Member

# Waves until its pool of fifty is full, and rounds until all that has to pass has passed.
_WAVES, _MOST_ROUNDS = 52, 14


def test_kickout_is_proposed_and_executed_once_with_two_signatures(
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
    assert executed["topics"][1] == proposed["topics"][1] == "0x" + node[2:].rjust(64, "0")
    # The round that it was proposed in, its lane, and the hash of the evidence.
    named = proposed["data"][2:][128:192]
    signed = {member.name: digests(member, node, named) for member in three.members}
    by = [member for member in three.members if signed[member.name]]
    # Whoever looked later than the others has perhaps signed on another round.
    same = Counter(digest for shown in signed.values() for digest in shown)
    assert max(same.values()) >= QUORUM
    for member in by:
        file = member.folder / "evidence" / f"0x{named}.json"
        assert sha256(file.read_bytes()).hexdigest() == named
    three.check_digests()


def logs(three: Company, event: str) -> list[dict[str, str]]:
    """The contract's events of this name."""
    topic = load_abi("QoSOracle").get_event(event).digest
    log_filter = {"address": three.contract, "fromBlock": "0x0", "topics": [topic]}
    return list(three.network.stage.chain.make_request("eth_getLogs", log_filter))


def digests(member: Member, node: str, evidence: str) -> set[str]:
    """What it shows that it signed against a node on this evidence."""
    answered = member.get(f"/v1/kick/{node}")
    assert answered.status_code in {200, 404}, answered.text
    statements = answered.json()["statements"] if answered.status_code == 200 else []
    return {
        statement["digest"] for statement in statements if statement["evidence"] == f"0x{evidence}"
    }

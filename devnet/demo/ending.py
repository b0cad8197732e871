"""The end of the demo: kickout and contest as recorded on chain, and the summary."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from devnet.anvil import LocalChain
from devnet.demo.cast import DARWIN, HOPELESS
from devnet.demo.stage import GAS, MODEL, STAKE, VERSION, Clock, Stage
from devnet.demo.verify import Compared, ScoreVerification
from oracle.bindings.codec import decode_error_name, encode_call
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address
from oracle.errors import FatalError


@dataclass(frozen=True, slots=True)
class KickoutOnChain:
    """The kickout of the hopeless node as recorded in the chain's logs.

    Amounts are in wei, 0 if nothing was paid.
    """

    executed_in: str | None
    seen_by_network: bool
    withdrawn: int
    rejoin: str

    def faults(self) -> list[str]:
        """Return one line per missing part of the kickout."""
        missing = []
        if self.executed_in is None:
            missing.append("no kickout was executed by executeKick")
        elif not self.seen_by_network:
            missing.append("the network did not say NodeKickedOut where the oracle executed it")
        if self.withdrawn != STAKE:
            missing.append(f"the stake was not withdrawn: {self.withdrawn} of {STAKE} wei")
        if self.rejoin != "KickedOut":
            missing.append(f"the kicked-out node's re-join was not refused: {self.rejoin}")
        return missing


@dataclass(frozen=True, slots=True)
class ContestOnChain:
    """The contest of the node with the false result, as recorded in the chain's logs.

    `second_group`: the nodes that computed the group's tasks again. `slashed`: the slashed part of
    the stake, in wei. `settled_in`: the transaction of the member that settled the contest.
    """

    second_group: list[str]
    slashed: int
    settled_in: str | None

    def faults(self) -> list[str]:
        """Return one line per missing part of the contest."""
        missing = []
        if not self.second_group:
            missing.append("the daemon ordered no second group for the contest of the liar")
        if self.slashed != STAKE:
            missing.append(f"the liar was not slashed: {self.slashed} of {STAKE} wei")
        return missing


@dataclass(frozen=True, slots=True)
class DrawAgreement:
    """The number of started tasks, and of those started on the node that was drawn."""

    started: int
    agree: int

    def faults(self) -> list[str]:
        """Return one line per fault of the draws."""
        if not self.started:
            return ["no task was started by a draw"]
        others = self.started - self.agree
        return [f"{others} tasks were started on a node that was not drawn"] if others else []


@dataclass(frozen=True, slots=True)
class ContractReading:
    """The contract's score of one node; `qos` in 1/10,000."""

    name: str
    node: Address
    selectable: bool
    qos: int
    equal: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of the demo; an empty `faults` means that all checks passed.

    `kickout_played` is false if the user ended the demo before the kickout.
    """

    blocks: int
    chain_seconds: int
    rounds: int
    as_of: int
    events: int
    nodes: list[ContractReading]
    draws: DrawAgreement
    kickout: KickoutOnChain
    contest: ContestOnChain
    addresses: dict[str, str]
    faults: list[str] = field(default_factory=list)
    kickout_played: bool = True

    @property
    def holds(self) -> bool:
        return not self.faults

    def to_json(self) -> str:
        """Return the summary as JSON."""
        return json.dumps({"holds": self.holds, **asdict(self)}, indent=2)


def end_of_the_hopeless(stage: Stage, clock: Clock) -> KickoutOnChain:
    """Let the kicked-out node withdraw and try to join again, and return the chain's record."""
    node = stage.nodes[HOPELESS.name]
    executed = _topic_logs(stage.chain, stage.oracle, "QoSOracle", "KickExecuted")
    seen = _topic_logs(stage.chain, stage.network, "TaskNetwork", "NodeKickedOut")
    executed_in = executed[-1]["transactionHash"] if executed else None
    if executed_in is not None:
        stage.chain.mine(clock.next_block(), [stage.call(node, "TaskNetwork", "withdraw")])
    paid = [
        int(log["data"], 16)
        for log in _topic_logs(stage.chain, stage.network, "TaskNetwork", "Withdrawn")
        if log["topics"][1].endswith(node[2:])
    ]
    return KickoutOnChain(
        executed_in=executed_in,
        seen_by_network=any(log["transactionHash"] == executed_in for log in seen),
        withdrawn=min(sum(paid), STAKE),
        rejoin=_try_to_join(stage),
    )


def read_contest(stage: Stage) -> ContestOnChain:
    """Return the contest, its second group and the slashed stake from the chain's logs."""
    liar = stage.nodes[DARWIN.name]
    slashes = [
        log
        for log in _topic_logs(stage.chain, stage.network, "TaskNetwork", "NodeSlashed")
        if log["topics"][1].endswith(liar[2:])
    ]
    ordered = {
        log["transactionHash"]
        for log in _topic_logs(stage.chain, stage.network, "TaskNetwork", "GroupRevalidates")
    }
    starts = _topic_logs(stage.chain, stage.network, "TaskNetwork", "TaskStarted")
    return ContestOnChain(
        second_group=[
            stage.name_of(Address("0x" + log["topics"][2][-40:]))
            for log in starts
            if log["transactionHash"] in ordered
        ],
        slashed=sum(int(log["data"], 16) for log in slashes),
        settled_in=slashes[0]["transactionHash"] if slashes else None,
    )


def drawn_again(configuration: Path) -> DrawAgreement:
    """Verify every draw in a separate process, as anyone can.

    Raises:
        FatalError: the draws could not be verified.
    """
    asked = ["select", "--verify", "all", "--json", "--config", str(configuration)]
    told = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-m", "oracle", *asked], capture_output=True, text=True, check=False
    )
    if not told.stdout:
        raise FatalError(f"the draws cannot be verified: {told.stderr.strip()}")
    answer = json.loads(told.stdout)
    return DrawAgreement(answer["started"], answer["agree"])


def summed_up(
    stage: Stage,
    clock: Clock,
    verdict: ScoreVerification,
    draws: DrawAgreement,
    endings: tuple[KickoutOnChain, ContestOnChain],
) -> Summary:
    """Combine the results about scores, draws, kickout and contest into a summary."""
    kickout, contest = endings
    faults = [
        f"{stage.name_of(one.node)}: the chain says {one.on_chain}, its logs say {one.recomputed}"
        for one in verdict.wrong
    ]
    return Summary(
        blocks=int(stage.chain.ask("eth_blockNumber"), 16),
        chain_seconds=clock.now - clock.start,
        rounds=verdict.round,
        as_of=verdict.as_of,
        events=verdict.events,
        nodes=[_told(stage, one) for one in verdict.nodes],
        draws=draws,
        kickout=kickout,
        contest=contest,
        addresses={"chain": stage.chain.url, "network": stage.network, "oracle": stage.oracle},
        faults=faults + draws.faults() + kickout.faults() + contest.faults(),
    )


def _told(stage: Stage, one: Compared) -> ContractReading:
    selectable, qos = one.on_chain
    return ContractReading(stage.name_of(one.node), one.node, selectable, qos, one.is_equal)


def _topic_logs(
    chain: LocalChain, address: str, contract: str, event: str
) -> list[dict[str, str]]:
    topic = load_abi(contract).get_event(event).digest
    asked = {"address": address, "fromBlock": "0x0", "toBlock": "latest", "topics": [topic]}
    found: list[dict[str, str]] = chain.ask("eth_getLogs", asked)
    return found


def _try_to_join(stage: Stage) -> str:
    """Return the name of the error that rejects the re-join, or `accepted`."""
    hardware = (HOPELESS.gpu_name, HOPELESS.gpu_vram, *VERSION, [MODEL])
    call = {
        "from": stage.nodes[HOPELESS.name],
        "to": stage.network,
        "data": encode_call("TaskNetwork", "join", *hardware),
        "value": hex(STAKE),
        "gas": GAS,
    }
    refusal = stage.chain.refusal(call)
    return "accepted" if refusal is None else decode_error_name("TaskNetwork", refusal)

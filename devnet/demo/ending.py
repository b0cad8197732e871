"""Reads how the demo ended from the chain, and builds its summary."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from devnet.anvil import LocalChain
from devnet.demo.demo_nodes import DARWIN, HOPELESS
from devnet.demo.node_proofs import fetch_api_json, fetch_node_proof
from devnet.demo.objector import ObjectionInApi
from devnet.demo.stage import GAS, MODEL, STAKE, VERSION, ChainClock, Stage
from devnet.demo.verify import ScoreComparison, ScoreVerification
from oracle.bindings.codec import decode_error_name, decode_result, encode_call
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import LANES_PER_WORD
from oracle.errors import FatalError


@dataclass(frozen=True, slots=True)
class KickoutOnChain:
    """The kickout of the hopeless node in the chain's logs.

    `by_stranger` is set if an account without any role sent accusation and execution. Amounts are
    in wei, 0 if nothing was paid.
    """

    accused_in: str | None
    executed_in: str | None
    by_stranger: bool
    seen_by_network: bool
    withdrawn: int
    rejoin: str

    def list_faults(self) -> list[str]:
        """List the missing parts of the kickout, one per line."""
        faults = []
        if self.executed_in is None:
            faults.append("no kickout was executed by executeKick")
        elif not self.by_stranger:
            faults.append("the kickout was not accused and executed by the account without a role")
        elif not self.seen_by_network:
            faults.append("the kickout's transaction has no NodeKickedOut event of the network")
        if self.withdrawn != STAKE:
            faults.append(f"the stake was not withdrawn: {self.withdrawn} of {STAKE} wei")
        if self.rejoin != "KickedOut":
            faults.append(f"the kicked-out node's re-join was not refused: {self.rejoin}")
        return faults


@dataclass(frozen=True, slots=True)
class ContestOnChain:
    """The contest about a wrong result in the chain's logs.

    `second_group` lists the nodes that computed the group's tasks again. `slashed` is the slashed
    part of the stake in wei. `settled_in` is the transaction in which a member settled the
    contest.
    """

    second_group: list[str]
    slashed: int
    settled_in: str | None

    def list_faults(self) -> list[str]:
        """List the missing parts of the contest, one per line."""
        faults = []
        if not self.second_group:
            faults.append("the daemon ordered no second group for the contest of the lying node")
        if self.slashed != STAKE:
            faults.append(f"the lying node was not slashed: {self.slashed} of {STAKE} wei")
        return faults


@dataclass(frozen=True, slots=True)
class HotSetOnChain:
    """The scores in the contract QoSWords, which the network reads without proofs.

    `round` is the newest round of any word (a storage slot with the scores of several nodes), or 0
    without a word. `readable` lists the nodes that have a lane in a word and a score there.
    `wrong` lists the nodes whose score in the lane differs from their leaf in the round of the
    word.
    """

    round: int
    readable: list[str]
    wrong: list[str]

    def list_faults(self) -> list[str]:
        """List the wrong scores, one per line.

        If there is no score at all, one line says so.
        """
        if not self.round:
            return ["the daemon has written no scores to the contract that the network reads"]
        return [f"{name}: the score in QoSWords differs from the leaf" for name in self.wrong]


@dataclass(frozen=True, slots=True)
class BurstInApi:
    """The API's incident about the application whose tasks all timed out.

    `timeouts` is the number of its tasks that timed out. `marked` is the number of timeouts that
    the nodes' histories attribute to the incident.
    """

    is_found: bool
    is_over: bool
    timeouts: int
    marked: int

    def list_faults(self) -> list[str]:
        """List the missing parts of the incident, one per line."""
        if not self.is_found:
            return ["no incident was found of the application whose tasks all timed out"]
        faults = [] if self.is_over else ["the incident is not over"]
        if self.marked != self.timeouts:
            faults.append(f"the incident marks {self.marked} of {self.timeouts} timeouts")
        return faults


@dataclass(frozen=True, slots=True)
class DrawAgreement:
    """The number of started tasks, and of those that started on the drawn node."""

    started: int
    agree: int

    def list_faults(self) -> list[str]:
        """List the faults of the draws, one per line."""
        if not self.started:
            return ["no task was started by a draw"]
        mismatch_count = self.started - self.agree
        if mismatch_count:
            return [f"{mismatch_count} tasks were started on a node that was not drawn"]
        return []


@dataclass(frozen=True, slots=True)
class ContractReading:
    """The score in a node's leaf.

    `qos` is in 1/10,000. `proven` is set if a contract verified the leaf's proof, and `equal` if a
    replay yields the same score.
    """

    name: str
    node: Address
    selectable: bool
    qos: int
    proven: bool
    equal: bool


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """The results of the demo.

    An empty `faults` means that all checks passed. `kickout_played` is false, and `objections` is
    empty, if the user ended the demo before the kickout. `burst` is None if the demo had no burst
    of timeouts, or ended before the kickout.
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
    hot_set: HotSetOnChain
    burst: BurstInApi | None
    objections: list[ObjectionInApi]
    addresses: dict[str, str]
    faults: list[str] = field(default_factory=list)
    kickout_played: bool = True

    @property
    def has_passed(self) -> bool:
        return not self.faults

    def to_json(self) -> str:
        return json.dumps({"holds": self.has_passed, **asdict(self)}, indent=2)


def withdraw_stake_and_simulate_rejoin(stage: Stage, clock: ChainClock) -> KickoutOnChain:
    """Withdraw the kicked-out node's stake, and simulate that it joins again.

    The result is the kickout on chain.
    """
    hopeless_address = stage.nodes[HOPELESS.name]
    accusation_tx_hash = _find_kick_transaction(stage, "KickAccused", hopeless_address)
    execution_tx_hash = _find_kick_transaction(stage, "KickExecuted", hopeless_address)
    kicked_out_logs = _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "NodeKickedOut")
    if execution_tx_hash is not None:
        stage.chain.mine(
            clock.advance(), [stage.build_transaction(hopeless_address, "TaskNetwork", "withdraw")]
        )
    withdrawn_amounts = [
        int(log["data"], 16)
        for log in _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "Withdrawn")
        if log["topics"][1].endswith(hopeless_address[2:])
    ]
    return KickoutOnChain(
        accused_in=accusation_tx_hash,
        executed_in=execution_tx_hash,
        by_stranger={
            _fetch_sender(stage, accusation_tx_hash),
            _fetch_sender(stage, execution_tx_hash),
        }
        == {stage.stranger},
        seen_by_network=any(
            log["transactionHash"] == execution_tx_hash for log in kicked_out_logs
        ),
        withdrawn=min(sum(withdrawn_amounts), STAKE),
        rejoin=_simulate_rejoin(stage),
    )


def fetch_contest(stage: Stage) -> ContestOnChain:
    """Read the contest, its second group and the slashed stake from the chain's logs."""
    liar_address = stage.nodes[DARWIN.name]
    slash_logs = [
        log
        for log in _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "NodeSlashed")
        if log["topics"][1].endswith(liar_address[2:])
    ]
    revalidation_hashes = {
        log["transactionHash"]
        for log in _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "GroupRevalidates")
    }
    start_logs = _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "TaskStarted")
    return ContestOnChain(
        second_group=[
            stage.get_node_name(Address("0x" + log["topics"][2][-40:]))
            for log in start_logs
            if log["transactionHash"] in revalidation_hashes
        ],
        slashed=sum(int(log["data"], 16) for log in slash_logs),
        settled_in=slash_logs[0]["transactionHash"] if slash_logs else None,
    )


def compare_hot_set_with_leaves(
    stage: Stage, verification: ScoreVerification, api_url: str
) -> HotSetOnChain:
    """Compare each node's score in QoSWords with its leaf in the same round.

    Raises:
        FatalError: the API does not respond, or cannot prove a node.
    """
    newest_round = 0
    readable_names, wrong_names = [], []
    for comparison in verification.nodes:
        node = comparison.node
        last_proof = fetch_node_proof(api_url, node, verification.round)
        if last_proof is None:
            raise FatalError(f"{api_url}: no proof of node {node}")
        seat = last_proof.leaf.seat
        ((word_round,),) = _call_hot_set(stage, "roundsAt", seat // LANES_PER_WORD, 1)
        if last_proof.is_absent or not word_round:
            continue
        newest_round = max(newest_round, word_round)
        name = stage.get_node_name(node)
        round_proof = fetch_node_proof(api_url, node, word_round)
        expected_lane = (
            0 if round_proof is None or round_proof.is_absent else round_proof.leaf.lane
        )
        if _call_hot_set(stage, "laneAt", seat) != (expected_lane,):
            wrong_names.append(name)
        is_known, *_ = _call_hot_set(stage, "scoreOf", node)
        if is_known:
            readable_names.append(name)
    return HotSetOnChain(newest_round, readable_names, wrong_names)


def fetch_burst_incident(stage: Stage, api_url: str) -> BurstInApi:
    """Fetch the incident of the failing application, and the number of its timeouts.

    Raises:
        FatalError: the API does not respond.
    """
    creator = stage.failing_creator
    timeout_logs = _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "TaskTimedOut")
    creation_logs = _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "TaskCreated")
    creator_task_keys = {
        log["topics"][1] for log in creation_logs if log["topics"][2].endswith(creator[2:])
    }
    incidents = [
        incident
        for incident in fetch_api_json(f"{api_url}/v1/incidents")["incidents"]
        if incident["creator"] == creator
    ]
    incident_numbers = {incident["number"] for incident in incidents}
    histories = [
        fetch_api_json(f"{api_url}/v1/nodes/{node}/history") for node in stage.nodes.values()
    ]
    return BurstInApi(
        is_found=bool(incidents),
        is_over=all(incident["over_time"] is not None for incident in incidents),
        timeouts=sum(log["topics"][1] in creator_task_keys for log in timeout_logs),
        marked=sum(
            mark["incident"] in incident_numbers
            for history in histories
            for mark in history["marks"]
        ),
    )


def _call_hot_set(stage: Stage, view: str, *arguments: object) -> tuple[Any, ...]:
    call = {"to": stage.hot_set, "data": encode_call("roots/QoSWords", view, *arguments)}
    result_hex = stage.chain.make_request("eth_call", call, "latest")
    return decode_result("roots/QoSWords", view, result_hex)


def verify_draws(configuration: Path) -> DrawAgreement:
    """Verify every draw in a separate process, as anyone else could.

    Raises:
        FatalError: the draws could not be verified.
    """
    arguments = ["select", "--verify", "all", "--json", "--config", str(configuration)]
    completed_process = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-m", "oracle", *arguments], capture_output=True, text=True, check=False
    )
    if not completed_process.stdout:
        raise FatalError(f"the draws cannot be verified: {completed_process.stderr.strip()}")
    verification = json.loads(completed_process.stdout)
    return DrawAgreement(verification["started"], verification["agree"])


def build_summary(
    stage: Stage,
    clock: ChainClock,
    verification: ScoreVerification,
    draws: DrawAgreement,
    results: tuple[KickoutOnChain, ContestOnChain, HotSetOnChain, BurstInApi | None],
    *,
    objections: list[ObjectionInApi],
) -> DemoSummary:
    """Build the summary of the demo from the results of all checks."""
    kickout, contest, hot_set, burst = results
    faults = [
        fault
        for comparison in verification.nodes
        for fault in _list_score_faults(stage.get_node_name(comparison.node), comparison)
    ]
    for result in (draws, *results, *objections):
        faults += [] if result is None else result.list_faults()
    return DemoSummary(
        blocks=int(stage.chain.make_request("eth_blockNumber"), 16),
        chain_seconds=clock.now - clock.start,
        rounds=verification.round,
        as_of=verification.as_of,
        events=verification.events,
        nodes=[_build_contract_reading(stage, comparison) for comparison in verification.nodes],
        draws=draws,
        kickout=kickout,
        contest=contest,
        hot_set=hot_set,
        burst=burst,
        objections=objections,
        addresses={
            "chain": stage.chain.url,
            "network": stage.network,
            "oracle": stage.oracle,
            "words": stage.hot_set,
            "objections": stage.objections,
            "timelock": stage.timelock,
        },
        faults=faults,
    )


def _build_contract_reading(stage: Stage, comparison: ScoreComparison) -> ContractReading:
    is_selectable, qos = comparison.in_leaf
    return ContractReading(
        stage.get_node_name(comparison.node),
        comparison.node,
        is_selectable,
        qos,
        comparison.is_proven,
        comparison.is_equal,
    )


def _list_score_faults(name: str, comparison: ScoreComparison) -> list[str]:
    """List the faults of a node's score, one per line."""
    faults = []
    if not comparison.is_proven:
        faults.append(f"{name}: the proof of its leaf does not lead to the root on chain")
    if not comparison.is_equal:
        faults.append(
            f"{name}: the score in its leaf is {comparison.in_leaf}, but a replay of the logs "
            f"gives {comparison.recomputed}"
        )
    return faults


def _find_kick_transaction(stage: Stage, event: str, node: Address) -> str | None:
    """Return the newest transaction with this oracle event about a node, if there is one."""
    hashes = [
        log["transactionHash"]
        for log in _fetch_event_logs(stage.chain, stage.oracle, "roots/QoSRoots", event)
        if log["topics"][1].endswith(node[2:])
    ]
    return hashes[-1] if hashes else None


def _fetch_sender(stage: Stage, transaction_hash: str | None) -> Address | None:
    if transaction_hash is None:
        return None
    transaction = stage.chain.make_request("eth_getTransactionByHash", transaction_hash)
    return Address(transaction["from"].lower())


def _fetch_event_logs(
    chain: LocalChain, address: str, contract: str, event: str
) -> list[dict[str, str]]:
    topic = load_abi(contract).get_event(event).digest
    log_filter = {"address": address, "fromBlock": "0x0", "toBlock": "latest", "topics": [topic]}
    logs: list[dict[str, str]] = chain.make_request("eth_getLogs", log_filter)
    return logs


def _simulate_rejoin(stage: Stage) -> str:
    """Simulate that the kicked-out node joins again.

    Return the name of the error, or `accepted`.
    """
    gpu_and_models = (HOPELESS.gpu_name, HOPELESS.gpu_vram, *VERSION, [MODEL])
    call = {
        "from": stage.nodes[HOPELESS.name],
        "to": stage.network,
        "data": encode_call("TaskNetwork", "join", *gpu_and_models),
        "value": hex(STAKE),
        "gas": GAS,
    }
    revert_data = stage.chain.fetch_revert_data(call)
    return "accepted" if revert_data is None else decode_error_name("TaskNetwork", revert_data)

"""The types of responses, made by `make clients`."""

from typing import Any, Literal, NotRequired, TypedDict


class ActivityBucket(TypedDict):
    """The number of scores and timeouts in one part of the time span."""

    since: int
    """Block time at which this part of the span begins, in unix seconds, included."""
    scores: int
    timeouts: int


class AnnouncedRules(TypedDict):
    """The complete text of announced rules."""

    as_of: "AsOf"
    rules_hash: str
    rules_id: str
    """The text whose SHA-256 is `rules_hash`."""


class AnswerEntry(TypedDict):
    """This reporter's answer to the objections to a kickout."""

    is_accepted: bool
    because: str
    answered_at: int
    """Time of the answer by the operator's clock, in unix seconds."""
    signer: str | None
    """Signer of the answer; null if the answer is not signed."""
    signature: str | None
    """EIP-712 signature of the answer, 65 bytes as hex; null if it is not signed."""


class AsOf(TypedDict):
    """The block that an answer describes, and how far this block is behind the chain's head."""

    block: int
    """The last block that was indexed; the response describes the network after this block."""
    hash: str
    time: int
    """Time of the block, in unix seconds."""
    final: int | None
    """The newest final block; null if it is unknown."""
    is_final: bool
    """Whether `block` is final, so that no reorg can remove it."""
    head: int | None
    """The newest block of the chain; null if only the daemon knows it, and this process is not the daemon."""
    lag_blocks: int | None
    """Number of blocks from `block` to `head`; null if `head` is unknown."""
    lag_seconds: int
    """Age of `block` at the time of the response, in seconds."""
    replica_lag_seconds: float | None
    """Seconds by which the database is behind its primary server; null if the database is not a replica."""
    rules: str
    """Name and version of the rule set with which the block was scored."""
    epoch: int
    """A number that increases with each change of the index, and when a halt begins or ends."""


class BlockView(TypedDict):
    """A block of the chain."""

    number: int
    hash: str
    parent_hash: str
    time: int
    """Time of the block, in unix seconds."""


class BundleAnswer(TypedDict):
    """A node's leaf in a round, and all data needed to verify the leaf."""

    as_of: "AsOf"
    bundle: "EvidenceBundle"


class BundleConfiguration(TypedDict):
    """The configuration that a round was signed under; the round's `config` is its digest."""

    config_count: int
    """Number of the contract's configuration, counted from its deployment."""
    signers: list[str]
    quorum: int


class BundleLog(TypedDict):
    """The raw log of an event in the bundle."""

    block: int
    block_hash: str
    tx: int
    log: int
    transaction: str
    address: str
    topics: list[str]
    data: str


class BundleObjection(TypedDict):
    """An objection, and the node's signed statement if it was posted to this reporter."""

    node: str
    seq: int
    """Number of the objection among those of the node, from 0."""
    due_since: int
    """Block time since which the kickout is due, in unix seconds, as stated in the objection."""
    reason: str
    """Reason that the owner selected."""
    text: str
    """Explanation that the owner wrote, up to 280 bytes; treat it as untrusted."""
    at: "LogPlace"
    time: int
    """Block time of the objection, in unix seconds."""
    is_due: bool
    """Whether the kickout is still due."""
    is_executed: bool
    """Whether the kickout was executed on the chain."""
    is_counted: bool
    """Whether the objection may delay this reporter's accusation, because it is the first one to this kickout that was made in time."""
    verdict: str | None
    """Result of the automatic check; null if the kickout is no longer due."""
    finding: str | None
    """Explanation of the automatic check's result; null if the kickout is no longer due."""
    answer: "AnswerEntry | None"
    """Answer of this reporter to the objections to this kickout; null if it has not answered."""
    answer_until: int | None
    """Block time until which the operator should answer, in unix seconds; null if the objection waits for no answer."""
    contract: str | None
    """Address of the objections contract, which is part of the EIP-712 domain of objections and answers; null if the raw log is not stored."""
    deadline: int | None
    """Deadline in the signed objection, in unix seconds; null if `signature` is null."""
    signature: str | None
    """Signature of the objection by the node's key, 65 bytes as hex; null if the objection was not posted to this reporter, if the node is a contract, or if the raw log is not stored."""


class BundlePosition(TypedDict):
    """The position of an event in the chain."""

    block: int
    tx: int
    log: int
    sub: int


class BundleRound(TypedDict):
    """The signed report of a round, and the signatures stored on this host."""

    chain_id: int
    contract: str
    round: int
    prev: str | None
    """Root of the previous round; null if this host does not have it."""
    as_of: int
    as_of_hash: str
    as_of_time: int | None
    """Time of the block `as_of`, in unix seconds; null if it is not stored."""
    deadline: int | None
    """Deadline of the report, in unix seconds; null if this host does not know it."""
    root: str
    config: str
    configuration: "BundleConfiguration | None"
    """Configuration for which the round was signed; null if the contract has a newer one, or if it is not indexed."""
    signatures: list[str]
    """Signatures of one digest that this host has, each 65 bytes as hex; empty if it has none."""
    accepted_at: "LogPlace"


class BundleScore(TypedDict):
    """A score that counts in the round, with the same fields as in kickout evidence."""

    seq: int
    task: str
    group: str
    creator: str | None
    rank: int | None
    elapsed: int | None
    score: int
    at: "BundlePosition"
    time: int


class CandidateEntry(TypedDict):
    """A member, and whether it is a candidate for the task."""

    node: str
    candidate: bool
    why_not: str | None
    """Why the member is not a candidate; null if it is one."""
    weight: str | None
    parts: dict[str, str]
    """Factors of the node's weight, by name."""
    chance: str | None
    """Probability that the node is drawn first; null if it is not a candidate."""
    drawn: int | None
    """Position of the node in the order of the draws, from 1; null if it was not drawn."""


class ContractKickout(TypedDict):
    """The state of a node's kickout in the oracle contract."""

    state: str
    round: int
    """Round of the newest accusation, execution or retry; 0 if there was none."""
    due_since: int | None
    """Time since which the kickout was due according to the newest accusation, in unix seconds; null if no accusation is indexed."""
    evidence: str | None
    """Keccak-256 of the scores behind the newest accusation or, once the kickout was executed, at its execution; null if no accusation is indexed."""
    ready_at: int | None
    """Earliest block time at which the newest accusation may be executed, in unix seconds, also after its execution or cancellation; null if no accusation is indexed."""
    expelled_until: int | None
    """Time until which the newest execution expelled the node, in unix seconds, even if it was readmitted since; 1099511627775 if forever; null if it was never expelled."""
    reason: str | None
    """Revert data with which the network's contract refused the last call, as hex; null if it did not refuse that call."""


class DownloadView(TypedDict):
    """A request to a node to download a model; times are in unix seconds."""

    model: str
    requested_at: int
    until: int
    state: str


class DrawEntry(TypedDict):
    """The draw of a node for a task."""

    task: str
    node: str
    seed_block: int
    seed_hash: str
    """Hash of the seed block. The seed of the draw is the SHA-256 of this hash and the key of the task or, if the tasks of a group are drawn together, of the group."""
    seed_time: int
    """Time of the seed block, in unix seconds."""
    active: bool
    """Whether the drawn node can still start the task."""
    voided_block: int | None
    """Block at the end of which the draw was voided; null if it was not voided."""
    outcome: "DrawOutcome | None"
    """How the draw ended; null if it is active."""


DrawOutcome = Literal["started", "started_elsewhere", "task_ended", "undone"]


class DrawPage(TypedDict):
    """The active draws, oldest first, and the last voided draws, newest first."""

    as_of: "AsOf"
    active: list["DrawEntry"]
    over: list["DrawEntry"]


class DrawnAgain(TypedDict):
    """The inputs and the result of the draw for a task.

    seed = sha256(seed_hash || seed_name), digest = sha256(seed || counter as 32 bytes), x = digest
    modulo the sum of the weights. The drawn node is the first candidate, in ascending order of
    addresses, at which the running sum of the weights exceeds x.
    """

    as_of: "AsOf"
    task: str
    seed_block: int
    seed_hash: str
    seed_name: str
    """Key of the task; if the tasks of a group share a seed, key of the group."""
    counter: int
    """Number of nodes that were drawn before this node with the same seed."""
    gpu: str | None
    """GPU model that was drawn before the node, under a legacy policy; otherwise null."""
    candidates: list["WeightedCandidate"]
    """All candidates with their weights, in ascending order of their addresses."""
    digest: str
    total: str
    """Sum of the weights of the candidates."""
    x: str
    node: str
    """Node that this recomputation draws."""
    recorded: str
    """Node that the daemon drew and stored."""
    agrees: bool


class DrawnGpu(TypedDict):
    """The group of nodes with one GPU model that a legacy policy draws before the nodes."""

    name: str
    vram: int
    """Video memory of the GPU in GB."""
    digest: str
    x: str
    sum: str


class DrawnNode(TypedDict):
    """The draw of one node; `x` is the digest modulo the sum of the weights."""

    node: str
    digest: str
    x: str
    sum: str


class DueKickout(TypedDict):
    """A node whose kickout is due, and the reason for any delay of its accusation."""

    node: str
    due_since: "LogPlace | None"
    """Event since which the kickout is due; null if it is no longer due."""
    on_chain: "ContractKickout | None"
    """State of the kickout in the contract; null if no event of the contract concerns the node's kickout."""
    objection_delay: "ObjectionDelayEntry | None"
    """Why this reporter does not accuse the node yet; null if neither an objection nor the time left to object delays the accusation, or if the node is accused already."""


class EarningView(TypedDict):
    """A node's earnings from a task, which are all or part of the fee.

    Amounts are in the token's smallest unit.
    """

    paid: str
    fee: str
    points: int | str | None
    """Points for which the node received a share of the fee; null if the fee was not shared, or if the group's shares are unknown."""
    of_points: int | str | None
    by_points: str | None
    """Share of the fee that the rules give for these points; null if `points` is null."""


class EvidenceBundle(TypedDict):
    """A node's leaf in a round, and the data that its scores are computed from."""

    bundle_version: int
    node: str
    proof: "NodeProofDetail"
    signed_round: "BundleRound"
    rules_id: str
    """Text whose SHA-256 is the contract's `rulesHash`; it contains the rule set."""
    holds_kickouts: bool
    """Whether the network's profile holds every kickout for review."""
    scores: list["BundleScore"]
    """The scores of the pool that the leaf states, oldest first; empty if the node has no leaf."""
    evidence: str | None
    """Text of the evidence file; null if the leaf states no due kickout, or if the stored scores do not justify one."""
    objections: list["BundleObjection"]
    """The objections to the kickout that the leaf states, oldest first; no score depends on them."""
    events: list[dict[str, "JsonValue"]]
    """All events, up to the as-of block, about the tasks and groups of these scores and of the evidence."""
    logs: list["BundleLog"]
    """The logs of these events."""


class ExplanationAnswer(TypedDict):
    """All numbers that a score is computed from, each with its log."""

    as_of: "AsOf"
    explanation: "NodeExplanation"
    """How the score is computed, as `qos-oracle explain --json` prints it (docs/reference/read-api.md#explain)."""


class FeedEvent(TypedDict):
    """An event of the stream; `kind` is the event's name in the stream."""

    kind: str
    """timed_out, recovered, joined, paused, resumed, left, kickout_due, kickout_accused, kickout_executed, incident_began, incident_over, rules_announced, rules_cancelled, rules_set, report_accepted, reorg, halted, halt_cleared."""
    time: int
    """Time of the block, in unix seconds; for `recovered` without a block, the time at which the exclusion ended; for `halt_cleared`, the time by the operator's clock."""
    block: int | None
    node: str | None
    text: str
    excluded_until: NotRequired[int | None]
    """Time at which recovery alone ends the exclusion that follows a fall of reliability, in unix seconds; null for other events, or if the node is not excluded."""


class GpuSpeed(TypedDict):
    """A GPU model of the network, and its answer times compared with those of the node's GPU."""

    name: str
    vram: int | None
    """Video memory in GB; null if it is unknown."""
    nodes: int
    """Number of members with this GPU."""
    is_own: bool
    """Whether the node that this response describes has this GPU."""
    shared_groups: int
    """Number of groups, among the newest 1,000 scored groups of the network, in which this GPU and the node's GPU both answered; 0 for the node's own GPU."""
    time_ratio: str | None
    """Median of this GPU's answer time divided by the answer time of the node's GPU, over all pairs of answers in the shared groups; null if there are fewer than 30 shared groups, or if this is the node's own GPU."""


class GroupAnswer(TypedDict):
    """An open or closed group; the newest group if the chain used its key twice."""

    as_of: "AsOf"
    group: str
    closed: bool
    scored: bool
    """Whether at least one task of the group was ranked."""
    closed_at: "LogPlace | None"
    time: int | None
    members: list["GroupEntry"]
    tasks_seen: list[str]
    """The tasks of the group that exist so far; empty if the group is closed."""


class GroupEntry(TypedDict):
    """A task of a group, with its rank and score."""

    task: str
    node: str | None
    rank: int | None
    """Rank of the task in its group, from 1; null if the task was not ranked."""
    elapsed: int | None
    """Seconds from the start of the task to its result, commitment or error report; null if it has none."""
    score: int | None
    """Score of the task in points; null if the task gives no score."""


class GroupFellow(TypedDict):
    """Another task of the same group as the scored task."""

    task: str
    node: str | None
    rank: int | None
    elapsed: int | None
    """Seconds from the start of the task to its answer; null if there is no answer."""
    error_reported: bool
    possible: bool
    """Whether it is uncertain that the task belongs to the group."""


class HealthView(TypedDict):
    """The oracle's health as a single status, and the active conditions."""

    status: Literal["well", "attention", "down"]
    """`well`: no condition is active. `attention`: a condition is active, but work continues. `down`: a condition stops all work, or no daemon runs while the index is behind."""
    conditions: list[str]
    """Names of the active conditions (docs/explanation/health.md); empty if none is active."""
    reasons: list[str]
    """Reasons of the active conditions, as sentences."""


class HistoryMark(TypedDict):
    """An event that changed a node's reliability."""

    time: int
    cause: str
    task: str | None
    before: str
    after: str
    back_at: int | None
    """Time at which recovery alone ends the exclusion, in unix seconds; null if the event did not lower reliability below the exclusion threshold."""
    place: "LogPlace"
    incident: int | None
    """Number of the incident that marks this timeout; null if no incident marks it."""


class IncidentPage(TypedDict):
    """Suspected incidents, newest first; they change no score."""

    as_of: "AsOf"
    incidents: list["IncidentView"]
    next: int | None
    """Value of `before` that requests the next page; null on the last page."""


class IncidentView(TypedDict):
    """A suspected incident, whose timeouts were probably not the fault of the nodes."""

    number: int
    """Number of the incident in the network, from 1."""
    kind: Literal["application", "network"]
    """`application`: a burst of timeouts of one application. `network`: an outage of the network."""
    creator: str | None
    """Address of the application; null for an outage of the network."""
    found_block: int
    found_time: int
    """Block time at which the incident was detected, in unix seconds."""
    since: int
    """Block time of the first timeouts that the incident marks, in unix seconds."""
    until: int
    """Block time of the last timeouts that the incident marks, in unix seconds; it increases while the incident is open."""
    nodes: int
    """Max number of nodes with a timeout within 15 minutes."""
    timeouts: int
    """Max number of timeouts within 15 minutes."""
    over_time: int | None
    """Block time at which the incident ended, in unix seconds; null if it is open."""


IneligibilityReason = Literal[
    "no_member",
    "paused",
    "busy",
    "excluded",
    "taken",
    "gpu_unknown",
    "gpu_name",
    "vram_unknown",
    "gpu_vram",
    "vram_too_small",
    "version_unknown",
    "version",
    "models_not_on_disk",
]

JsonValue = Any


class KickoutInterval(TypedDict):
    """The span of blocks in which a kickout was due."""

    opened_at: "Origin"
    closed_at: "Origin | None"
    """Event after which the kickout was no longer due; null if it is still due."""


class KickoutOutlook(TypedDict):
    """A forecast of a node's kickout if its next scores equal its recent mean score."""

    scores: int
    """Number of scored tasks until the kickout is due; 0 if it is due now."""
    seconds: int | None
    """Seconds until the kickout is due, if the next scores are as far apart as the median of the node's last scores; null if fewer than two scores count."""
    recent_scores: int
    """Number of the node's last scores, at most 20, whose mean the forecast assumes for each further score."""
    first_places: int | None
    """Number of first places in the next `scores` tasks that would prevent the kickout; null if no number of first places would prevent it, or if it is due now."""
    second_places: int | None
    """Number of second places in the next `scores` tasks that would prevent the kickout; null if no number of them would, or if it is due now."""


class KickoutPage(TypedDict):
    """The kickouts that are due now, and the last fifty kickouts in the contract, newest first."""

    as_of: "AsOf"
    due: list["DueKickout"]
    on_chain: list["KickoutRecord"]


class KickoutProgress(TypedDict):
    """The progress of a node towards a kickout."""

    is_due: bool
    due_since_block: int | None
    due_since: int | None
    """Block time since which the kickout is due, in unix seconds; it identifies the kickout in an objection. null if no kickout is due."""
    scores: int
    """Number of scores in the pool, or in the window of legacy rules. A kickout requires `pool_size` scores."""
    pool_size: int
    mean: str | None
    """Mean of these scores, in points; null if there are no scores."""
    below: str
    """Mean score, in points, below which a kickout is due."""
    obstacle: str | None
    """Why no account can accuse the node although its kickout is due; null if accounts can accuse it once an accepted round contains the kickout, or if no kickout is due."""
    object_until: int | None
    """Latest block time, included, at which an objection can still delay the accusation, in unix seconds; null if no kickout is due, or if objections are not indexed."""
    on_chain: "ContractKickout | None"
    """State of the kickout in the contract; null if no event of the contract concerns the node's kickout."""


class KickoutRecord(TypedDict):
    """A kickout in the contract, and its outcome."""

    state: str
    round: int
    """Round of the newest accusation, execution or retry; 0 if there was none."""
    due_since: int | None
    """Time since which the kickout was due according to the newest accusation, in unix seconds; null if no accusation is indexed."""
    evidence: str | None
    """Keccak-256 of the scores behind the newest accusation or, once the kickout was executed, at its execution; null if no accusation is indexed."""
    ready_at: int | None
    """Earliest block time at which the newest accusation may be executed, in unix seconds, also after its execution or cancellation; null if no accusation is indexed."""
    expelled_until: int | None
    """Time until which the newest execution expelled the node, in unix seconds, even if it was readmitted since; 1099511627775 if forever; null if it was never expelled."""
    reason: str | None
    """Revert data with which the network's contract refused the last call, as hex; null if it did not refuse that call."""
    node: str
    accused_at: "LogPlace | None"
    executed_at: "LogPlace | None"


class LaneOnChain(TypedDict):
    """The node's lane in the last round that was accepted up to the explained block."""

    seat: int
    """Index of the node's leaf in the tree of the round."""
    lane: int
    qos: int
    """QoS of the node in steps of 0.0001; 0 if the node must not be selected."""
    round: int
    time: int
    """Time of the block that accepted the round, in unix seconds."""
    as_of: int
    """Block at which the report of the round was computed."""


class LastRound(TypedDict):
    """The newest report that the contract accepted."""

    round: int
    age_seconds: int
    as_of: int
    """Block at which the report of the round was computed."""


class LeafPieceEntry(TypedDict):
    """The hashes of one piece of a round's leaves."""

    index: int
    """Number of the piece, from 0. A piece contains the leaves of up to 8,192 seats, from seat 8,192 * `index` on."""
    leaf_count: int
    nodes_hash: str
    """Root of the subtree of the piece's leaves."""
    words_hash: str
    """Root of the subtree of the piece's words; a word is the lanes of 16 nodes."""
    open_count: int
    """Number of nodes in the piece that may be selected; the sum over all pieces is `summary.open_count`."""
    total_weight: str
    """Sum of `lane` - 1 of these nodes; the sum over all pieces is `summary.total_weight`."""
    path: list[str]
    """Sibling hashes on the path from `nodes_hash` to `root`."""


class LeafPieces(TypedDict):
    """The pieces that the leaves of a root are divided into."""

    root: str
    as_of_hash: str
    """Hash of the block `summary.as_of`."""
    summary: "ProofSummary"
    pieces: list["LeafPieceEntry"]


class LeavesAnswer(TypedDict):
    """The piece hashes of a round or report, against which each piece can be verified."""

    as_of: "AsOf"
    leaves: "LeafPieces"


class LegacyRounds(TypedDict):
    """The ranks and scores of all nodes in the two rounds of a legacy task."""

    task: str
    nodes: list["RoundPart"]
    scored: bool
    """Whether the rounds were scored; false if no node committed a result or reported an error."""


class LegacyScore(TypedDict):
    """A node's score in the window of legacy rules; R, P, B and Q are null for non-members."""

    window: int | str
    window_began: int | str
    """Time at which the window began, in unix seconds."""
    tasks: int
    """Number of tasks of the node that were scored in the window."""
    node_score: str | None
    """Mean of these scores, 0 to 20; null if there are none."""
    online_seconds: int | str
    """Number of seconds, including pauses, during which the node was a member in the window."""
    R: str | None
    """Video memory of the node divided by the largest video memory of all members; 0 if the node's is unknown."""
    P: str | None
    """Promptness: 1 for the shortest timeout setting that the rules allow, falling to 0 for the longest setting of all members; 0 if the node's is unknown."""
    B: str | None
    """`node_score` divided by the highest `node_score` of all members; null if the node had no task in the window, which counts as 0 in Q."""
    Q: str | None
    """Weighted sum of R, P and B."""
    incentive_share: str | None
    """The node's share of the window's incentive, 0 to 1, as of this block; null if the node is not a member."""


class LogPlace(TypedDict):
    """The source of an event: a log, a call (`log` is -1), or a feed row without a transaction."""

    block: int
    tx: int | None
    log: int | None
    feed_row: int | None
    """Id of the feed's row from which the event comes; null if it comes from the chain. A feed's rows have no proof."""
    transaction: str | None
    """Hash of the transaction; null for a feed row or a call, or if the raw log is not stored."""


class MissedDraws(TypedDict):
    """The number of draws that a node missed for one reason."""

    reason: "IneligibilityReason"
    """Why the node was not a candidate. `models_not_on_disk`: the drawn node has models on its disk that this node lacks."""
    draws: int


class NetworkAnswer(TypedDict):
    """Totals, distribution and health of the network."""

    as_of: "AsOf"
    chain_id: int | None
    start_block: int | None
    nodes: int
    members: int
    states: dict[str, int]
    histogram: list[int]
    """Number of members in each of twenty equal ranges of QoS from 0 to 1; each includes its lower bound, and the last one also 1."""
    quartiles: list[str]
    """Minimum, first quartile, median, third quartile and maximum of the members' QoS; empty if there are no members."""
    kickouts_due: int
    activity: list["ActivityBucket"]
    """Number of scores and of timeouts in equal parts of the span, oldest part first."""
    last_round: "LastRound | None"
    tasks_waiting: int
    draws_standing: int
    halted: bool
    """Whether a halt is active. During a halt, nothing is indexed, signed or sent."""
    waiting: list["Waiting"]
    """Problems that need a decision of the operator; empty if there are none."""


class NodeAdvice(TypedDict):
    """The forecasts for a node, the effects of possible changes, and their assumptions."""

    as_of: "AsOf"
    node: str
    kickout_state: Literal[
        "due", "expected", "not_expected", "no_score", "no_forecast", "no_member"
    ]
    """Whether a kickout is due or expected. `no_score`: the node has no scored task that counts now. `no_forecast`: the rules score each window by itself, so there is no forecast."""
    kickout: "KickoutOutlook | None"
    """When the kickout is due; null if none is due or expected, or if the node is not a member."""
    hold_reason: str | None
    """Why the due kickout is held, so that only the vetoer can allow it; null if no kickout is due or held."""
    what_if: "WhatIf | None"
    """The node's scores under other conditions; null under legacy rules, if the node is not a member, if no group in its pool can be ranked again, or if its pool differs from its stored scores."""
    work: "WorkShare | None"
    """Why the node was drawn or not drawn for recent tasks; null if no task was drawn, or if the policy has no weights."""
    money: "NodeMoney"


class NodeEntry(TypedDict):
    """An entry in a list of nodes, as of a block."""

    place: int | None
    """Place of the node by QoS, from 1; null if the node has no QoS."""
    node: str
    label: str | None
    """Label that the operator gave the node; null if there is none."""
    state: Literal[
        "selectable",
        "recovering",
        "excluded",
        "paused",
        "quit",
        "slashed",
        "kicked_out",
        "unknown",
    ]
    status: str
    """State of the node in the network, such as available, busy or paused."""
    excluded: bool
    """Whether the node is a member but gets no tasks for now, because its reliability is too low."""
    back_at: int | None
    """Time at which recovery alone ends the exclusion, in unix seconds; null if the node is not excluded."""
    kickout_due: bool
    proof: Literal["chain", "none"]
    """`chain`: all events of the index come from the chain. `none`: the index also reads a feed, whose rows have no proof."""
    gpu: str | None
    """GPU model as the node reports it; null if it is unknown."""
    vram: int | None
    """Video memory of the GPU in GB; null if it is unknown."""
    scores_in_pool: int
    scored_in_all: int
    long_term: str
    reliability: str
    """Reliability H at the time of the block."""
    qos: str | None
    """QoS of the node; null if the node is not a member."""
    lane: int
    """Lane that a report at this block would contain: 1 if the node must not be selected, else its QoS in steps of 0.0001, plus 2 (2 to 10002)."""
    seat: int
    """Index of the node's leaf in the tree of each round."""
    lane_on_chain: int
    """Lane in the last accepted round: 1 if the node must not be selected; 0 if there is no such round, if it was struck, if it has no leaf of the node, or if its leaves are not stored."""
    on_chain: str | None
    """QoS in the last accepted round; null if `lane_on_chain` is 0 or 1."""
    changed_at: int
    """Block of the newest network event that updated the node; recovery and rounds do not count."""
    legacy: "LegacyScore | None"
    """Factors of the score under legacy rules; null under other rules."""


class NodeExplanation(TypedDict):
    """All numbers that a node's score is computed from, each with its source log."""

    row: "NodeEntry"
    """The node's row in the list of nodes, as of this block."""
    interval: "QosIntervalView | None"
    """The 90 % interval of the QoS; null if the node is not a member or has no scores, if legacy rules apply, or if a mean of 0 counts as no score."""
    as_of: "BlockView"
    rules: str
    rules_version: int
    rules_sha256: str
    pool: "ScorePoolView"
    lowest_long_term: str
    """Lower bound of the long-term score, 0 to 1, if each group in `possible_zeros` had given the node the score of a missing answer; equal to `row.long_term` if there is none."""
    possible_zeros: list["Origin"]
    reliability: "ReliabilityView"
    incidents: list["IncidentView"]
    """Incidents that mark timeouts of the node, oldest first."""
    kickouts: list["KickoutInterval"]
    held: str | None
    """Why the due kickout is held, so that only the vetoer can allow it; null if no kickout is due or held."""
    objections: list["ObjectionEntry"]
    """The node's newest objections up to this block, newest first; their check and answer are as of the last block."""
    objection_delay: "ObjectionDelayEntry | None"
    """Why this reporter does not accuse the node yet; null if neither an objection nor the time left to object delays the accusation, or if the block is not the last one."""
    downloads: list["DownloadView"]
    on_chain: "LaneOnChain | None"
    """The node's lane in the last accepted round; null if no round was accepted, if the node has no leaf in it, or if its leaves are not stored."""
    sent: "SentLane | None"
    legacy_rounds: "list[LegacyRounds] | None"
    """Both rounds of each scored task in the window, under legacy rules; otherwise null."""


class NodeHistory(TypedDict):
    """The QoS, long-term score and reliability (H) of a node over time."""

    as_of: "AsOf"
    node: str
    first: int
    """Start of the span, in unix seconds; not before the node's first event."""
    last: int
    columns: list[str]
    """Names of the columns of `rows`."""
    rows: list[list[int | str]]
    thinned: bool
    """Whether points were left out to limit the size of the response. Extreme values are always kept."""
    exact: bool
    """Whether each point is the value that was computed at that time. If not, `note` contains the reason."""
    note: str | None
    marks: list["HistoryMark"]
    """The newest 500 events of the span that changed the node's reliability, oldest first."""
    marks_left_out: int
    incidents: list["IncidentView"]
    """The incidents that mark any of these `marks`, oldest first."""


class NodeLift(TypedDict):
    """The number of consecutive events of one kind that would change a node's standing.

    A number is null for a non-member, under legacy rules, or if it would be above 200.
    """

    first_places: int | None
    """Number of first ranks until the node passes the next better node, if that node's score does not change; null if the node has the first place, or if 200 are not enough."""
    place_then: int | None
    """Place of the node after `first_places` first ranks; null if `first_places` is null."""
    successes: int | None
    """Number of successful tasks until the node's reliability is 1; 0 if it is 1 already."""
    timeouts: int | None
    """Number of consecutive timeouts until the node is excluded; 0 if it is excluded already."""
    zeros: int | None
    """Number of scores of 0 until a kickout is due; 0 if it is due already."""
    first_places_to_clear: int | None
    """Number of first ranks until no kickout is due; 0 if no kickout is due."""


class NodeMoney(TypedDict):
    """The stake and the fees of a node; amounts are in the token's smallest unit."""

    stake: str | None
    earned: str
    """The node's share of the fees of its scored tasks that count."""
    tasks: int
    """Number of these tasks whose fee is known."""
    without_fee: int
    """Number of the other scored tasks that count: their fee is unknown, or their group is not stored."""
    seconds: int | None
    """Seconds from the score of the first of the `tasks` to the block in `as_of`; null if the node is not a member, or if there are no such tasks."""
    per_day: str | None
    """Fees per day at the rate of the last `seconds`; null if `seconds` is null or less than an hour."""
    losses: list["RankLoss"]
    """Fees lost at each rank, best rank first."""
    today: int
    """Block time at which the current day (UTC) began, in unix seconds."""
    tasks_today: int
    """Number of the `tasks` that were scored since `today`."""
    lost_today: str
    """Part of `losses` that belongs to tasks scored since `today`."""
    assumption: str


class NodeObjections(TypedDict):
    """The objections of a node, newest first, and the objections posted to this reporter."""

    as_of: "AsOf"
    objections: list["ObjectionEntry"]
    posted: list["PostedEntry"]


class NodePage(TypedDict):
    """A page of the list of nodes."""

    as_of: "AsOf"
    total: int
    """Number of all nodes of the network, before filters."""
    counts: dict[str, int]
    """Number of all nodes of the network in each state, before filters."""
    nodes: list["NodeEntry"]
    next: str | None
    """Value of `cursor` that requests the next page; null on the last page."""
    moved: bool
    """Whether `cursor` comes from an earlier block, so that a node may be repeated or missing."""


class NodePast(TypedDict):
    """A node's membership, rounds and draws, newest first."""

    as_of: "AsOf"
    node: str
    membership: list["PastEvent"]
    """The newest 50 changes of the node's membership and steps of its kickouts."""
    reported: list["ReportedChange"]
    """Changes of the node's score, in those of the newest 100 rounds whose leaves are stored."""
    drawn: list["DrawEntry"]
    """The newest 20 draws of the node for a task."""


class NodePreviewView(TypedDict):
    """A node under the rules in force and under one other rule set."""

    rules: str
    """Hash of the announced rules, or name of the shadow set."""
    ready_at: int | None
    """Earliest time at which the announced rules come into force, in unix seconds; null for a shadow set, which is not announced."""
    block: int
    """The final block up to which events were scored under both rule sets."""
    time: int
    """Time of this block, in unix seconds."""
    figures: "NodeUnderRules"


class NodePreviews(TypedDict):
    """A node under each of the other rule sets."""

    as_of: "AsOf"
    node: str
    previews: list["NodePreviewView"]


class NodeProofDetail(TypedDict):
    """A leaf of a round, and the hashes on its path to the round's root."""

    address: str
    """Address about which the proof makes a statement."""
    account_id: str
    """CAIP-10 id of this address."""
    is_absent: bool
    """Whether the address has no leaf. In that case it lies between `leaf.node` and `leaf.next_node`, which have neighbouring leaves."""
    root: str
    leaf: "ProofLeaf"
    proof: list[str]
    """Sibling hashes from the leaf to the root, in the form that OpenZeppelin's `MerkleProof.verify` expects."""
    summary: "ProofSummary"


class NodeUnderRules(TypedDict):
    """The rank and QoS of a node under the rules in force and under other rules."""

    node: str
    rank_now: int | None
    """Rank of the node under the current rules; null if it is not a member."""
    rank_then: int | None
    qos_now: str | None
    qos_then: str | None
    chance_now: str | None
    """Chance that the node is drawn for the next task under the current rules: its weight divided by the sum of the weights of all members that are neither paused nor excluded; 0 if it is paused or excluded; null if it is not a member, if the policy has no such weights, or if all weights are 0."""
    chance_then: str | None
    kickout_due_now: bool
    kickout_due_then: bool
    excluded_now: bool
    excluded_then: bool


class NodeView(TypedDict):
    """The answer about a single node; `row` is the node's row in the list of nodes."""

    as_of: "AsOf"
    row: "NodeEntry"
    interval: "QosIntervalView | None"
    """The 90 % interval of the QoS; null if the node is not a member or has no scores, if legacy rules apply, or if a mean of 0 counts as no score."""
    members: int
    """Number of members; `row.place` is the node's place among them."""
    models: list[str]
    version: str | None
    stake: str | None
    pool: list[int]
    """The task scores in the node's pool, in points, oldest first."""
    pool_size: int
    excluded_below: str
    kickout: "KickoutProgress"
    on_chain: "OnChainScore | None"
    """The node's score in the last accepted round; null if there is no such round, if it was struck, if it has no leaf of the node, or if its leaves are not stored."""
    objections: list["ObjectionEntry"]
    """The node's newest objections, at most 50, newest first."""
    objection_delay: "ObjectionDelayEntry | None"
    """Why this reporter does not accuse the node yet; null if neither an objection nor the time left to object delays the accusation."""
    lift: "NodeLift"
    """Numbers of events that would change the node's rank, reliability or kickout, according to a simulation."""


class ObjectionAccepted(TypedDict):
    """A posted objection that this reporter will submit on chain."""

    as_of: "AsOf"
    node: str
    seq: int
    due_since: int
    """Time since which the kickout is due, in unix seconds."""
    state: "PostedState"
    to: str
    """Address of the objections contract."""


class ObjectionDelayEntry(TypedDict):
    """The reason why this reporter delays an accusation: an objection, or time left to object."""

    reason: str
    until: int | None
    """First block time at which the delay is over without an answer, in unix seconds; null if only the operator's answer ends it, or if the operator accepted the objection."""
    objection: int | None
    """Number of the objection that delays the accusation; null if there is none yet and the owner may still object."""
    is_accepted: bool
    """Whether the operator accepted the objection, so that this reporter does not accuse the node."""


class ObjectionEntry(TypedDict):
    """A node's objection to its kickout, its automatic check, and this reporter's answer."""

    node: str
    seq: int
    """Number of the objection among those of the node, from 0."""
    due_since: int
    """Block time since which the kickout is due, in unix seconds, as stated in the objection."""
    reason: str
    """Reason that the owner selected."""
    text: str
    """Explanation that the owner wrote, up to 280 bytes; treat it as untrusted."""
    at: "LogPlace"
    time: int
    """Block time of the objection, in unix seconds."""
    is_due: bool
    """Whether the kickout is still due."""
    is_executed: bool
    """Whether the kickout was executed on the chain."""
    is_counted: bool
    """Whether the objection may delay this reporter's accusation, because it is the first one to this kickout that was made in time."""
    verdict: str | None
    """Result of the automatic check; null if the kickout is no longer due."""
    finding: str | None
    """Explanation of the automatic check's result; null if the kickout is no longer due."""
    answer: "AnswerEntry | None"
    """Answer of this reporter to the objections to this kickout; null if it has not answered."""
    answer_until: int | None
    """Block time until which the operator should answer, in unix seconds; null if the objection waits for no answer."""


class ObjectionPage(TypedDict):
    """Objections, newest first; an objection changes no score and no report."""

    as_of: "AsOf"
    objections: list["ObjectionEntry"]


class OnChainScore(TypedDict):
    """The score of a node in the last accepted round, whose root proves it on chain."""

    seat: int
    """Index of the node's leaf in the tree of the round."""
    lane: int
    """The node's lane in its leaf: 1 if it must not be selected, else its QoS in steps of 0.0001, plus 2."""
    is_selectable: bool
    qos: str | None
    """The node's QoS in the round; null if the node must not be selected."""
    round: int
    time: int
    """Time of the block that accepted the round, in unix seconds."""
    is_current: bool
    """Whether a report at the current block would contain the same lane."""


class Origin(TypedDict):
    """The source of an event: a log on chain, or a feed row, which has no proof."""

    block: int
    log: int | None
    """Index of the log; null for a row of a feed, and -1 for a call without a log."""
    feed: list[int] | None
    """Number of the feed's stream, and id of the row; null for an event of the chain."""
    proof: Literal["chain", "none"]


class OutboxCount(TypedDict):
    """The number of outbox calls of one kind in one state."""

    kind: str
    state: str
    count: int


class OwnSubscriptions(TypedDict):
    """A node's subscriptions, and the secret of a webhook that was just registered."""

    subscriptions: list["SubscriptionView"]
    created: str | None
    """Id of the subscription that this request created; null if it created none."""
    secret: str | None
    """Secret with which the messages to the new webhook are signed; no later response contains it; null if this request created no webhook."""


class PastEvent(TypedDict):
    """One event of a node's membership."""

    what: Literal[
        "joined",
        "pause_asked",
        "paused",
        "resumed",
        "quit_asked",
        "quit",
        "slashed",
        "kicked_out",
        "kickout_due",
        "kickout_over",
        "kickout_accused",
        "kickout_executed",
    ]
    time: int | None
    """Time of the event, in unix seconds; null if neither the header nor the logs of its block are stored."""
    place: "LogPlace"
    evidence: str | None
    """Hash of the evidence behind an accusation or its execution; null for other events, or without an indexed accusation."""
    round: int | None
    """Round with which the node was accused or expelled; null for other events."""


class PostedEntry(TypedDict):
    """An objection that was posted to this reporter, with its state."""

    seq: int
    due_since: int
    """Time since which the kickout is due, in unix seconds."""
    received_at: int
    """Time by the server's clock at which the objection was received, in unix seconds."""
    state: "PostedState"
    ended_reason: str | None
    """Why the objection was not submitted; null if it was or will be submitted."""


PostedState = Literal["waiting", "sent", "on_chain", "ended"]


class Problem(TypedDict):
    """A problem document, which explains why a request has no answer."""

    type: str
    title: str
    status: int
    detail: str
    at: int
    """Time of the error by the server's clock, in unix seconds."""
    found: NotRequired[list[str] | None]
    """All node addresses that start with the prefix in the request, if there are several."""
    refusal: NotRequired[str | None]
    """Why the posted objection was refused."""
    calldata: NotRequired[str | None]
    """Data of a call to the objections contract, which any account can send instead of this reporter."""


class ProofAnswer(TypedDict):
    """A Merkle proof of a node's score, or of its absence."""

    as_of: "AsOf"
    proof: "NodeProofDetail"


class ProofLeaf(TypedDict):
    """The values of a node in a round, as encoded in the node's leaf."""

    node: str
    next_node: str
    """The next higher address that has a leaf, or the lowest one after the highest. No address between the two has a leaf."""
    lane: int
    """1 if the node must not be selected, else its QoS in steps of 0.0001, plus 2."""
    qos: str | None
    """QoS of the node; null if the node must not be selected."""
    is_member: bool
    is_paused: bool
    is_excluded: bool
    is_held: bool
    """Whether a due kickout of the node is held, so that only the vetoer can allow it."""
    seat: int
    """Index of the leaf in the tree, from 0."""
    score_count: int
    score_sum: int
    reliability: str
    """Reliability H of the node at the as-of block."""
    kickout_due_since: int | None
    """Block time since which the kickout is due, in unix seconds; null if none is due, or if logs behind it could not be decoded."""
    last_scored_at: int | None
    """Block time of the node's newest score, in unix seconds; null if the node has no score."""
    pool_hash: str
    encoded: str
    """The 128 bytes of the leaf, which are hashed twice for the Merkle tree."""


class ProofSummary(TypedDict):
    """The signed data of a round, which bind its root to one chain and contract."""

    chain_id: int
    oracle: str
    oracle_account_id: str
    """CAIP-10 id of the oracle contract."""
    round: int
    as_of: int
    """Block at which the leaves were computed."""
    node_count: int
    open_count: int
    """Number of nodes that may be selected, that is, whose lane is at least 2."""
    total_weight: str
    """Sum of `lane` - 1 over all nodes that may be selected."""


class PublicStatus(TypedDict):
    """The public status of the oracle."""

    as_of: "AsOf"
    health: "HealthView"
    version: str
    chain_id: int | None
    start_block: int | None
    round: int | None
    """Number of the last accepted round; null if no round was accepted."""
    round_age_seconds: int | None
    """Seconds from the acceptance of this round to the time of the last indexed block; null if no round was accepted."""
    outbox: list["OutboxCount"]
    """Number of calls by kind and state."""
    reports_held: int
    kickouts_due: int
    tasks_waiting: int
    draws_standing: int
    levels: dict[str, int]
    """Number of blocks, read for the configured contracts and events, by verification level."""
    dead_letters: int
    """Number of logs and calls of known kinds that could not be decoded."""
    anomalies: int
    """Number of events that broke a rule and were ignored."""
    last_reorg: "ReorgEntry | None"


class QosIntervalView(TypedDict):
    """The 90 % interval of a QoS, based on the number of scores in its mean.

    The interval takes half a millisecond to compute, so rows of lists do not have it.
    """

    low: str
    high: str


class RankLoss(TypedDict):
    """The fees that a rank cost a node, summed over all groups in which the node had this rank."""

    rank: int | None
    """Rank of the node's answers; null for tasks in which the node was not ranked."""
    tasks: int
    amount: str
    """Fees that the node would have received in addition with the next better rank or, without a rank, with the last one."""


class ReliabilityChangeView(TypedDict):
    """A change of the reliability H."""

    block: int
    log: int | None
    """Index of the log; null for a row of a feed, and -1 for a call without a log."""
    feed: list[int] | None
    """Number of the feed's stream, and id of the row; null for an event of the chain."""
    proof: Literal["chain", "none"]
    transaction: str | None
    """Hash of the transaction; null for a feed row or a call, or if the raw log is not stored."""
    cause: str
    task: str | None
    before: str
    after: str
    time: int
    """Block time of the change, in unix seconds."""
    incident: int | None
    """Number of the incident that marks this timeout; null if no incident marks it."""


class ReliabilityView(TypedDict):
    """The reliability H: its value `base` at the time `since`, from which it recovers."""

    base: str
    since: int
    """Block time at which the reliability was `base`, in unix seconds; from then on it only recovers."""
    changes: list["ReliabilityChangeView"]


class ReorgEntry(TypedDict):
    """The last reorg: the replaced blocks, and the blocks that replaced them."""

    ancestor: int
    """The last block that both forks share."""
    old_tip: int
    old_hash: str
    new_tip: int | None
    """The newest block of the new fork when the reorg was found; null if no endpoint returned it."""
    new_hash: str | None
    depth: int
    time: int
    """Time of the newest block of the old fork, in unix seconds."""
    logs_orphaned: int


class ReportedChange(TypedDict):
    """A round that changed the node's score in the contract."""

    round: int
    time: int
    before: str
    """QoS in the previous round whose leaves are stored, `never reported` or `not selectable`."""
    after: str


class RoundAnswer(TypedDict):
    """One accepted round; `qos-oracle report verify` recomputes it."""

    as_of: "AsOf"
    entry: "RoundEntry"
    config: str
    """Digest of the chain, the contract, and its configuration (number, signers, quorum and rules) for which the round was signed."""
    signers: list[str]
    """Signers whose signatures were sent with the round; empty if the round's configuration is not indexed."""


class RoundEntry(TypedDict):
    """A round that the contract accepted."""

    round: int
    time: int
    """Time of the block that accepted the round, in unix seconds."""
    as_of: int
    """Block at which the report was computed."""
    as_of_hash: str
    root: str
    """Root of the round's tree; every leaf can be proven with it."""
    is_struck: bool
    """Whether the root was struck, so that nothing can be proven with it."""
    place: "LogPlace"


class RoundPage(TypedDict):
    """A page of accepted rounds, newest first."""

    as_of: "AsOf"
    rounds: list["RoundEntry"]
    next: int | None
    """Value of `before` that requests the next page; null on the last page."""


class RoundPart(TypedDict):
    """The ranks and scores of one node in the two rounds of a legacy task."""

    node: str
    round: int
    commitment: "RoundRank"
    disclosure: "RoundRank"
    score: int | None


class RoundRank(TypedDict):
    """A node's rank and score in one of the two rounds of a legacy task."""

    rank: int | None
    score: int | None


class RuleDifference(TypedDict):
    """A single rule, with its values before and after a rules change of the contract."""

    name: str
    before: str | None
    """Old value of the rule; null if it was not set."""
    after: str | None
    """New value of the rule; null if it is not set any more."""


class RuleEntry(TypedDict):
    """A rule with its value in force and its published value."""

    name: str
    value: str | None
    """Value of the rule; null if the rule is not set."""
    published: str | None
    """Value of the rule in the published rule set; null if it is not set there."""
    meaning: str


class RuleSetView(TypedDict):
    """The name and the version of a rule set, and the SHA-256 of its canonical JSON."""

    name: str
    version: int | None
    sha256: str


class RulesAnswer(TypedDict):
    """The rule set that all scores in the index were computed with."""

    as_of: "AsOf"
    name: str
    version: int
    sha256: str
    """SHA-256 of the rule set's canonical JSON."""
    source: str | None
    """Document that defines the rule set; null if there is none."""
    rules: list["RuleEntry"]


class RulesChangeView(TypedDict):
    """A rules change of the contract; times are in unix seconds."""

    rules_hash: str
    state: Literal["scheduled", "ready", "cancelled", "set"]
    """State of the change. `ready`: the delay has passed, and any account may make the change."""
    is_in_force: bool
    scheduled_block: int | None
    """Block in which the change was scheduled; null if it was made without the timelock."""
    scheduled_time: int | None
    ready_at: int | None
    """Earliest time at which the change can be made, in unix seconds; null if it was made without the timelock."""
    operation: str | None
    """Operation id of the change in the timelock, with which it can be cancelled; null if the change was made without the timelock."""
    reason_hash: str | None
    """Salt of the timelock's operation: the keccak256 of the reason; null if there is no salt."""
    reason: str | None
    """Reason of the change: the text whose keccak256 is `reason_hash`; null if this host does not have it."""
    cancelled_time: int | None
    set_block: int | None
    """Block in which the change was made; null if it was not made."""
    set_time: int | None
    has_rules: bool
    """Whether this host has the rules, so that `/v1/rules/{hash}` returns them."""
    differences: "list[RuleDifference] | None"
    """Rules that differ from the previous rule set; null if there is none, or if this host does not have the text of both rule sets."""


class RulesHistory(TypedDict):
    """The rules changes of the contract, newest first."""

    as_of: "AsOf"
    in_force: str | None
    """Hash of the rules in force; null if there is no contract, or if it is not indexed."""
    changes: list["RulesChangeView"]


class RulesPreviewView(TypedDict):
    """The effect of other rules on the network."""

    rules: str
    """Hash of the announced rules, or name of the shadow set."""
    ready_at: int | None
    """Earliest time at which the announced rules come into force, in unix seconds; null for a shadow set, which is not announced."""
    block: int
    """The final block up to which events were scored under both rule sets."""
    time: int
    """Time of this block, in unix seconds."""
    members: int
    rising: int
    """Number of members that gain at least one place."""
    falling: int
    """Number of members that lose at least one place."""
    rank_correlation: str | None
    """Spearman's rank correlation of all members' QoS under both rule sets: 1 if the order does not change, -1 if it is reversed; null if there are fewer than two members, or if all have the same QoS under one of them."""
    kickouts_beginning: int
    """Number of nodes whose kickout is due only under the other rules."""
    kickouts_ending: int
    """Number of nodes whose kickout is due only under the current rules."""
    losers: list["NodeUnderRules"]
    """Up to ten members that lose places, those that lose most first."""
    winners: list["NodeUnderRules"]
    """Up to ten members that gain places, those that gain most first."""


class RulesPreviews(TypedDict):
    """The effects of announced rules and shadow sets on the network."""

    as_of: "AsOf"
    previews: list["RulesPreviewView"]


class ScarceModel(TypedDict):
    """A model that few available nodes have, and the nodes that would be asked to download it."""

    model: str
    holders: int
    pending: int
    """Number of nodes that were requested to download the model and may do so yet."""
    requested_nodes: list[str]


class ScorePoolView(TypedDict):
    """The scores from which the long-term score is computed."""

    scores: list[int]
    sum: int
    size: int
    creators: int
    most_of_one_creator: int
    decisive_of_one_creator: int
    entries: list["ScoreView"]


class ScoreView(TypedDict):
    """The score of a task in the score pool."""

    block: int
    log: int | None
    """Index of the log; null for a row of a feed, and -1 for a call without a log."""
    feed: list[int] | None
    """Number of the feed's stream, and id of the row; null for an event of the chain."""
    proof: Literal["chain", "none"]
    transaction: str | None
    """Hash of the transaction; null for a feed row or a call, or if the raw log is not stored."""
    seq: int
    """Number of the score among the scores of the node, from 1."""
    task: str
    group: str
    creator: str | None
    rank: int | None
    elapsed: int | None
    """Seconds from the start of the task to its answer; null if there is no answer."""
    error_reported: bool
    score: int
    derived: bool
    """Whether the oracle derived the score from other rows of a feed, because the feed does not list members without an answer."""
    rules: "RuleSetView | None"
    time: int
    """Block time of the score, in unix seconds."""
    earned: "EarningView | None"
    others: list["GroupFellow"]


class SelectionAnswer(TypedDict):
    """The candidates for a task as of the cursor, and the ineligible members; no node is drawn."""

    as_of: "AsOf"
    policy: str
    version: int
    rules: str
    changed: dict[str, str]
    """Values of the rules and of the policy that differ from the published ones."""
    task: "TaskRequirements"
    sum: str
    """Sum of the weights of all candidates; their number if all weights are 0."""
    candidates: int
    equal_weights: bool
    """Whether all weights are 0, so that each candidate counts with weight 1."""
    nodes: list["CandidateEntry"]
    """All members in the order of their addresses."""
    seed: str | None
    """Seed of the draws; null if no node is drawn."""
    gpu: "DrawnGpu | None"
    draws: list["DrawnNode"]
    predownload: "list[ScarceModel] | None"
    """Models that more nodes should download; null if the policy requests no downloads."""


class SentLane(TypedDict):
    """The node's lane in the report whose as-of block is the explained block."""

    block: int
    log: int | None
    """Index of the log; null for a row of a feed, and -1 for a call without a log."""
    feed: list[int] | None
    """Number of the feed's stream, and id of the row; null for an event of the chain."""
    proof: Literal["chain", "none"]
    transaction: str | None
    """Hash of the transaction; null for a feed row or a call, or if the raw log is not stored."""
    round: int
    lane: int | None
    """Lane of the node in this report; null if the node has no leaf in it, or if its leaves are not stored."""


SignatureState = Literal[
    "agrees", "differs", "not signed", "no response", "invalid response", "unknown signer"
]


class SignedObjection(TypedDict):
    """A signed objection, as `objection sign --json` prints it."""

    node: str
    due_since: int
    """Time since which the kickout is due, in unix seconds."""
    reason: Literal["other", "not-on-chain", "application", "outage", "one-creator", "rules"]
    text: NotRequired[str]
    """The owner's explanation, at most 280 bytes."""
    seq: int
    """Number of the objection: the number of objections that the node has made before."""
    deadline: int
    """Latest time of a block that may include the objection, in unix seconds."""
    signature: str
    to: NotRequired[str | None]
    """Address of the objections contract, as `objection sign` prints it. The server ignores it."""
    calldata: NotRequired[str | None]
    """Data of the call, as `objection sign` prints it. The server ignores it."""


class SignedRound(TypedDict):
    """Whether a signer signed an accepted round, and with which root."""

    round: int
    state: "SignatureState"
    """`agrees`: the signer signed the accepted root. `differs`: the signer signed another root of the same block. `not signed`: neither the chain nor this reporter has a statement of the signer."""


class SignerEntry(TypedDict):
    """A signer of the contract, and its signatures for the newest rounds."""

    signer: str
    rounds: list["SignedRound"]
    """Of the last 20 accepted rounds, those of which it was a signer; newest first."""


class SignersAnswer(TypedDict):
    """The current signers of the contract, in the order of the contract."""

    as_of: "AsOf"
    quorum: int | None
    """Number of signatures that a round needs; null if no indexed block set it."""
    newest_round: int | None
    """Number of the newest accepted round; null if no round was accepted."""
    newest_signatures: int
    """Number of current signers known to have signed the root of the newest round."""
    signers: list["SignerEntry"]


class SubscriptionForm(TypedDict):
    """The data for a request; the client signs `typed_data` with its own `message`."""

    service: str
    channels: list[str]
    kinds: list[str]
    max_per_node: int
    typed_data: dict[str, Any]
    """EIP-712 data to sign, with an example of a message."""


class SubscriptionRequest(TypedDict):
    """The fields that were signed (`NoticeRequest`), and the signature."""

    service: str
    """The value of `service` in the response to `GET /v1/subscriptions`."""
    node: str
    action: Literal["subscribe", "list", "unsubscribe"]
    channel: NotRequired[Literal["", "webhook", "mail"]]
    target: NotRequired[str]
    """The URL or mail address that receives the notices; to unsubscribe, the id of the subscription."""
    kinds: NotRequired[str]
    """Comma-separated kinds of notices; an empty text subscribes to all kinds."""
    nonce: int
    """A number that is larger than the nonce of the node's last request."""
    deadline: int
    """Time at which the signature expires, in unix seconds; at most an hour from now."""
    signature: str


class SubscriptionView(TypedDict):
    """A subscription, without the address that receives the notices."""

    id: str
    channel: str
    kinds: list[str]
    state: str
    """State of the subscription: `new`, `unconfirmed`, `active` or `ended`."""
    reason: str | None
    """Why the subscription ended; null if it has not ended."""
    created_at: int
    """Time at which the subscription was created, in unix seconds."""


class TaskAnswer(TypedDict):
    """A task with its requirements, node, ending and score."""

    as_of: "AsOf"
    task: str
    creator: str | None
    fee: str | None
    """Fee of the task or, in an entry of the queue, of all its `tasks`, in wei."""
    min_vram: int | None
    """Minimum video memory of the GPU, in GB."""
    required_gpu: str | None
    required_gpu_vram: int | None
    """Required video memory of the GPU, in GB."""
    models: list[str]
    version: list[int] | None
    size: int | None
    kind: "TaskKind | None"
    timeout: int | None
    """Time limit of the task, in seconds."""
    group: str | None
    """Key of the task's group, that is, of the tasks that are validated together."""
    node: str | None
    queued: bool
    error_reported: bool
    ending: str | None
    """How the task ended; null if it has not ended."""
    abort_reason: str | None
    moments: list["TaskMoment"]
    scored_in: str | None
    score: "GroupEntry | None"
    """Rank and score of the task in its group; null if no group has scored the task."""


class TaskDraws(TypedDict):
    """Every draw of one task, oldest first."""

    as_of: "AsOf"
    draws: list["DrawEntry"]


TaskKind = Literal["sd", "llm", "sd_ft"]


class TaskMoment(TypedDict):
    """An event in the life of a task."""

    what: str
    time: int | None
    """Time of the event, in unix seconds; null if neither the header nor the logs of its block are stored."""
    place: "LogPlace"


class TaskRequirements(TypedDict):
    """A task and its requirements; a requirement is null if the creator set none."""

    task: str
    creator: str | None
    fee: str | None
    """Fee of the task or, in an entry of the queue, of all its `tasks`, in wei."""
    min_vram: int | None
    """Minimum video memory of the GPU, in GB."""
    required_gpu: str | None
    required_gpu_vram: int | None
    """Required video memory of the GPU, in GB."""
    models: list[str]
    version: list[int] | None
    size: int | None
    kind: "TaskKind | None"
    timeout: int | None
    """Time limit of the task, in seconds."""
    group: str | None
    """Key of the task's group, that is, of the tasks that are validated together."""


class Waiting(TypedDict):
    """A problem that needs an operator, and the command to run."""

    what: str
    command: str | None


class WantedTask(TypedDict):
    """The requirements of a task: the fields of `task_created`, all optional.

    See docs/reference/events-and-jsonl.md.
    """

    task: NotRequired[str | None]
    creator: NotRequired[str | None]
    fee: NotRequired[str | None]
    min_vram: NotRequired[int | None]
    required_gpu: NotRequired[str | None]
    required_gpu_vram: NotRequired[int | None]
    models: NotRequired[list[str] | None]
    version: NotRequired[list[int] | None]
    size: NotRequired[int | None]
    kind: NotRequired[Literal["sd", "llm", "sd_ft"] | None]
    timeout: NotRequired[int | None]
    """Time limit of the task, in seconds."""
    group: NotRequired[str | None]
    group_size: NotRequired[int | None]
    time: NotRequired[int | None]
    """Time at which the task is created, in unix seconds; it does not affect the answer, which is as of the last indexed block."""


class WeightedCandidate(TypedDict):
    """A candidate of a draw and its weight; if all weights are 0, each counts as 1."""

    node: str
    weight: str


class WhatIf(TypedDict):
    """The current QoS, fees and rank of a node, and those after each single change."""

    groups: int
    """Number of groups that were ranked again."""
    reliability: str
    """Mean of H over the last 24 hours, or since the node's first event if that is later."""
    reliability_now: str
    """H at the time of the block in `as_of`."""
    rows: list["WhatIfRow"]
    gpus: list["GpuSpeed"]
    """The GPUs of all members, at most 50, most frequent first. `rows` has a row for each GPU with a `time_ratio`."""
    assumption: str


class WhatIfRow(TypedDict):
    """The QoS, fees and rank that a node would have after one change."""

    change: Literal["as_it_is", "one_timeout_fewer", "faster", "another_gpu"]
    """The condition that differs. `faster`: each answer of the node takes four fifths of its time. `another_gpu`: each answer takes its time multiplied by `gpu.time_ratio`."""
    gpu: NotRequired["GpuSpeed | None"]
    """The other GPU, if `change` is `another_gpu`; otherwise null."""
    mean_score: str
    """Mean of the node's task scores under this condition, in points."""
    qos: str
    """QoS under this condition. It is computed with `reliability`, which one timeout fewer raises, and not with the current reliability."""
    rank: int | None
    """Rank of the node among the current members with this QoS, from 1; null if it has no rank."""
    chance: str | None
    """Chance that the node is drawn for the next task: its weight divided by the sum of the weights of all members that are neither paused nor excluded, including itself; null if the policy has no such weights, or if all weights are 0."""
    fees_per_day: str | None
    """Fees per day for as many tasks as the node gets now, in the smallest unit of the token; null if `money.per_day` is null."""


class WorkShare(TypedDict):
    """A node's expected and actual share of the network's recent draws."""

    draws: int
    """Number of draws that were examined: the newest ones, at most 500."""
    since: int
    """Block time of the first of these draws, in unix seconds."""
    eligible: int
    """Number of draws in which the node was a candidate."""
    missed: list["MissedDraws"]
    """Numbers of the other draws by the reason for which the node was no candidate, most frequent reason first."""
    received: int
    """Number of draws that selected the node."""
    expected: str
    """Number of draws that would have selected the node on average: the sum of its weight divided by the total weight, over the draws in which it was a candidate."""
    fees: str
    """Sum of the known task fees over all these draws."""
    fees_received: str
    """Sum of the fees of the tasks for which the node was drawn. The members of a task's group share its fee."""
    fees_expected: str
    """Sum of the fees of these tasks, each multiplied by the node's chance to be drawn."""
    stake_score: str
    """Stake factor S of the node's current weight."""
    qos: str | None
    """QoS factor of the node's current weight; null if the node is not a member."""
    weight: str | None
    """Current weight of the node for a task that needs no model; null if the node is not a member."""
    assumption: str

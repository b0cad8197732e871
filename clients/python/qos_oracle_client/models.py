"""The types of responses, made by `make clients`."""

from typing import Any, Literal, NotRequired, TypedDict


class ActivityBucket(TypedDict):
    """The number of scores and of timeouts in one part of the time span."""

    since: int
    """Start of the part, unix seconds."""
    scores: int
    timeouts: int


class AnnouncedRules(TypedDict):
    """The complete text of some rules."""

    as_of: "AsOf"
    rules_hash: str
    rules_id: str
    """Text whose SHA-256 is `rules_hash`."""


class AnswerEntry(TypedDict):
    """This reporter's answer to the objections to a kickout."""

    is_accepted: bool
    because: str
    answered_at: int
    """Unix seconds."""
    signer: str | None
    """null if the answer is not signed."""
    signature: str | None
    """EIP-712, 65 bytes as hex; null if not signed."""


class AsOf(TypedDict):
    """The block that an answer describes, and how far this block is behind the chain's head."""

    block: int
    """The last block that was folded."""
    hash: str
    time: int
    """Time of the block, unix seconds."""
    final: int | None
    """The newest final block."""
    is_final: bool
    """Whether `block` is final, so that no reorg removes it."""
    head: int | None
    """The newest block of the chain; null if only the daemon knows it."""
    lag_blocks: int | None
    """Blocks from `block` to `head`."""
    lag_seconds: int
    """Age of `block` when the response was built."""
    replica_lag_seconds: float | None
    """Seconds by which a replica database is behind its primary; null if the database is not a replica."""
    rules: str
    """Rule set and version that folded the block."""
    epoch: int
    """Increases with every change of the index and every start or end of a halt."""


class BlockView(TypedDict):
    """A block of the chain."""

    number: int
    hash: str
    parent_hash: str
    time: int
    """Unix seconds."""


class BundleAnswer(TypedDict):
    """A node's leaf in a round, and all data that is needed to verify the leaf."""

    as_of: "AsOf"
    bundle: "EvidenceBundle"


class BundleConfiguration(TypedDict):
    """The configuration under which a round was signed; its digest is `config` of the round."""

    config_count: int
    """Number of the configuration."""
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
    """An objection, and the statement that the node signed if it was posted to this reporter."""

    node: str
    seq: int
    """Counts the objections of the node from 0."""
    due_since: int
    """Time since which the kickout is due, unix seconds."""
    reason: str
    """Reason of the objection."""
    text: str
    """The explanation, written by a stranger; up to 280 bytes."""
    at: "LogPlace"
    time: int
    """Block time, unix seconds."""
    is_due: bool
    """Whether that kickout is still due."""
    is_executed: bool
    """Whether that kickout was executed on the chain."""
    is_counted: bool
    """Whether it may delay this reporter's accusation: it is the first objection to this kickout, and was made in time."""
    verdict: str | None
    """Result of the automatic check; null if the kickout is no longer due."""
    finding: str | None
    """Result of the automatic check; null if nothing was checked."""
    answer: "AnswerEntry | None"
    """null if this reporter has not answered."""
    answer_until: int | None
    """Block time by which the operator should answer, unix seconds; null if the objection waits for no answer."""
    contract: str | None
    """The objections contract, in whose domain objection and answer are signed; null if the raw log is not stored."""
    deadline: int | None
    """Deadline that was signed, unix seconds; null if not signed."""
    signature: str | None
    """By the node's key, 65 bytes as hex; null if the objection was not posted to this reporter, or the node is a contract."""


class BundlePosition(TypedDict):
    """The position of an event on the chain."""

    block: int
    tx: int
    log: int
    sub: int


class BundleRound(TypedDict):
    """The report of a round as it was signed, and the signatures that this host has."""

    chain_id: int
    contract: str
    round: int
    prev: str | None
    """Root of the previous round; null if this host does not have it."""
    as_of: int
    as_of_hash: str
    as_of_time: int | None
    """Unix seconds; null if not stored."""
    deadline: int | None
    """Unix seconds; null if not known here."""
    root: str
    config: str
    configuration: "BundleConfiguration | None"
    """null if the contract has another one since."""
    signatures: list[str]
    """65 bytes each; empty: not stored on this host."""
    accepted_at: "LogPlace"


class BundleScore(TypedDict):
    """A score that counts in the round, with the same fields as in the kickout evidence."""

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
    """null if a candidate."""
    weight: str | None
    parts: dict[str, str]
    """Components of the weight."""
    chance: str | None
    """Probability of being drawn first."""
    drawn: int | None
    """Order in which it was drawn, from 1; null if not drawn."""


class ContractKickout(TypedDict):
    """The state of a node's kickout in the oracle contract."""

    state: str
    round: int
    """Round of the newest accusation, execution or retry; 0: none."""
    due_since: int | None
    """Start of the accused interval, unix seconds; null if never accused."""
    evidence: str | None
    """Keccak-256 of the scores behind the accusation; null if never accused."""
    ready_at: int | None
    """Time from which it may be executed, unix seconds."""
    expelled_until: int | None
    """Unix seconds; 1099511627775: for good; null if never expelled."""
    reason: str | None
    """Revert data of the network, which refused the kickout, as hex."""


class DownloadView(TypedDict):
    """A request that a node should download a model; times are in unix seconds."""

    model: str
    asked_at: int
    until: int
    state: str


class DrawEntry(TypedDict):
    """The draw of a node for a task."""

    task: str
    node: str
    seed_block: int
    seed_hash: str
    """Block hash; the seed of the draw is the SHA-256 of it and the task."""
    seed_time: int
    """Time of the seed block, unix seconds."""
    active: bool
    """Whether its node can still start the task."""
    voided_block: int | None
    """Block at the end of which the draw was voided."""
    outcome: "DrawOutcome | None"
    """How the draw ended; null if active."""


DrawOutcome = Literal["started", "started_elsewhere", "task_ended", "undone"]


class DrawPage(TypedDict):
    """The active draws, oldest first, and the last voided draws, newest first."""

    as_of: "AsOf"
    active: list["DrawEntry"]
    over: list["DrawEntry"]


class DrawnAgain(TypedDict):
    """The inputs of the draw of a task, and its result.

    seed = sha256(seed_hash || seed_name), digest = sha256(seed || counter as 32 bytes), x = digest
    modulo the sum of the weights. The drawn node is the first candidate, in ascending order of
    addresses, at which the running sum of the weights exceeds x.
    """

    as_of: "AsOf"
    task: str
    seed_block: int
    seed_hash: str
    seed_name: str
    """Key of the task, or of its group if the tasks of the group share a seed."""
    counter: int
    """Number of nodes drawn before it with the same seed."""
    gpu: str | None
    """GPU that was drawn before the node, under a legacy policy."""
    candidates: list["WeightedCandidate"]
    """Ascending by address."""
    digest: str
    total: str
    """Sum of the weights."""
    x: str
    node: str
    """Node drawn by the recomputation."""
    recorded: str
    """Node that the daemon recorded."""
    agrees: bool


class DrawnGpu(TypedDict):
    """The group of nodes with the same GPU that a legacy policy draws before it draws nodes."""

    name: str
    vram: int
    """In GB."""
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
    """A node whose kickout is due, and what delays its accusation by this reporter."""

    node: str
    due_since: "LogPlace | None"
    """null if it is no longer due."""
    on_chain: "ContractKickout | None"
    """null if it was never accused."""
    objection_delay: "ObjectionDelayEntry | None"
    """null if no objection delays it."""


class EarningView(TypedDict):
    """What a node earned from a task, in the token's smallest unit: all or part of the fee."""

    paid: str
    fee: str
    points: int | str | None
    """null if the fee was not shared."""
    of_points: int | str | None
    by_points: str | None
    """Share of the fee that follows from the points."""


class EvidenceBundle(TypedDict):
    """A node's leaf in a round, and the data from which its scores are computed."""

    bundle_version: int
    node: str
    proof: "NodeProofDetail"
    signed_round: "BundleRound"
    rules_id: str
    """Text whose SHA-256 is the contract's `rulesHash`; it contains the rule set."""
    holds_kickouts: bool
    """Whether the profile holds every kickout."""
    scores: list["BundleScore"]
    """The scores in the leaf's pool, oldest first."""
    evidence: str | None
    """Text of the evidence file, if the leaf states that a kickout is due."""
    objections: list["BundleObjection"]
    """The objections to the kickout that the leaf states, oldest first; no score depends on them."""
    events: list[dict[str, "JsonValue"]]
    """All events about the tasks and groups of these scores up to the as-of block."""
    logs: list["BundleLog"]
    """The logs of these events."""


class ExplanationAnswer(TypedDict):
    """Every number that a score is computed from, with the log of each."""

    as_of: "AsOf"
    explanation: "NodeExplanation"
    """As `qos-oracle explain --json` prints it (docs/reference/read-api.md#explain)."""


class FeedEvent(TypedDict):
    """An event of the stream; `kind` is its name there."""

    kind: str
    """timed_out, recovered, joined, paused, resumed, left, kickout_due, kickout_accused, kickout_executed, incident_began, incident_over, rules_announced, rules_cancelled, rules_set, report_accepted, reorg, halted, halt_cleared."""
    time: int
    """Block time, unix seconds; for `halt_cleared`, by the clock of the operator."""
    block: int | None
    node: str | None
    text: str
    excluded_until: NotRequired[int | None]
    """End of the exclusion if no event occurs before, unix seconds."""


class GpuSpeed(TypedDict):
    """A GPU model of the network, and its answer times compared with those of the node's GPU."""

    name: str
    vram: int | None
    """In GB; null if not known."""
    nodes: int
    """Members with this GPU."""
    is_own: bool
    """Whether the node has this GPU."""
    shared_groups: int
    """Groups among the newest 1,000 of the network that both GPUs answered."""
    time_ratio: str | None
    """Median of its time divided by the time of the node's GPU, over all pairs of answers in the shared groups; null if there are fewer than 30 of them, or if it is the node's own GPU."""


class GroupAnswer(TypedDict):
    """A group, open or closed; the newest group if the chain used its key twice."""

    as_of: "AsOf"
    group: str
    closed: bool
    scored: bool
    """Whether a task of the group was ranked."""
    closed_at: "LogPlace | None"
    time: int | None
    members: list["GroupEntry"]
    tasks_seen: list[str]
    """The tasks so far of an open group."""


class GroupEntry(TypedDict):
    """A task of a group, with its rank and score."""

    task: str
    node: str | None
    rank: int | None
    """From 1; null if it was not ranked."""
    elapsed: int | None
    """Seconds from start to submission or error report."""
    score: int | None
    """null if the task gives no score."""


class GroupFellow(TypedDict):
    """Another task of the same group as the scored task."""

    task: str
    node: str | None
    rank: int | None
    elapsed: int | None
    """In seconds."""
    error_reported: bool
    possible: bool
    """Whether it is uncertain that the task belongs to the group."""


class HealthView(TypedDict):
    """The oracle's health as a single status, and the conditions that are active."""

    status: Literal["well", "attention", "down"]
    """`down`: all work has stopped; `attention`: something else is wrong."""
    conditions: list[str]
    """Names of the active conditions (docs/explanation/health.md); empty: none."""
    reasons: list[str]
    """Reasons as text."""


class HistoryMark(TypedDict):
    """An event that changed a node's reliability."""

    time: int
    cause: str
    task: str | None
    before: str
    after: str
    back_at: int | None
    """End of the exclusion if no other event occurs, unix seconds; null if none."""
    place: "LogPlace"
    incident: int | None
    """Number of the incident that marks this timeout; null if none."""


class IncidentPage(TypedDict):
    """Suspected incidents, newest first; they change no score."""

    as_of: "AsOf"
    incidents: list["IncidentView"]
    next: int | None
    """`before` of the next page; null if this is the last."""


class IncidentView(TypedDict):
    """A suspected incident, whose timeouts were probably not the fault of the nodes."""

    number: int
    """Counts the incidents of the network from 1."""
    kind: Literal["application", "network"]
    """A burst of timeouts of one application, or an outage of the network."""
    creator: str | None
    """null for a network outage."""
    found_block: int
    found_time: int
    """Unix seconds."""
    since: int
    """First block time whose timeouts are marked, unix seconds."""
    until: int
    """Last such block time; it moves while the incident is open."""
    nodes: int
    """Max nodes with a timeout within 15 minutes."""
    timeouts: int
    """Max timeouts within 15 minutes."""
    over_time: int | None
    """Unix seconds; null if the incident is open."""


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
    """null if still due."""


class KickoutOutlook(TypedDict):
    """The forecast of a kickout, if the next scores equal the mean of the last scores."""

    scores: int
    """Scored tasks until the kickout is due; 0: due now."""
    seconds: int | None
    """Time until the kickout is due, by the median time between the node's last scores; null if unknown."""
    recent_scores: int
    """Number of last scores that the forecast repeats."""
    first_places: int | None
    """First places in the next `scores` tasks that would prevent the kickout; null if none would."""
    second_places: int | None
    """Second places in the next `scores` tasks that would prevent the kickout; null if none would."""


class KickoutPage(TypedDict):
    """The kickouts that are due now, and the last fifty kickouts in the contract, newest first."""

    as_of: "AsOf"
    due: list["DueKickout"]
    on_chain: list["KickoutRecord"]


class KickoutProgress(TypedDict):
    """How far a node is from being kicked out."""

    is_due: bool
    due_since_block: int | None
    due_since: int | None
    """Time since which the kickout is due, unix seconds; it identifies the kickout in an objection."""
    scores: int
    """Scores in the pool or legacy window; a kickout needs `pool_size` scores."""
    pool_size: int
    mean: str | None
    """Mean of these scores, in points; null without scores."""
    below: str
    """Kickout is due below this mean, in points."""
    obstacle: str | None
    """Why no account can accuse the node of the due kickout; null if accounts can, once a round states it, or none is due."""
    object_until: int | None
    """Last block time at which an objection may delay the accusation, unix seconds; null if no kickout is due, or objections are not indexed."""
    on_chain: "ContractKickout | None"
    """null if it was never accused."""


class KickoutRecord(TypedDict):
    """A kickout in the contract, and its outcome."""

    state: str
    round: int
    """Round of the newest accusation, execution or retry; 0: none."""
    due_since: int | None
    """Start of the accused interval, unix seconds; null if never accused."""
    evidence: str | None
    """Keccak-256 of the scores behind the accusation; null if never accused."""
    ready_at: int | None
    """Time from which it may be executed, unix seconds."""
    expelled_until: int | None
    """Unix seconds; 1099511627775: for good; null if never expelled."""
    reason: str | None
    """Revert data of the network, which refused the kickout, as hex."""
    node: str
    accused_at: "LogPlace | None"
    executed_at: "LogPlace | None"


class LaneOnChain(TypedDict):
    """The lane of the node in the last round that was accepted up to the explained block."""

    seat: int
    """Index of the node's leaf."""
    lane: int
    qos: int
    round: int
    time: int
    """Unix seconds."""
    as_of: int
    """As-of block of the round."""


class LastRound(TypedDict):
    """The newest report that the contract accepted."""

    round: int
    age_seconds: int
    as_of: int
    """As-of block of the report."""


class LeafPieceEntry(TypedDict):
    """The hashes of one piece of the leaves of a round."""

    index: int
    """The piece has the leaves of the seats from 8,192 * index on."""
    leaf_count: int
    nodes_hash: str
    """Root of the subtree of its leaves."""
    words_hash: str
    """Root of the subtree of its words of lanes."""
    open_count: int
    """The piece's part of `summary.open_count`."""
    total_weight: str
    """The piece's part of `summary.total_weight`."""
    path: list[str]
    """Hashes beside the path from `nodes_hash` to `root`."""


class LeafPieces(TypedDict):
    """The pieces into which the leaves of a root are divided."""

    root: str
    as_of_hash: str
    """Hash of the block `summary.as_of`."""
    summary: "ProofSummary"
    pieces: list["LeafPieceEntry"]


class LeavesAnswer(TypedDict):
    """The hashes of the pieces of a round or report, by which the pieces can be verified."""

    as_of: "AsOf"
    leaves: "LeafPieces"


class LegacyRounds(TypedDict):
    """The ranks and scores of all nodes in both rounds of a legacy task."""

    task: str
    nodes: list["RoundPart"]
    scored: bool
    """False: no node submitted a result."""


class LegacyScore(TypedDict):
    """A node's score in the window of legacy rules; R, P, B and Q are null for a non-member."""

    window: int | str
    window_began: int | str
    """Unix seconds."""
    tasks: int
    """Tasks scored in the window."""
    node_score: str | None
    """Mean of the window, 0 to 20."""
    online_seconds: int | str
    """Seconds as a member in the window."""
    R: str | None
    """VRAM relative to the maximum."""
    P: str | None
    """Timeout setting relative to the maximum."""
    B: str | None
    """Node score relative to the best node's; null (counts as 0): no task in the window."""
    Q: str | None
    """The weighted sum of R, P and B."""
    incentive_share: str | None
    """Its share of the window's incentive, as of the block."""


class LogPlace(TypedDict):
    """The source of an event: a log, a call (`log` is -1), or a feed row without a transaction."""

    block: int
    tx: int | None
    log: int | None
    feed_row: int | None
    """Row id if the event comes from a feed, which has no proof."""
    transaction: str | None
    """null if the raw log is not stored."""


class MissedDraws(TypedDict):
    """The number of draws for which a node was not eligible for the same reason."""

    reason: "IneligibilityReason"
    """models_not_on_disk: the node that was drawn has models that this node lacks."""
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
    """Number of members in twenty equal QoS bins from 0 to 1."""
    quartiles: list[str]
    """Minimum, first quartile, median, third quartile, maximum; empty: no member."""
    kickouts_due: int
    activity: list["ActivityBucket"]
    """Equal parts of the span, oldest first."""
    last_round: "LastRound | None"
    tasks_waiting: int
    draws_standing: int
    halted: bool
    """Whether a halt is open: nothing is folded, signed or sent."""
    waiting: list["Waiting"]
    """Problems that need an operator; empty: none."""


class NodeAdvice(TypedDict):
    """The forecasts for a node, the effects of possible changes, and their assumptions."""

    as_of: "AsOf"
    node: str
    kickout_state: Literal[
        "due", "expected", "not_expected", "no_score", "no_forecast", "no_member"
    ]
    """no_score: no scored task counts now; no_forecast: the rules score each window by itself."""
    kickout: "KickoutOutlook | None"
    """null if no kickout is due or expected."""
    hold_reason: str | None
    """Why only an operator may allow the kickout that is due; null if none is held."""
    what_if: "WhatIf | None"
    """null if not a member, or no group of its pool can be ranked again."""
    work: "WorkShare | None"
    """null if no task was drawn, or the policy has no weights."""
    money: "NodeMoney"


class NodeEntry(TypedDict):
    """A node as of a block: one row of the list of nodes."""

    place: int | None
    """Place by QoS, from 1; null if the node has no QoS."""
    node: str
    label: str | None
    """The operator's label; null if none."""
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
    """Status in the network: available, busy, paused …"""
    excluded: bool
    """Whether a member gets no tasks for the time being."""
    back_at: int | None
    """End of the exclusion if no event occurs before, unix seconds; null if not excluded."""
    kickout_due: bool
    proof: Literal["chain", "none"]
    """none: based on a feed."""
    gpu: str | None
    """GPU as the node reports it."""
    vram: int | None
    """In GB."""
    scores_in_pool: int
    scored_in_all: int
    long_term: str
    reliability: str
    """H at the block's time."""
    qos: str | None
    """null if not a member."""
    lane: int
    """Lane of a report as of the block, 1 to 10002."""
    seat: int
    """Index of its leaf in the tree of each round."""
    lane_on_chain: int
    """Lane in the last accepted round; 0: the node has no leaf, 1: not selectable."""
    on_chain: str | None
    """QoS in the last accepted round; null if no leaf, or not selectable."""
    changed_at: int
    """The block of the last change."""
    legacy: "LegacyScore | None"
    """Only under legacy rules."""


class NodeExplanation(TypedDict):
    """All numbers from which a node's score is computed, with the log of each."""

    row: "NodeEntry"
    """The node's row in the list of nodes, as of the block."""
    interval: "QosIntervalView | None"
    """null if its QoS is no mean of scores."""
    as_of: "BlockView"
    rules: str
    rules_version: int
    rules_sha256: str
    pool: "ScorePoolView"
    lowest_long_term: str
    """Lower bound, with every possible 0 included."""
    possible_zeros: list["Origin"]
    reliability: "ReliabilityView"
    incidents: list["IncidentView"]
    """Incidents that mark timeouts of the node, oldest first."""
    kickouts: list["KickoutInterval"]
    held: str | None
    """Reason why the node's kickout waits for the vetoer."""
    objections: list["ObjectionEntry"]
    """Up to the block, newest first; check and answer are as of the last block."""
    objection_delay: "ObjectionDelayEntry | None"
    """Why this reporter does not accuse it yet; null if no objection delays it, or the block is not the last one."""
    downloads: list["DownloadView"]
    on_chain: "LaneOnChain | None"
    """null if the node has no index in the contract."""
    sent: "SentLane | None"
    legacy_rounds: "list[LegacyRounds] | None"
    """Rounds of the tasks in the window; only under legacy rules."""


class NodeHistory(TypedDict):
    """QoS, long-term score and H of a node over time."""

    as_of: "AsOf"
    node: str
    first: int
    """Start of the span, unix seconds; never before the node's first event."""
    last: int
    columns: list[str]
    """Names of the columns of `rows`."""
    rows: list[list[int | str]]
    thinned: bool
    """Whether points were left out; extreme values are always kept."""
    exact: bool
    """Whether each point equals what the fold computed at that time; `note` has the reason if not."""
    note: str | None
    marks: list["HistoryMark"]
    """The newest 500, oldest first."""
    marks_left_out: int
    incidents: list["IncidentView"]
    """The incidents that mark any of `marks`, oldest first."""


class NodeLift(TypedDict):
    """How many consecutive events of one kind would change a node's standing.

    A number is null for a non-member, or if it is above 200.
    """

    first_places: int | None
    """First ranks until the node passes the next better node, if that node does not change."""
    place_then: int | None
    """Place of the node after `first_places` first ranks."""
    successes: int | None
    """Successful tasks until reliability is 1."""
    timeouts: int | None
    """Timeouts in a row until the node is excluded; 0: already excluded."""
    zeros: int | None
    """Scores of 0 until a kickout is due; 0: already due."""
    over_line: int | None
    """First ranks until no kickout is due; 0: not due."""


class NodeMoney(TypedDict):
    """The stake and the fees of a node; amounts are in the token's smallest unit."""

    stake: str | None
    earned: str
    """The node's share of the fees of the scored tasks that count."""
    tasks: int
    """Scored tasks with a known fee."""
    without_fee: int
    """Scored tasks whose fee is not known."""
    seconds: int | None
    """From the first of `tasks` to the block; null if not a member, or if none."""
    per_day: str | None
    """Fees per day in `seconds`; null if `seconds` is null or below an hour."""
    losses: list["RankLoss"]
    """Best place first."""
    today: int
    """When the day of the block began in UTC, as block time in unix seconds."""
    tasks_today: int
    """Those of `tasks` that were scored since `today`."""
    lost_today: str
    """The part of `losses` in `tasks_today`."""
    assumption: str


class NodeObjections(TypedDict):
    """The objections of a node, newest first, and those that were posted to this reporter."""

    as_of: "AsOf"
    objections: list["ObjectionEntry"]
    posted: list["PostedEntry"]


class NodePage(TypedDict):
    """A page of the list of nodes."""

    as_of: "AsOf"
    total: int
    """Nodes of the network, before filters."""
    counts: dict[str, int]
    """Number of nodes in each state."""
    nodes: list["NodeEntry"]
    next: str | None
    """`cursor` of the next page; null if this is the last one."""
    moved: bool
    """The page cursor belongs to an earlier block, so places may have changed."""


class NodePast(TypedDict):
    """A node's membership, rounds and draws, newest first."""

    as_of: "AsOf"
    node: str
    membership: list["PastEvent"]
    """The newest 50."""
    reported: list["ReportedChange"]
    """Changes of its score in the newest 100 rounds, as far as leaves are stored."""
    drawn: list["DrawEntry"]
    """The newest 20 draws of the node."""


class NodePreviewView(TypedDict):
    """A node under the rules in force, and under one of the other rule sets."""

    rules: str
    """Hash of announced rules, or name of a shadow set."""
    ready_at: int | None
    """Earliest time of announced rules, unix seconds; null for a shadow set, which is not announced."""
    block: int
    """A final block, up to which both were folded."""
    time: int
    """Time of the block, unix seconds."""
    figures: "NodeUnderRules"


class NodePreviews(TypedDict):
    """A node under each of the other rule sets."""

    as_of: "AsOf"
    node: str
    previews: list["NodePreviewView"]


class NodeProofDetail(TypedDict):
    """A leaf of a round, and the hashes that lead from it to the round's root."""

    address: str
    """The address that the proof is about."""
    account_id: str
    """CAIP-10 id of this address."""
    is_absent: bool
    """Whether the address has no leaf: it lies between `leaf.node` and `leaf.next_node`."""
    root: str
    leaf: "ProofLeaf"
    proof: list[str]
    """Hashes beside the path, from the leaf to the root, as OpenZeppelin's `MerkleProof.verify` takes them."""
    summary: "ProofSummary"


class NodeUnderRules(TypedDict):
    """The rank and the QoS of a node under the rules in force, and under other rules."""

    node: str
    rank_now: int | None
    """null if not a member."""
    rank_then: int | None
    qos_now: str | None
    qos_then: str | None
    chance_now: str | None
    """The node's share of the weights of all available nodes, which is its chance of the next task; 0 if paused or excluded; null if not a member, or the policy has no such weights."""
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
    """null if its QoS is no mean of scores."""
    members: int
    """Number of members, which `row.place` counts among."""
    models: list[str]
    version: str | None
    stake: str | None
    pool: list[int]
    """The task scores that count, oldest first."""
    pool_size: int
    excluded_below: str
    kickout: "KickoutProgress"
    on_chain: "OnChainScore | None"
    """null if no accepted round contains the node, or its leaves are not stored."""
    objections: list["ObjectionEntry"]
    """Its newest objections, newest first."""
    objection_delay: "ObjectionDelayEntry | None"
    """Why this reporter does not accuse it yet; null if no objection delays it."""
    lift: "NodeLift"
    """Events that would change its standing, simulated by the fold."""


class ObjectionAccepted(TypedDict):
    """A posted objection that this reporter will submit on chain."""

    as_of: "AsOf"
    node: str
    seq: int
    due_since: int
    """Time since which the kickout is due, unix seconds."""
    state: "PostedState"
    to: str
    """The objections contract."""


class ObjectionDelayEntry(TypedDict):
    """An objection, or time left to object, for which this reporter delays an accusation."""

    reason: str
    until: int | None
    """Block time at which the delay ends without an answer, unix seconds; null if only an answer of the operator ends it."""
    objection: int | None
    """Number of the objection; null if the owner may still object."""
    is_accepted: bool
    """Whether the operator has accepted the objection."""


class ObjectionEntry(TypedDict):
    """An objection of a node to its kickout, its automatic check, and this reporter's answer."""

    node: str
    seq: int
    """Counts the objections of the node from 0."""
    due_since: int
    """Time since which the kickout is due, unix seconds."""
    reason: str
    """Reason of the objection."""
    text: str
    """The explanation, written by a stranger; up to 280 bytes."""
    at: "LogPlace"
    time: int
    """Block time, unix seconds."""
    is_due: bool
    """Whether that kickout is still due."""
    is_executed: bool
    """Whether that kickout was executed on the chain."""
    is_counted: bool
    """Whether it may delay this reporter's accusation: it is the first objection to this kickout, and was made in time."""
    verdict: str | None
    """Result of the automatic check; null if the kickout is no longer due."""
    finding: str | None
    """Result of the automatic check; null if nothing was checked."""
    answer: "AnswerEntry | None"
    """null if this reporter has not answered."""
    answer_until: int | None
    """Block time by which the operator should answer, unix seconds; null if the objection waits for no answer."""


class ObjectionPage(TypedDict):
    """Objections, newest first; an objection changes no score and no report."""

    as_of: "AsOf"
    objections: list["ObjectionEntry"]


class OnChainScore(TypedDict):
    """The score of a node in the last accepted round, whose root proves it on chain."""

    seat: int
    """Index of the node's leaf."""
    lane: int
    """Lane in the leaf."""
    is_selectable: bool
    qos: str | None
    """null if not selectable."""
    round: int
    time: int
    """Time of the block that accepted the round, unix seconds."""
    is_current: bool
    """Whether the lane equals the value that would be reported now."""


class Origin(TypedDict):
    """The source of an event: a log of the chain, or a row of a feed, which has no proof."""

    block: int
    log: int | None
    """Log index; null for a feed's row, -1 for a call without a log."""
    feed: list[int] | None
    """Stream and row of a feed."""
    proof: Literal["chain", "none"]


class OutboxCount(TypedDict):
    """The number of calls of a kind in a state."""

    kind: str
    state: str
    count: int


class OwnSubscriptions(TypedDict):
    """The subscriptions of one node, and the secret of the webhook that was just registered."""

    subscriptions: list["SubscriptionView"]
    created: str | None
    """The id of the new subscription."""
    secret: str | None
    """Secret that signs the messages to the new webhook; returned only once."""


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
    """Unix seconds; null if neither header nor logs of its block are stored."""
    place: "LogPlace"
    evidence: str | None
    """Hash of the evidence of a kickout."""
    round: int | None
    """Round in which the node was accused or expelled."""


class PostedEntry(TypedDict):
    """An objection that was posted to this reporter, and its state."""

    seq: int
    due_since: int
    """Time since which the kickout is due, unix seconds."""
    received_at: int
    """Unix seconds, by the server's clock."""
    state: "PostedState"
    ended_reason: str | None
    """Reason why the objection was not submitted; null if it was or will be submitted."""


PostedState = Literal["waiting", "sent", "on_chain", "ended"]


class Problem(TypedDict):
    """A problem document, with the reason why a request has no answer."""

    type: str
    title: str
    status: int
    detail: str
    at: int
    """Unix seconds, by the server's clock."""
    found: NotRequired[list[str] | None]
    """The nodes that match an ambiguous prefix."""
    refusal: NotRequired[str | None]
    """Why a posted objection was refused."""
    calldata: NotRequired[str | None]
    """The call that any account can send instead of this reporter."""


class ProofAnswer(TypedDict):
    """A Merkle proof of a node's score, or of its absence."""

    as_of: "AsOf"
    proof: "NodeProofDetail"


class ProofLeaf(TypedDict):
    """The values of a node in a round, as encoded in the node's leaf."""

    node: str
    next_node: str
    """The next higher address that has a leaf; none lies between."""
    lane: int
    """1: do not select; else the QoS in steps of 0.0001, plus 2."""
    qos: str | None
    """null if not selectable."""
    is_member: bool
    is_paused: bool
    is_excluded: bool
    is_held: bool
    """Whether the node's kickout waits for an operator's decision."""
    seat: int
    """Index of the leaf."""
    score_count: int
    score_sum: int
    reliability: str
    """H at the as-of block."""
    kickout_due_since: int | None
    """Block time; null if no kickout is due."""
    last_scored_at: int | None
    """Block time; null if it has no score."""
    pool_hash: str
    encoded: str
    """The 128 bytes that are hashed twice."""


class ProofSummary(TypedDict):
    """The signed data of a round, which tie its root to one chain and contract."""

    chain_id: int
    oracle: str
    oracle_account_id: str
    """CAIP-10 id of the contract."""
    round: int
    as_of: int
    """Block at which the leaves were computed."""
    node_count: int
    open_count: int
    """Number of nodes that may be selected."""
    total_weight: str
    """Sum of lane - 1 of these nodes."""


class PublicStatus(TypedDict):
    """The public status of the oracle."""

    as_of: "AsOf"
    health: "HealthView"
    version: str
    chain_id: int | None
    start_block: int | None
    round: int | None
    """The last accepted round; null if none."""
    round_age_seconds: int | None
    """Age at the time of the last folded block."""
    outbox: list["OutboxCount"]
    """Calls by kind and state."""
    reports_held: int
    kickouts_due: int
    tasks_waiting: int
    draws_standing: int
    levels: dict[str, int]
    """Number of blocks by verification level."""
    dead_letters: int
    """Logs of known kinds that could not be decoded."""
    anomalies: int
    """Events that broke a rule and were ignored."""
    last_reorg: "ReorgEntry | None"


class QosIntervalView(TypedDict):
    """The 90 % interval of a QoS, given the number of scores in its mean.

    The interval takes half a millisecond to compute, so rows of lists do not have it.
    """

    low: str
    high: str


class RankLoss(TypedDict):
    """What a rank cost a node, summed over all groups in which the node had this rank."""

    rank: int | None
    """null if there is no right answer."""
    tasks: int
    amount: str
    """Lost against the next better place."""


class ReliabilityChangeView(TypedDict):
    """A change of the reliability H."""

    block: int
    log: int | None
    """Log index; null for a feed's row, -1 for a call without a log."""
    feed: list[int] | None
    """Stream and row of a feed."""
    proof: Literal["chain", "none"]
    transaction: str | None
    """null if the raw log is not stored."""
    cause: str
    task: str | None
    before: str
    after: str
    time: int
    """Unix seconds."""
    incident: int | None
    """Number of the incident that marks this timeout; null if none."""


class ReliabilityView(TypedDict):
    """The reliability H, which is `base` at the time `since` and recovers from then on."""

    base: str
    since: int
    """Unix seconds."""
    changes: list["ReliabilityChangeView"]


class ReorgEntry(TypedDict):
    """The last reorg: the replaced blocks, and the blocks that replaced them."""

    ancestor: int
    """The last block that both forks have."""
    old_tip: int
    old_hash: str
    new_tip: int | None
    """null if no endpoint showed it."""
    new_hash: str | None
    depth: int
    time: int
    """Time of the old tip, unix seconds."""
    logs_orphaned: int


class ReportedChange(TypedDict):
    """A round that changed the node's score in the contract."""

    round: int
    time: int
    before: str
    """QoS, `never reported` or `not selectable`."""
    after: str


class RoundAnswer(TypedDict):
    """One accepted round; `qos-oracle report verify` recomputes it."""

    as_of: "AsOf"
    entry: "RoundEntry"
    config: str
    """Digest of the signers, quorum and rules that it was signed under."""
    signers: list[str]
    """The signers whose signatures were sent."""


class RoundEntry(TypedDict):
    """A round that the contract accepted."""

    round: int
    time: int
    """Time of the block that accepted it, unix seconds."""
    as_of: int
    """As-of block of the report."""
    as_of_hash: str
    root: str
    """Root of the round's tree, which proves every leaf."""
    is_struck: bool
    """Whether the root was struck and proves nothing."""
    place: "LogPlace"


class RoundPage(TypedDict):
    """A page of accepted rounds, newest first."""

    as_of: "AsOf"
    rounds: list["RoundEntry"]
    next: int | None
    """`before` of the next page; null if this is the last."""


class RoundPart(TypedDict):
    """The ranks and scores of one node in both rounds of a legacy task."""

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
    """A rule that a change of the contract's rules sets to another value."""

    name: str
    before: str | None
    """null if not set."""
    after: str | None
    """null if not set."""


class RuleEntry(TypedDict):
    """One rule, with its value in force and its published value."""

    name: str
    value: str | None
    """null if not set."""
    published: str | None
    """Value in the published rule set."""
    meaning: str


class RuleSetView(TypedDict):
    """The name and the version of a rule set, and the SHA-256 of its canonical JSON."""

    name: str
    version: int | None
    sha256: str


class RulesAnswer(TypedDict):
    """The rule set by which all scores in the index were computed."""

    as_of: "AsOf"
    name: str
    version: int
    sha256: str
    """SHA-256 of its canonical JSON."""
    source: str | None
    """The document that defines it."""
    rules: list["RuleEntry"]


class RulesChangeView(TypedDict):
    """A change of the contract's rules; times are in unix seconds."""

    rules_hash: str
    state: Literal["scheduled", "ready", "cancelled", "set"]
    """`ready`: the delay has passed, and anyone may make the change."""
    is_in_force: bool
    scheduled_block: int | None
    """null if made without the timelock."""
    scheduled_time: int | None
    ready_at: int | None
    """The earliest time of the change."""
    operation: str | None
    """The timelock's id, to cancel the change."""
    reason_hash: str | None
    """Salt of the operation; null if none."""
    reason: str | None
    """Text whose keccak256 is the salt; null if this host has no such text."""
    cancelled_time: int | None
    set_block: int | None
    """First block under these rules."""
    set_time: int | None
    has_rules: bool
    """Whether `/v1/rules/{hash}` returns these rules."""
    differences: "list[RuleDifference] | None"
    """Differences from the previous rules; null if this host lacks the text of either rule set."""


class RulesHistory(TypedDict):
    """The changes of the contract's rules, newest first."""

    as_of: "AsOf"
    in_force: str | None
    """null if there is no contract, or it is not indexed."""
    changes: list["RulesChangeView"]


class RulesPreviewView(TypedDict):
    """The effect of other rules on the network."""

    rules: str
    """Hash of announced rules, or name of a shadow set."""
    ready_at: int | None
    """Earliest time of announced rules, unix seconds; null for a shadow set, which is not announced."""
    block: int
    """A final block, up to which both were folded."""
    time: int
    """Time of the block, unix seconds."""
    members: int
    rising: int
    """Members that gain at least one place."""
    falling: int
    """Members that lose at least one place."""
    rank_correlation: str | None
    """Spearman's rank correlation of the QoS of all members under both: 1 if their order stays, -1 if it is reversed; null if fewer than two members, or all equal."""
    kickouts_beginning: int
    """Members whose kickout is due only under the other rules."""
    kickouts_ending: int
    """Members whose kickout is due only under today's rules."""
    losers: list["NodeUnderRules"]
    """Up to ten, the most places lost first."""
    winners: list["NodeUnderRules"]
    """Up to ten, the most places won first."""


class RulesPreviews(TypedDict):
    """The effects of announced rules and shadow sets on the network."""

    as_of: "AsOf"
    previews: list["RulesPreviewView"]


class ScarceModel(TypedDict):
    """A model that few available nodes have, and the nodes that would be asked to download it."""

    model: str
    holders: int
    pending: int
    """Nodes that got a request to download the model and may still answer."""
    ask: list[str]


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
    """Log index; null for a feed's row, -1 for a call without a log."""
    feed: list[int] | None
    """Stream and row of a feed."""
    proof: Literal["chain", "none"]
    transaction: str | None
    """null if the raw log is not stored."""
    seq: int
    """Counts the scores of the node from 1."""
    task: str
    group: str
    creator: str | None
    rank: int | None
    elapsed: int | None
    """In seconds."""
    error_reported: bool
    score: int
    derived: bool
    """Whether the score was derived, because no event reports it."""
    rules: "RuleSetView | None"
    time: int
    """Unix seconds."""
    earned: "EarningView | None"
    others: list["GroupFellow"]


class SelectionAnswer(TypedDict):
    """Whether each member is a candidate for a task, as of the cursor; no node is drawn."""

    as_of: "AsOf"
    policy: str
    version: int
    rules: str
    changed: dict[str, str]
    """Values of rules and policy that differ from the published ones."""
    task: "TaskRequirements"
    sum: str
    """Sum of all weights."""
    candidates: int
    equal_weights: bool
    """Whether no candidate has any weight, so that each counts 1."""
    nodes: list["CandidateEntry"]
    """By address."""
    seed: str | None
    """null if no node is drawn."""
    gpu: "DrawnGpu | None"
    draws: list["DrawnNode"]
    predownload: "list[ScarceModel] | None"
    """null if the policy requests no downloads."""


class SentLane(TypedDict):
    """The lane of the node in the report whose as-of block is the explained block."""

    block: int
    log: int | None
    """Log index; null for a feed's row, -1 for a call without a log."""
    feed: list[int] | None
    """Stream and row of a feed."""
    proof: Literal["chain", "none"]
    transaction: str | None
    """null if the raw log is not stored."""
    round: int
    lane: int | None


SignatureState = Literal[
    "agrees", "differs", "not signed", "no response", "invalid response", "unknown signer"
]


class SignedObjection(TypedDict):
    """A signed objection, as `objection sign --json` prints it."""

    node: str
    due_since: int
    """Since when the kickout is due, unix seconds."""
    reason: Literal["other", "not-on-chain", "application", "outage", "one-creator", "rules"]
    text: NotRequired[str]
    """The words, at most 280 bytes."""
    seq: int
    """The number of the node's next objection."""
    deadline: int
    """Last block time that may include it, unix seconds."""
    signature: str
    to: NotRequired[str | None]
    """The contract; ignored."""
    calldata: NotRequired[str | None]
    """Ignored."""


class SignedRound(TypedDict):
    """Whether and what a signer signed for an accepted round."""

    round: int
    state: "SignatureState"
    """`agrees`: it signed the accepted root. `differs`: it signed another root of the same block. `not signed`: neither the chain nor this reporter has such a statement."""


class SignerEntry(TypedDict):
    """A signer of the contract, and what it signed for the newest rounds."""

    signer: str
    rounds: list["SignedRound"]
    """Of the last 20 accepted rounds, those of which it was a signer; newest first."""


class SignersAnswer(TypedDict):
    """The current signers of the contract, in the order of the contract."""

    as_of: "AsOf"
    quorum: int | None
    """Signatures that a round needs; null if no indexed block set it."""
    newest_round: int | None
    """null if no round was accepted."""
    newest_signatures: int
    """Signers that signed the newest round."""
    signers: list["SignerEntry"]


class SubscriptionForm(TypedDict):
    """What a client needs to write a request; it signs `typed_data` with its own `message`."""

    service: str
    channels: list[str]
    kinds: list[str]
    max_per_node: int
    typed_data: dict[str, Any]
    """EIP-712 data with an example of a message."""


class SubscriptionRequest(TypedDict):
    """The fields that were signed (`NoticeRequest`), and the signature."""

    service: str
    """`service` of `GET /v1/subscriptions`."""
    node: str
    action: Literal["subscribe", "list", "unsubscribe"]
    channel: NotRequired[Literal["", "webhook", "mail"]]
    target: NotRequired[str]
    """The URL or mail address; for `unsubscribe`, the id of the subscription."""
    kinds: NotRequired[str]
    """Comma-separated kinds of notices; empty: all."""
    nonce: int
    """Must be larger than in the node's last request."""
    deadline: int
    """Unix seconds, within the next hour."""
    signature: str


class SubscriptionView(TypedDict):
    """A subscription without its address."""

    id: str
    channel: str
    kinds: list[str]
    state: str
    """`new`, `unconfirmed`, `active` or `ended`."""
    reason: str | None
    """Reason why the subscription ended."""
    created_at: int
    """Unix seconds."""


class TaskAnswer(TypedDict):
    """A task: its requirements, its node, its ending and its score."""

    as_of: "AsOf"
    task: str
    creator: str | None
    fee: str | None
    """In wei."""
    min_vram: int | None
    """In GB."""
    required_gpu: str | None
    required_gpu_vram: int | None
    """In GB."""
    models: list[str]
    version: list[int] | None
    size: int | None
    kind: "TaskKind | None"
    timeout: int | None
    """Time limit, in seconds."""
    group: str | None
    """Key of its group: the tasks of one validation."""
    node: str | None
    queued: bool
    error_reported: bool
    ending: str | None
    """null if it has not ended."""
    abort_reason: str | None
    moments: list["TaskMoment"]
    scored_in: str | None
    score: "GroupEntry | None"
    """The task's row in the group that scored it."""


class TaskDraws(TypedDict):
    """Every draw of one task, oldest first."""

    as_of: "AsOf"
    draws: list["DrawEntry"]


TaskKind = Literal["sd", "llm", "sd_ft"]


class TaskMoment(TypedDict):
    """A step in the life of a task."""

    what: str
    time: int | None
    """Unix seconds; null if neither header nor logs of its block are stored."""
    place: "LogPlace"


class TaskRequirements(TypedDict):
    """A task and its requirements; a requirement is null if the creator did not specify it."""

    task: str
    creator: str | None
    fee: str | None
    """In wei."""
    min_vram: int | None
    """In GB."""
    required_gpu: str | None
    required_gpu_vram: int | None
    """In GB."""
    models: list[str]
    version: list[int] | None
    size: int | None
    kind: "TaskKind | None"
    timeout: int | None
    """Time limit, in seconds."""
    group: str | None
    """Key of its group: the tasks of one validation."""


class Waiting(TypedDict):
    """A problem that needs an operator, and the command to run."""

    what: str
    command: str | None


class WantedTask(TypedDict):
    """The requirements of a task: the fields of `task_created`, all of them optional.

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
    """Seconds."""
    group: NotRequired[str | None]
    group_size: NotRequired[int | None]
    time: NotRequired[int | None]
    """Unix seconds."""


class WeightedCandidate(TypedDict):
    """A candidate of a draw and its weight; if all weights are 0, each counts as 1."""

    node: str
    weight: str


class WhatIf(TypedDict):
    """The QoS, fees and rank of a node as it is, and after single changes."""

    groups: int
    """Groups that were ranked again."""
    reliability: str
    """Mean of H in the last 24 hours, or since the node's first event."""
    reliability_now: str
    """H at the block's time."""
    rows: list["WhatIfRow"]
    gpus: list["GpuSpeed"]
    """The GPUs of the members, those of the most members first, at most 50; `rows` has a row for each that has a `time_ratio`."""
    assumption: str


class WhatIfRow(TypedDict):
    """The QoS, fees and rank of a node after one change."""

    change: Literal["as_it_is", "one_timeout_fewer", "faster", "another_gpu"]
    """faster: each of its answers takes four fifths of the time; another_gpu: each takes the time multiplied by `gpu.time_ratio`."""
    gpu: NotRequired["GpuSpeed | None"]
    """The GPU of `another_gpu`."""
    mean_score: str
    """Mean of its task scores, in points."""
    qos: str
    """QoS with `reliability` instead of the current reliability; one timeout less raises it."""
    rank: int | None
    """Rank by this QoS among the members now, from 1."""
    chance: str | None
    """The node's share of the weights of all available nodes, which is its chance of the next task; null if the policy has no such weights."""
    fees_per_day: str | None
    """Fees for as many tasks a day as now, in the token's smallest unit; null if the node was scored for less than an hour."""


class WorkShare(TypedDict):
    """A node's expected and actual share of the network's last draws."""

    draws: int
    """Draws that were examined: the newest ones, at most 500."""
    since: int
    """Block time of the first of these draws, unix seconds."""
    eligible: int
    """Draws for which the node was a candidate."""
    missed: list["MissedDraws"]
    """The other draws, most frequent reason first."""
    received: int
    """Draws that chose the node."""
    expected: str
    """Sum of the node's chances: its weight divided by the total weight of each draw for which it was a candidate."""
    fees: str
    """Fees of the tasks of all these draws."""
    fees_received: str
    """Fees of the tasks that the node was drawn for; their groups share them."""
    fees_expected: str
    """Each fee multiplied by the node's chance."""
    stake_score: str
    """S of its weight now."""
    qos: str | None
    """QoS of its weight now; null if not a member."""
    weight: str | None
    """Its weight now for a task without models; null if not a member."""
    assumption: str

"use strict";
/* A second implementation of the scoring rules, written from docs/spec/ alone. It uses integers only, no
   clock, no library, and no other code of this project except incidents.js. `make conformance` compares it with
   `qos-oracle replay`. It runs in a browser and in Node.js; legacy rules are not supported. The two
   tables of rules are made by `make reference`. */

const UNIT = 10n ** 18n;
const DECIMALS = 18;
const DECAY_ONE = 1n << 128n;
const DECAY_BITS = 21;

/* Fixed point with 320 bits; rounding makes the lowest hundred inexact. */
const EXP_BITS = 320n;
const EXP_ONE = 1n << EXP_BITS;
const EXP_HALVINGS = 24n;

const RULE_TYPES = {
  name: "text",
  version: "integer",
  close: ["validated", "terminal"],
  group_size: "integer",
  rank_scores: "integers",
  absent_score: "integer",
  pool_zero_only_on_timeout: "boolean",
  creator_timeout_rejects_group: "boolean",
  error_rank: ["last", "as_reported"],
  ranked_answers: ["all", "right"],
  least_timeout_seconds: "integer",
  q_max: "integer",
  pool_size: "integer",
  new_node_long_term: "decimal",
  zero_mean_is_new: "boolean",
  rejoin_floor: "decimal?",
  kickout_starts_anew: "boolean",
  rejoin_heals: "boolean",
  reseed_copies: "integer",
  restarts: "integers",
  tau_seconds: "integer",
  penalty: "decimal",
  first_penalty: "decimal?",
  first_penalty_from: "decimal",
  boost: "decimal",
  exclude_enter: "decimal",
  exclude_exit: "decimal",
  kickout_below: "decimal",
  kick_creator_share: "decimal",
  kick_incident_share: "decimal",
};
const DEFAULT_RULES = {
  close: "validated",
  group_size: 3,
  rank_scores: [10, 5, 2],
  absent_score: 0,
  pool_zero_only_on_timeout: false,
  creator_timeout_rejects_group: false,
  error_rank: "last",
  ranked_answers: "all",
  least_timeout_seconds: 0,
  q_max: 10,
  pool_size: 50,
  new_node_long_term: "0.5",
  zero_mean_is_new: false,
  rejoin_floor: null,
  kickout_starts_anew: true,
  rejoin_heals: false,
  reseed_copies: 0,
  restarts: [],
  tau_seconds: 1800,
  penalty: "0.3",
  first_penalty: null,
  first_penalty_from: "1",
  boost: "0.15",
  exclude_enter: "0.1",
  exclude_exit: "0.1",
  kickout_below: "2",
  kick_creator_share: "0.5",
  kick_incident_share: "1",
};

const POSITION_FIELDS = ["block", "tx", "log", "sub"];
const UNANSWERED_ENDINGS = ["aborted", "timed_out"];
const UNCONFIRMED_ENDINGS = ["invalidated", "aborted", "timed_out"];
const ENDING_BY_EVENT = {
  task_succeeded: "succeeded",
  task_refunded: "refunded",
  task_invalidated: "invalidated",
  task_aborted: "aborted",
  task_timed_out: "timed_out",
};
const MEMBERSHIP_BY_EVENT = {
  node_quit: "quit",
  node_slashed: "slashed",
  node_kicked_out: "kicked_out",
};

/* Parses a decimal of up to 18 digits behind the point, in units of 10^-18. */
function parseUnits(text, name) {
  const match = typeof text === "string" ? /^(\d{1,3})(?:\.(\d{1,18}))?$/.exec(text) : null;
  if (!match) {
    throw new Error(`${name}: expected a decimal in quotes, such as "0.3"`);
  }
  return BigInt(match[1]) * UNIT + BigInt((match[2] ?? "").padEnd(DECIMALS, "0"));
}

function formatUnits(value) {
  return `${value / UNIT}.${String(value % UNIT).padStart(DECIMALS, "0")}`;
}

function multiplyUnits(first, second) {
  return (first * second) / UNIT;
}

/* Returns 2^320 * exp(-numerator/denominator), by Taylor's series of a halved argument. */
function computeExp(numerator, denominator) {
  let halvings = EXP_HALVINGS;
  let x = (BigInt(numerator) << EXP_BITS) / (BigInt(denominator) << EXP_HALVINGS);
  while (x > EXP_ONE >> 8n) {
    x >>= 1n;
    halvings += 1n;
  }
  let sum = EXP_ONE;
  let term = EXP_ONE;
  for (let n = 1n; term > 0n; n += 1n) {
    term = ((term * x) >> EXP_BITS) / n;
    sum += n % 2n === 1n ? -term : term;
  }
  for (let i = 0n; i < halvings; i += 1n) {
    sum = (sum * sum) >> EXP_BITS;
  }
  return sum;
}

const decayTables = new Map();

/* Returns floor(2^128 * exp(-2^k/tau)) for k = 0 to 20. */
function getDecayTable(tau) {
  if (!decayTables.has(tau)) {
    const table = Array.from(
      { length: DECAY_BITS },
      (_, k) => computeExp(2 ** k, tau) >> (EXP_BITS - 128n),
    );
    decayTables.set(tau, table);
  }
  return decayTables.get(tau);
}

function computeDecay(seconds, tau) {
  if (seconds <= 0) {
    return DECAY_ONE;
  }
  if (seconds >= 2 ** DECAY_BITS) {
    return 0n;
  }
  return getDecayTable(tau).reduce(
    (decay, factor, k) => (Math.floor(seconds / 2 ** k) % 2 === 1 ? (decay * factor) >> 128n : decay),
    DECAY_ONE,
  );
}

function healReliability(base, since, time, rules) {
  if (base === UNIT || time <= since) {
    return base;
  }
  const decay = computeDecay(time - since, rules.tau_seconds);
  return base + (((UNIT - base) * (DECAY_ONE - decay)) >> 128n);
}

function isCount(value) {
  return Number.isSafeInteger(value) && value >= 0;
}

function parseRule(name, value) {
  const type = RULE_TYPES[name];
  if (type === "decimal" || (type === "decimal?" && value !== null)) {
    return parseUnits(value, name);
  }
  const isValid =
    type === "decimal?" ||
    (type === "text" && typeof value === "string") ||
    (type === "boolean" && typeof value === "boolean") ||
    (type === "integer" && isCount(value)) ||
    (type === "integers" && Array.isArray(value) && value.every(isCount)) ||
    (Array.isArray(type) && type.includes(value));
  if (!isValid) {
    throw new Error(`${name}: not a valid value`);
  }
  return value;
}

/* Returns the rules of a rule set's JSON object; omitted rules have their default. */
function parseRules(ruleValues) {
  if (ruleValues.legacy !== undefined) {
    throw new Error("legacy rules are not supported here");
  }
  const rules = {};
  for (const name of Object.keys(ruleValues)) {
    if (!Object.hasOwn(RULE_TYPES, name)) {
      throw new Error(`${name}: no such rule`);
    }
  }
  for (const name of Object.keys(RULE_TYPES)) {
    const value = Object.hasOwn(ruleValues, name) ? ruleValues[name] : DEFAULT_RULES[name];
    if (value === undefined) {
      throw new Error(`${name}: the rule is missing`);
    }
    rules[name] = parseRule(name, value);
  }
  if (rules.pool_size < 1 || rules.q_max < 1 || rules.tau_seconds < 1) {
    throw new Error("pool_size, q_max and tau_seconds: expected 1 or more");
  }
  if (rules.rank_scores.length === 0) {
    throw new Error("rank_scores: expected at least one score");
  }
  return rules;
}

function getPosition(event) {
  return { block: event.block, tx: event.tx ?? 0, log: event.log, sub: event.sub ?? 0 };
}

function comparePositions(first, second) {
  const field = POSITION_FIELDS.find((name) => first[name] !== second[name]);
  return field === undefined ? 0 : first[field] - second[field];
}

function isSameTransaction(first, second) {
  return first.block === second.block && first.tx === second.tx;
}

/* Returns the events in order, each with its position as `at`. */
function sortEvents(events) {
  const positioned = events.map((event) => {
    const at = getPosition(event);
    if (!POSITION_FIELDS.every((name) => Number.isSafeInteger(at[name])) || !isCount(event.time)) {
      throw new Error("event: position or time is missing, or is above 2^53");
    }
    return { ...event, at };
  });
  positioned.sort((first, second) => comparePositions(first.at, second.at));
  const timeByBlock = new Map();
  positioned.forEach((event, index) => {
    if (index > 0 && comparePositions(positioned[index - 1].at, event.at) === 0) {
      throw new Error(`event: two events have the position ${JSON.stringify(event.at)}`);
    }
    /* Events of a feed have times of their own. */
    if (event.at.tx >= 0) {
      if ((timeByBlock.get(event.at.block) ?? event.time) !== event.time) {
        throw new Error(`event: block ${event.at.block} has two times`);
      }
      timeByBlock.set(event.at.block, event.time);
    }
  });
  return positioned;
}

function sumScores(pool) {
  return pool.reduce((sum, score) => sum + score, 0);
}

function isBelowLine(sum, rules) {
  return BigInt(sum) * UNIT < rules.kickout_below * BigInt(rules.pool_size);
}

function getPoints(rank, rules) {
  return rules.rank_scores[Math.min(rank, rules.rank_scores.length) - 1];
}

function isCredibleTimeout(timeout, rules) {
  return timeout === null || Number(timeout) >= rules.least_timeout_seconds;
}

/* The state of nodes, tasks and groups, to which events are applied in order. */
class Fold {
  constructor(rules) {
    this.rules = rules;
    this.nodes = new Map();
    this.tasks = new Map();
    this.groups = new Map();
    this.closing = [];
    this.justQuit = new Map();
    this.results = [];
    this.scores = [];
    this.anomalies = [];
    this.last = null;
    /* Incidents are found only under rules that hold kickouts because of them. */
    this.incidents = rules.kick_incident_share < UNIT ? new IncidentFold() : null;
  }

  /* Applies events of whole transactions, in any order. */
  apply(events) {
    for (const event of sortEvents(events)) {
      if (this.last !== null && event.time < this.last.time) {
        this.addAnomaly(event, "time_fell");
      }
      if (this.last !== null && !isSameTransaction(this.last.at, event.at)) {
        this.scoreClosedGroups();
      }
      if (!Object.hasOwn(HANDLERS, event.type)) {
        throw new Error(`event: unknown type ${event.type}`);
      }
      this.last = { at: event.at, time: event.time };
      HANDLERS[event.type](this, event);
    }
    this.scoreClosedGroups();
    return this;
  }

  addAnomaly(event, rule) {
    this.anomalies.push({ ...event.at, rule, event: event.type });
  }

  countRestarts(time) {
    return this.rules.restarts.filter((restart) => restart <= time).length;
  }

  getNode(address, time) {
    if (!this.nodes.has(address)) {
      this.nodes.set(address, {
        address,
        seat: this.nodes.size,
        membership: "unknown",
        isPaused: false,
        pending: null,
        running: 0,
        pool: [],
        prior: null,
        restarts: this.countRestarts(time),
        base: UNIT,
        since: time,
        isExcluded: false,
        startsAnew: false,
        due: null,
        entries: [],
        scoreCount: 0,
        lastScoredAt: null,
      });
    }
    return this.nodes.get(address);
  }

  getTask(key) {
    if (!this.tasks.has(key)) {
      this.tasks.set(key, {
        key,
        createdAt: null,
        creator: null,
        timeout: null,
        group: null,
        groupSize: 0,
        isQueued: false,
        node: null,
        startedAt: null,
        startTime: null,
        stopTime: null,
        isError: false,
        isRevealed: false,
        isFreed: false,
        isValidated: false,
        isPaid: false,
        ending: null,
        endedAt: null,
        endedTime: null,
        abortReason: null,
        scoredIn: null,
        runs: [],
      });
    }
    return this.tasks.get(key);
  }

  /* Pools, kickouts and reliability. */

  isPoolLost(node, time) {
    return node.restarts < this.countRestarts(time);
  }

  getMean(pool, prior) {
    const sum = sumScores(pool);
    if (pool.length === 0 || (sum === 0 && this.rules.zero_mean_is_new)) {
      return prior ?? this.rules.new_node_long_term;
    }
    return (BigInt(sum) * UNIT) / BigInt(pool.length * this.rules.q_max);
  }

  isKickoutDue(node, time) {
    const isAccountable =
      node.membership === "member" || (node.membership === "quit" && node.due !== null);
    return (
      isAccountable &&
      !this.isPoolLost(node, time) &&
      node.pool.length === this.rules.pool_size &&
      isBelowLine(sumScores(node.pool), this.rules)
    );
  }

  updateKickout(node, at, time) {
    if (!this.isKickoutDue(node, time)) {
      node.due = null;
    } else if (node.due === null) {
      node.due = { at, time, entries: this.addCreators(node.entries, at) };
    }
  }

  /* Returns scores with the creators that are known at this position. */
  addCreators(scores, at) {
    return scores.map((score) => {
      const task = this.tasks.get(score.task);
      const isKnown = task.createdAt !== null && comparePositions(task.createdAt, at) <= 0;
      return { ...score, creator: isKnown ? task.creator : null };
    });
  }

  /* Returns how many scores behind a due kickout are zeros in incidents, as it was known when the
     kickout became due. */
  countIncidentScores(due) {
    if (this.incidents === null) {
      return 0;
    }
    return due.entries.filter(({ task: key, creator, score, elapsed, time }) => {
      const task = this.tasks.get(key);
      const isTimeout =
        task.ending === "timed_out" && comparePositions(task.endedAt, due.at) <= 0;
      return (
        score === 0 &&
        elapsed === null &&
        this.incidents.isMarked(isTimeout ? task.endedTime : time, creator, due.at)
      );
    }).length;
  }

  appendScore(node, score, time) {
    const { rules } = this;
    let { pool } = node;
    if (this.isPoolLost(node, time)) {
      const sum = sumScores(pool);
      pool = sum === 0 ? [] : Array(rules.reseed_copies).fill(Math.floor(sum / pool.length));
    }
    if (node.prior !== null) {
      const copy = Number((node.prior * BigInt(rules.q_max)) / UNIT);
      pool = Array(rules.reseed_copies).fill(copy);
      node.prior = null;
    }
    node.pool = [...pool, score].slice(-rules.pool_size);
    node.restarts = this.countRestarts(time);
  }

  changeReliability(node, time, isPenalty) {
    const { rules } = this;
    const before = healReliability(node.base, node.since, time, rules);
    let after = before + rules.boost > UNIT ? UNIT : before + rules.boost;
    if (isPenalty) {
      const isFirst = rules.first_penalty !== null && before >= rules.first_penalty_from;
      after = multiplyUnits(isFirst ? rules.first_penalty : rules.penalty, before);
    }
    if (rules.exclude_enter !== rules.exclude_exit) {
      const maxReliability = before > after ? before : after;
      node.isExcluded =
        (isPenalty && after < rules.exclude_enter) ||
        (node.isExcluded && maxReliability < rules.exclude_exit);
    }
    node.base = after;
    node.since = time;
  }

  /* Membership. */

  endMembership(node, membership, at, time) {
    if (membership === "kicked_out") {
      node.startsAnew = this.rules.kickout_starts_anew && this.isKickoutDue(node, time);
    }
    node.membership = membership;
    node.isPaused = false;
    node.pending = null;
    if (membership !== "quit") {
      this.justQuit.delete(node.address);
    }
    this.updateKickout(node, at, time);
  }

  applyPendingLeave(node, at, time) {
    const request = node.pending;
    node.pending = null;
    if (request === "pause") {
      node.isPaused = true;
    } else {
      this.justQuit.set(node.address, at);
      this.endMembership(node, "quit", at, time);
    }
  }

  applyPendingLeaveIfIdle(node, at, time) {
    if (node.pending !== null && node.running === 0) {
      this.applyPendingLeave(node, at, time);
    }
  }

  /* Groups. */

  closeGroup(event, group, keys) {
    if (this.closing.some((closing) => keys.some((key) => closing.keys.includes(key)))) {
      this.scoreClosedGroups();
    }
    const isGroupEvent = event.type === "group_validated";
    const presentKeys = [];
    const tasks = [];
    for (const key of keys) {
      const task = this.tasks.get(key);
      if (task === undefined) {
        this.addAnomaly(event, "group_names_unseen_task");
      } else if (task.scoredIn !== null) {
        this.addAnomaly(event, "task_scored_before");
        continue;
      } else {
        tasks.push(task);
      }
      presentKeys.push(key);
    }
    this.closing.push({
      group,
      at: event.at,
      time: event.time,
      size: Math.max(keys.length, ...tasks.map((task) => task.groupSize)),
      keys: presentKeys,
      members: presentKeys.map((key) => this.describeMember(key)),
      answered: this.rankBySpeed(tasks, isGroupEvent && event.ranked === true),
      invalid: (isGroupEvent && event.invalid) || [],
      possible: (isGroupEvent && event.possible) || [],
    });
    if (this.rules.close === "terminal" || this.rules.ranked_answers === "all") {
      this.scoreClosedGroups();
    }
  }

  describeMember(key) {
    const task = this.tasks.get(key);
    if (task === undefined || task.node === null) {
      return { task: key, node: null, elapsed: null, timeout: null };
    }
    return { task: key, node: task.node, elapsed: getElapsed(task), timeout: task.timeout };
  }

  rankBySpeed(tasks, isOrdered) {
    const { rules } = this;
    if (
      rules.creator_timeout_rejects_group &&
      tasks.some((task) => task.abortReason === "creator_validation_timeout")
    ) {
      return [];
    }
    const answered = tasks.filter(
      (task) => task.stopTime !== null && !UNANSWERED_ENDINGS.includes(task.ending),
    );
    if (!isOrdered) {
      answered.sort(
        (first, second) =>
          getElapsed(first) - getElapsed(second) ||
          comparePositions(first.createdAt ?? first.startedAt, second.createdAt ?? second.startedAt),
      );
    }
    if (rules.error_rank === "as_reported") {
      return answered;
    }
    return [
      ...answered.filter((task) => !task.isError),
      ...answered.filter((task) => task.isError),
    ];
  }

  scoreClosedGroups() {
    const closingGroups = this.closing;
    this.closing = [];
    for (const closing of closingGroups) {
      this.scoreGroup(closing);
    }
  }

  scoreGroup(closing) {
    const { rules } = this;
    let { answered } = closing;
    if (rules.ranked_answers === "right") {
      answered = filterConfirmedAnswers(answered, closing.size, closing.invalid);
    }
    const isScored = answered.length > 0;
    const ranked = answered.map((task) => task.key);
    const members = closing.members.map(({ task, node, elapsed, timeout }) => {
      const rank = ranked.indexOf(task) + 1 || null;
      let score = null;
      if (rank !== null) {
        score = getPoints(rank, rules);
      } else if (node !== null && isScored && isCredibleTimeout(timeout, rules)) {
        score = rules.absent_score;
      }
      return { task, node, rank, elapsed, score };
    });
    if (isScored) {
      for (const key of closing.possible) {
        const task = this.tasks.get(key);
        if (task !== undefined && task.scoredIn === null && !closing.keys.includes(key)) {
          members.push({ task: key, node: task.node, rank: null, elapsed: null, score: null });
        }
      }
    }
    this.results.push({ group: closing.group, members, scored: isScored });
    for (const member of isScored ? members : []) {
      if (!(rules.pool_zero_only_on_timeout && closing.invalid.includes(member.task))) {
        this.scoreMember(closing, member);
      }
    }
  }

  scoreMember(closing, { task: key, node: address, rank, elapsed, score }) {
    if (address === null || score === null) {
      return;
    }
    const task = this.tasks.get(key);
    task.scoredIn = closing.group;
    if (rank === null && this.rules.pool_zero_only_on_timeout && task.ending !== "timed_out") {
      return;
    }
    const node = this.getNode(address, closing.time);
    this.appendScore(node, score, closing.time);
    node.scoreCount += 1;
    node.lastScoredAt = closing.time;
    const entry = {
      seq: node.scoreCount,
      task: key,
      group: closing.group,
      rank,
      elapsed,
      score,
      at: closing.at,
      time: closing.time,
    };
    node.entries = [...node.entries, entry].slice(-this.rules.pool_size);
    this.scores.push({ node: address, ...entry });
    this.updateKickout(node, this.last.at, closing.time);
  }

  closeGroupIfComplete(event, task) {
    const group = task.group === null ? undefined : this.groups.get(task.group);
    if (
      group !== undefined &&
      !group.isClosed &&
      group.keys.length >= this.rules.group_size &&
      group.keys.every((key) => this.tasks.get(key).ending !== null)
    ) {
      group.isClosed = true;
      this.closeGroup(event, task.group, group.keys);
    }
  }

  /* Ends of tasks. `ending` is the event itself, or the ending that a cancellation stands for. */

  endTask(event, ending) {
    const existing = this.tasks.get(event.task);
    const violation = findEndingViolation(existing, ending.type);
    if (violation !== null) {
      this.addAnomaly(ending, violation);
      return;
    }
    if (existing !== undefined && existing.runs.length > 0) {
      this.endRuns(ending, existing);
      return;
    }
    if (existing !== undefined) {
      this.addMismatches(ending, existing);
    }
    const task = this.getTask(event.task);
    setEnding(task, ending);
    if (task.node !== null) {
      this.releaseNode(ending, task, task.node, task.stopTime !== null);
    }
    if (this.rules.close === "terminal") {
      this.closeGroupIfComplete(ending, task);
    }
  }

  addMismatches(event, task) {
    if (event.node != null && event.node !== task.node) {
      this.addAnomaly(event, "node_differs");
    }
    const isWithoutResult = event.type === "task_aborted" || event.type === "task_timed_out";
    if (isWithoutResult && event.last_status != null && event.last_status !== getStage(task)) {
      this.addAnomaly(event, "last_status_differs");
    }
  }

  endRuns(event, task) {
    const runs = listOpenRuns(task, event.node ?? null);
    if (runs.length === 0) {
      this.addAnomaly(event, findClosedRunViolation(task, event.node ?? null));
      return;
    }
    for (const run of runs) {
      run.ending = ENDING_BY_EVENT[event.type];
    }
    if (task.runs.every((run) => run.ending !== null)) {
      setEnding(task, event);
    }
    for (const run of runs) {
      this.releaseNode(event, task, run.node, hasAnswered(run));
    }
    if (task.ending !== null && this.rules.close === "terminal") {
      this.closeGroupIfComplete(event, task);
    }
  }

  /* An end counts for incidents if the node has not answered before and was not stopped. */
  releaseNode(event, task, address, isAnswered) {
    const node = this.getNode(address, event.time);
    if (!task.isFreed) {
      node.running -= 1;
    }
    const ending = ENDING_BY_EVENT[event.type];
    if (!isAnswered && ending !== "aborted") {
      this.incidents?.recordEnd(event, task.creator, address, ending === "timed_out");
    }
    if (ending === "timed_out" && !isCredibleTimeout(task.timeout, this.rules)) {
      this.addAnomaly(event, "limit_not_believed");
    } else if (["timed_out", "succeeded", "refunded"].includes(ending)) {
      this.changeReliability(node, event.time, ending === "timed_out");
    }
    this.applyPendingLeaveIfIdle(node, event.at, event.time);
  }

  /* Values as of a time. */

  getReliability(node, time) {
    return healReliability(node.base, node.since, time, this.rules);
  }

  getLongTerm(node) {
    return this.getMean(node.pool, node.prior);
  }

  getQos(node, time) {
    return node.membership === "member"
      ? multiplyUnits(this.getLongTerm(node), this.getReliability(node, time))
      : null;
  }

  isExcluded(node, time) {
    const { exclude_enter: enter, exclude_exit: exit } = this.rules;
    if (node.membership !== "member") {
      return false;
    }
    const reliability = this.getReliability(node, time);
    return enter === exit ? reliability < enter : node.isExcluded && reliability < exit;
  }

  getStatus(node) {
    if (node.membership !== "member") {
      return node.membership;
    }
    if (node.isPaused) {
      return "paused";
    }
    return node.running ? "busy" : "available";
  }

  /* Returns what `qos-oracle replay` prints: the nodes as of `time`, the groups, the anomalies. */
  describe(time) {
    const addresses = [...this.nodes.keys()].sort();
    const nodes = addresses.map((address) => {
      const node = this.nodes.get(address);
      const qos = this.getQos(node, time);
      return {
        node: address,
        status: this.getStatus(node),
        task_scores: node.pool,
        sum: sumScores(node.pool),
        count: node.pool.length,
        long_term: formatUnits(this.getLongTerm(node)),
        reliability: formatUnits(this.getReliability(node, time)),
        reliability_base: formatUnits(node.base),
        reliability_since: node.since,
        qos: qos === null ? null : formatUnits(qos),
        excluded: this.isExcluded(node, time),
        kickout_due: this.isKickoutDue(node, time),
      };
    });
    return { nodes, groups: this.results, anomalies: this.anomalies };
  }
}

function getElapsed(task) {
  return task.stopTime === null || task.startTime === null
    ? null
    : Math.max(0, task.stopTime - task.startTime);
}

function filterConfirmedAnswers(answered, size, invalid) {
  if (2 * answered.length <= size) {
    return [];
  }
  const isError = (task) => task.abortReason === "error_reported";
  const isErrorConfirmed = 2 * answered.filter(isError).length > size;
  return answered.filter(
    (task) =>
      !invalid.includes(task.key) &&
      (!UNCONFIRMED_ENDINGS.includes(task.ending) || (isErrorConfirmed && isError(task))),
  );
}

/* Returns the stage of a task, as `last_status` names it. */
function getStage(task) {
  if (task.isValidated) {
    return "validated";
  }
  if (task.stopTime !== null) {
    return task.isError ? "error_reported" : "submitted";
  }
  if (task.node !== null) {
    return "started";
  }
  return task.isQueued ? "queued" : "created";
}

function setEnding(task, event) {
  task.ending = ENDING_BY_EVENT[event.type];
  task.endedAt = event.at;
  task.endedTime = event.time;
  if (event.type === "task_aborted") {
    task.abortReason = event.reason ?? null;
  }
}

/* Runs: one task executed by several nodes, in networks with commit and disclosure. */

function hasCommitted(run) {
  return run.isCommitted || run.isReported;
}

function hasDisclosed(run) {
  return run.isDisclosed || run.isReported;
}

function hasAnswered(run) {
  return run.isCommitted || run.isDisclosed || run.isReported;
}

function listOpenRuns(task, node) {
  return task.runs.filter((run) => run.ending === null && (node === null || run.node === node));
}

function findClosedRunViolation(task, node) {
  const hasRun = node === null || task.runs.some((run) => run.node === node);
  return hasRun ? "after_terminal" : "node_does_not_run_it";
}

function wasAwaited(run, task) {
  if (!task.runs.every(hasCommitted)) {
    return !hasCommitted(run);
  }
  return hasDisclosed(run) ? task.isValidated : true;
}

function findRunViolation(task, run, type) {
  if (task === undefined) {
    return "not_started";
  }
  if (task.ending !== null || (run !== undefined && run.ending !== null)) {
    return "after_terminal";
  }
  if (run === undefined && task.node !== null) {
    return "not_of_this_generation";
  }
  if (run === undefined) {
    return task.runs.length > 0 ? "node_does_not_run_it" : "not_started";
  }
  if (hasDisclosed(run) || (type === "result_committed" && run.isCommitted)) {
    return "result_twice";
  }
  return type === "result_disclosed" && !run.isCommitted ? "not_committed" : null;
}

function applyRunAnswer(fold, event) {
  const task = fold.tasks.get(event.task);
  const run = task?.runs.find((candidate) => candidate.node === event.node);
  const violation = findRunViolation(task, run, event.type);
  if (violation !== null) {
    fold.addAnomaly(event, violation);
    return;
  }
  if (!hasAnswered(run)) {
    fold.incidents?.recordEnd(event, task.creator, event.node, false);
  }
  if (event.type === "result_committed") {
    run.isCommitted = true;
  } else if (event.type === "result_disclosed") {
    run.isDisclosed = true;
  } else {
    run.isReported = true;
  }
}

/* The rules that an event breaks, in the order of docs/spec/events.md#anomalies. */

function findMembershipViolation(node) {
  return node === undefined || node.membership !== "member" ? "not_a_member" : null;
}

function findStartViolation(task, event) {
  if (task === undefined) {
    return null;
  }
  if (task.ending !== null) {
    return "after_terminal";
  }
  if (task.node !== null) {
    return "started_twice";
  }
  if (task.runs.length === 0) {
    return null;
  }
  if (event.round == null) {
    return "round_missing";
  }
  const isTaken = task.runs.some((run) => run.round === event.round || run.node === event.node);
  return isTaken ? "round_taken" : null;
}

function findRunnerViolation(task, event) {
  if (task === undefined) {
    return "not_started";
  }
  if (task.ending !== null) {
    return "after_terminal";
  }
  if (task.node !== event.node) {
    return task.node === null ? "not_started" : "node_does_not_run_it";
  }
  return null;
}

function isRevealed(task) {
  return task.isError || task.isRevealed || task.isValidated;
}

function findResultViolation(task, event) {
  const violation = findRunnerViolation(task, event);
  if (violation !== null || task.stopTime === null) {
    return violation;
  }
  return event.type === "task_error_reported" && !isRevealed(task) ? null : "result_twice";
}

function findDisclosureViolation(task, event) {
  const violation = findRunnerViolation(task, event);
  if (violation !== null) {
    return violation;
  }
  if (task.stopTime === null) {
    return "not_committed";
  }
  return isRevealed(task) ? "result_twice" : null;
}

function findValidationViolation(task) {
  if (task === undefined) {
    return "validated_without_result";
  }
  if (task.ending !== null) {
    return "after_terminal";
  }
  if (task.isValidated) {
    return "validated_twice";
  }
  const isAnswered = task.stopTime !== null || task.runs.some(hasDisclosed);
  return isAnswered ? null : "validated_without_result";
}

function findEndingViolation(task, type) {
  if (task === undefined) {
    return type === "task_aborted" ? null : "not_started";
  }
  if (task.ending !== null) {
    return "after_terminal";
  }
  const isStarted = task.node !== null || task.runs.length > 0;
  return isStarted || type === "task_aborted" ? null : "not_started";
}

function findCancellationViolation(task, node) {
  if (task !== undefined && task.node !== null) {
    return "not_of_this_generation";
  }
  if (node === null) {
    return task !== undefined && task.ending !== null ? "after_terminal" : null;
  }
  if (task === undefined || task.runs.length === 0) {
    return "not_started";
  }
  return listOpenRuns(task, node).length > 0 ? null : findClosedRunViolation(task, node);
}

/* Handlers of events. */

function applyNodeJoined(fold, event) {
  const existing = fold.nodes.get(event.node);
  if (existing !== undefined && existing.pending === "quit") {
    fold.applyPendingLeave(existing, event.at, event.time);
  }
  if (existing !== undefined && existing.membership === "member") {
    fold.addAnomaly(event, "joined_while_member");
    return;
  }
  fold.justQuit.delete(event.node);
  const node = fold.getNode(event.node, event.time);
  const wasMember = node.membership !== "unknown";
  const isHealed = !wasMember || node.startsAnew || fold.rules.rejoin_heals;
  if (wasMember) {
    const floor = fold.rules.rejoin_floor;
    if (floor !== null && fold.getMean(node.pool, node.prior) < floor) {
      node.pool = [];
      node.prior = floor;
    } else if (node.startsAnew) {
      node.pool = [];
    }
    if (node.pool.length === 0) {
      node.restarts = fold.countRestarts(event.time);
    }
    node.startsAnew = false;
  }
  node.membership = "member";
  if (isHealed) {
    node.base = UNIT;
    node.since = event.time;
    node.isExcluded = false;
  }
  fold.updateKickout(node, event.at, event.time);
}

function applyPauseChange(fold, event) {
  const isPaused = event.type === "node_paused";
  const node = fold.nodes.get(event.node);
  if (findMembershipViolation(node) !== null) {
    fold.addAnomaly(event, "not_a_member");
    return;
  }
  const isPausePending = node.pending === "pause";
  if (node.isPaused === isPaused && (isPaused || !isPausePending)) {
    fold.addAnomaly(event, isPaused ? "paused_twice" : "not_paused");
    return;
  }
  node.isPaused = isPaused;
  if (isPausePending) {
    node.pending = null;
  }
}

function applyLeaveRequest(fold, event) {
  const request = event.type === "node_pause_asked" ? "pause" : "quit";
  const node = fold.nodes.get(event.node);
  let violation = findMembershipViolation(node);
  if (violation === null && node.pending === "quit") {
    violation = "pending_already";
  } else if (violation === null && request === "pause" && (node.isPaused || node.pending)) {
    violation = "paused_twice";
  }
  if (violation !== null) {
    fold.addAnomaly(event, violation);
    return;
  }
  node.pending = request;
  fold.applyPendingLeaveIfIdle(node, event.at, event.time);
}

function applyNodeLeft(fold, event) {
  const node = fold.nodes.get(event.node);
  const quitAt = fold.justQuit.get(event.node);
  const hasJustQuit = quitAt !== undefined && isSameTransaction(quitAt, event.at);
  if (findMembershipViolation(node) !== null && (event.type === "node_quit" || !hasJustQuit)) {
    fold.addAnomaly(event, "not_a_member");
    return;
  }
  fold.endMembership(node, MEMBERSHIP_BY_EVENT[event.type], event.at, event.time);
}

function registerNode(fold, event) {
  fold.getNode(event.node, event.time);
}

function applyTaskCreated(fold, event) {
  const existing = fold.tasks.get(event.task);
  if (existing !== undefined && (existing.ending !== null || existing.createdAt !== null)) {
    fold.addAnomaly(event, existing.ending !== null ? "after_terminal" : "created_twice");
    return;
  }
  const task = fold.getTask(event.task);
  task.createdAt = event.at;
  task.creator = event.creator ?? null;
  task.timeout = event.timeout ?? null;
  task.group = event.group ?? null;
  task.groupSize = Number(event.group_size ?? 0);
  if (fold.rules.close === "terminal" && task.group !== null) {
    const group = fold.groups.get(task.group) ?? { keys: [], isClosed: false };
    fold.groups.set(task.group, group);
    if (!group.isClosed) {
      group.keys = [...group.keys, task.key];
    }
  }
}

function applyTaskQueued(fold, event) {
  const existing = fold.tasks.get(event.task);
  const isStarted = existing !== undefined && (existing.node !== null || existing.runs.length > 0);
  if (existing !== undefined && existing.ending !== null) {
    fold.addAnomaly(event, "after_terminal");
  } else if (isStarted) {
    fold.addAnomaly(event, "queued_after_start");
  } else {
    fold.getTask(event.task).isQueued = true;
  }
}

function applyTaskStarted(fold, event) {
  const violation = findStartViolation(fold.tasks.get(event.task), event);
  if (violation !== null) {
    fold.addAnomaly(event, violation);
    return;
  }
  const task = fold.getTask(event.task);
  if (event.round == null) {
    task.node = event.node;
    task.startedAt = event.at;
    task.startTime = event.time;
  } else {
    task.runs.push({
      round: event.round,
      node: event.node,
      isCommitted: false,
      isDisclosed: false,
      isReported: false,
      ending: null,
    });
  }
  const node = fold.getNode(event.node, event.time);
  node.running += 1;
  if (node.isExcluded) {
    node.isExcluded = fold.getReliability(node, event.time) < fold.rules.exclude_exit;
  }
}

function applyTaskResult(fold, event) {
  const isError = event.type === "task_error_reported";
  const task = fold.tasks.get(event.task);
  if (task !== undefined && task.runs.length > 0) {
    if (isError) {
      applyRunAnswer(fold, event);
    } else {
      fold.addAnomaly(event, "not_of_this_generation");
    }
    return;
  }
  const violation = findResultViolation(task, event);
  if (violation !== null) {
    fold.addAnomaly(event, violation);
    return;
  }
  if (task.stopTime !== null) {
    task.isRevealed = true;
  } else {
    task.stopTime = event.time;
    fold.incidents?.recordEnd(event, task.creator, event.node, false);
    if (event.frees === true) {
      const node = fold.getNode(event.node, event.time);
      task.isFreed = true;
      node.running -= 1;
      fold.applyPendingLeaveIfIdle(node, event.at, event.time);
    }
  }
  task.isError = isError;
}

function applyResultDisclosed(fold, event) {
  const task = fold.tasks.get(event.task);
  if (task !== undefined && task.runs.length > 0) {
    applyRunAnswer(fold, event);
    return;
  }
  const violation = findDisclosureViolation(task, event);
  if (violation !== null) {
    fold.addAnomaly(event, violation);
  } else {
    task.isRevealed = true;
  }
}

function applyTaskValidated(fold, event) {
  const task = fold.tasks.get(event.task);
  const violation = findValidationViolation(task);
  if (violation !== null) {
    fold.addAnomaly(event, violation);
  } else {
    task.isValidated = true;
  }
}

function applyFeeShared(fold, event) {
  const task = fold.tasks.get(event.task);
  const violation = findRunnerViolation(task, event);
  if (violation !== null || task.isPaid) {
    fold.addAnomaly(event, violation ?? "paid_twice");
  } else {
    task.isPaid = true;
  }
}

function applyTaskEnded(fold, event) {
  fold.endTask(event, event);
}

function applyTaskCancelled(fold, event) {
  const task = fold.tasks.get(event.task);
  const node = event.node ?? null;
  const violation = findCancellationViolation(task, node);
  const aborted = { ...event, type: "task_aborted", reason: "cancelled" };
  if (violation !== null) {
    fold.addAnomaly(event, violation);
  } else if (node !== null) {
    const [run] = listOpenRuns(task, node);
    fold.endTask(event, wasAwaited(run, task) ? { ...event, type: "task_timed_out" } : aborted);
  } else if (task === undefined || task.runs.length === 0) {
    fold.endTask(event, aborted);
  }
}

function applyGroupValidated(fold, event) {
  if (new Set(event.tasks).size !== event.tasks.length) {
    fold.addAnomaly(event, "group_names_task_twice");
  } else if (fold.rules.close === "validated") {
    fold.closeGroup(event, event.group, event.tasks);
  }
}

const HANDLERS = {
  node_joined: applyNodeJoined,
  node_updated: registerNode,
  model_added: registerNode,
  download_requested: registerNode,
  node_paused: applyPauseChange,
  node_resumed: applyPauseChange,
  node_pause_asked: applyLeaveRequest,
  node_quit_asked: applyLeaveRequest,
  node_quit: applyNodeLeft,
  node_slashed: applyNodeLeft,
  node_kicked_out: applyNodeLeft,
  task_created: applyTaskCreated,
  task_queued: applyTaskQueued,
  task_started: applyTaskStarted,
  task_submitted: applyTaskResult,
  task_error_reported: applyTaskResult,
  result_committed: applyRunAnswer,
  result_disclosed: applyResultDisclosed,
  task_validated: applyTaskValidated,
  fee_shared: applyFeeShared,
  task_succeeded: applyTaskEnded,
  task_refunded: applyTaskEnded,
  task_invalidated: applyTaskEnded,
  task_aborted: applyTaskEnded,
  task_timed_out: applyTaskEnded,
  task_cancelled: applyTaskCancelled,
  group_validated: applyGroupValidated,
};

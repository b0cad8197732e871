"use strict";
/* Finds incidents in the ends of tasks (docs/spec/incidents.md). It is part of the second implementation,
   which uses no other code of this project. */

const MINUTE_SECONDS = 60;
const WINDOW_MINUTES = 15;
const BASELINE_MINUTES = 24 * 60;
const MIN_BASELINE_ENDS = 500;
const ASSUMED_TIMEOUTS = 10;
const MIN_FAILED_NODES = 3;
const RARITY = 10n ** 9n;

function countChoices(count, chosen) {
  let choices = 1n;
  for (let step = 1; step <= chosen; step += 1) {
    choices = (choices * BigInt(count - chosen + step)) / BigInt(step);
  }
  return choices;
}

/* Returns the ends and timeouts of each node, and their totals. */
function summarizeEnds(ends) {
  const nodes = new Map();
  for (const { node, isTimeout } of ends) {
    const counts = nodes.get(node) ?? { ends: 0, timeouts: 0 };
    counts.ends += 1;
    counts.timeouts += isTimeout ? 1 : 0;
    nodes.set(node, counts);
  }
  const failed = [...nodes].filter(([, { timeouts }]) => timeouts > 0).map(([node]) => node);
  return {
    nodes,
    failed,
    ends: ends.length,
    timeouts: ends.filter(({ isTimeout }) => isTimeout).length,
    maxEnds: Math.max(0, ...[...nodes.values()].map((counts) => counts.ends)),
  };
}

/* The ends of the last minutes, and all incidents in the order in which they were found. */
class IncidentFold {
  constructor() {
    this.window = [];
    this.minute = null;
    /* Ends and timeouts of each minute of the day before the window. */
    this.baseline = [];
    this.incidents = [];
  }

  /* Counts the end of a task at a node; `creator` is null if it is not known. */
  recordEnd({ at, time }, creator, node, isTimeout) {
    const minute = Math.floor(time / MINUTE_SECONDS);
    if (this.minute === null || minute > this.minute) {
      this.beginMinute(minute, at);
    }
    this.window.push({ minute: this.minute, creator, node, isTimeout });
    if (isTimeout) {
      if (creator !== null) {
        this.testCreator(creator, at);
      }
      this.testNetwork(at);
    }
  }

  beginMinute(minute, at) {
    const first = minute - WINDOW_MINUTES;
    const expired = this.window.filter((end) => end.minute <= first);
    this.window = this.window.filter((end) => end.minute > first);
    for (const { minute: leftMinute, isTimeout } of expired) {
      this.baseline.push({ minute: leftMinute, isTimeout });
    }
    this.baseline = this.baseline.filter((end) => end.minute > first - BASELINE_MINUTES);
    this.minute = minute;
    for (const incident of this.incidents) {
      if (incident.overAt === null && Math.floor(incident.until / MINUTE_SECONDS) <= first) {
        incident.overAt = at;
      }
    }
  }

  /* Returns whether the open incident was already confirmed in this minute. */
  isConfirmed(creator) {
    const open = this.findOpen(creator);
    return open !== undefined && Math.floor(open.until / MINUTE_SECONDS) === this.minute;
  }

  findOpen(creator) {
    return this.incidents.find(
      (incident) => incident.overAt === null && incident.creator === creator,
    );
  }

  testCreator(creator, at) {
    if (this.isConfirmed(creator)) {
      return;
    }
    const own = summarizeEnds(this.window.filter((end) => end.creator === creator));
    const answeredOthers = new Set(
      this.window
        .filter((end) => end.creator !== creator && !end.isTimeout)
        .map((end) => end.node),
    );
    const healthy = own.failed.filter((node) => answeredOthers.has(node)).length;
    if (
      2 * own.timeouts >= own.ends &&
      3 * healthy >= 2 * own.failed.length &&
      this.isRare(own.failed.length, own)
    ) {
      this.confirm(creator, at);
    }
  }

  testNetwork(at) {
    const all = summarizeEnds(this.window);
    if (this.isConfirmed(null) || 4 * all.failed.length < all.nodes.size) {
      return;
    }
    const timeouts = this.window.filter((end) => end.isTimeout);
    const countByCreator = new Map();
    for (const { creator } of timeouts) {
      countByCreator.set(creator, (countByCreator.get(creator) ?? 0) + 1);
    }
    const [[largest]] = [...countByCreator].sort(
      (first, second) => second[1] - first[1] || ((first[0] ?? "") < (second[0] ?? "") ? 1 : -1),
    );
    const failed = new Set(
      timeouts.filter(({ creator }) => creator !== largest).map(({ node }) => node),
    ).size;
    if (
      4 * failed >= all.nodes.size &&
      countByCreator.size >= MIN_FAILED_NODES &&
      this.isRare(failed, all)
    ) {
      this.confirm(null, at);
    }
  }

  /* Returns whether this many nodes fail by chance in less than one of 10^9 windows. */
  isRare(failed, { nodes, maxEnds }) {
    const missing = Math.max(0, MIN_BASELINE_ENDS - this.baseline.length);
    const ends = this.baseline.length + missing;
    const timeouts =
      this.baseline.filter(({ isTimeout }) => isTimeout).length +
      Math.floor(missing / ASSUMED_TIMEOUTS);
    const chance = maxEnds * Math.max(timeouts, Math.floor(ends / MIN_BASELINE_ENDS));
    if (failed < MIN_FAILED_NODES || nodes.size * chance >= failed * ends) {
      return false;
    }
    const exponent = BigInt(failed);
    const bound = countChoices(nodes.size, failed) * BigInt(chance) ** exponent * RARITY;
    return bound < BigInt(ends) ** exponent;
  }

  confirm(creator, at) {
    const until = (this.minute + 1) * MINUTE_SECONDS - 1;
    const open = this.findOpen(creator);
    if (open !== undefined) {
      open.until = until;
      return;
    }
    const since = (this.minute + 1 - WINDOW_MINUTES) * MINUTE_SECONDS;
    this.incidents.push({ creator, foundAt: at, since, until, overAt: null });
  }

  /* Returns whether a timeout is within an incident that was known at a position. */
  isMarked(time, creator, at) {
    return this.incidents.some((incident) => {
      const isKnown = comparePositions(incident.foundAt, at) <= 0;
      const wasOver = incident.overAt !== null && comparePositions(incident.overAt, at) <= 0;
      return (
        isKnown &&
        (incident.creator === null || incident.creator === creator) &&
        incident.since <= time &&
        (!wasOver || time <= incident.until)
      );
    });
  }
}

"use strict";
/* Compares a bundle with the fold of all events of the network. Needs score_checks.js and round.js, and
   does not use the document. */

function formatPosition(event) {
  return Object.values(getPosition(event)).join(":");
}

/* Returns the first event of the bundle that is not in the file with all events, or undefined. */
function findUnlistedEvent(bundle, events) {
  const eventByPosition = new Map(events.map((event) => [formatPosition(event), event]));
  return bundle.events.find((event) => {
    const other = eventByPosition.get(formatPosition(event));
    return other === undefined || formatCanonical(event) !== formatCanonical(other);
  });
}

/* Returns the first difference between the bundle and the fold of all events, or null. */
function findFoldDifference(bundle, evidence, fold, leaf, leaves) {
  const computedLeaf = leaves.find((candidate) => candidate.node === bundle.node);
  if (leaf === null) {
    return computedLeaf === undefined ? null : `they name ${bundle.node}, which therefore has a leaf`;
  }
  if (computedLeaf === undefined) {
    return `no event names ${bundle.node}`;
  }
  const expected = decodeLeaf(encodeLeaf(computedLeaf));
  const wrong = Object.keys(expected).filter((name) => expected[name] !== leaf[name]);
  if (wrong.length > 0) {
    return `the leaf differs: ${wrong.join(", ")}`;
  }
  const scoreBySeq = new Map(
    fold.scores.filter(({ node }) => node === bundle.node).map((score) => [score.seq, score]),
  );
  const entries = [...bundle.scores, ...(evidence?.entries ?? [])];
  const folded = entries.map(({ seq }) => scoreBySeq.get(seq)).filter(Boolean);
  /* The creators are compared by `Events` and below. */
  const difference = findScoreDifference(
    entries,
    folded.map((score, index) => ({ ...score, creator: entries[index]?.creator })),
  );
  if (difference !== null || evidence === null) {
    return difference;
  }
  const { due } = fold.nodes.get(bundle.node);
  if (due === null || !isSamePosition(due.at, evidence.due_since)) {
    return "the kickout became due at another log";
  }
  const incidentScores = fold.countIncidentScores(due);
  if ((evidence.scores_in_incidents ?? 0) !== incidentScores) {
    return `${incidentScores} scores were in incidents`;
  }
  const mismatch = due.entries.find(
    ({ creator }, index) => creator !== evidence.entries[index]?.creator,
  );
  return mismatch === undefined ? null : `the creator of score ${mismatch.seq} differs`;
}

/* Checks that replaying all events of the network gives the same leaf and the same root. `leaf` is null if the proof shows that
   the address has none, and `events` if the reader has no file of them. */
function checkAllEvents(bundle, evidence, events, rules, leaf) {
  const { signed_round: round } = bundle;
  const includedEvents = (events ?? []).filter((event) => event.block <= round.as_of);
  if (includedEvents.length === 0) {
    const text =
      events === null
        ? "No file with all events was given, so H, pauses and membership were not checked, nor whether a score was left out."
        : `The file has no event up to block ${round.as_of}.`;
    return makeCheck("All events", null, text);
  }
  if (round.as_of_time === null) {
    return makeCheck("All events", null, "The bundle does not contain the time of the as-of block.");
  }
  const unlisted = findUnlistedEvent(bundle, events);
  if (unlisted !== undefined) {
    const text = `${unlisted.type} of the bundle (block ${unlisted.block}, log ${unlisted.log}) is not in the file with all events.`;
    return makeCheck("All events", false, text);
  }
  const fold = new Fold(rules).apply(includedEvents);
  const policy = { holds_kickouts: bundle.holds_kickouts, undecoded: [] };
  const leaves = buildLeaves(fold, round.as_of_time, policy);
  const count = `${includedEvents.length.toLocaleString("en-US")} events of ${leaves.length} nodes`;
  const difference = findFoldDifference(bundle, evidence, fold, leaf, leaves);
  if (difference !== null) {
    return makeCheck("All events", false, `${count} give a different result: ${difference}.`);
  }
  const { root } = computeRound(leaves, {
    chain_id: round.chain_id,
    oracle: round.contract,
    round: round.round,
    as_of: round.as_of,
  });
  const isMatch = root === round.root;
  const subject = leaf === null ? "no leaf for this address" : "this leaf";
  const text = isMatch
    ? `${count} give the root of round ${round.round}, and ${subject}.`
    : `${count} give ${subject}, but the root ${root}: another node differs.`;
  return makeCheck("All events", isMatch, text);
}

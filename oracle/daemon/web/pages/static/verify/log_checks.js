"use strict";
/* Checks the logs of a bundle: that they contain the values of their events, are of the network's
   contracts, and are on the chain. Needs bundle_checks.js and chain_proofs.js, and does not use the
   document. */

const CONCURRENT_BLOCKS = 6;

/* Returns whether the leaf states that the node has no score, so that no log is needed. */
function hasNoScore(bundle) {
  return bundle.proof.is_absent === true || decodeLeaf(bundle.proof.leaf.encoded).score_count === 0;
}

/* Returns the values of an event that its log must contain: addresses and keys. */
function listKeys(event) {
  const lists = ["tasks", "invalid", "possible"].flatMap((name) => event[name] ?? []);
  return [event.node, event.task, event.group, event.creator, ...lists].filter(
    (value) => typeof value === "string",
  );
}

/* Returns the words of a log: its topics and its data. */
function listWords(log) {
  const data = log.data.slice(2).match(/.{64}/g) ?? [];
  return new Set([...log.topics.map((topic) => topic.slice(2)), ...data]);
}

function isFromLog(event) {
  return event.log >= 0 && (event.tx ?? 0) >= 0;
}

/* Checks that each event has a log, which contains the event's node, task, creator and group. */
function checkLogContents(bundle) {
  if (bundle.events.length === 0) {
    const text = "The bundle has no event that a log could contain.";
    return makeCheck("Contents", null, text, hasNoScore(bundle));
  }
  const wordsByPosition = new Map(
    bundle.logs.map((log) => [`${log.block}:${log.tx}:${log.log}`, listWords(log)]),
  );
  const fromLogs = bundle.events.filter(isFromLog);
  const wrong = fromLogs.find((event) => {
    const words = wordsByPosition.get(`${event.block}:${event.tx ?? 0}:${event.log}`);
    return !listKeys(event).every((key) => words?.has(key.slice(2).padStart(64, "0")));
  });
  if (wrong !== undefined) {
    const place = `block ${wrong.block}, log ${wrong.log}`;
    return makeCheck("Contents", false, `The log of ${wrong.type} (${place}) does not contain the values of the event.`);
  }
  const countWithoutLog = bundle.events.length - fromLogs.length;
  return countWithoutLog > 0
    ? makeCheck(
        "Contents",
        null,
        `${countWithoutLog} of ${bundle.events.length} events come from calldata or a relay’s feed, which have no log: nothing proves them.`,
      )
    : makeCheck("Contents", true, "The logs contain the nodes, tasks, creators and groups of their events.");
}

/* Returns the shipped profile that the rules name, or undefined if they name another one. Its
   identity is part of the rules id, so the contract's rules hash confirms it. */
function findProfile(bundle) {
  const { profile } = JSON.parse(bundle.rules_id);
  return Object.hasOwn(SHIPPED_PROFILES, profile) ? SHIPPED_PROFILES[profile] : undefined;
}

/* Checks the types of the events, and whether every kickout is held, against the network's profile. */
function checkProfile(bundle) {
  const profile = findProfile(bundle);
  if (profile === undefined) {
    const text = "The rules name a profile that this page does not contain, so the events may be of other types than their logs.";
    return makeCheck("Profile", null, text, hasNoScore(bundle));
  }
  const topicByPosition = new Map(
    bundle.logs.map((log) => [`${log.block}:${log.tx}:${log.log}`, log.topics[0]]),
  );
  const wrong = bundle.events.filter(isFromLog).find((event) => {
    const topic = topicByPosition.get(`${event.block}:${event.tx ?? 0}:${event.log}`);
    return topic !== undefined && !(profile.types[topic] ?? []).includes(event.type);
  });
  if (wrong !== undefined) {
    const place = `block ${wrong.block}, log ${wrong.log}`;
    return makeCheck("Profile", false, `By the profile of the network, the log of ${wrong.type} (${place}) is an event of another type.`);
  }
  if (bundle.holds_kickouts !== profile.holds_kickouts) {
    const text = "The bundle and the profile of the network differ on whether every kickout is held.";
    return makeCheck("Profile", false, text);
  }
  const isAmbiguous = bundle.logs.some((log) => profile.types[log.topics[0]]?.length > 1);
  return isAmbiguous
    ? makeCheck("Profile", null, "The type of some events depends on values of their logs, which this page does not compare.")
    : makeCheck("Profile", true, "By the profile of the network, each log is an event of this type.");
}

/* Checks that the logs are of contracts that the reader entered; anyone can deploy a contract that emits
   any log. */
function checkNetworkContracts(bundle, anchor) {
  const contracts = [...new Set(bundle.logs.map((log) => log.address))];
  if (contracts.length === 0) {
    const text = "The bundle has no log.";
    return makeCheck("Network contracts", null, text, hasNoScore(bundle));
  }
  const list = contracts.join(", ");
  if (anchor.network_contracts.length === 0) {
    const text = `The logs are of ${list}. You entered no contracts of the network, so they may come from contracts that the operator of the server deployed.`;
    return makeCheck("Network contracts", null, text);
  }
  const unlisted = contracts.filter((address) => !anchor.network_contracts.includes(address));
  return makeCheck(
    "Network contracts",
    unlisted.length === 0,
    unlisted.length === 0
      ? `All logs are of contracts that you entered: ${list}.`
      : `Logs are of ${unlisted.join(", ")}, which you did not enter.`,
  );
}

/* Returns the checks of a bundle against what the reader entered, without an endpoint. */
function checkEntered(bundle, anchor) {
  try {
    return [
      checkEnteredContract(bundle, anchor),
      checkNetworkContracts(bundle, anchor),
      checkLogContents(bundle),
      checkProfile(bundle),
    ];
  } catch (error) {
    return [makeCheck("Oracle contract", null, `It could not be checked: ${error.message}.`)];
  }
}

function groupByBlock(bundle) {
  const blocks = new Map();
  for (const log of bundle.logs) {
    const block = blocks.get(log.block) ?? { logs: [], events: [] };
    block.logs.push(log);
    blocks.set(log.block, block);
  }
  for (const event of bundle.events.filter(isFromLog)) {
    blocks.get(event.block)?.events.push(event);
  }
  return [...blocks.entries()];
}

function isSameLog(log, chainLog) {
  return (
    Number(chainLog.transactionIndex) === log.tx &&
    chainLog.transactionHash === log.transaction &&
    chainLog.address.toLowerCase() === log.address &&
    chainLog.topics.join() === log.topics.join() &&
    chainLog.data === log.data
  );
}

/* Returns whether the endpoint numbers logs and transactions in the order of the receipts, which their
   root proves. */
function areNumberedInOrder(receipts) {
  const logs = receipts.flatMap((receipt, tx) => receipt.logs.map((log) => [log, tx]));
  return logs.every(
    ([log, tx], index) => Number(log.logIndex) === index && Number(log.transactionIndex) === tx,
  );
}

/* Returns what is wrong with the logs of one block, as `fault`, or why they prove nothing, as
   `gap`; both are null if the logs are proven. */
async function checkBlock(number, block, request) {
  const header = await request("eth_getBlockByNumber", formatQuantity(number), false);
  if (header === null) {
    return { fault: null, gap: `the endpoint does not have block ${number}` };
  }
  if (Number(header.number) !== number) {
    return { fault: null, gap: `the endpoint returned another block than ${number}` };
  }
  const receipts = await request("eth_getBlockReceipts", formatQuantity(number));
  if (!Array.isArray(receipts)) {
    return { fault: null, gap: `the endpoint has no receipts of block ${number}` };
  }
  const chainLogs = new Map(receipts.flatMap(({ logs }) => logs).map((log) => [Number(log.logIndex), log]));
  for (const log of block.logs) {
    if (log.block_hash !== header.hash) {
      return { fault: `block ${number} of the chain has another hash`, gap: null };
    }
    const chainLog = chainLogs.get(log.log);
    if (chainLog === undefined || !isSameLog(log, chainLog)) {
      return { fault: `log ${log.log} of block ${number} is not on the chain`, gap: null };
    }
  }
  const late = block.events.find((event) => event.time !== Number(header.timestamp));
  if (late !== undefined) {
    return { fault: `an event of block ${number} has another time than the block`, gap: null };
  }
  const gap = areNumberedInOrder(receipts)
    ? findReceiptsMismatch(header, receipts)
    : `the endpoint does not number the logs of block ${number} in order`;
  return { fault: null, gap };
}

/* Checks that each log is in its block, by the receipts root of the block's header. */
async function checkLogs(bundle, request, onProgress) {
  const blocks = groupByBlock(bundle);
  if (blocks.length === 0) {
    const text = "The bundle has no log to check.";
    return makeCheck("Logs", null, text, hasNoScore(bundle));
  }
  const results = [];
  let next = 0;
  async function checkRemainingBlocks() {
    while (next < blocks.length) {
      const [number, block] = blocks[next];
      next += 1;
      onProgress(next, blocks.length);
      results.push(await checkBlock(number, block, request));
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT_BLOCKS }, checkRemainingBlocks));
  const fault = results.find((result) => result.fault !== null)?.fault;
  const gap = results.find((result) => result.gap !== null)?.gap;
  const count = `${bundle.logs.length} logs in ${blocks.length} blocks`;
  if (fault !== undefined) {
    return makeCheck("Logs", false, `Not all ${count} are on the chain: ${fault}.`);
  }
  if (gap !== undefined) {
    return makeCheck("Logs", null, `The endpoint has ${count}, but they could not be proven: ${gap}.`);
  }
  return makeCheck("Logs", true, `${count} are proven by the receipts roots of the blocks.`);
}

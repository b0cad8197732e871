"use strict";
/* Checks an evidence bundle against a chain, through an RPC endpoint that the reader chose. Needs
   bundle_checks.js and chain_proofs.js, and does not use the document. */

const ROOT_OF = "rootOf(uint32)";
const PUSH_CALL = "push((uint32,uint16,uint48,bytes32,uint40,bytes32),bytes)";
const CONCURRENT_BLOCKS = 6;
/* The words of the report in the calldata of `push`, from the first. */
const PUSH_DEADLINE_WORD = 4;
const PUSH_REPORT_WORDS = 6;

function getSelector(signature) {
  return hashText(signature).slice(0, 10);
}

/* Returns a function that sends one request to an endpoint and returns its result. */
function makeRpcClient(url) {
  let id = 0;
  return async (method, ...params) => {
    id += 1;
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
    });
    const answer = await response.json();
    if (answer.error) {
      throw new Error(`${method}: ${answer.error.message}`);
    }
    return answer.result;
  };
}

function formatQuantity(value) {
  return `0x${BigInt(value).toString(16)}`;
}

async function checkChainId(bundle, request) {
  const chainId = Number(await request("eth_chainId"));
  const expected = bundle.signed_round.chain_id;
  return makeCheck("Chain", chainId === expected, `The endpoint serves chain ${chainId}.`);
}

async function checkContractRoot(bundle, request) {
  const { signed_round: round } = bundle;
  const call = { to: round.contract, data: getSelector(ROOT_OF) + encodeWord(round.round) };
  let root;
  try {
    root = await request("eth_call", call, "latest");
  } catch (error) {
    return makeCheck(
      "Contract",
      null,
      `The contract returns no root of round ${round.round}: it is not one of the last 256, or was struck (${error.message}).`,
    );
  }
  const isRight = root === round.root;
  return makeCheck(
    "Contract",
    isRight,
    isRight
      ? `The contract ${round.contract} has this root for round ${round.round}.`
      : `The contract ${round.contract} has the root ${root} for round ${round.round}, not ${round.root}.`,
  );
}

async function checkAsOfBlock(bundle, request) {
  const { signed_round: round } = bundle;
  const header = await request("eth_getBlockByNumber", formatQuantity(round.as_of), false);
  const isRight =
    header !== null &&
    header.hash === round.as_of_hash &&
    (round.as_of_time === null || Number(header.timestamp) === round.as_of_time);
  return makeCheck(
    "As-of block",
    isRight,
    isRight
      ? `Block ${round.as_of} of the chain has the hash and the time of the round.`
      : `Block ${round.as_of} of the chain has another hash or time than the round.`,
  );
}

/* Returns the report and the signatures in the calldata of `push`, or null. */
function decodePush(input) {
  if (typeof input !== "string" || !input.startsWith(getSelector(PUSH_CALL))) {
    return null;
  }
  const words = input.slice(10).match(/.{64}/g) ?? [];
  const length = Number(`0x${words[PUSH_REPORT_WORDS + 1]}`);
  const first = 10 + 64 * (PUSH_REPORT_WORDS + 2);
  const bytes = input.slice(first, first + 2 * length);
  const signatures = bytes.match(/.{130}/g) ?? [];
  return {
    deadline: Number(`0x${words[PUSH_DEADLINE_WORD]}`),
    signatures: signatures.map((digits) => `0x${digits}`),
  };
}

/* The signatures that the contract accepted, in the transaction of the round. */
async function checkSentSignatures(bundle, request) {
  const { transaction } = bundle.signed_round.accepted_at;
  const sent = transaction === null ? null : await request("eth_getTransactionByHash", transaction);
  const pushed = decodePush(sent?.input);
  if (pushed === null || bundle.signed_round.prev === null) {
    return makeCheck("Sent signatures", null, "The transaction of the round is no direct call.");
  }
  const check = checkSignatures({ signed_round: { ...bundle.signed_round, ...pushed } });
  return { ...check, name: "Sent signatures" };
}

function groupByBlock(bundle) {
  const blocks = new Map();
  for (const log of bundle.logs) {
    const block = blocks.get(log.block) ?? { logs: [], events: [] };
    block.logs.push(log);
    blocks.set(log.block, block);
  }
  for (const event of bundle.events) {
    blocks.get(event.block)?.events.push(event);
  }
  return [...blocks.entries()];
}

function isSameLog(log, sent) {
  return (
    Number(sent.transactionIndex) === log.tx &&
    sent.transactionHash === log.transaction &&
    sent.address.toLowerCase() === log.address &&
    sent.topics.join() === log.topics.join() &&
    sent.data === log.data
  );
}

/* Returns what is wrong with the logs of one block, as `fault`, or why they prove nothing, as
   `gap`; both are null if all is well. */
async function checkBlock(number, block, request) {
  const header = await request("eth_getBlockByNumber", formatQuantity(number), false);
  if (header === null) {
    return { fault: null, gap: `the endpoint does not have block ${number}` };
  }
  const receipts = await request("eth_getBlockReceipts", formatQuantity(number));
  if (!Array.isArray(receipts)) {
    return { fault: null, gap: `the endpoint has no receipts of block ${number}` };
  }
  const sent = new Map(receipts.flatMap(({ logs }) => logs).map((log) => [Number(log.logIndex), log]));
  for (const log of block.logs) {
    if (log.block_hash !== header.hash) {
      return { fault: `block ${number} of the chain has another hash`, gap: null };
    }
    const found = sent.get(log.log);
    if (found === undefined || !isSameLog(log, found)) {
      return { fault: `log ${log.log} of block ${number} is not on the chain`, gap: null };
    }
  }
  const late = block.events.find((event) => event.time !== Number(header.timestamp));
  if (late !== undefined) {
    return { fault: `an event of block ${number} has another time than the block`, gap: null };
  }
  return { fault: null, gap: findReceiptsMismatch(header, receipts) };
}

/* Each log of the bundle is in its block, by the receipts root of the block's header. */
async function checkLogs(bundle, request, onProgress) {
  const blocks = groupByBlock(bundle);
  const results = [];
  let next = 0;
  async function work() {
    while (next < blocks.length) {
      const [number, block] = blocks[next];
      next += 1;
      onProgress(next, blocks.length);
      results.push(await checkBlock(number, block, request));
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT_BLOCKS }, work));
  const fault = results.find((result) => result.fault !== null)?.fault;
  const gap = results.find((result) => result.gap !== null)?.gap;
  const count = `${bundle.logs.length} logs in ${blocks.length} blocks`;
  if (fault !== undefined) {
    return makeCheck("Logs", false, `Not all ${count} are on the chain: ${fault}.`);
  }
  if (gap !== undefined) {
    return makeCheck("Logs", null, `The endpoint has ${count}, but does not prove them: ${gap}.`);
  }
  return makeCheck("Logs", true, `${count} are proven by the receipts roots of the blocks.`);
}

/* Returns the values of an event that its log must contain: addresses and keys. */
function listKeys(event) {
  return [event.node, event.task, event.group, ...(event.tasks ?? [])].filter(
    (value) => typeof value === "string",
  );
}

/* Each event has a log, which contains the event's node, task and group. */
function checkLogContents(bundle) {
  const logs = new Map(bundle.logs.map((log) => [`${log.block}:${log.tx}:${log.log}`, log]));
  const unproven = bundle.events.filter((event) => event.log < 0 || (event.tx ?? 0) < 0);
  const wrong = bundle.events.find((event) => {
    if (unproven.includes(event)) {
      return false;
    }
    const log = logs.get(`${event.block}:${event.tx ?? 0}:${event.log}`);
    const content = log === undefined ? "" : [...log.topics, log.data].join("");
    return log === undefined || !listKeys(event).every((key) => content.includes(key.slice(2)));
  });
  if (wrong !== undefined) {
    const place = `block ${wrong.block}, log ${wrong.log}`;
    return makeCheck("Contents", false, `The log of ${wrong.type} (${place}) names other values.`);
  }
  const contracts = [...new Set(bundle.logs.map((log) => log.address))];
  const text = `The logs of ${contracts.join(", ")} contain the nodes, tasks and groups of their events.`;
  return unproven.length > 0
    ? makeCheck("Contents", null, `${text} ${unproven.length} events come from no log.`)
    : makeCheck("Contents", true, text);
}

/* Returns the checks of a bundle against the chain. `onProgress` gets the number of the block that is
   checked, and how many there are. */
async function checkOnChain(bundle, request, onProgress) {
  const checks = [];
  const steps = [
    ["Chain", () => checkChainId(bundle, request)],
    ["Contract", () => checkContractRoot(bundle, request)],
    ["As-of block", () => checkAsOfBlock(bundle, request)],
    ["Sent signatures", () => checkSentSignatures(bundle, request)],
    ["Contents", () => checkLogContents(bundle)],
    ["Logs", () => checkLogs(bundle, request, onProgress)],
  ];
  for (const [name, check] of steps) {
    try {
      checks.push(await check());
    } catch (error) {
      checks.push(makeCheck(name, null, `It could not be checked: ${error.message}.`));
    }
  }
  return checks;
}

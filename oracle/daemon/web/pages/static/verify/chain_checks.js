"use strict";
/* Checks a bundle against the oracle contract, through an RPC endpoint that the reader chose. Needs
   bundle_checks.js and log_checks.js, and does not use the document.

   `anchor` is what the reader entered: `contract`, `chain_id`, `network_contracts` (a list) and
   `chosen_round`; a value that was not entered is null. A bundle and its server can invent everything else,
   so only an anchor makes the checks below independent of them. */

const ROOT_OF = "rootOf(uint32)";
const LAST_ROUND = "last()";
const KEPT_ROUNDS = "KEPT()";
const NO_ROOT = "NoRoot(uint32)";
const ROUND_ACCEPTED = "RoundAccepted(uint32,uint48,bytes32,bytes32,bytes32,uint256)";
const PUSH_CALL = "push((uint32,uint16,uint48,bytes32,uint40,bytes32),bytes)";
/* The words of the report in the calldata of `push`, from the first. */
const PUSH_DEADLINE_WORD = 4;
const PUSH_REPORT_WORDS = 6;

function getSelector(signature) {
  return hashText(signature).slice(0, 10);
}

/* An error that an endpoint returned; `data` is the contract's own error, if there is one. */
class RpcError extends Error {
  constructor(message, data) {
    super(message);
    this.data = typeof data === "string" ? data : "";
  }
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
      throw new RpcError(`${method}: ${answer.error.message}`, answer.error.data);
    }
    return answer.result;
  };
}

/* The parts of a response on which all honest endpoints agree. Receipts and transactions are not
   compared, because the header proves the receipts, and signatures are verified. */
const COMPARED_PARTS = {
  eth_chainId: (result) => Number(result),
  eth_call: (result) => result,
  eth_getBlockByNumber: (header) =>
    header && [header.hash, header.number, header.timestamp, header.receiptsRoot],
  eth_getLogs: (logs) => logs.map((log) => [log.address, log.topics, log.data].join().toLowerCase()),
};

/* Returns a function that sends each request to all endpoints, and returns the result of the first one
   if the others agree with it. */
function makeComparingClient(urls) {
  const clients = urls.map(makeRpcClient);
  return async (method, ...params) => {
    const results = await Promise.all(clients.map((request) => request(method, ...params)));
    const getPart = COMPARED_PARTS[method] ?? (() => null);
    const parts = new Set(results.map((result) => JSON.stringify(getPart(result))));
    if (parts.size > 1) {
      throw new Error(`${method}: the endpoints give different answers, so one of them is wrong`);
    }
    return results[0];
  };
}

function formatQuantity(value) {
  return `0x${BigInt(value).toString(16)}`;
}

/* The contract and the chain are those that the reader entered, not only those that the bundle names. */
function checkEnteredContract(bundle, anchor) {
  const { contract, chain_id: chainId } = bundle.signed_round;
  const named = `${contract} on chain ${chainId}`;
  if (anchor.contract === null || anchor.chain_id === null) {
    const text = `The bundle names the contract ${named}. You did not enter contract and chain, so it may be a contract of the server’s own.`;
    return makeCheck("Oracle contract", null, text);
  }
  const isRight = anchor.contract === contract && anchor.chain_id === chainId;
  return makeCheck(
    "Oracle contract",
    isRight,
    isRight
      ? `The bundle is of the contract that you entered, ${named}.`
      : `The bundle is of the contract ${named}, but you entered ${anchor.contract} on chain ${anchor.chain_id}.`,
  );
}

/* The endpoints are not run by the server that is checked, as far as addresses show. */
function checkEndpoints(urls, serverOrigins) {
  const origins = [...new Set(urls.map((url) => new URL(url).origin))];
  const shared = origins.find((origin) => serverOrigins.includes(origin));
  if (shared !== undefined) {
    const text = `The endpoint ${shared} belongs to the server that is checked, which could answer anything. Enter another.`;
    return makeCheck("Endpoint", null, text);
  }
  const text =
    origins.length === 1
      ? `The chain is read from ${origins[0]}. Whoever runs it could answer anything; enter a second one of another provider to notice it.`
      : `The answers of ${origins.join(", ")} must agree.`;
  return makeCheck("Endpoint", true, text);
}

async function checkChainId(bundle, anchor, request) {
  const chainId = Number(await request("eth_chainId"));
  const expected = anchor.chain_id ?? bundle.signed_round.chain_id;
  return makeCheck(
    "Chain",
    chainId === expected,
    chainId === expected
      ? `The endpoint serves chain ${chainId}.`
      : `The endpoint serves chain ${chainId}, not ${expected}.`,
  );
}

/* Returns the words that a view of the contract returns. */
async function callView(contract, signature, argument, request) {
  const call = { to: contract, data: getSelector(signature) + argument };
  const result = await request("eth_call", call, "latest");
  if (typeof result !== "string" || !/^0x([0-9a-f]{64})+$/.test(result)) {
    throw new Error(`${contract} is no oracle contract: it returns nothing for ${signature}`);
  }
  return result.slice(2).match(/.{64}/g);
}

/* Returns why the contract has no root of a round: [is it proven, text]. */
async function explainMissingRoot(contract, number, error, request) {
  const [last] = await callView(contract, LAST_ROUND, "", request);
  const [kept] = await callView(contract, KEPT_ROUNDS, "", request);
  const newest = Number(`0x${last}`);
  if (number > newest) {
    return [false, `its newest round is ${newest}`];
  }
  if (newest - number >= Number(`0x${kept}`)) {
    return [null, `it keeps only the last ${Number(`0x${kept}`)} rounds; load a newer one`];
  }
  return error.data?.startsWith(getSelector(NO_ROOT))
    ? [false, "the round was struck"]
    : [null, error.message];
}

/* The contract has the root of the bundle for this round. */
async function checkContractRoot(bundle, anchor, request) {
  const { signed_round: round } = bundle;
  const contract = anchor.contract ?? round.contract;
  let words;
  try {
    words = await callView(contract, ROOT_OF, encodeWord(round.round), request);
  } catch (error) {
    const [isTrue, reason] = await explainMissingRoot(contract, round.round, error, request);
    const text = `The contract ${contract} returns no root of round ${round.round}: ${reason}.`;
    return makeCheck("Root", isTrue, text);
  }
  const root = `0x${words[0]}`;
  const isRight = root === round.root;
  return makeCheck(
    "Root",
    isRight,
    isRight
      ? `The contract ${contract} has this root for round ${round.round}.`
      : `The contract ${contract} has the root ${root} for round ${round.round}, not ${round.root}.`,
  );
}

/* Returns the data of the log of an accepted round, as the bundle names it. */
function encodeAcceptance(round) {
  return [round.as_of, round.as_of_hash, round.root, round.config].map(encodeWord).join("");
}

/* The contract accepted this report: block, root, and the digest of signers, quorum and rules hash. */
async function checkAcceptance(bundle, anchor, request) {
  const { signed_round: round } = bundle;
  const contract = anchor.contract ?? round.contract;
  const block = formatQuantity(round.accepted_at.block);
  const topics = [hashText(ROUND_ACCEPTED), `0x${encodeWord(round.round)}`];
  const filter = { address: contract, fromBlock: block, toBlock: block, topics };
  const logs = await request("eth_getLogs", filter);
  const log = logs.find(
    (candidate) =>
      candidate.address.toLowerCase() === contract &&
      candidate.topics.join() === topics.join() &&
      Number(candidate.blockNumber) === round.accepted_at.block,
  );
  const place = `round ${round.round} in block ${round.accepted_at.block}`;
  if (log === undefined) {
    return makeCheck("Acceptance", false, `The contract ${contract} did not accept ${place}.`);
  }
  const isRight =
    log.data.slice(2, 2 + 4 * 64) === encodeAcceptance(round) &&
    (round.accepted_at.transaction ?? log.transactionHash) === log.transactionHash;
  return makeCheck(
    "Acceptance",
    isRight,
    isRight
      ? `The contract accepted ${place}, with this root, as-of block, and configuration of reporters and rules.`
      : `The contract accepted ${place}, but with another root, as-of block, configuration or transaction.`,
  );
}

/* An old round may state another score, so it only counts if the reader entered its number. */
async function checkNewestRound(bundle, anchor, request) {
  const { signed_round: round } = bundle;
  const contract = anchor.contract ?? round.contract;
  const [last, asOf] = await callView(contract, LAST_ROUND, "", request);
  const newest = Number(`0x${last}`);
  if (round.round === newest) {
    return makeCheck("Newest round", true, `Round ${newest} is the newest of the contract.`);
  }
  const text = `The newest round of the contract is ${newest} (as of block ${Number(`0x${asOf}`)}); the bundle is of round ${round.round} (as of block ${round.as_of}).`;
  return anchor.chosen_round === round.round
    ? makeCheck("Newest round", true, `You entered round ${anchor.chosen_round}. ${text}`)
    : makeCheck("Newest round", null, `${text} Load the newest, or enter ${round.round} as the round.`);
}

async function checkAsOfBlock(bundle, request) {
  const { signed_round: round } = bundle;
  const header = await request("eth_getBlockByNumber", formatQuantity(round.as_of), false);
  if (header === null) {
    return makeCheck("As-of block", null, `The endpoint does not have block ${round.as_of}.`);
  }
  const isRight =
    Number(header.number) === round.as_of &&
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
  const { signed_round: round } = bundle;
  const { transaction } = round.accepted_at;
  const sent = transaction === null ? null : await request("eth_getTransactionByHash", transaction);
  const pushed = sent?.to?.toLowerCase() === round.contract ? decodePush(sent.input) : null;
  if (pushed === null || round.prev === null) {
    const text = "The transaction of the round is no direct call.";
    return makeCheck("Sent signatures", null, text, true);
  }
  const check = checkSignatures({ signed_round: { ...round, ...pushed } });
  return { ...check, name: "Sent signatures", is_optional: true };
}

/* Returns the checks of a bundle against the chain. `onProgress` gets the number of the block that is
   checked, and how many there are. */
async function checkOnChain(bundle, anchor, request, onProgress) {
  const checks = [];
  const steps = [
    ["Chain", () => checkChainId(bundle, anchor, request)],
    ["Root", () => checkContractRoot(bundle, anchor, request)],
    ["Acceptance", () => checkAcceptance(bundle, anchor, request)],
    ["Newest round", () => checkNewestRound(bundle, anchor, request)],
    ["As-of block", () => checkAsOfBlock(bundle, request)],
    ["Sent signatures", () => checkSentSignatures(bundle, request)],
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

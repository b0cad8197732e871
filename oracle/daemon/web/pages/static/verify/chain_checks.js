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
/* 32-byte words of the report in the calldata of `push`. */
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
      throw new Error(`${method}: the endpoints return different results, so one of them is wrong`);
    }
    return results[0];
  };
}

function formatQuantity(value) {
  return `0x${BigInt(value).toString(16)}`;
}

/* Checks that the bundle belongs to the contract and the chain that the reader entered. */
function checkEnteredContract(bundle, anchor) {
  const { contract, chain_id: chainId } = bundle.signed_round;
  const named = `${contract} on chain ${chainId}`;
  if (anchor.contract === null || anchor.chain_id === null) {
    const text = `The bundle names the contract ${named}. You did not enter contract and chain, so it may be a contract that the operator of the server deployed.`;
    return makeCheck("Oracle contract", null, text);
  }
  const isMatch = anchor.contract === contract && anchor.chain_id === chainId;
  return makeCheck(
    "Oracle contract",
    isMatch,
    isMatch
      ? `The bundle belongs to the contract that you entered, ${named}.`
      : `The bundle belongs to the contract ${named}, but you entered ${anchor.contract} on chain ${anchor.chain_id}.`,
  );
}

/* Checks that no endpoint has the address of the server whose bundle is checked. */
function checkEndpoints(urls, serverOrigins) {
  const origins = [...new Set(urls.map((url) => new URL(url).origin))];
  const shared = origins.find((origin) => serverOrigins.includes(origin));
  if (shared !== undefined) {
    const text = `The endpoint ${shared} belongs to the server that you check, which could return anything. Enter another endpoint.`;
    return makeCheck("Endpoint", null, text);
  }
  const text =
    origins.length === 1
      ? `The chain is read from ${origins[0]}. Its operator could return anything; enter a second endpoint of another provider to detect that.`
      : `The responses of ${origins.join(", ")} must agree.`;
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
    throw new Error(`${contract} is not an oracle contract: it returns nothing for ${signature}`);
  }
  return result.slice(2).match(/.{64}/g);
}

/* Returns [isTrue, reason] of a check for whose round the contract has no root. */
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

/* Checks that the contract has the root of the bundle for this round. */
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
  const isMatch = root === round.root;
  return makeCheck(
    "Root",
    isMatch,
    isMatch
      ? `The contract ${contract} has this root for round ${round.round}.`
      : `The contract ${contract} has the root ${root} for round ${round.round}, not ${round.root}.`,
  );
}

/* Returns the data that the `RoundAccepted` log of the round must have. */
function encodeAcceptance(round) {
  return [round.as_of, round.as_of_hash, round.root, round.config].map(encodeWord).join("");
}

/* Checks that the contract accepted this report: block, root, and the configuration digest (signers,
   quorum, rules hash). */
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
  const label = `round ${round.round} in block ${round.accepted_at.block}`;
  if (log === undefined) {
    return makeCheck("Acceptance", false, `The contract ${contract} did not accept ${label}.`);
  }
  const isMatch =
    log.data.slice(2, 2 + 4 * 64) === encodeAcceptance(round) &&
    (round.accepted_at.transaction ?? log.transactionHash) === log.transactionHash;
  return makeCheck(
    "Acceptance",
    isMatch,
    isMatch
      ? `The contract accepted ${label}, with this root, as-of block, and configuration of reporters and rules.`
      : `The contract accepted ${label}, but with another root, as-of block, configuration or transaction.`,
  );
}

/* Checks that the round is the newest one, or that the reader entered its number: an old round may
   contain another score. */
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
  const isMatch =
    Number(header.number) === round.as_of &&
    header.hash === round.as_of_hash &&
    (round.as_of_time === null || Number(header.timestamp) === round.as_of_time);
  return makeCheck(
    "As-of block",
    isMatch,
    isMatch
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

/* Checks the signatures in the transaction that sent the round to the contract. */
async function checkSentSignatures(bundle, request) {
  const { signed_round: round } = bundle;
  const { transaction } = round.accepted_at;
  const transactionData = transaction === null ? null : await request("eth_getTransactionByHash", transaction);
  const pushed =
    transactionData?.to?.toLowerCase() === round.contract
      ? decodePush(transactionData.input)
      : null;
  if (pushed === null || round.prev === null) {
    const text = "The transaction of the round does not call the contract directly, so its calldata has no signatures.";
    return makeCheck("Sent signatures", null, text, true);
  }
  const check = checkSignatures({ signed_round: { ...round, ...pushed } });
  return { ...check, name: "Sent signatures", is_optional: true };
}

/* Returns the checks of a bundle against the chain. `onProgress` is called with the number of the
   current block and the number of blocks. */
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

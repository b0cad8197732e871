"use strict";
/* The form "Sign and send": the owner's wallet (EIP-1193) signs an objection, and the reporter that
   serves this page sends it to the chain. No script is loaded, and no other server is contacted. */

function makeLine(text, className) {
  const line = document.createElement("p");
  line.textContent = text;
  if (className) {
    line.className = className;
  }
  return line;
}

function countBytes(text) {
  return new TextEncoder().encode(text).length;
}

function updateByteCount(form) {
  const maxBytes = Number(form.dataset.maxBytes);
  const words = form.elements.words;
  const length = countBytes(words.value);
  form.querySelector(".bytes").textContent = `${length} of ${maxBytes} bytes`;
  words.setCustomValidity(length > maxBytes ? `The text can have up to ${maxBytes} bytes.` : "");
}

function buildTypedData(form) {
  const data = JSON.parse(form.dataset.objection);
  const validSeconds = Number(form.elements.valid.value);
  data.message.reason = Number(form.elements.reason.value);
  data.message.words = form.elements.words.value;
  // The deadline counts from the block of this page.
  data.message.deadline += validSeconds;
  return data;
}

async function signTypedData(wallet, data) {
  const accounts = await wallet.request({ method: "eth_requestAccounts" });
  const node = data.message.node.toLowerCase();
  const account = accounts.find((candidate) => candidate.toLowerCase() === node);
  if (account === undefined) {
    throw new Error(`the wallet has not offered the account of the node, ${node}`);
  }
  return wallet.request({
    method: "eth_signTypedData_v4",
    params: [account, JSON.stringify(data)],
  });
}

async function postObjection(form, data, signature) {
  const { node, dueSince, words, seq, deadline } = data.message;
  const reason = form.elements.reason.selectedOptions[0].dataset.option;
  const body = { node, due_since: dueSince, reason, text: words, seq, deadline, signature };
  const response = await fetch("/v1/objections", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { isAccepted: response.status === 202, answer: await response.json() };
}

function makeOutcome({ isAccepted, answer }) {
  if (isAccepted) {
    const text = `✓ Accepted: this reporter sends objection ${answer.seq} to the chain.`;
    return [
      makeLine(text, "card calm"),
      makeLine("Once it is on the chain, this page shows it with the result of the automatic check.", "hint"),
    ];
  }
  const lines = [makeLine(`▲ Refused: ${answer.detail ?? answer.error}`, "card waits")];
  if (answer.calldata) {
    const code = document.createElement("code");
    code.textContent = answer.calldata;
    lines.push(makeLine("Any account can send this call:", ""), code);
  }
  return lines;
}

async function onObjectionSubmit(event) {
  event.preventDefault();
  const form = event.target;
  const [button, verdict] = [form.querySelector("button"), form.querySelector(".verdict")];
  button.disabled = true;
  let isAccepted = false;
  try {
    const data = buildTypedData(form);
    verdict.replaceChildren(makeLine("Sign the objection in your wallet …", "hint"));
    const signature = await signTypedData(window.ethereum, data);
    verdict.replaceChildren(makeLine("Sending the objection …", "hint"));
    const outcome = await postObjection(form, data, signature);
    isAccepted = outcome.isAccepted;
    verdict.replaceChildren(...makeOutcome(outcome));
  } catch (error) {
    verdict.replaceChildren(makeLine(`▲ Not sent: ${error.message}`, "card waits"));
  }
  button.disabled = isAccepted;
  button.focus();
}

document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form[data-objection]");
  if (form === null) {
    return;
  }
  if (window.ethereum === undefined) {
    document.getElementById("no-wallet").hidden = false;
    return;
  }
  form.hidden = false;
  form.elements.words.addEventListener("input", () => updateByteCount(form));
  updateByteCount(form);
  form.addEventListener("submit", onObjectionSubmit);
});

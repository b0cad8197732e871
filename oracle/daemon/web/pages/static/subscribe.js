"use strict";
/* Signs a request for notices with the wallet of the browser (EIP-1193), and sends it. */

const REQUEST_SECONDS = 600;

function showSubscription(text) {
  document.getElementById("subscribe-state").textContent = text;
}

async function signAndSubscribe(form) {
  const target = form.elements.target.value.trim();
  const response = await fetch("/v1/subscriptions");
  const { typed_data: data } = await response.json();
  data.message = {
    service: data.message.service,
    node: form.dataset.node,
    action: "subscribe",
    channel: target.includes("://") ? "webhook" : "mail",
    target,
    kinds: "",
    nonce: Date.now(),
    deadline: Math.floor(Date.now() / 1000) + REQUEST_SECONDS,
  };
  const [account] = await window.ethereum.request({ method: "eth_requestAccounts" });
  if (account.toLowerCase() !== form.dataset.node) {
    return `Select the node's account in the wallet; ${account} is selected.`;
  }
  const signature = await window.ethereum.request({
    method: "eth_signTypedData_v4",
    params: [account, JSON.stringify(data)],
  });
  const answer = await fetch("/v1/subscriptions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...data.message, signature }),
  });
  const result = await answer.json();
  if (!answer.ok) {
    return `Not subscribed: ${result.detail ?? result.error}`;
  }
  return result.secret
    ? `Subscribed. Your webhook now gets a challenge. Its secret, shown only now: ${result.secret}`
    : "Subscribed. Open the link in the mail that you get to confirm it.";
}

document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("subscribe");
  form.hidden = !window.ethereum;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    showSubscription("Waiting for the wallet …");
    try {
      showSubscription(await signAndSubscribe(form));
    } catch (error) {
      showSubscription(`Not subscribed: ${error.message}`);
    }
  });
});

"use strict";
/* Shows events of the watched nodes as notifications of the browser while a page is open. The
   choice stays in this browser, and the id of the last event in this tab. */

function isNotifying() {
  try {
    return localStorage.getItem("notify") === "on" && Notification.permission === "granted";
  } catch {
    return false;
  }
}

/* The button of a node is on only if the node is watched; the button of the list has no node. */
function isOnFor(node) {
  return isNotifying() && (!node || watchedNodes().includes(node));
}

function showNotifyButtons() {
  for (const button of document.querySelectorAll("[data-notify]")) {
    const isOn = isOnFor(button.dataset.notify);
    button.hidden = false;
    button.setAttribute("aria-pressed", String(isOn));
    button.textContent = isOn ? "Notifying" : "Notify me";
    button.title = isOn
      ? "This browser shows events of your watched nodes while a page is open"
      : "Show events of your watched nodes in this browser while a page is open";
    if (Notification.permission === "denied") {
      button.disabled = true;
      button.title = "Notifications are blocked for this site in the settings of the browser";
    }
  }
}

let notifyStream = null;

function showNotification(event) {
  sessionStorage.setItem("notify-after", event.lastEventId);
  const { kind, node, text } = JSON.parse(event.data);
  if (!watchedNodes().includes(node)) {
    return;
  }
  /* Two open tabs show an event once, because it has one tag. */
  new Notification(`QoS oracle: ${kind.replaceAll("_", " ")}`, {
    body: `${node} ${text.replace(/(\d+\.\d\d)\d{16}/g, "$1")}`,
    tag: event.lastEventId,
  }).onclick = () => {
    window.focus();
    location.href = `/nodes/${node}`;
  };
}

function followWatchedNodes() {
  notifyStream?.close();
  notifyStream = null;
  const nodes = watchedNodes();
  if (!isNotifying() || nodes.length === 0) {
    return;
  }
  const query = new URLSearchParams();
  if (nodes.length === 1) {
    query.set("node", nodes[0]);
  }
  const lastEventId = sessionStorage.getItem("notify-after");
  if (lastEventId) {
    query.set("after", lastEventId);
  }
  notifyStream = new EventSource(`/v1/events?${query}`);
  for (const kind of document.body.dataset.events.split(",")) {
    notifyStream.addEventListener(kind, showNotification);
  }
}

async function toggleNotifying(event) {
  const button = event.target.closest?.("[data-notify]");
  if (!button) {
    return;
  }
  const node = button.dataset.notify;
  const isOn = !isOnFor(node) && (await Notification.requestPermission()) === "granted";
  if (isOn && node && !watchedNodes().includes(node)) {
    storeWatched([...watchedNodes(), node]);
  }
  try {
    localStorage.setItem("notify", isOn ? "on" : "off");
  } catch {
    /* A browser without storage shows no notifications. */
  }
  sessionStorage.removeItem("notify-after");
  showNotifyButtons();
  followWatchedNodes();
}

if (window.Notification && window.EventSource) {
  document.addEventListener("DOMContentLoaded", () => {
    showNotifyButtons();
    followWatchedNodes();
  });
  document.addEventListener("click", toggleNotifying);
  document.addEventListener("watched", () => {
    showNotifyButtons();
    followWatchedNodes();
  });
}

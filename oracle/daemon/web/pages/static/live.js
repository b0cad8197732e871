"use strict";
/* Reloads the network page when the event stream reports an event. All data comes from the page
   itself, so a reorganisation needs no special handling. */

/* The minimum time between two reloads. */
const RELOAD_MS = 1000;
/* The maximum jitter, which spreads the requests of all viewers. */
const MAX_JITTER_MS = 200;
const ANNOUNCE_MS = 5000;

let stream = null;
let lastEventId = null;
let reloadTimer = null;
let reloadedAt = 0;
let announcedAt = 0;

function listEventRows() {
  return [...document.querySelectorAll("#feed [data-event]")];
}

let shownEvents = new Set();

function showLiveSign() {
  const liveSign = document.getElementById("is-live");
  if (liveSign) {
    liveSign.hidden = stream?.readyState !== EventSource.OPEN;
  }
}

function scheduleReload() {
  const wait = Math.max(0, reloadedAt + RELOAD_MS - Date.now());
  reloadTimer ??= setTimeout(() => {
    reloadTimer = null;
    reloadedAt = Date.now();
    document.getElementById("live")?.dispatchEvent(new CustomEvent("reload"));
  }, wait + Math.random() * MAX_JITTER_MS);
}

function onEvent(event) {
  lastEventId = event.lastEventId || lastEventId;
  scheduleReload();
}

function openStream() {
  const live = document.getElementById("live");
  lastEventId ??= live.dataset.lastEvent;
  stream = new EventSource(`/v1/events?after=${encodeURIComponent(lastEventId)}`);
  stream.addEventListener("open", showLiveSign);
  stream.addEventListener("error", showLiveSign);
  for (const kind of live.dataset.kinds.split(",")) {
    stream.addEventListener(kind, onEvent);
  }
}

/* A browser opens few connections to one host, so a hidden tab closes its stream. */
function onVisibility() {
  if (document.hidden) {
    stream?.close();
    stream = null;
    return;
  }
  if (stream === null) {
    openStream();
    scheduleReload();
  }
}

function onSwapped() {
  const freshRows = listEventRows().filter((row) => !shownEvents.has(row.dataset.event));
  for (const row of freshRows) {
    row.classList.add("fresh");
  }
  shownEvents = new Set(listEventRows().map((row) => row.dataset.event));
  showLiveSign();
  if (freshRows.length > 0 && Date.now() - announcedAt >= ANNOUNCE_MS) {
    announcedAt = Date.now();
    document.getElementById("announcement").textContent = freshRows[0].textContent;
  }
}

document.addEventListener("DOMContentLoaded", () => {
  if (!document.getElementById("live") || !window.EventSource) {
    return;
  }
  shownEvents = new Set(listEventRows().map((row) => row.dataset.event));
  document.addEventListener("visibilitychange", onVisibility);
  document.addEventListener("htmx:after:swap", onSwapped);
  onVisibility();
});

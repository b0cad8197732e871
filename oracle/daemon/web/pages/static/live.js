"use strict";
/* Reloads the network page when the event stream reports an event. All data comes from the page
   itself, so a reorganisation needs no special handling. */

/* The minimum time between two reloads. */
const RELOAD_MS = 1000;
/* Spreads the requests of all viewers. */
const SPREAD_MS = 200;
const SPEAK_MS = 5000;

let stream = null;
let place = null;
let due = null;
let reloadedAt = 0;
let spokenAt = 0;

function rows() {
  return [...document.querySelectorAll("#feed [data-event]")];
}

let seen = new Set();

function showState() {
  const sign = document.getElementById("is-live");
  if (sign) {
    sign.hidden = stream?.readyState !== EventSource.OPEN;
  }
}

function scheduleReload() {
  const wait = Math.max(0, reloadedAt + RELOAD_MS - Date.now());
  due ??= setTimeout(() => {
    due = null;
    reloadedAt = Date.now();
    document.getElementById("live")?.dispatchEvent(new CustomEvent("happened"));
  }, wait + Math.random() * SPREAD_MS);
}

function onEvent(event) {
  place = event.lastEventId || place;
  scheduleReload();
}

function listen() {
  const live = document.getElementById("live");
  place ??= live.dataset.place;
  stream = new EventSource(`/v1/events?after=${encodeURIComponent(place)}`);
  stream.addEventListener("open", showState);
  stream.addEventListener("error", showState);
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
    listen();
    scheduleReload();
  }
}

function onSwapped() {
  const fresh = rows().filter((row) => !seen.has(row.dataset.event));
  for (const row of fresh) {
    row.classList.add("fresh");
  }
  seen = new Set(rows().map((row) => row.dataset.event));
  showState();
  if (fresh.length > 0 && Date.now() - spokenAt >= SPEAK_MS) {
    spokenAt = Date.now();
    document.getElementById("said").textContent = fresh[0].textContent;
  }
}

document.addEventListener("DOMContentLoaded", () => {
  if (!document.getElementById("live") || !window.EventSource) {
    return;
  }
  seen = new Set(rows().map((row) => row.dataset.event));
  document.addEventListener("visibilitychange", onVisibility);
  document.addEventListener("htmx:after:swap", onSwapped);
  onVisibility();
});

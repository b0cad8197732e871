"use strict";
/* Optional features of every page: the pages can be read without scripts. */

const THEMES = ["auto", "light", "dark"];
/* The list of nodes accepts this many addresses in a link. */
const MAX_WATCHED = 200;

function storedTheme() {
  try {
    return localStorage.getItem("theme") || "auto";
  } catch {
    return "auto";
  }
}

function showTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  if (button) {
    button.hidden = false;
    button.setAttribute("aria-label", `Colours: ${theme}. Change`);
  }
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
  try {
    localStorage.setItem("theme", next);
  } catch {
    /* The theme is kept for this page only. */
  }
  showTheme(next);
}

function onKey(event) {
  const search = document.getElementById("search");
  const typing = event.target.closest?.("input, textarea, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    search.focus();
  }
  if (event.key === "Escape" && typing) {
    event.target.blur();
  }
}

async function copy(event) {
  const button = event.target.closest?.("[data-copy]");
  if (button) {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  }
}

/* The watched addresses stay in this browser; the page of the list has them in its address. */
function watchedNodes() {
  try {
    return (localStorage.getItem("watched") || "").split(",").filter(Boolean);
  } catch {
    return [];
  }
}

function storeWatched(nodes) {
  try {
    localStorage.setItem("watched", nodes.slice(-MAX_WATCHED).join(","));
  } catch {
    /* A browser without storage watches nothing. */
  }
  showWatched();
  document.dispatchEvent(new CustomEvent("watched"));
}

function showWatched() {
  const nodes = watchedNodes();
  const link = document.getElementById("watched");
  if (link) {
    link.hidden = nodes.length === 0;
    link.href = `/nodes?of=${nodes.join(",")}`;
    link.textContent = `Watched (${nodes.length})`;
  }
  for (const button of document.querySelectorAll("[data-watch]")) {
    const isWatched = nodes.includes(button.dataset.watch);
    button.hidden = false;
    button.setAttribute("aria-pressed", String(isWatched));
    button.textContent = isWatched ? "Watched" : "Watch";
  }
}

function toggleWatched(event) {
  const node = event.target.closest?.("[data-watch]")?.dataset.watch;
  if (node === undefined) {
    return;
  }
  const nodes = watchedNodes();
  storeWatched(
    nodes.includes(node) ? nodes.filter((other) => other !== node) : [...nodes, node],
  );
}

/* Shows times in the reader's zone; the title keeps the time in UTC, as logs and exports have it. */
function showLocalTimes(root) {
  if (Intl.DateTimeFormat().resolvedOptions().timeZone === "UTC") {
    return;
  }
  const format = new Intl.DateTimeFormat("en-GB", {
    day: "2-digit",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    timeZoneName: "short",
  });
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    time.title = time.textContent;
    time.textContent = format.format(new Date(time.dateTime));
  }
}

/* The age of the data by the reader's clock, if no daemon adds blocks; younger data are current. */
const MAX_CURRENT_SECONDS = 600;
const DURATIONS = [
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
];

function showAges(root) {
  for (const element of root.querySelectorAll("[data-until]")) {
    if (Date.parse(element.dataset.until) <= Date.now()) {
      element.textContent = " (passed)";
    }
  }
  for (const element of root.querySelectorAll("[data-age-of]")) {
    const seconds = (Date.now() - Date.parse(element.dataset.ageOf)) / 1_000;
    if (seconds > MAX_CURRENT_SECONDS) {
      const [unit, name] = DURATIONS.find(([size]) => seconds >= size);
      const count = Math.floor(seconds / unit);
      element.textContent = ` (${count} ${name}${count === 1 ? "" : "s"} ago)`;
    }
  }
}

/* A link to a row of a folded table opens the table. */
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  for (let place = target?.closest("details"); place; place = place.parentElement.closest("details")) {
    place.open = true;
  }
  target?.scrollIntoView();
}

showTheme(storedTheme());
document.addEventListener("DOMContentLoaded", () => {
  showTheme(storedTheme());
  showWatched();
  showLocalTimes(document);
  showAges(document);
  document.getElementById("theme")?.addEventListener("click", nextTheme);
  if (window.matchMedia("(min-width: 620px)").matches) {
    for (const details of document.querySelectorAll("details[data-open-when-wide]")) {
      details.open = true;
    }
  }
  openTarget();
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = !navigator.clipboard;
  }
});
window.addEventListener("hashchange", openTarget);
document.addEventListener("keydown", onKey);
document.addEventListener("click", copy);
document.addEventListener("click", toggleWatched);
document.addEventListener("htmx:after:swap", () => {
  showLocalTimes(document);
  showAges(document);
});

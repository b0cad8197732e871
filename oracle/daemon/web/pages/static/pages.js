"use strict";
/* Optional features of every page: the pages can be read without scripts. */

const THEMES = ["auto", "light", "dark"];

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

showTheme(storedTheme());
document.addEventListener("DOMContentLoaded", () => {
  showTheme(storedTheme());
  document.getElementById("theme")?.addEventListener("click", nextTheme);
  if (window.matchMedia("(min-width: 620px)").matches) {
    for (const details of document.querySelectorAll("details[data-open-when-wide]")) {
      details.open = true;
    }
  }
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = !navigator.clipboard;
  }
});
document.addEventListener("keydown", onKey);
document.addEventListener("click", copy);

"use strict";
/* Replays the ranking of the network page over the rounds: a slider, and a button that moves it. Rows
   slide to their new positions, unless the reader prefers reduced motion. */

const STEP_MS = 700;
const LOWEST_SCORE = 2;
const LANE_STEPS = 10_000;

const parseNumbers = (text) => text.split(" ").map(Number);

function describeRound(ranking, index) {
  const round = parseNumbers(ranking.dataset.rounds)[index];
  const time = new Date(parseNumbers(ranking.dataset.times)[index] * 1000);
  return `round ${round}, ${time.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/* The rank of a node that cannot be selected is 0; such nodes come last. */
function showRound(ranking, index) {
  const rows = [...ranking.children];
  const tops = new Map(rows.map((row) => [row, row.getBoundingClientRect().top]));
  const getRank = (row) => parseNumbers(row.dataset.ranks)[index] || Infinity;
  for (const row of rows) {
    const lane = parseNumbers(row.dataset.lanes)[index];
    const qos = Math.floor((lane - LOWEST_SCORE) / (LANE_STEPS / 100)) / 100;
    row.querySelector(".rank").textContent = Number.isFinite(getRank(row)) ? getRank(row) : "–";
    row.querySelector("b").textContent = lane < LOWEST_SCORE ? "–" : qos.toFixed(2);
  }
  ranking.append(...rows.sort((a, b) => (getRank(a) > getRank(b)) - (getRank(a) < getRank(b))));
  if (!window.matchMedia("(prefers-reduced-motion: reduce)").matches) {
    for (const row of rows) {
      const shift = tops.get(row) - row.getBoundingClientRect().top;
      row.animate([{ transform: `translateY(${shift}px)` }, { transform: "none" }], STEP_MS / 2);
    }
  }
  for (const line of document.querySelectorAll("#timeline .now-line")) {
    const x = line.dataset.xs.split(" ")[index];
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const ranking = document.getElementById("ranking");
  const controls = document.getElementById("replay");
  if (!ranking || !controls) {
    return;
  }
  const button = controls.querySelector("button");
  const slider = controls.querySelector("input");
  const output = controls.querySelector("output");
  let timer = null;

  function show() {
    const text = describeRound(ranking, slider.valueAsNumber);
    output.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    showRound(ranking, slider.valueAsNumber);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    button.setAttribute("aria-label", "Play");
  }

  function step() {
    slider.valueAsNumber += 1;
    show();
    if (slider.value === slider.max) {
      stop();
    }
  }

  slider.addEventListener("input", () => {
    stop();
    show();
  });
  button.addEventListener("click", () => {
    if (timer !== null) {
      stop();
      return;
    }
    if (slider.value === slider.max) {
      slider.value = slider.min;
      show();
    }
    button.setAttribute("aria-label", "Pause");
    timer = setInterval(step, STEP_MS);
  });
  output.textContent = describeRound(ranking, slider.valueAsNumber);
  controls.hidden = false;
});

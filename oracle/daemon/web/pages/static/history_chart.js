"use strict";
/* Adds an interactive chart of a node's score history on request, with zoom, cursor and values. The
   server's drawing stays, because its marks are links and it needs no script. */

const LEAST_WIDTH = 280;
const HEIGHT = 300;
const COLUMNS = { time: 0, qos: 1, longTerm: 2, reliability: 3 };

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function series(label, stroke, width, dash) {
  return {
    label,
    stroke: () => colour(stroke),
    width,
    dash,
    points: { show: false },
    value: (_, value) => (value === null ? "" : value.toFixed(4)),
  };
}

function axis(more) {
  const lines = { stroke: () => colour("--line"), width: 1 };
  return { stroke: () => colour("--ink2"), grid: lines, ticks: lines, ...more };
}

function options(width) {
  return {
    width,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    scales: { y: { range: [0, 1] } },
    axes: [axis({}), axis({ size: 44 })],
    series: [
      { label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
      series("QoS", "--selectable", 2.4),
      series("long-term", "--long-term", 1.8, [5, 4]),
      series("reliability", "--reliability", 1.3),
    ],
  };
}

function columns(rows) {
  /* Two points in one second are a step; the later one is moved, so that the times ascend. */
  const columnValues = [[], [], [], []];
  let last = -Infinity;
  for (const row of rows) {
    const time = row[COLUMNS.time] > last ? row[COLUMNS.time] : last + 0.001;
    last = time;
    columnValues[0].push(time);
    for (const column of [COLUMNS.qos, COLUMNS.longTerm, COLUMNS.reliability]) {
      columnValues[column].push(Number(row[column]));
    }
  }
  return columnValues;
}

async function draw(place) {
  const answer = await fetch(place.dataset.history);
  const history = answer.ok ? await answer.json() : { rows: [] };
  if (history.rows.length === 0) {
    return false;
  }
  const width = () => Math.max(LEAST_WIDTH, place.clientWidth);
  const chart = new uPlot(options(width()), columns(history.rows), place);
  new ResizeObserver(() => chart.setSize({ width: width(), height: HEIGHT })).observe(place);
  return true;
}

document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("course");
  const button = document.getElementById("closer");
  if (!place || !button || !window.uPlot) {
    return;
  }
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    const isDrawn = await draw(place).catch(() => false);
    button.hidden = isDrawn;
    button.disabled = false;
    button.textContent = isDrawn ? button.textContent : "Loading failed. Try again";
  });
});

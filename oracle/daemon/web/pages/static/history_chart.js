"use strict";
/* Adds an interactive chart of a node's score history on request, with zoom, cursor and values. The
   chart of the server stays, because its markers are links and it needs no script. */

const MIN_WIDTH = 280;
const HEIGHT = 300;
const COLUMNS = { time: 0, qos: 1, longTerm: 2, reliability: 3 };

function readColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function buildSeries(label, stroke, width, dash) {
  return {
    label,
    stroke: () => readColour(stroke),
    width,
    dash,
    points: { show: false },
    value: (_, value) => (value === null ? "" : value.toFixed(4)),
  };
}

function buildAxis(extra) {
  const lines = { stroke: () => readColour("--line"), width: 1 };
  return { stroke: () => readColour("--ink2"), grid: lines, ticks: lines, ...extra };
}

function buildOptions(width) {
  return {
    width,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    scales: { y: { range: [0, 1] } },
    axes: [buildAxis({}), buildAxis({ size: 44 })],
    series: [
      { label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
      buildSeries("QoS", "--selectable", 2.4),
      buildSeries("long-term", "--long-term", 1.8, [5, 4]),
      buildSeries("reliability", "--reliability", 1.3),
    ],
  };
}

function buildColumns(rows) {
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

async function drawChart(container) {
  const response = await fetch(container.dataset.history);
  const history = response.ok ? await response.json() : { rows: [] };
  if (history.rows.length === 0) {
    return false;
  }
  const width = () => Math.max(MIN_WIDTH, container.clientWidth);
  const chart = new uPlot(buildOptions(width()), buildColumns(history.rows), container);
  new ResizeObserver(() => chart.setSize({ width: width(), height: HEIGHT })).observe(container);
  return true;
}

document.addEventListener("DOMContentLoaded", () => {
  const container = document.getElementById("score-history");
  const button = document.getElementById("show-chart");
  if (!container || !button || !window.uPlot) {
    return;
  }
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    const isDrawn = await drawChart(container).catch(() => false);
    button.hidden = isDrawn;
    button.disabled = false;
    button.textContent = isDrawn ? button.textContent : "Loading failed. Try again";
  });
});

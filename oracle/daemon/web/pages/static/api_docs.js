// Renders the API reference from the schema of this server; nothing is loaded from elsewhere.
"use strict";

const reference = document.getElementById("reference");
/* Redoc colours its samples for a dark ground; these are the dark colours of pages.css. */
const PANEL = { ground: "#161f29", code: "#0e141b", ink: "#e9eef3", soft: "#a8b5c2", good: "#4fd1a5", bad: "#ffb48a" };
const darkScheme = matchMedia("(prefers-color-scheme: dark)");

/* Redoc computes with colours, so it needs the values behind the names of pages.css. */
function readTheme() {
  const styles = getComputedStyle(document.documentElement);
  const colour = (name) => styles.getPropertyValue(`--${name}`).trim();
  const fonts = getComputedStyle(document.body).fontFamily;
  const codeFonts = getComputedStyle(document.querySelector("#reference code")).fontFamily;
  return {
    spacing: { unit: 5, sectionHorizontal: 28, sectionVertical: 20 },
    breakpoints: { small: "50rem", medium: "62rem", large: "75rem" },
    colors: {
      primary: { main: colour("link") },
      success: { main: colour("good") },
      warning: { main: colour("recovering-text") },
      error: { main: colour("excluded-text") },
      gray: { 50: colour("soft"), 100: colour("line") },
      text: { primary: colour("ink"), secondary: colour("ink2") },
      border: { dark: colour("line"), light: colour("line") },
      responses: {
        success: { color: colour("good"), backgroundColor: colour("soft"), tabTextColor: PANEL.good },
        error: { color: colour("excluded-text"), backgroundColor: colour("soft"), tabTextColor: PANEL.bad },
        redirect: { color: colour("ink2"), backgroundColor: colour("soft"), tabTextColor: PANEL.soft },
        info: { color: colour("ink2"), backgroundColor: colour("soft"), tabTextColor: PANEL.soft },
      },
      http: { get: colour("selectable"), post: colour("good") },
    },
    schema: {
      linesColor: colour("line"),
      nestedBackground: colour("soft"),
      typeNameColor: colour("ink2"),
      typeTitleColor: colour("ink2"),
      requireLabelColor: colour("excluded-text"),
    },
    typography: {
      fontFamily: fonts,
      fontSize: "1rem",
      lineHeight: "1.5",
      headings: { fontFamily: fonts, fontWeight: "650" },
      code: { fontFamily: codeFonts, fontSize: ".875rem", color: colour("ink"), backgroundColor: colour("soft"), wrap: true },
      links: { color: colour("link"), visited: colour("link"), hover: colour("link") },
    },
    sidebar: {
      width: "17rem",
      backgroundColor: colour("card"),
      textColor: colour("ink"),
      activeTextColor: colour("link"),
    },
    rightPanel: { backgroundColor: PANEL.ground, textColor: PANEL.ink, width: "38%" },
    codeBlock: { backgroundColor: PANEL.code },
  };
}

function draw() {
  // A code element shows which font the pages use for code.
  reference.replaceChildren(document.createElement("code"));
  const theme = readTheme();
  const container = document.createElement("div");
  reference.replaceChildren(container);
  // The search index would need a worker, which the page's policy forbids.
  const options = { disableSearch: true, hideDownloadButton: true, nativeScrollbars: true, theme };
  Redoc.init(reference.dataset.schema, options, container);
}

draw();
darkScheme.addEventListener("change", draw);
new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });

// What the figures of a page have in common: their JSON, colours, symbols and how a number is written. Every number,
// bound, tick and word was decided in Python; nothing is computed in these files but pixels. They are set into each page
// one after the other, and share their names.
"use strict";

const figures = JSON.parse(document.getElementById("figure-data").textContent);
const root = document.documentElement;
const css = name => getComputedStyle(root).getPropertyValue(name).trim();
const FONT = getComputedStyle(document.body).fontFamily;

// Group -> palette number; the same group has the same colour in every figure.
const COLOR = {
  search: 1, confirm: 3, prune: 7, effect: 2, rival: 6, arm: 1, cell: 1, best: "ink", baseline: "muted",
  throughput: 1, p50: 3, p95: 2, p99: 6, usr: 1, sys: 2, irq: 7, iowait: 6, steal: 4, foreign: "ink",
  CPU: 3, IO: 1, LWLock: 6, Lock: 7, IPC: 5, Client: 4, Timeout: 8, other: 8,
  hit: 3, read: 2, wal: 1, read0: 1, written0: 6, read1: 5, written1: 2, pair: 1, interval: "ink", total: "ink",
  keep: 3, drop: 6, null: 8, A: 1, B: 2, pause: 8, rest: "muted", checkpoint: "ink", vacuum: 3, guard: 6,
};
const CURVES = [1, 6, 3, 7, "ink", 8, 2, 5];
const CURVE_SYMBOLS = ["circle", "diamond", "triangle", "rect", "roundRect", "pin"];
const CURVE_DASHES = ["solid", [7, 3], [2, 2], [9, 3, 2, 3]];
const SYMBOL = {
  baseline: "circle", search: "circle", confirm: "diamond", prune: "triangle", effect: "rect",
  arm: "circle", cell: "circle", best: "roundRect", rival: "path://M0,0 L10,0 L5,9 Z",
};
const CROSS = "path://M0,1 L1,0 L5,4 L9,0 L10,1 L6,5 L10,9 L9,10 L5,6 L1,10 L0,9 L4,5 Z";
const HATCHED = new Set(["sys", "iowait", "IO", "Lock", "Client", "other", "read"]);
const DASH = { p95: [7, 3], p99: [2, 2], foreign: [3, 3], written0: [5, 3], written1: [5, 3] };
const LINE_DASH = { checkpoint: [4, 3], checkpoint_done: [4, 3], autovacuum: [1, 3], limit: [6, 3] };

const palette = key => css(typeof key === "number" ? `--c${key}` : `--${key}`);
const colorOf = group => palette(COLOR[group] ?? 6);
// A sheet of paper takes lower charts than a screen.
const sheet = height => (root.classList.contains("printing") ? Math.round(height * 0.78) : height);
const number = value => (value == null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 4 }));
const place = value => (Number.isInteger(value) ? value.toLocaleString("en") : value.toLocaleString("en", { maximumSignificantDigits: 3 }));
// A ratio and a percentage are told at every tick, any other unit once, beside the name of the axis.
const suffix = unit => ({ x: "x", "%": " %" })[unit] ?? "";
const axisName = axis => (suffix(axis.unit) || !axis.unit ? axis.label : [axis.label, axis.unit].filter(Boolean).join(", "));
const escaped = text => text.replace(/[{}|]/g, " ");

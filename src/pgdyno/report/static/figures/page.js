// Draws all figures of the page, again when its width, its colours or its paper change, and fills what is opened.
"use strict";

const charts = [];
function drawAll() {
  charts.splice(0).forEach(chart => chart.dispose());
  for (const host of document.querySelectorAll("[data-figure]")) {
    const figure = figures[host.dataset.figure];
    host.replaceChildren();
    if (figure.kind === "timeline") strip(host, figure);
    else charts.push(({ history: trialHistory, bars, staircase, lines, tracks })[figure.kind]?.(host, figure) ?? rows(host, figure));
  }
  root.dataset.drawn = document.querySelectorAll("[data-figure] canvas").length;
}

function addCopyButtons() {
  for (const box of document.querySelectorAll(".snippet")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const code = box.querySelector("code");
      getSelection().selectAllChildren(code);
      await navigator.clipboard.writeText(code.textContent).then(() => { button.textContent = "Copied"; }, () => { button.textContent = "Selected"; });
    });
    box.append(button);
  }
}

// The numbers of every second are put into the page only when somebody opens the table of a strip.
function fillOnDemand(details, figure) {
  details.addEventListener("toggle", () => {
    if (!details.open || details.dataset.filled) return;
    details.dataset.filled = "yes";
    const table = document.createElement("table");
    const add = (cells, tag) => {
      const row = table.insertRow();
      for (const text of cells) { const cell = document.createElement(tag); cell.className = "number"; cell.textContent = text; if (tag === "th") cell.scope = "col"; row.append(cell); }
    };
    add(["s", ...figure.series.map(one => one.name)], "th");
    figure.t.forEach((t, at) => add([number(t), ...figure.series.map(one => number(one.y[at]))], "td"));
    details.querySelector(".scroll").append(table);
  });
}

for (const host of document.querySelectorAll("figure.strip [data-figure]")) {
  const details = host.parentElement.querySelector("details");
  if (details) fillOnDemand(details, figures[host.dataset.figure]);
}
addCopyButtons();
drawAll();

let width = root.clientWidth, waiting = 0;
addEventListener("resize", () => {
  if (root.clientWidth === width) return;
  width = root.clientWidth;
  clearTimeout(waiting);
  waiting = setTimeout(drawAll, 120);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
addEventListener("beforeprint", () => {
  root.classList.add("printing");
  document.querySelectorAll(".chart details, details.fold, details.card").forEach(one => { one.open = true; });
  drawAll();
});
addEventListener("afterprint", () => { root.classList.remove("printing"); drawAll(); });

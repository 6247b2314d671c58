// Keeps the first page current, and the card on the page of a study that runs: patches pieces of HTML that the server made
// into it, and draws its figures. Every number and word was decided in Python; nothing is computed here but pixels.
"use strict";
(() => {
  const root = document.documentElement;
  const css = name => getComputedStyle(root).getPropertyValue(name).trim();
  const FONT = getComputedStyle(document.body).fontFamily;
  // Places of a point's figures in its row, as the server sends them: t, tps, p99_ms, cpu_pct, memory_pct, iops, disk_mb_per_s.
  const STRIPS = [
    ["throughput", "tps", 1, "--c1"], ["p99 latency", "ms", 2, "--c6"], ["CPU busy", "%", 3, "--c2", [0, 100]],
    ["memory in use", "%", 4, "--c7", [0, 100]], ["busiest disk", "IOPS", 5, "--c3"], ["busiest disk", "MB/s", 6, "--c5"],
  ];
  const HEIGHT = 92;

  const shown = new WeakMap();

  function swap(host, html) {
    if (!host || shown.get(host) === html) return;
    const wanted = document.createElement("template");
    wanted.innerHTML = html;
    patch(host, wanted.content);
    shown.set(host, html);
  }

  const same = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName
    && (one.nodeType !== Node.ELEMENT_NODE || one.dataset.key === other.dataset.key);

  // Makes the children of `host` those of `wanted` and touches only what differs: focus, selection and scrolling stay, and
  // what the reader has opened, which the server never says.
  function patch(host, wanted) {
    let here = host.firstChild;
    for (const node of [...wanted.childNodes]) {
      const keyed = node.dataset?.key !== undefined;
      let found = here;
      while (found && !same(found, node)) found = keyed || found.nodeType !== node.nodeType ? found.nextSibling : null;
      if (!found) { host.insertBefore(node, here); continue; }
      while (here !== found) { const gone = here; here = here.nextSibling; gone.remove(); }
      here = found.nextSibling;
      if (found.nodeType !== Node.ELEMENT_NODE) {
        if (found.nodeValue !== node.nodeValue) found.nodeValue = node.nodeValue;
        continue;
      }
      for (const { name } of [...found.attributes]) if (name !== "open" && !node.hasAttribute(name)) found.removeAttribute(name);
      for (const { name, value } of node.attributes) if (found.getAttribute(name) !== value) found.setAttribute(name, value);
      patch(found, node);
    }
    while (here) { const gone = here; here = here.nextSibling; gone.remove(); }
  }

  const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

  const axis = () => ({ stroke: css("--muted"), font: `11px ${FONT}`, grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false } });

  /** Second by second, a value between two gaps is no line: it is drawn as a dot. */
  function dotted(plot, place) {
    const values = plot.data[place];
    return values.flatMap((one, at) => one != null && values[at - 1] == null && values[at + 1] == null ? [at] : []);
  }

  function chart(host, series, x, range) {
    return new uPlot({
      width: Math.max(120, host.clientWidth), height: HEIGHT + (x.time ? 0 : 60), legend: { show: false },
      cursor: { y: false, points: { size: 5 } }, padding: [6, 8, 0, 0],
      scales: { x, y: { range: (_, lo, hi) => range ?? [0, (hi ?? 0) > 0 ? hi * 1.1 : 1] } },
      axes: [{ ...axis(), size: 22, space: 60, ...(x.time && { values: (_, ticks) => ticks.map(one => clock.format(1000 * one)) }) }, { ...axis(), size: 46, space: 26, values: (_, ticks) => ticks.map(one => one.toLocaleString("en", { notation: "compact" })) }],
      series: [{}, ...series],
    }, [[], ...series.map(() => [])], host);
  }

  class Card {
    constructor(html) {
      const holder = document.createElement("template");
      holder.innerHTML = html;
      this.section = holder.content.firstElementChild;
    }

    adopt(section) { this.section = section; return this; }

    part(name) { return this.section.querySelector(`[data-part="${name}"]`); }

    draw() {
      const host = this.part("strips");
      this.strips = [];
      if (!host) return; // a study of others' load has no figures of its own
      this.strips = STRIPS.map(([name, known, place, color, range]) => {
        const unit = known === "tps" ? host.dataset.rate : known;
        const figure = host.appendChild(document.createElement("figure"));
        figure.setAttribute("aria-label", `${name}, ${unit}`);
        figure.appendChild(document.createElement("figcaption")).textContent = `${name}, ${unit}`;
        const canvas = figure.appendChild(document.createElement("div"));
        const line = { stroke: css(color), width: 1.6, points: { show: false, filter: dotted, size: 5, width: 0, fill: css(color) }, spanGaps: false };
        return { figure, place, plot: chart(canvas, [line], { time: true }, range) };
      });
      const dots = (stroke, fill) => ({ stroke: "transparent", points: { show: true, size: 7, width: 1.5, stroke, fill } });
      this.history = chart(this.part("history"), [dots(css("--muted"), css("--panel")), dots(css("--c1"), css("--c1"))], { time: false });
    }

    show(card) {
      swap(this.part("head"), card.head);
      swap(this.part("desk"), card.desk);
      swap(this.part("detail"), card.detail);
      swap(this.part("trials"), card.trials);
      const t = card.points.map(point => point[0]);
      for (const { figure, place, plot } of this.strips) {
        const values = card.points.map(point => point[place]);
        figure.hidden = t.length > 0 && values.every(value => value === null);
        plot.setData([t, values]);
      }
      this.history?.setData([card.history.number, card.history.baseline, card.history.others]);
    }

    resize() {
      for (const plot of [...this.strips.map(one => one.plot), this.history].filter(Boolean)) {
        plot.setSize({ width: Math.max(120, plot.root.parentElement.clientWidth), height: plot.height });
      }
    }
  }

  const cards = new Map();
  const running = document.getElementById("running");
  /** The study whose page this is; undefined on the first page, which has all. */
  const alone = running.dataset.alone === undefined ? undefined : running.firstElementChild.dataset.study;

  function show(front) {
    if (alone !== undefined) {
      front.cards = front.cards.filter(card => card.study === alone);
      if (!front.cards.length) { // it has ended: its page has the result now
        source.close();
        location.reload();
        return;
      }
    }
    for (const name of ["alerts", "queue", "studies"]) swap(document.getElementById(name), front[name]);
    const present = new Set(front.cards.map(card => card.study));
    for (const [study, card] of cards) {
      if (!present.has(study)) { card.section.remove(); cards.delete(study); }
    }
    for (const one of front.cards) {
      let card = cards.get(one.study);
      if (!card) {
        const there = [...running.children].find(section => section.dataset.study === one.study);
        card = new Card(one.html);
        if (there) card.adopt(there); else running.append(card.section);
        card.draw();
        cards.set(one.study, card);
      }
      card.show(one);
    }
    for (const section of [...running.children]) if (!present.has(section.dataset.study)) section.remove();
    if (alone === undefined) {
      document.getElementById("idle").hidden = present.size > 0;
      document.title = front.title;
    }
    contact(front.at, false);
  }

  function contact(text, lost) {
    const line = document.getElementById("contact");
    line.textContent = text;
    line.classList.toggle("lost", lost);
    if (lost) line.setAttribute("role", "alert"); else line.removeAttribute("role");
  }

  const source = new EventSource("/events");
  source.addEventListener("overview", event => show(JSON.parse(event.data)));
  source.addEventListener("refused", event => contact(JSON.parse(event.data), true));
  source.addEventListener("error", () => contact("The connection to pgdyno serve is lost; what is shown is old. Trying again.", true));
  window.addEventListener("resize", () => { for (const card of cards.values()) card.resize(); });
})();

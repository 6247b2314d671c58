// Draws the figures of the page from its JSON. Every number, bound, tick and word was decided in Python; nothing is
// computed here but pixels. The x axis is time: uPlot. It is anything else: ECharts, on canvas, with text tooltips.
// One file past 400 lines: it is set whole into each page, whose policy admits scripts by hash, and has no bundler.
"use strict";
(() => {
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
    keep: 3, drop: 6, null: 8,
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

  // Of two neighbours in a stack one is hatched, so that they differ without colour.
  function areaFill(color, group) {
    if (!HATCHED.has(group)) return color;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.fillStyle = color;
    pen.fillRect(0, 0, 6, 6);
    pen.strokeStyle = css("--page");
    pen.globalAlpha = 0.55;
    pen.beginPath();
    for (const shift of [-6, 0, 6]) { pen.moveTo(shift, 6); pen.lineTo(shift + 6, 0); }
    pen.stroke();
    return pen.createPattern(tile, "repeat");
  }

  // ---- time strips -----------------------------------------------------------------------------------------------

  function shadePhases(figure) {
    return u => {
      const pen = u.ctx;
      pen.save();
      for (const band of figure.bands) {
        const from = u.valToPos(band.lo, "x", true), to = u.valToPos(band.hi, "x", true);
        const left = Math.max(from, u.bbox.left), right = Math.min(to, u.bbox.left + u.bbox.width);
        if (right <= left) continue;
        pen.fillStyle = css("--warmup");
        pen.fillRect(left, u.bbox.top, right - left, u.bbox.height);
      }
      pen.restore();
    };
  }

  function drawMarks(figure) {
    return u => {
      const pen = u.ctx, ratio = devicePixelRatio, { left, top, width, height } = u.bbox;
      pen.save();
      pen.beginPath();
      pen.rect(left, top - 8 * ratio, width, height + 8 * ratio);
      pen.clip();
      pen.font = `${11 * ratio}px ${FONT}`;
      for (const mark of figure.marks) {
        const at = u.valToPos(mark.at, mark.axis, true), upright = mark.axis === "x";
        pen.strokeStyle = pen.fillStyle = css("--ink");
        pen.globalAlpha = upright ? 0.6 : 0.9;
        pen.lineWidth = ratio;
        pen.setLineDash((LINE_DASH[mark.kind] ?? []).map(length => length * ratio));
        pen.beginPath();
        pen.moveTo(upright ? at : left, upright ? top : at);
        pen.lineTo(upright ? at : left + width, upright ? top + height : at);
        pen.stroke();
        if (!upright) {
          const wide = pen.measureText(mark.label).width;
          pen.fillStyle = css("--page");
          pen.fillRect(left + width - wide - 10 * ratio, at - 17 * ratio, wide + 8 * ratio, 15 * ratio);
          pen.fillStyle = css("--ink");
          pen.textAlign = "right";
          pen.fillText(mark.label, left + width - 6 * ratio, at - 6 * ratio);
        } else {
          pen.beginPath();
          pen.setLineDash([]);
          pen.moveTo(at - 4 * ratio, top - 6 * ratio);
          pen.lineTo(at + 4 * ratio, top - 6 * ratio);
          pen.lineTo(at, top);
          pen.fill();
        }
      }
      pen.restore();
    };
  }

  function strip(host, figure) {
    const areas = figure.series.filter(one => one.style === "area").reverse();
    const shown = [...areas, ...figure.series.filter(one => one.style !== "area")];
    const last = figure.x.label !== "", { t, y } = figure;
    const few = t.length <= 40;
    const axis = { stroke: css("--muted"), font: `11px ${FONT}`, grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false } };
    const series = shown.map(one => {
      const color = colorOf(one.group), area = one.style === "area";
      return {
        label: one.name, width: area ? 0.5 : 1.4, stroke: area ? css("--page") : color, dash: DASH[one.group],
        fill: area ? areaFill(color, one.group) : undefined, points: { show: few && !area, size: 5, width: 0, fill: color }, spanGaps: false,
        value: (u, drawn, si, at) => (at == null ? "" : number(one.y[at])),
      };
    });
    const whole = (min, max) => min === t[0] && max === t[t.length - 1];
    new uPlot({
      width: host.clientWidth, height: last ? 168 : 136, padding: [9, 10, 0, 0],
      cursor: { sync: { key: figure.group }, drag: { x: true, y: false }, points: { size: 5 } },
      scales: {
        x: { time: false, range: (u, min, max) => (whole(min, max) ? [figure.x.lo, figure.x.hi] : [min, max]) },
        y: { distr: y.scale === "log" ? 3 : 1, range: [y.lo, y.hi] },
      },
      axes: [
        { ...axis, size: last ? 22 : 6, label: last ? figure.x.label : undefined, labelSize: 16, labelFont: axis.font, labelGap: 0,
          values: last ? (u, at) => at.map(number) : (u, at) => at.map(() => ""), gap: 3 },
        { ...axis, size: 52, gap: 5, splits: () => y.ticks, filter: (u, at) => at, values: (u, at) => at.map(number) },
      ],
      series: [{ label: " ", value: (u, at) => (at == null ? "" : `${number(at)} s`) }, ...series],
      legend: { markers: { width: 2, stroke: (u, i) => colorOf(shown[i - 1].group), fill: (u, i) => (shown[i - 1].style === "area" ? colorOf(shown[i - 1].group) : "transparent"), dash: "solid" } },
      hooks: { drawClear: [shadePhases(figure)], draw: [drawMarks(figure)] },
    }, [t, ...shown.map(one => (one.style === "area" ? one.hi : one.y))], host);
    host.querySelector(".u-legend")?.setAttribute("role", "presentation"); // laid out as a table, and none
  }

  // ---- everything else -------------------------------------------------------------------------------------------

  function base(figure) {
    const ink = css("--ink"), muted = css("--muted");
    const value = {
      type: figure.y.scale === "log" ? "log" : "value", min: figure.y.lo, max: figure.y.hi, name: axisName(figure.y), nameLocation: "middle",
      nameTextStyle: { color: muted, fontSize: 12 }, axisLine: { onZero: false, show: true, lineStyle: { color: muted } },
      axisLabel: { color: muted, formatter: at => `${number(at)}${suffix(figure.y.unit)}`, customValues: figure.y.ticks, hideOverlap: true },
      axisTick: { show: false }, splitLine: { lineStyle: { color: css("--grid") } },
      interval: figure.y.scale === "log" || figure.y.ticks.length < 2 ? undefined : figure.y.ticks[1] - figure.y.ticks[0],
    };
    const option = {
      animation: false, aria: { enabled: false }, textStyle: { fontFamily: FONT, color: ink },
      tooltip: {
        renderMode: "richText", trigger: "item", confine: true, backgroundColor: css("--panel"), borderColor: css("--rule"),
        textStyle: { color: ink, fontSize: 12 }, formatter: item => item.data?.note ?? "",
      },
    };
    return { ink, muted, value, option };
  }

  // Bands and marks lie on the axis of values: upright in row figures, level in the history.
  function backdrop(figure, upright) {
    const key = upright ? "xAxis" : "yAxis", muted = css("--muted");
    const label = text => ({ show: Boolean(text), formatter: text, color: muted, fontSize: 11 });
    return {
      type: "scatter", data: [], silent: true,
      markArea: {
        silent: true, z: -1, itemStyle: { color: css("--equal") },
        data: figure.bands.map(band => [{ [key]: band.lo, label: { show: false } }, { [key]: band.hi }]),
      },
      markLine: {
        silent: true, symbol: "none", lineStyle: { color: muted, width: 1.2, type: "solid" },
        data: figure.marks.map(mark => (mark.kind === "phase"
          ? { xAxis: mark.at, lineStyle: { type: [2, 3], width: 1 }, label: { ...label(mark.label), position: "end", align: "left", distance: [0, 5] } }
          : { [key]: mark.at, label: { ...label(mark.label), position: upright ? "start" : "insideEndTop" } })),
      },
    };
  }

  function history(host, figure) {
    const { ink, muted, value, option } = base(figure), narrow = host.clientWidth < 620;
    host.style.height = `${narrow ? 380 : sheet(340)}px`;
    const chart = echarts.init(host, null, { renderer: "canvas" });
    chart.setOption({
      ...option,
      legend: { top: 0, left: 0, itemWidth: 14, itemHeight: 9, itemGap: 14, textStyle: { color: ink, fontSize: 12 }, data: figure.series.map(one => one.name) },
      grid: { left: 56, right: 14, top: narrow ? 84 : 56, bottom: 44 },
      xAxis: {
        type: "value", min: figure.x.lo, max: figure.x.hi, name: figure.x.label, nameLocation: "middle", nameGap: 26,
        nameTextStyle: { color: muted, fontSize: 12 }, minInterval: 1, axisLine: { onZero: false, lineStyle: { color: muted } },
        axisLabel: { color: muted, customValues: figure.x.ticks }, axisTick: { show: false }, splitLine: { show: false },
      },
      yAxis: { ...value, nameGap: 40, axisLabel: { ...value.axisLabel } },
      series: [backdrop(figure, false), ...figure.series.map(one => historySeries(one))],
    });
    return chart;
  }

  function historySeries(one) {
    const color = colorOf(one.group);
    const data = one.x.map((x, at) => ({ value: [x, one.y[at]], note: one.labels?.[at] ?? `${one.name}: ${number(one.y[at])}x` }));
    if (one.style === "step") return { name: one.name, type: "line", step: "end", symbol: "none", lineStyle: { color, width: 1.6 }, itemStyle: { color }, data, z: 2 };
    const itemStyle = one.group === "baseline" ? { color: css("--page"), borderColor: color, borderWidth: 2 } : { color, opacity: 0.9 };
    return { name: one.name, type: "scatter", symbol: SYMBOL[one.group] ?? CROSS, symbolSize: SYMBOL[one.group] ? 9 : 8, itemStyle, data, z: 3, clip: false };
  }

  // Forest and pairs: a row each, the ratio along the bottom.
  function rows(host, figure) {
    const { ink, muted, value, option } = base(figure), narrow = host.clientWidth < 620;
    const ranged = figure.series.filter(one => one.lo), names = [];
    for (const one of ranged) one.x.forEach((row, at) => { names[row] = one.labels[at]; });
    host.style.height = `${76 + sheet(46) * names.length}px`;
    const chart = echarts.init(host, null, { renderer: "canvas" });
    const category = {
      type: "category", inverse: true, axisTick: { show: false }, axisLine: { show: false, onZero: false },
      splitLine: { show: false },
    };
    const rich = { a: { color: ink, fontSize: narrow ? 11.5 : 13, fontWeight: 600, lineHeight: 17 }, b: { color: muted, fontSize: 11.5, lineHeight: 15 } };
    const twoLines = text => { const [first, second] = text.split("\n"); return `{a|${escaped(first)}}${second ? `\n{b|${escaped(second)}}` : ""}`; };
    chart.setOption({
      ...option,
      grid: { left: narrow ? 172 : 220, right: narrow ? 96 : 150, top: 24, bottom: 46 },
      xAxis: { ...value, nameGap: 28 },
      yAxis: [
        { ...category, data: names, axisLabel: { formatter: twoLines, rich, margin: 14, interval: 0, width: narrow ? 160 : 200, overflow: "truncate" } },
        { ...category, data: figure.notes.map((text, at) => `${at}\n${text}`), position: "right",
          axisLabel: { formatter: text => text.slice(text.indexOf("\n") + 1), color: ink, fontSize: narrow ? 11 : 12.5, margin: 10, interval: 0 } },
      ],
      series: [backdrop(figure, true), ...figure.series.flatMap(one => (one.lo ? [whiskers(one)] : [dots(one)])), { type: "scatter", yAxisIndex: 1, data: [] }],
    });
    return chart;
  }

  // Bars: a row each, solid up to the lower figure, light up to the upper one.
  function bars(host, figure) {
    const { ink, muted, value, option } = base(figure), narrow = host.clientWidth < 620, one = figure.series[0];
    host.style.height = `${64 + sheet(44) * one.x.length}px`;
    const chart = echarts.init(host, null, { renderer: "canvas" });
    const rich = { a: { color: ink, fontSize: narrow ? 11.5 : 13, fontWeight: 600, lineHeight: 17 }, b: { color: muted, fontSize: 11.5, lineHeight: 15 } };
    const twoLines = text => { const [first, second] = text.split("\n"); return `{a|${escaped(first)}}${second ? `\n{b|${escaped(second)}}` : ""}`; };
    const category = { type: "category", inverse: true, axisTick: { show: false }, axisLine: { show: false }, splitLine: { show: false } };
    const row = (values, color, opacity) => ({
      type: "bar", stack: "figure", barWidth: 16, itemStyle: { color, opacity },
      data: values.map((height, at) => ({ value: height, note: escaped(one.labels[at]) })),
    });
    const color = colorOf(one.group), low = one.y.map(height => Math.max(0, height));
    chart.setOption({
      ...option,
      grid: { left: narrow ? 172 : 260, right: narrow ? 106 : 190, top: figure.marks.length ? 24 : 12, bottom: 46 },
      xAxis: { ...value, name: figure.y.label, nameGap: 28 },
      yAxis: [
        { ...category, data: one.labels, axisLabel: { formatter: twoLines, rich, margin: 14, interval: 0, width: narrow ? 160 : 240, overflow: "truncate" } },
        { ...category, data: figure.notes.map((text, at) => `${at}\n${text}`), position: "right",
          axisLabel: { formatter: text => text.slice(text.indexOf("\n") + 1), color: ink, fontSize: narrow ? 11 : 12.5, margin: 10, interval: 0 } },
      ],
      series: [backdrop(figure, true), row(low, color, 0.9), row(one.hi ? one.hi.map((top, at) => Math.max(0, top - low[at])) : low.map(() => 0), color, 0.35), { type: "scatter", yAxisIndex: 1, data: [] }],
    });
    return chart;
  }

  // A bar's pattern says its group again without colour: outlined baseline, solid keep and total, hatched drop, dotted null.
  function barFill(color, group) {
    if (!["drop", "null", "baseline"].includes(group)) return { color };
    const tile = document.createElement("canvas"), side = 8;
    tile.width = tile.height = side;
    const pen = tile.getContext("2d");
    pen.fillStyle = css("--page");
    pen.fillRect(0, 0, side, side);
    pen.strokeStyle = pen.fillStyle = color;
    pen.lineWidth = 3;
    pen.beginPath();
    if (group === "drop") for (const shift of [-side, 0, side]) { pen.moveTo(shift, side); pen.lineTo(shift + side, 0); }
    if (group === "null") pen.arc(side / 2, side / 2, 1.8, 0, 7);
    if (group === "null") pen.fill(); else pen.stroke();
    return { color: group === "baseline" ? css("--panel") : { image: tile, repeat: "repeat" }, borderColor: color, borderWidth: 1.5 };
  }

  // Staircase: upright while the labels have room, slanted labels in between, lying on its side on a narrow screen.
  function staircase(host, figure) {
    const { ink, muted, value, option } = base(figure);
    const steps = figure.series.flatMap(one => one.x.map((x, at) => ({ x, y: one.y[at], lo: one.lo?.[at], hi: one.hi?.[at], label: one.labels?.[at] ?? one.name, group: one.group })));
    steps.sort((a, b) => a.x - b.x);
    const slot = (host.clientWidth - 90) / Math.max(1, steps.length), lying = slot < 44, slanted = slot < 84;
    const place = new Map(steps.map((step, at) => [step.x, at])), unit = suffix(figure.y.unit);
    const foot = slanted ? 138 : 74, dense = slanted && !lying, said = step => (step.y == null ? "–" : `${number(step.y)}${unit}`);
    const brief = step => (step.y == null ? "–" : step.y.toLocaleString("en", { maximumSignificantDigits: 3 }));
    host.style.height = lying ? `${96 + sheet(40) * steps.length}px` : `${sheet(slanted ? 440 : 390)}px`;
    const chart = echarts.init(host, null, { renderer: "canvas" });
    const names = steps.map((step, at) => `${at}\n${step.label}`), word = text => text.slice(text.indexOf("\n") + 1).replaceAll("\n", " ");
    const category = {
      type: "category", data: names, inverse: lying, axisTick: { show: false }, axisLine: { show: true, onZero: false, lineStyle: { color: muted } }, splitLine: { show: false },
      axisLabel: {
        color: ink, fontSize: lying ? 11 : 12, interval: 0, formatter: word, margin: 8, rotate: lying || !slanted ? 0 : 40,
        width: lying ? 142 : slanted ? 176 : slot - 8, overflow: lying ? "breakAll" : slanted ? "truncate" : "break", lineHeight: lying ? 12.5 : 15,
      },
    };
    // An interval that is drawn to the edge of the frame goes on beyond it: only the table has its end.
    const end = height => (figure.y.hi != null && height >= figure.y.hi ? "beyond the axis" : number(height));
    const note = step => `${escaped(word(`\n${step.label}`))}: ${said(step)}${step.lo == null ? "" : `  [${number(step.lo)}, ${end(step.hi)}]`}`;
    const bar = one => {
      const itemStyle = barFill(colorOf(one.group), one.group);
      const data = steps.map(() => ({ value: "-" }));
      one.x.forEach((x, at) => { if (one.y[at] != null) data[place.get(x)] = { value: one.y[at], note: note(steps[place.get(x)]) }; });
      return { name: one.name, type: "bar", barGap: "-100%", barWidth: lying ? 16 : "62%", barMaxWidth: 76, itemStyle, data, z: 2 };
    };
    chart.setOption({
      ...option,
      legend: { top: 0, left: 0, itemWidth: 16, itemHeight: 11, itemGap: 14, selectedMode: false, textStyle: { color: ink, fontSize: 12 }, data: figure.series.map(one => one.name) },
      grid: lying ? { left: 154, right: 58, top: host.clientWidth < 480 ? 50 : 34, bottom: 46 } : { left: 62, right: figure.marks.some(mark => mark.label) ? 66 : 14, top: 48, bottom: foot },
      xAxis: lying ? { ...value, nameGap: 28 } : category,
      yAxis: lying ? category : { ...value, nameGap: 46 },
      series: [beside(backdrop(figure, lying), lying), ...figure.series.map(bar), heights(steps, lying, dense ? brief : said, ink, figure.y.lo)],
    });
    return chart;
  }

  // The names of level marks stand at the right of the bars, where none covers them.
  function beside(shown, lying) {
    if (!lying) for (const mark of shown.markLine.data) mark.label.position = "end";
    return shown;
  }

  // The intervals of the bars and, beyond them, their heights in figures.
  function heights(steps, lying, said, ink, floor) {
    return {
      type: "custom", z: 5, silent: true, clip: false, encode: lying ? { x: [1], y: 0 } : { x: 0, y: [1] },
      data: steps.map((step, at) => [at, step.y ?? floor]),
      renderItem: (params, api) => {
        const at = params.dataIndex, step = steps[at], style = { stroke: ink, lineWidth: 1.6, fill: "none" };
        const spot = height => (lying ? api.coord([height, at]) : api.coord([at, height]));
        const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
        const whole = step.lo != null && step.hi != null, [x, y] = spot(whole ? Math.max(step.hi, step.y ?? step.hi) : step.y ?? floor);
        const words = { type: "text", style: { text: said(step), fill: ink, font: `600 12px ${FONT}`, x: lying ? x + 6 : x, y: lying ? y : y - 5, align: lying ? "left" : "center", verticalAlign: lying ? "middle" : "bottom" } };
        if (!whole) return { type: "group", children: [words] };
        const [[x1, y1], [x2, y2]] = [spot(step.lo), spot(step.hi)], w = 5;
        const ends = lying ? [line(x1, y1 - w, x1, y1 + w), line(x2, y2 - w, x2, y2 + w)] : [line(x1 - w, y1, x1 + w, y1), line(x2 - w, y2, x2 + w, y2)];
        // A rim of the page's colour, or nobody sees the lower half on a dark bar.
        const strokes = [line(x1, y1, x2, y2), ...ends], rims = strokes.map(one => ({ ...one, style: { ...style, stroke: css("--page"), lineWidth: 4.5 } }));
        return { type: "group", children: [...rims, ...strokes, words] };
      },
    };
  }

  // Curves over a number. Colour, symbol and dash differ together, so that no series depends on its colour.
  function lines(host, figure) {
    const { ink, muted, value, option } = base(figure), narrow = host.clientWidth < 620;
    const own = new Set(figure.series.map(one => one.group));
    const known = own.size === figure.series.length && figure.series.every(one => one.group in COLOR);
    const color = at => (known ? colorOf(figure.series[at].group) : palette(CURVES[at % CURVES.length]));
    host.style.height = `${(narrow ? 350 : sheet(370)) + 20 * Math.floor(figure.series.length / (narrow ? 2 : 5))}px`;
    const chart = echarts.init(host, null, { renderer: "canvas" });
    const unit = figure.y.unit ? ` ${figure.y.unit}` : "";
    const curve = (one, at) => {
      const look = { color: color(at) }, symbol = CURVE_SYMBOLS[at % CURVE_SYMBOLS.length];
      const data = one.x.map((x, i) => ({ value: [x, one.y[i] ?? "-"], note: one.labels?.[i] ?? `${escaped(one.name)}\n${axisName(figure.x)} ${number(x)}: ${number(one.y[i])}${unit}${one.lo?.[i] == null ? "" : `  [${number(one.lo[i])}, ${number(one.hi[i])}]`}` }));
      if (one.style === "points") return { name: one.name, type: "scatter", symbol, symbolSize: 9, itemStyle: look, data, z: 3, clip: false };
      return {
        name: one.name, type: "line", step: one.style === "step" ? "end" : false, symbol, symbolSize: 9, showAllSymbol: true, connectNulls: false, clip: false,
        lineStyle: { ...look, width: 2, type: CURVE_DASHES[at % CURVE_DASHES.length] }, itemStyle: look, data, z: 3,
      };
    };
    chart.setOption({
      ...option,
      legend: { top: 0, left: 0, itemWidth: 30, itemHeight: 9, itemGap: 14, textStyle: { color: ink, fontSize: 12 }, data: figure.series.map(one => one.name) },
      grid: { left: narrow ? 66 : 78, right: 18, top: 32 + 22 * Math.floor(figure.series.length / (narrow ? 2 : 5)), bottom: 46 },
      xAxis: {
        type: figure.x.scale === "log" ? "log" : "value", min: figure.x.lo, max: figure.x.hi, name: axisName(figure.x), nameLocation: "middle", nameGap: 28,
        nameTextStyle: { color: muted, fontSize: 12 }, axisLine: { onZero: false, lineStyle: { color: muted } }, axisTick: { show: false },
        axisLabel: { color: muted, formatter: at => `${place(at)}${suffix(figure.x.unit)}`, customValues: figure.x.ticks, hideOverlap: true },
        splitLine: { show: false },
      },
      yAxis: { ...value, nameGap: narrow ? 50 : 62 },
      series: [curveBackdrop(figure), ...figure.series.map(curve), ...figure.series.flatMap((one, at) => (one.lo ? [uprights(one, color(at))] : []))],
    });
    return chart;
  }

  // Marks and bands of curves lie on either axis.
  function curveBackdrop(figure) {
    const shown = backdrop(figure, false), muted = css("--muted"), key = axis => (axis === "x" ? "xAxis" : "yAxis");
    const label = text => ({ show: Boolean(text), formatter: text, color: muted, fontSize: 11 });
    shown.markArea.data = figure.bands.map(band => [
      { [key(band.axis)]: band.lo, label: { ...label(band.label), position: "insideTop" } }, { [key(band.axis)]: band.hi },
    ]);
    shown.markLine.data = figure.marks.map(mark => ({
      [key(mark.axis)]: mark.at, lineStyle: { type: LINE_DASH[mark.kind] ?? "solid" }, label: { ...label(mark.label), position: "insideEndTop" },
    }));
    return shown;
  }

  function uprights(one, color) {
    return {
      type: "custom", z: 4, silent: true, encode: { x: 0, y: [1, 2] },
      data: one.x.flatMap((x, at) => (one.lo[at] == null || one.hi[at] == null ? [] : [[x, one.lo[at], one.hi[at]]])),
      renderItem: (params, api) => {
        const [x1, y1] = api.coord([api.value(0), api.value(1)]), [, y2] = api.coord([api.value(0), api.value(2)]);
        const style = { stroke: color, lineWidth: 1.6 }, line = (a, b, c, d) => ({ type: "line", shape: { x1: a, y1: b, x2: c, y2: d }, style });
        return { type: "group", children: [line(x1, y1, x1, y2), line(x1 - 4, y1, x1 + 4, y1), line(x1 - 4, y2, x1 + 4, y2)] };
      },
    };
  }

  function dots(one) {
    const data = one.x.map((row, at) => ({ value: [one.y[at], row], note: `${one.labels[at]}: ${number(one.y[at])}x`, symbolOffset: [0, -9 - 4 * (at % 3)] }));
    return { type: "scatter", data, symbolSize: 6, symbol: "circle", itemStyle: { color: colorOf(one.group), opacity: 0.75 }, z: 3 };
  }

  function whiskers(one) {
    const color = colorOf(one.group), heavy = one.group !== "effect";
    return {
      type: "custom", z: 4, encode: { x: [0, 1, 2], y: 3 },
      data: one.x.map((row, at) => ({ value: [one.lo[at], one.y[at], one.hi[at], row], note: `${escaped(one.labels[at])}\n${number(one.y[at])}x  [${number(one.lo[at])}, ${number(one.hi[at])}]` })),
      renderItem: (params, api) => {
        const [[lo, y], [mid], [hi]] = [0, 1, 2].map(place => api.coord([api.value(place), api.value(3)]));
        const style = { stroke: color, lineWidth: 2, fill: color };
        const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
        const point = heavy
          ? { type: "polygon", shape: { points: [[mid - 5, y], [mid, y - 5], [mid + 5, y], [mid, y + 5]] }, style }
          : { type: "rect", shape: { x: mid - 4.5, y: y - 4.5, width: 9, height: 9 }, style };
        return { type: "group", children: [line(lo, y, hi, y), line(lo, y - 5, lo, y + 5), line(hi, y - 5, hi, y + 5), point] };
      },
    };
  }

  // ---- the page --------------------------------------------------------------------------------------------------

  const charts = [];
  function drawAll() {
    charts.splice(0).forEach(chart => chart.dispose());
    for (const host of document.querySelectorAll("[data-figure]")) {
      const figure = figures[host.dataset.figure];
      host.replaceChildren();
      if (figure.kind === "timeline") strip(host, figure);
      else charts.push(({ history, bars, staircase, lines })[figure.kind]?.(host, figure) ?? rows(host, figure));
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
})();

// Figures of steps and of curves over a number, by ECharts.
"use strict";

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

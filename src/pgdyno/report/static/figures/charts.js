// Figures of trials and arms, by ECharts on a canvas, with text tooltips: a search, rows with intervals, bars.
"use strict";

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

function trialHistory(host, figure) {
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

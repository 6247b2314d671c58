// Named rows over one axis, by ECharts: spans and moments, or lines that run from row to row.
"use strict";

function tracks(host, figure) {
  const { ink, muted, value, option } = base(figure), narrow = host.clientWidth < 620;
  const bars = figure.series.some(one => one.hi), noted = figure.notes.length > 0;
  const names = figure.marks.filter(mark => mark.kind === "row").sort((a, b) => a.at - b.at).map(mark => mark.label);
  host.style.height = `${70 + sheet(bars ? (names.length > 8 ? 20 : 30) : 46) * names.length}px`;
  const chart = echarts.init(host, null, { renderer: "canvas" });
  const rich = { a: { color: ink, fontSize: narrow ? 11.5 : 13, fontWeight: 600, lineHeight: 17 }, b: { color: muted, fontSize: 11.5, lineHeight: 15 } };
  const twoLines = text => { const [first, second] = text.slice(text.indexOf("\n") + 1).split("\n"); return `{a|${escaped(first)}}${second ? `\n{b|${escaped(second)}}` : ""}`; };
  const line = one => {
    const best = one.group === "best", color = best ? colorOf("drop") : colorOf("search");
    return {
      type: "line", symbol: "circle", symbolSize: best ? 7 : 4, showAllSymbol: true, z: best ? 4 : 3, clip: false,
      lineStyle: { color, width: best ? 2.4 : 1, opacity: best ? 1 : 0.35 }, itemStyle: { color, opacity: best ? 1 : 0.5 },
      data: one.x.map((row, at) => ({ value: [one.y[at] ?? "-", row], note: escaped(one.labels?.[at] ?? one.name) })),
    };
  };
  const category = { type: "category", inverse: true, axisTick: { show: false }, axisLine: { show: false, onZero: false }, splitLine: { show: false } };
  chart.setOption({
    ...option,
    grid: { left: narrow ? 132 : 220, right: noted ? (narrow ? 96 : 170) : 22, top: 10, bottom: 46 },
    xAxis: { ...value, nameGap: 28 },
    yAxis: [
      { ...category, data: names.map((name, at) => `${at}\n${name}`), splitLine: { show: !noted, lineStyle: { color: css("--grid") } },
        axisLabel: { formatter: twoLines, rich, margin: 12, interval: 0, width: narrow ? 118 : 200, overflow: "truncate" } },
      { ...category, data: figure.notes.map((text, at) => `${at}\n${text}`), position: "right", show: noted,
        axisLabel: { formatter: text => text.slice(text.indexOf("\n") + 1), color: ink, fontSize: narrow ? 11 : 12.5, margin: 10, interval: 0 } },
    ],
    series: [...figure.series.map(one => (one.hi ? spans(one, names.length > 8 ? 11 : 14) : line(one))), { type: "scatter", yAxisIndex: 1, data: [] }],
  });
  return chart;
}

// A moment is a thin stroke over the height of its row, a span a bar that is never thinner than a pixel.
function spans(one, height) {
  const { color: fill, borderColor = css("--page") } = barFill(colorOf(one.group), one.group);
  return {
    type: "custom", z: 3, encode: { x: [0, 1], y: 2 },
    data: one.x.map((row, at) => ({ value: [one.y[at], one.hi[at], row], note: escaped(one.labels?.[at] ?? one.name) })),
    renderItem: (params, api) => {
      const [x1, y] = api.coord([api.value(0), api.value(2)]), [x2] = api.coord([api.value(1), api.value(2)]);
      const moment = api.value(1) <= api.value(0), tall = moment ? 20 : height;
      return { type: "rect", shape: { x: moment ? x1 - 1.5 : x1, y: y - tall / 2, width: moment ? 3 : Math.max(1, x2 - x1), height: tall }, style: { fill, stroke: borderColor, lineWidth: moment ? 0 : 0.5 } };
    },
  };
}

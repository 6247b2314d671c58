// Figures over time, by uPlot: strips of a run under each other, with its phases and marks.
"use strict";

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

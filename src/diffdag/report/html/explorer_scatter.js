// One edge in both conditions: points, or bands where no points are known, and the two lines.

const PLOT = { width: 340, height: 250, left: 52, right: 10, top: 10, bottom: 40 };

function ticksOf(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((size) => size >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(k * step);
  const digits = clamp(-Math.floor(Math.log10(step) + 1e-9), 0, 12);
  const large = Math.max(Math.abs(low), Math.abs(high)) >= 1e5 || step < 1e-4;
  return ticks.map((value) => [value, large ? value.toPrecision(3) : value.toFixed(digits)]);
}

function spread(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const room = (high - low) * 0.04 || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

function scaleOf([low, high], start, end) {
  return (value) => start + ((value - low) / (high - low)) * (end - start);
}

function endsOf(cloud) {
  return [cloud.low, cloud.high].map((x) => [x, cloud.intercept + cloud.slope * x]);
}

// Circles and triangles: the shapes say which condition it is without colour.
function markOf(which, x, y) {
  if (which === 0) return makeSvg("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: 2.6 });
  const corners = [[0, -3.4], [3.2, 2.4], [-3.2, 2.4]];
  const points = corners.map(([a, b]) => `${(x + a).toFixed(1)},${(y + b).toFixed(1)}`).join(" ");
  return makeSvg("polygon", { points });
}

function shortened(text, most) {
  const letters = Array.from(text);
  return letters.length <= most ? text : letters.slice(0, most - 1).join("") + "…";
}

function axesOf(across, along, ranges, words) {
  const { width, height, left, right, top, bottom } = PLOT;
  const group = makeSvg("g", { class: "axes" });
  for (const [value, text] of ticksOf(...ranges[0], 5)) {
    const x = across(value);
    group.append(makeSvg("line", { x1: x, x2: x, y1: top, y2: height - bottom, class: "rule" }));
    group.append(makeSvg("text", { x, y: height - bottom + 14, class: "middle" }, text));
  }
  for (const [value, text] of ticksOf(...ranges[1], 5)) {
    const y = along(value);
    group.append(makeSvg("line", { x1: left, x2: width - right, y1: y, y2: y, class: "rule" }));
    group.append(makeSvg("text", { x: left - 5, y: y + 3.5, class: "end" }, text));
  }
  const middle = (top + height - bottom) / 2;
  const below = makeSvg("text", { x: (left + width - right) / 2, y: height - 6, class: "middle title" }, words[0]);
  const beside = makeSvg("text", { transform: `translate(11 ${middle}) rotate(-90)`, class: "middle title" }, words[1]);
  group.append(below, beside);
  return group;
}

function conditionOf(cloud, which, across, along) {
  const group = makeSvg("g", { class: which === 0 ? "first" : "second" });
  const [[x1, y1], [x2, y2]] = endsOf(cloud);
  if (isBand(cloud)) {
    const corners = [[x1, y1 + cloud.noise], [x2, y2 + cloud.noise], [x2, y2 - cloud.noise], [x1, y1 - cloud.noise]];
    const points = corners.map(([x, y]) => `${across(x)},${along(y)}`).join(" ");
    group.append(makeSvg("polygon", { class: "band", points }));
  }
  const marks = makeSvg("g", { class: "marks" });
  cloud.x.forEach((x, k) => marks.append(markOf(which, across(x), along(cloud.y[k]))));
  group.append(marks);
  for (const look of ["halo", "fit"]) {
    group.append(makeSvg("line", { class: look, x1: across(x1), y1: along(y1), x2: across(x2), y2: along(y2) }));
  }
  return group;
}

function isBand(cloud) {
  return cloud.x.length === 0 && cloud.noise > 0;
}

// Everything that has to fit in, across and along.
function rangesOf(clouds) {
  const xs = [];
  const ys = [];
  for (const cloud of clouds) {
    const room = isBand(cloud) ? cloud.noise : 0;
    xs.push(...cloud.x);
    ys.push(...cloud.y);
    for (const [x, y] of endsOf(cloud)) {
      xs.push(x);
      ys.push(y - room, y + room);
    }
  }
  return [spread(xs), spread(ys)];
}

function slopesOf(slopes, labels) {
  const list = make("ul", { class: "conditions" });
  slopes.forEach((slope, which) => {
    const kind = which === 0 ? "first" : "second";
    const sample = makeSvg("svg", { class: `plot ${kind}`, viewBox: "0 0 30 12", "aria-hidden": "true" });
    sample.append(makeSvg("line", { class: "fit", x1: 0, x2: 30, y1: 6, y2: 6 }), markOf(which, 15, 6));
    list.append(make("li", {}, sample, " ", nameOf(labels[which]), `: slope ${slope}`));
  });
  return list;
}

// What the plot shows, in sentences.
function notesOf(scatter, samples) {
  const counts = scatter.clouds.map((cloud) => cloud.x.length);
  const notes = [];
  if (scatter.adjusted) {
    notes.push("The target is shown less what its other causes contribute, so that the slopes are the effects.");
  }
  if (scatter.scores) notes.push("Both axes are scores made from ranks.");
  if (!counts[0] && !counts[1]) {
    notes.push("The bands are one standard deviation of the noise; the rows themselves are not in this file.");
  } else if (samples && (counts[0] < samples[0] || counts[1] < samples[1])) {
    notes.push(`Shown are ${counts[0]} of ${samples[0]} and ${counts[1]} of ${samples[1]} rows.`);
  }
  return notes.join(" ");
}

function scatterPlot(edge, data, shown) {
  const { scatter } = edge;
  const { width, height, left, right, top, bottom } = PLOT;
  const ranges = rangesOf(scatter.clouds);
  const across = scaleOf(ranges[0], left, width - right);
  const along = scaleOf(ranges[1], height - bottom, top);
  const [source, target] = [shown(edge.source), shown(edge.target)];
  const words = [shortened(source, 40), scatter.adjusted ? `${shortened(target, 20)}, adjusted` : shortened(target, 30)];
  const label = `${target} against ${source} in ${data.labels[0]} and ${data.labels[1]}, with both lines`;
  const svg = makeSvg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  svg.append(axesOf(across, along, ranges, words));
  scatter.clouds.forEach((cloud, which) => svg.append(conditionOf(cloud, which, across, along)));
  const notes = make("p", { class: "soft small" }, notesOf(scatter, data.samples));
  return make("div", { class: "scatter" }, svg, slopesOf(scatter.slopes, data.labels), notes);
}

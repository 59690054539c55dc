// What each cap keeps against what it saves. Along the even trade, a cap gives up as large a share of the successes as
// of the steps: below it, a larger one.

const FRONTIER = { left: 40, right: 14, top: 44, plot: 220, bottom: 34 };

// The caps that lose at most so much, on which the figure is centred.
function frontierPoints({ base, answer }) {
  const total = answer.kept.of;
  const caps = base.axes[0].values;
  const points = caps.map((cap, n) => ({ cap, saved: answer.curve.saved[n], kept: total ? answer.curve.lower[n] / total : null }));
  return points.filter(({ saved, kept }) => saved !== null && saved !== undefined && kept !== null);
}

// What is true of all caps of the figure, in a title.
function frontierTitle(points, measure) {
  const caps = points.filter(({ cap }) => cap !== null);
  const good = caps.filter(({ saved, kept }) => saved > 1 - kept);
  const than = `a larger share of the ${measure} than it loses of the successes`;
  if (!good.length) return `No cap saves ${than}`;
  if (good.length === caps.length) return `Every cap saves ${than}`;
  const highest = Math.max(...good.map(({ cap }) => cap));
  if (highest < Math.max(...caps.map(({ cap }) => cap))) return `No cap above ${count(highest)} saves ${than}`;
  return `Not every cap saves ${than}`;
}

function frontier(data, width) {
  const points = frontierPoints(data);
  const { base, answer, recommended } = data;
  if (points.length < 2) return null;
  const height = FRONTIER.top + FRONTIER.plot + FRONTIER.bottom;
  const low = Math.min(0.8, Math.floor(10 * Math.min(base.keep, answer.kept.lower / answer.kept.of || 0)) / 10);
  const inside = points.filter(({ kept }) => kept >= low);
  const most = Math.max(0.02, ...inside.map(({ saved }) => saved));
  const x = (saved) => FRONTIER.left + ((width - FRONTIER.left - FRONTIER.right) * saved) / most;
  const y = (kept) => FRONTIER.top + (FRONTIER.plot * (1 - kept)) / (1 - low);
  const name = `Share of the ${base.measure} saved and of the successes kept by each step cap`;
  const svg = h("svg", { class: "frontier", role: "img", viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": name });
  const rule = low >= 0.8 ? 0.05 : low >= 0.6 ? 0.1 : 0.2;
  for (let share = 1; share >= low - 1e-9; share -= rule) {
    put(svg, h("line", { class: "rule", x1: FRONTIER.left, x2: width - FRONTIER.right, y1: y(share), y2: y(share) }),
      h("text", { class: "tick", x: FRONTIER.left - 6, y: y(share) + 4, "text-anchor": "end" }, percent(share, 1, 0)));
  }
  for (const part of [0, 0.5, 1]) {
    put(svg, h("text", { class: "tick", x: x(most * part), y: FRONTIER.top + FRONTIER.plot + 15, "text-anchor": part === 1 ? "end" : "middle" }, percent(most * part, 1, most < 0.1 ? 1 : 0)));
  }
  const even = Math.min(most, 1 - low);
  put(svg, h("line", { class: "even", x1: x(0), y1: y(1), x2: x(even), y2: y(1 - even) }),
    h("text", { class: "tick", x: x(even) - 4, y: y(1 - even) - 5, "text-anchor": "end" }, "even trade"));
  const path = inside.map(({ saved, kept }, n) => `${n ? "L" : "M"}${x(saved).toFixed(1)} ${y(kept).toFixed(1)}`).join("");
  put(svg, h("path", { class: "line kept", d: path }));
  const now = inside.find(({ cap }) => cap === answer.setting.max_steps);
  const advised = recommended?.setting ? inside.find(({ cap }) => cap === recommended.setting.max_steps) : null;
  if (advised && advised !== now) put(svg, h("circle", { class: "advised", cx: x(advised.saved), cy: y(advised.kept), r: 4 }));
  if (now) {
    const right = x(now.saved) > width * 0.6;
    put(svg, h("circle", { class: "now", cx: x(now.saved), cy: y(now.kept), r: 5 }),
      h("text", { class: "now", x: x(now.saved) + (right ? -9 : 9), y: y(now.kept) - 7, "text-anchor": right ? "end" : "start" },
        now.cap === null ? "no step cap" : `cap ${count(now.cap)}`));
  }
  put(svg, h("text", { class: "tick", x: FRONTIER.left, y: FRONTIER.top - 12 }, base.proxy ? "kept (proxy)" : "successes kept"),
    h("text", { class: "tick", x: width - FRONTIER.right, y: height - 3, "text-anchor": "end" }, `${base.measure} saved`));
  return h("div", { class: "trade" }, h("h4", {}, frontierTitle(points, base.measure)), svg);
}

// The numbers of a cap, beside the pointer and inside the figure.
function tooltip(data, cap) {
  const { base, answer } = data;
  const n = base.axes[0].values.indexOf(cap);
  const { lower, upper, at_least: least, saved } = answer.curve;
  const of = answer.kept.of;
  const lost = of - lower[n];
  const each = lost && saved[n] ? amount(answer.saved[0], (saved[n] * answer.saved[0].of) / lost) : null;
  const rows = [
    of ? ["kept", `${span(lower[n], upper[n])} of ${count(of)}`, percent(lower[n], of)] : null,
    of ? ["at least", "", promised(least[n])] : null,
    saved[n] === null ? null : [`${base.measure} saved`, "", percent(saved[n], 1)],
    each === null ? null : ["per lost success", each, ""],
  ].filter(Boolean);
  return h("div", { class: "tooltip", role: "presentation" }, h("b", {}, `cap ${count(cap)}`),
    h("table", {}, rows.map((cells) => h("tr", {}, cells.map((cell, at) => h("td", at ? { class: "number" } : {}, cell))))),
    h("span", { class: "quiet" }, "click to set"));
}

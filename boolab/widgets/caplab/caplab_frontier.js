// What each cap keeps against what it saves, with the thresholds of doom loops beside it. Along the even trade a limit
// gives up as large a share of the successes as it saves of the steps: below it, a larger one.

const FRONTIER = { left: 40, right: 16, top: 22, plot: 226, bottom: 34 };
const MAX_LOOPS = 3;

// Where a point's name has room: beside it, below it or above it; null where there is none.
function freeSpot(at, level, wide, width, taken) {
  const spots = [[at + 9, level - 3], [at + 9, level + 13], [at - 9 - wide, level + 13], [at - 9 - wide, level - 3], [at - wide / 2, level - 10]];
  const found = spots.map(([from, y]) => ({ from, to: from + wide, level: y })).find(({ from, to, level: y }) =>
    from >= FRONTIER.left && to <= width && taken.every((one) => to < one.from - 4 || from > one.to + 4 || Math.abs(one.level - y) > 11));
  if (found) taken.push(found);
  return found ?? null;
}

function frontier({ base, answer, recommended, keep }, width) {
  const { curve, kept: { of } } = answer;
  const points = base.axes[0].values.map((cap, n) => ({ cap, saved: curve.saved[n], kept: curve.lower[n] / of }))
    .filter(({ saved, kept }) => saved !== null && Number.isFinite(kept));
  if (points.length < 2) return null;
  const height = FRONTIER.top + FRONTIER.plot + FRONTIER.bottom;
  const low = Math.min(0.8, Math.floor(10 * Math.min(keep, answer.kept.lower / of || 0)) / 10);
  const inside = points.filter(({ kept }) => kept >= low);
  const most = Math.max(0.02, ...inside.map(({ saved }) => saved));
  const x = (saved) => FRONTIER.left + ((width - FRONTIER.left - FRONTIER.right) * saved) / most;
  const y = (kept) => FRONTIER.top + (FRONTIER.plot * (1 - kept)) / (1 - low);
  const svg = h("svg", { class: "frontier", role: "img", viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": curve.frontier_title });
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
    h("text", { class: "tick", x: x(even) - 6, y: y(1 - even) - 5, "text-anchor": "end" }, "even trade"),
    h("path", { class: "line kept", d: inside.map(({ saved, kept }, n) => `${n ? "L" : "M"}${x(saved).toFixed(1)} ${y(kept).toFixed(1)}`).join("") }));
  const loops = curve.doom_loops.filter(({ saved, kept }) => kept >= low && saved <= most).slice(0, MAX_LOOPS);
  const taken = [{ from: 0, to: 90, level: FRONTIER.top - 11 }]; // by the name of the axis
  for (const { value, saved, kept } of loops) {
    const text = `doom loop ${value}`;
    put(svg, h("path", { class: "loop", d: `M${x(saved)} ${y(kept) - 5}l5 5l-5 5l-5 -5Z` }, h("title", {}, text)));
    const spot = freeSpot(x(saved), y(kept), LETTER * text.length, width, taken);
    if (spot) put(svg, h("text", { class: "loop", x: spot.from, y: spot.level }, text));
  }
  const now = inside.find(({ cap }) => cap === answer.setting.max_steps);
  const advised = recommended?.setting ? inside.find(({ cap }) => cap === recommended.setting.max_steps) : null;
  if (advised && advised !== now) put(svg, h("circle", { class: "advised", cx: x(advised.saved), cy: y(advised.kept), r: 4 }));
  if (now) {
    const left = x(now.saved) > FRONTIER.left + 60; // below the line, which falls to the right
    put(svg, h("circle", { class: "now", cx: x(now.saved), cy: y(now.kept), r: 5 }),
      h("text", { class: "now", x: x(now.saved) - (left ? 9 : 4), y: y(now.kept) + (left ? 16 : 22), "text-anchor": left ? "end" : "start" },
        now.cap === null ? "no cap" : `cap ${count(now.cap)}`));
  }
  put(svg, h("text", { class: "tick", x: 0, y: FRONTIER.top - 11 }, base.proxy ? "kept (proxy)" : "successes kept"),
    h("text", { class: "tick", x: width - FRONTIER.right, y: height - 3, "text-anchor": "end" }, `${base.measure} saved`));
  const loopNote = loops.length ? " Diamonds: doom-loop thresholds without a cap." : "";
  return h("div", { class: "trade" }, h("h4", {}, curve.frontier_title), h("p", { class: "quiet" }, `Line: all caps.${loopNote}`), svg);
}

// What each cap keeps against what it saves, with the thresholds of doom loops beside it. Along the even trade a limit
// gives up as large a share of the successes as it saves of the steps: below it, a larger one.

const FRONTIER = { left: 40, right: 16, top: 22, plot: 226, bottom: 34 };
const MAX_LOOPS = 3;
const ROUND = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]; // how far ticks may be apart

// The first place for a point's name that is inside the figure and touches no other name; null if there is none.
function freeSpot(places, wide, width, taken) {
  const free = ({ from, to, level }) => from >= FRONTIER.left && to <= width
    && taken.every((one) => to < one.from - 4 || from > one.to + 4 || Math.abs(one.level - level) > 12);
  const found = places.map(([from, level]) => ({ from, to: from + wide, level })).find(free) ?? null;
  if (found) taken.push(found);
  return found;
}

// The places along a line that a name keeps clear of.
function along(points) {
  return points.slice(1).flatMap(([right, down], n) => {
    const [left, up] = points[n];
    const parts = Math.max(1, Math.ceil(Math.max(Math.abs(right - left), Math.abs(down - up)) / 6));
    return Array.from({ length: parts }, (_, part) => {
      const [at, level] = [left + ((right - left) * part) / parts, up + ((down - up) * part) / parts];
      return { from: at, to: at, level: level + 4 };
    });
  });
}

const REACH = 40; // from how far a point of the line is found

function frontier(data, width, act) {
  const { base, answer, recommended, keep } = data;
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
  const apart = ROUND.find((one) => most / one <= 5) ?? 0.2;
  for (let n = 0; n * apart <= most + 1e-9; n += 1) {
    put(svg, h("line", { class: "rule", x1: x(n * apart), x2: x(n * apart), y1: y(low), y2: y(low) + 4 }),
      h("text", { class: "tick", x: x(n * apart), y: y(low) + 15, "text-anchor": "middle" }, percent(n * apart, 1, apart < 0.01 ? 1 : 0)));
  }
  const even = Math.min(most, 1 - low);
  put(svg, h("line", { class: "even", x1: x(0), y1: y(1), x2: x(even), y2: y(1 - even) }),
    h("text", { class: "tick", x: x(even) - 6, y: y(1 - even) - 5, "text-anchor": "end" }, "even trade"),
    h("path", { class: "line kept", d: inside.map(({ saved, kept }, n) => `${n ? "L" : "M"}${x(saved).toFixed(1)} ${y(kept).toFixed(1)}`).join("") }));
  const now = inside.find(({ cap }) => cap === answer.setting.max_steps);
  const advised = recommended?.setting ? inside.find(({ cap }) => cap === recommended.setting.max_steps) : null;
  const loops = curve.doom_loops.filter(({ saved, kept }) => kept >= low && saved <= most && x(saved) - x(0) > 6).slice(0, MAX_LOOPS);
  const marks = loops.map(({ saved, kept }) => ({ from: x(saved) - 4, to: x(saved) + 4, level: y(kept) + 4 }));
  const taken = [{ from: 0, to: 90, level: FRONTIER.top - 11 }, ...marks, ...along(inside.map(({ saved, kept }) => [x(saved), y(kept)]))]; // the axis's name, points, line
  const name = (at, level, text, kind, spots) => {
    const spot = freeSpot(spots.map(([right, down]) => [at + right, level + down]), BOLD * LETTER * text.length, width, taken);
    if (spot) put(svg, h("text", { class: kind, x: spot.from, y: spot.level }, text));
  };
  if (advised && advised !== now) put(svg, h("circle", { class: "advised", cx: x(advised.saved), cy: y(advised.kept), r: 4 }));
  if (now) {
    const text = now.cap === null ? "no cap" : `cap ${count(now.cap)}`;
    put(svg, h("circle", { class: "now", cx: x(now.saved), cy: y(now.kept), r: 5 }));
    const wide = BOLD * LETTER * text.length;
    name(x(now.saved), y(now.kept), text, "now", [[-9 - wide, 16], [-9 - wide, -6], [9, -6], [10, 4], [9, 18], [-4, 26], [20, -16]]);
  }
  for (const { value, saved, kept } of loops) {
    const text = `doom loop ${value}`;
    const wide = BOLD * LETTER * text.length;
    put(svg, h("path", { class: "loop", d: `M${x(saved)} ${y(kept) - 5}l5 5l-5 5l-5 -5Z` }, h("title", {}, text)));
    name(x(saved), y(kept), text, "loop", [[10, -2], [10, 13], [-10 - wide, 13], [-10 - wide, -2], [-wide / 2, -10]]);
  }
  put(svg, h("text", { class: "tick", x: 0, y: FRONTIER.top - 11 }, base.proxy ? "kept (proxy)" : "successes kept"),
    h("text", { class: "tick", x: width - FRONTIER.right, y: height - 3, "text-anchor": "end" }, `${base.measure} saved`));
  const loopNote = loops.length ? " Diamonds: doom-loop thresholds without a cap." : "";
  const place = h("div", { class: "trade chart" }, h("h4", {}, curve.frontier_title), h("p", { class: "quiet" }, `Line: all caps.${loopNote}`), svg);
  const far = (point, atX, atY) => Math.hypot(x(point.saved) - atX, y(point.kept) - atY);
  follow(place, svg, data, act, (atX, atY) => {
    const best = inside.reduce((one, other) => (far(other, atX, atY) < far(one, atX, atY) ? other : one));
    return far(best, atX, atY) < REACH ? best.cap : null;
  });
  return place;
}

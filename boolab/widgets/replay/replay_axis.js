// Where steps, marks and labels of Replay's timeline stand, and its heights.

const LANES = { text: 13, calls: 14, errors: 11, model: 30, paid: 44, curves: 48, curvesLow: 30, marks: 22, ruler: 18 }; // heights

// Where steps lie on the axis: each between two numbers, by count or in milliseconds. Unknown times are bridged.
function spansOf(steps, axis) {
  const from = new Float64Array(steps.length);
  const to = new Float64Array(steps.length);
  let end = 0;
  steps.forEach((step, i) => {
    from[i] = axis === "count" ? i : Math.max(end, step.start_ms ?? end);
    end = axis === "count" ? i + 1 : from[i] + (step.duration_ms ?? step.model_ms ?? 0);
    to[i] = end;
  });
  return { from, to };
}

// The last of sorted numbers that is not above a value, or 0.
function lastUpTo(sorted, value) {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sorted[middle] <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

// Marks at one place as one, and a row for each one's label; labels for which there is no room join a neighbour's.
function placedMarks(marks, xOf, left, right, widthOf) {
  const places = new Map();
  for (const mark of marks) {
    const x = Math.round(xOf(mark.step));
    if (x < left - 1 || x > right + 1) continue;
    const near = [x, x - 1, x + 1, x - 2, x + 2].find((one) => places.has(one)) ?? x;
    if (!places.has(near)) places.set(near, { x: near, labels: [], own: false });
    const place = places.get(near);
    if (mark.own) place.labels.unshift(mark.label);
    else place.labels.push(mark.label);
    place.own ||= mark.own;
  }
  const sorted = [...places.values()].sort((a, b) => b.own - a.own || a.x - b.x);
  const taken = [];
  for (const place of sorted) {
    const width = widthOf(place) + 8;
    for (let row = 0; row < 3 && place.row === undefined; row += 1) {
      for (const from of [place.x + 4, place.x - 4 - width]) {
        const free = from >= left && from + width <= right + 8 &&
          !taken.some((one) => one.row === row && one.from < from + width && from < one.to);
        if (!free || place.row !== undefined) continue;
        Object.assign(place, { row, from, width });
        taken.push({ row, from, to: from + width, place });
      }
    }
    if (place.row !== undefined || !taken.length) continue;
    const distance = (one) => Math.abs(one.place.x - place.x);
    const host = taken.reduce((best, one) => (distance(one) < distance(best) ? one : best)).place;
    host.labels.push(...place.labels);
  }
  return sorted;
}

// Numbers for a ruler, about `most` of them: 1, 2 or 5 times a power of ten apart.
function ruled(low, high, most) {
  const rough = Math.max((high - low) / Math.max(1, most), 1e-9);
  const power = 10 ** Math.floor(Math.log10(rough));
  const apart = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const first = Math.ceil(low / apart) * apart;
  return Array.from({ length: Math.floor((high - first) / apart + 1e-9) + 1 }, (_, i) => first + i * apart);
}

// A time on the ruler.
function clock(ms) {
  if (ms < 60000) return `${+(ms / 1000).toFixed(3)} s`;
  const seconds = Math.round(ms / 1000);
  const two = (n) => String(n).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes}:${two(seconds % 60)}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

// What one can open, at the steps to which it belongs: subagents and compactions; those that would overlap are one.
function placedOpeners(data, xOf, spans, left, right) {
  const openers = [
    ...(data.children ?? []).flatMap(({ step, run }, index) => (step ? [{ kind: "subagent", step, index, words: `subagent ${visible(run.title ?? "")}: ${plural(run.steps.length, "step")}` }] : [])),
    ...(data.between ?? []).flatMap(({ kind, after, title }) => (kind === "compaction" ? [{ kind, step: Math.max(1, after), after, words: visible(title) }] : [])),
  ].sort((a, b) => a.step - b.step);
  const placed = [];
  for (const one of openers) {
    const i = Math.min(one.step, spans.to.length) - 1;
    const x = xOf(one.kind === "compaction" ? spans.to[i] : (spans.from[i] + spans.to[i]) / 2);
    if (x < left - 1 || x > right + 1) continue;
    const before = placed[placed.length - 1];
    if (before && x - before.x < LANES.marks) before.all.push(one);
    else placed.push({ x, all: [one] });
  }
  return placed;
}

// What the lanes of Replay's timeline draw on its canvas. Each gets `see`: `pen`, `ink(name)`, `steps`, `how`, `spans`,
// `xOf(place)`, `left` and `right` of the plot, and the `first` and `last` step in sight, from 0.

const KINDS = ["read", "search", "write", "execute", "subagent", "other"];
const COLUMN = 2; // width of what several steps share where there is no room for each
const CROSS = 8; // room for a cross; where errors are nearer to each other, they are ticks

const colourOf = ({ ink }, kind) => ink(KINDS.includes(kind) && kind !== "other" ? `tool-${kind}` : "other-tool");
const isDense = ({ first, last, left, right }) => (last - first + 1) / (right - left) > 1 / COLUMN;

// Where a step is drawn: with a gap to the next one, where there is room for it.
function cellOf({ xOf, spans }, i) {
  const from = xOf(spans.from[i]);
  const width = Math.max(1, xOf(spans.to[i]) - from);
  const gap = Math.min(2, width * 0.15);
  return [from + gap / 2, Math.max(1, width - gap)];
}

// The calls of each step in the colour of their kind, parallel ones on each other; a step without calls is an outline.
function drawCalls(see, y, height) {
  if (isDense(see)) return drawCallColumns(see, y, height);
  const { pen, steps, how, first, last } = see;
  for (let i = first; i <= last; i += 1) {
    const { calls } = steps[i];
    const [x, width] = cellOf(see, i);
    const high = height / Math.max(1, calls.length);
    calls.forEach((call, k) => {
      pen.globalAlpha = how.kind && call.kind !== how.kind ? 0.16 : 1;
      const place = [x, y + k * high, width, Math.max(1, high - (high > 3 && calls.length > 1 ? 1 : 0))];
      if (call.dropped) hollow(pen, colourOf(see, call.kind), ...place);
      else box(pen, colourOf(see, call.kind), ...place);
    });
    pen.globalAlpha = how.kind ? 0.16 : 1;
    if (!calls.length) hollow(pen, see.ink("line2"), x, y + 2, width, height - 4);
  }
  pen.globalAlpha = 1;
}

// For each column the kinds of its calls, on each other, by their number.
function drawCallColumns(see, y, height) {
  const { pen, steps, how, left } = see;
  const order = [...KINDS].sort((a, b) => (b === how.kind) - (a === how.kind)); // what was chosen stands on the ground
  columnsOf(see, () => ({}), (kinds, i) => {
    for (const call of steps[i].calls) kinds[call.kind] = (kinds[call.kind] ?? 0) + 1;
  }).forEach((kinds, at) => {
    const all = Object.values(kinds).reduce((sum, n) => sum + n, 0);
    let bottom = y + height;
    for (const kind of order) {
      const high = all ? ((kinds[kind] ?? 0) / all) * height : 0;
      pen.globalAlpha = how.kind && kind !== how.kind ? 0.16 : 1;
      pen.fillStyle = colourOf(see, kind);
      pen.fillRect(left + at * COLUMN, bottom - high, COLUMN, high);
      bottom -= high;
    }
  });
  pen.globalAlpha = 1;
}

// What falls into each column of the plot, by its number.
function columnsOf({ first, last, xOf, spans, left }, make, add) {
  const columns = [];
  for (let i = first; i <= last; i += 1) {
    const at = Math.max(0, Math.floor((xOf(spans.from[i]) - left) / COLUMN));
    add((columns[at] ??= make()), i);
  }
  return columns;
}

// A cross below each step with an error; ticks, where they are nearer to each other than a cross is wide.
function drawErrors(see, y) {
  const { pen, steps, first, last, ink } = see;
  pen.fillStyle = ink("wrong");
  pen.strokeStyle = ink("wrong");
  let before = -Infinity;
  const dense = isDense(see);
  for (let i = first; i <= last; i += 1) {
    if (!steps[i].flags.includes("error")) continue;
    const [from, width] = cellOf(see, i);
    const x = from + width / 2;
    if (!dense && x - before >= CROSS) {
      cross(pen, x, y, 2.8);
      before = x;
    } else pen.fillRect(x - 0.5, y - 2.5, 1, 5);
  }
}

// A bracket over steps that repeat the call before them, from the first of these calls on.
function drawRepeats(see, y) {
  const { pen, steps, first, last, ink, xOf, spans } = see;
  pen.fillStyle = ink("ink");
  for (let i = first; i <= last; i += 1) {
    if (!steps[i].flags.includes("repeat")) continue;
    const start = i;
    while (i < last && steps[i + 1].flags.includes("repeat")) i += 1;
    const from = xOf(spans.from[Math.max(first, start - 1)]);
    const to = Math.max(from + 2, xOf(spans.to[i]));
    pen.fillRect(from, y, to - from, 1.5);
    pen.fillRect(from, y, 1.5, 4);
    pen.fillRect(to - 1.5, y, 1.5, 4);
  }
}

// Bars on a log scale, as high as `log(value)` in a lane: `scale` has `low`, `high` and `of(step)`.
function drawBars(see, y, height, scale) {
  const { pen, steps, first, last, ink, left, how } = see;
  pen.globalAlpha = how.kind ? 0.5 : 1;
  const colour = ink("idle");
  const high = (value) => (value ? Math.max(1, scale.part(value) * height) : 0);
  if (isDense(see)) {
    pen.fillStyle = colour;
    columnsOf(see, () => ({ most: 0 }), (column, i) => (column.most = Math.max(column.most, scale.of(steps[i]) ?? 0)))
      .forEach(({ most }, at) => pen.fillRect(left + at * COLUMN, y + height - high(most), COLUMN, high(most)));
  } else {
    for (let i = first; i <= last; i += 1) {
      const [x, width] = cellOf(see, i);
      const tall = high(scale.of(steps[i]));
      const thick = how.axis === "time" ? Math.max(1, Math.min(width, see.xOf(see.spans.from[i] + (steps[i].model_ms ?? 0)) - x)) : width;
      if (tall) box(pen, colour, x, y + height - tall, thick, tall, 1);
    }
  }
  pen.globalAlpha = 1;
}

// A log scale from 1 second, or 1 token, over whole powers of ten; null if there is nothing to draw.
function logScale(steps) {
  const timed = steps.some((step) => step.model_ms);
  const of = timed ? (step) => step.model_ms : (step) => step.usage?.output;
  let most = 0;
  for (const step of steps) most = Math.max(most, of(step) ?? 0);
  if (!most) return null;
  const unit = timed ? 1000 : 1;
  const top = Math.max(timed ? 1 : 2, Math.ceil(Math.log10(most / unit) - 1e-9)); // in powers of ten of the unit
  const bottom = -0.5; // what is shorter than one unit is still seen
  const part = (value) => Math.max(0, Math.min(1, (Math.log10(value / unit) - bottom) / (top - bottom)));
  const ticks = Array.from({ length: top + 1 }, (_, power) => 10 ** power).filter((n) => top < 4 || Math.log10(n) % 2 === 0);
  return { timed, of, part, ticks: ticks.map((n) => ({ part: part(n * unit), text: timed ? `${count(n)} s` : short(n) })) };
}

const PAID = ["reread", "rewrite", "first"]; // what a prompt is made of, from the ground up
const PAID_TEXT = 13; // room for the dollars of misses
const sumOf = (parts) => (parts ?? []).reduce((sum, one) => sum + one, 0);

// The tokens of each prompt by what was paid for them. Of the steps of a column the one with the largest miss stands for it.
function drawPaid(see, y, height, { context, most }) {
  const { pen, ink, first, last, left } = see;
  if (!most) return;
  const stack = (parts, x, width) => {
    let bottom = y + height;
    parts.forEach((tokens, k) => {
      const high = (tokens / most) * height;
      pen.fillStyle = ink(`paid-${PAID[k]}`);
      pen.fillRect(x, bottom - high, width, high);
      bottom -= high;
    });
  };
  if (isDense(see)) {
    const better = (one, other) => !one || (other[1] - one[1] || sumOf(other) - sumOf(one)) > 0;
    columnsOf(see, () => ({ parts: null }), (column, i) => {
      if (context[i] && better(column.parts, context[i])) column.parts = context[i];
    }).forEach(({ parts }, at) => parts && stack(parts, left + at * COLUMN, COLUMN));
    return;
  }
  for (let i = first; i <= last; i += 1) {
    if (context[i]) stack(context[i], ...cellOf(see, i));
  }
}

// A mark above each miss of the cache, and its dollars where there is room: the dearest first.
function drawMisses({ pen, ink, first, last, xOf, spans, left, right }, y, { misses }) {
  const placed = misses.filter(({ step }) => step - 1 >= first && step - 1 <= last)
    .map((miss) => ({ ...miss, x: (xOf(spans.from[miss.step - 1]) + xOf(spans.to[miss.step - 1])) / 2 }));
  pen.fillStyle = ink("paid-rewrite");
  for (const { x } of placed) triangle(pen, x, y + 6);
  const taken = placed.map(({ x }) => ({ from: x - 5, to: x + 5, x }));
  pen.textAlign = "left";
  for (const { usd, x } of placed.sort((a, b) => b.usd - a.usd)) {
    if (!(usd >= 0.005)) continue;
    const text = money(usd);
    const width = pen.measureText(text).width;
    const from = [x + 7, x - 7 - width].find((start) => start >= left && start + width <= right &&
      !taken.some((one) => one.x !== x && one.from < start + width + 3 && start - 3 < one.to));
    if (from === undefined) continue;
    taken.push({ from, to: from + width, x: NaN });
    pen.fillStyle = ink("ink2");
    pen.fillText(text, from, y + 7);
  }
}

// The key of the colours, beside the lane.
function drawPaidKey({ pen, ink, right }, y, height, narrow) {
  const words = narrow ? { first: "first", rewrite: "missed", reread: "again" } : { first: "sent first", rewrite: "cache missed", reread: "sent again" };
  pen.textAlign = "left";
  [...PAID].reverse().forEach((piece, k) => {
    const middle = y + (height / PAID.length) * (k + 0.5);
    pen.fillStyle = ink(`paid-${piece}`);
    pen.fillRect(right + 6, middle - 3.5, 7, 7);
    pen.fillStyle = ink("ink3");
    pen.fillText(words[piece], right + 17, middle + 0.5);
  });
}

// A curve over the steps, each value in the middle of its step. Unknown values leave a gap.
function drawCurve(see, y, height, { values, most }, { colour, thick, filled = null, dash = [] }) {
  const { pen, first, last, xOf, spans, left } = see;
  const bottom = y + height;
  pen.beginPath();
  let begun = null;
  let x = 0;
  let column = -1;
  const close = () => {
    if (begun === null || !filled) return;
    pen.lineTo(x, bottom);
    pen.lineTo(begun, bottom);
  };
  const dense = isDense(see);
  for (let i = first; i <= last; i += 1) {
    const value = values[i];
    if (value === null || value === undefined) {
      close();
      begun = null;
      continue;
    }
    const at = (xOf(spans.from[i]) + xOf(spans.to[i])) / 2;
    if (dense && i < last && Math.floor((at - left) / COLUMN) === column) continue;
    column = Math.floor((at - left) / COLUMN);
    x = at;
    const place = [x, bottom - Math.min(1, value / most) * height];
    if (begun === null) {
      begun = x;
      if (filled) pen.moveTo(x, bottom);
      if (filled) pen.lineTo(...place);
      else pen.moveTo(...place);
    } else pen.lineTo(...place);
  }
  close();
  if (filled) {
    pen.fillStyle = filled;
    pen.fill();
    return;
  }
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  pen.lineJoin = "round";
  pen.setLineDash(dash);
  pen.stroke();
  pen.setLineDash([]);
}

// Labels that stand below each other, each as near to its place as there is room.
function apart(labels, distance, low, high) {
  const sorted = [...labels].sort((a, b) => a.y - b.y);
  let next = low;
  for (const one of sorted) {
    one.y = Math.max(one.y, next);
    next = one.y + distance;
  }
  let room = high;
  for (const one of sorted.reverse()) {
    one.y = Math.min(one.y, room);
    room = one.y - distance;
  }
  return labels;
}

function box(pen, colour, x, y, width, height, radius = 2) {
  pen.fillStyle = colour;
  if (width <= 4 || height <= 3) return pen.fillRect(x, y, width, height);
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
  return pen.fill();
}

function hollow(pen, colour, x, y, width, height) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.roundRect(x + 0.5, y + 0.5, Math.max(0.5, width - 1), Math.max(0.5, height - 1), 2);
  pen.stroke();
}

function cross(pen, x, y, size) {
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x - size, y - size);
  pen.lineTo(x + size, y + size);
  pen.moveTo(x + size, y - size);
  pen.lineTo(x - size, y + size);
  pen.stroke();
}

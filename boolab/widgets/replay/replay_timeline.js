// Replay's timeline: lanes of calls, model and subagents over steps or over time, with the marks of rules. All that
// does not move is drawn once, on a canvas; the play head moves over it.

const KINDS = ["read", "search", "write", "execute", "subagent", "other"];
const BAR = 8; // height of a call, of which as many as were asked for at once stand on each other
const LANE = 44; // and the height that they share when they are many
const MODEL = 14;
const TEXT_ROW = 13;
const RULER = 18;
const COLUMN = 2; // width of what several steps share where there is no room for each

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

// Rows in which spans do not overlap: for each span its row.
function rowsOf(spans) {
  const ends = [];
  return spans.map(([from, to]) => {
    let row = ends.findIndex((end) => end <= from);
    if (row < 0) row = ends.length;
    ends[row] = to;
    return row;
  });
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

// What the lanes of subagents show, by depth: for each run its place on the parent's axis, and its calls within.
function subagentLanes(data, axis, spans) {
  const lanes = [];
  const within = (run, from, to, depth) => {
    const own = spansOf(run.steps, axis === "time" && run.timed ? "time" : "count");
    const length = own.to[own.to.length - 1] || 1;
    const place = (value) => from + (value / length) * (to - from);
    const ticks = run.steps.flatMap((step, i) =>
      step.calls.map((call) => ({ kind: call.kind, error: call.error, from: place(own.from[i]), to: place(own.to[i]) })),
    );
    (lanes[depth] ??= []).push({ from, to, ticks });
    for (const child of run.children ?? []) {
      const i = child.step - 1;
      if (i >= 0 && i < run.steps.length) within(child.run, place(own.from[i]), place(own.to[i]), depth + 1);
    }
  };
  for (const child of data.children ?? []) {
    const i = child.step - 1;
    if (i < 0 || i >= data.steps.length) continue;
    const known = axis === "time" && child.start_ms !== null && child.duration_ms !== null;
    const from = known ? child.start_ms : spans.from[i];
    within(child.run, from, known ? from + child.duration_ms : spans.to[i], 0);
  }
  return lanes.map((runs) => {
    const rows = rowsOf(runs.map(({ from, to }) => [from, to]));
    return { runs: runs.map((run, i) => ({ ...run, row: rows[i] })), rows: Math.max(...rows) + 1 };
  });
}

// The timeline. `onStep(n)` gets the step that the reader points at. What is returned: `element`, `look` (what to draw:
// `axis`, `first` and `last` step, `kind` that stands out, `hits`), `show(n)` moves the play head, `zoom(factor)`, `end`.
function timelineOf(data, onStep, describe) {
  const { steps } = data;
  const canvas = h("canvas", { "aria-hidden": "true" });
  const band = h("div", { class: "head-band" });
  const line = h("div", { class: "head-line" });
  const hover = h("div", { class: "hover", hidden: true });
  const labels = h("div", { class: "lanes" });
  const element = h(
    "div",
    {
      class: "timeline", role: "slider", tabindex: "0", "aria-label": `Timeline of ${plural(steps.length, "step")}`,
      "aria-valuemin": "1", "aria-valuemax": String(Math.max(1, steps.length)),
    },
    canvas, labels, band, line, hover,
  );
  const parallel = Math.max(1, ...steps.map((step) => step.calls.length));
  const pitchOf = (calls) => Math.max(1, Math.min(BAR + 1, LANE / calls)); // how far apart the calls of a step stand
  const slowest = Math.max(1, ...steps.map((step) => step.model_ms ?? 0));
  const wordiest = Math.max(1, ...steps.map((step) => step.usage?.output ?? 0));
  const hasEvents = steps.some((step) => step.events?.length);
  const modelTimed = steps.some((step) => step.model_ms !== null && step.model_ms !== undefined);
  const how = { axis: "count", first: 1, last: steps.length, kind: null, hits: [] };
  let spans = spansOf(steps, "count");
  let agents = [];
  let lo = 0;
  let hi = 1;
  let current = 1;
  let plot = { left: 76, width: 100 };
  let top = 0;

  const xOf = (value) => plot.left + ((value - lo) / (hi - lo || 1)) * plot.width;
  const domain = () => [spans.from[how.first - 1] ?? 0, spans.to[how.last - 1] ?? 1];
  const stepAt = (x) => {
    const value = lo + ((x - plot.left) / plot.width) * (hi - lo);
    return Math.max(how.first, Math.min(how.last, lastUpTo(spans.from, value) + 1));
  };

  const draw = eachFrame(() => {
    const box = element.getBoundingClientRect();
    if (!box.width) return;
    const style = getComputedStyle(element);
    const ink = (name) => style.getPropertyValue(`--${name}`).trim();
    const colours = Object.fromEntries(KINDS.map((kind) => [kind, ink(`tool-${kind}`) || ink("other-tool")]));
    const pen = canvas.getContext("2d");
    const font = `10.5px ${style.fontFamily}`;
    pen.font = font;
    const narrow = box.width < 560;
    const left = narrow ? 74 : 84;
    plot = { left, width: Math.max(50, box.width - left - 14) };
    const right = plot.left + plot.width;
    const marks = placedMarks(
      (data.marks ?? []).filter((mark) => mark.step !== null)
        .sort((one, other) => one.step - other.step || !one.reason - !other.reason), // stops name a place before words do
      (step) => xOf(step > 0 ? spans.to[step - 1] ?? hi : spans.from[0] ?? 0),
      plot.left, right,
      (place) => pen.measureText(markText({ ...place, labels: [...place.labels, "", ""] })).width,
    );
    const rows = Math.max(0, ...marks.map((one) => (one.row ?? -1) + 1));
    top = 6 + rows * TEXT_ROW;
    const layout = { calls: top + 4, base: top + 4 + Math.max(18, Math.min(LANE, parallel * pitchOf(parallel))) };
    layout.model = layout.base + 11;
    let y = layout.model + MODEL + 7;
    const laneTops = agents.map((lane) => {
      const at = y;
      y += Math.min(3, lane.rows) * (BAR + 2) + 5;
      return at;
    });
    const eventsTop = y;
    if (hasEvents) y += 14;
    const height = y + RULER;
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    element.style.height = `${height + 1}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = font;
    fill(
      labels,
      lane("calls", (layout.calls + layout.base) / 2 + 1),
      lane(how.axis === "time" ? "model" : modelTimed ? "model time" : "output", layout.model + MODEL / 2),
      laneTops.map((at, depth) => lane(depth ? `${"└".padStart(depth)} depth ${depth + 1}` : "subagents", at + BAR / 2)),
      hasEvents && lane("events", eventsTop + 5),
    );

    // Turns: a light line where one starts.
    pen.textBaseline = "middle";
    pen.fillStyle = ink("line");
    for (const turn of (data.turns ?? []).slice(1)) {
      const x = xOf(spans.from[turn.first - 1] ?? 0);
      if (x >= plot.left - 1 && x <= right) pen.fillRect(x - 1, top, 1, height - top - 2);
    }
    drawRuler(pen, ink, height, right);
    const first = Math.max(how.first - 1, lastUpTo(spans.from, lo));
    const last = Math.min(how.last - 1, lastUpTo(spans.from, hi));
    const dense = (last - first + 1) / plot.width > 1 / COLUMN;
    pen.save();
    pen.beginPath();
    pen.rect(plot.left - 2, 0, plot.width + 4, height);
    pen.clip();
    (dense ? drawColumns : drawBars)(pen, ink, colours, layout, first, last);
    agents.forEach((lane_, depth) => drawAgents(pen, ink, colours, lane_, laneTops[depth]));
    if (hasEvents) drawEvents(pen, ink, eventsTop, first, last);
    pen.restore();
    drawHits(pen, ink, height);
    drawMarks(pen, ink, marks, height - RULER, style.backgroundColor);
    show(current);
  });

  const lane = (text, y) => h("span", { class: "lane", style: { top: `${Math.round(y) - 8}px` } }, text);
  const markText = ({ labels: all }) => {
    const one = visible(all[0]).replace(/\s+/g, " ");
    return `${one.length > 26 ? `${one.slice(0, 25)}…` : one}${all.length > 1 ? ` +${all.length - 1}` : ""}`;
  };

  function drawRuler(pen, ink, height, right) {
    pen.fillStyle = ink("ink-3");
    pen.textAlign = "center";
    const y = height - RULER / 2;
    const most = plot.width / 90;
    if (how.axis === "time") {
      for (const ms of ruled(lo, hi, most)) pen.fillText(clock(ms), Math.min(xOf(ms), right - 8), y);
      return;
    }
    const numbers = ruled(lo + 1, hi, Math.min(most, hi - lo)).filter((n) => Number.isInteger(n) && n > 0 && n <= hi);
    const apart = numbers.length > 1 ? numbers[1] - numbers[0] : 1;
    const shown = lo === 0 ? [1, ...numbers.filter((n) => n - 1 > apart / 2)] : numbers;
    for (const n of new Set(shown)) pen.fillText(count(n), Math.min(xOf(n - 0.5), right + 12 - pen.measureText(count(n)).width / 2), y);
  }

  // One bar for each call: parallel ones on each other, failed ones with an outline and a cross.
  function drawBars(pen, ink, colours, layout, first, last) {
    for (let i = first; i <= last; i += 1) {
      const step = steps[i];
      const cell = [xOf(spans.from[i]), xOf(spans.to[i])];
      const gap = Math.min(2, (cell[1] - cell[0]) * 0.15);
      const end = (from, to) => [from, Math.max(from + (cell[1] - cell[0] > 4 || how.axis === "time" ? 3 : 1), to - gap)];
      pen.globalAlpha = how.kind ? 0.35 : 0.85;
      pen.fillStyle = ink("text-call");
      if (how.axis === "time") {
        const [from, to] = end(cell[0], xOf(spans.from[i] + (step.model_ms ?? 0)));
        if (step.model_ms !== null) box(pen, from, layout.model, to - from, MODEL - 2);
      } else {
        const share = modelTimed ? (step.model_ms ?? 0) / slowest : (step.usage?.output ?? 0) / wordiest;
        const high = share ? Math.max(2, share * MODEL) : 0;
        box(pen, cell[0] + gap, layout.model + MODEL - high, cell[1] - cell[0] - 2 * gap, high, 1);
      }
      const times = step.calls.map((call) => [call.start_ms ?? 0, (call.start_ms ?? 0) + Math.max(1, call.ms ?? 0)]);
      const timed = how.axis === "time" && step.calls.every((call) => call.start_ms !== null && call.ms !== null);
      const rowOf = timed ? rowsOf(times) : step.calls.map((_, k) => k);
      const pitch = pitchOf(Math.max(0, ...rowOf) + 1);
      step.calls.forEach((call, k) => {
        const untimed = how.axis === "time" ? [xOf(spans.from[i] + (step.model_ms ?? 0)), cell[1]] : [cell[0] + gap, cell[1]];
        const [from, to] = timed ? end(xOf(times[k][0]), xOf(times[k][1])) : end(...untimed);
        const high = Math.max(1, Math.min(BAR, pitch - (pitch > 3 ? 1 : 0)));
        const y = layout.base - (rowOf[k] + 1) * pitch;
        pen.globalAlpha = how.kind && call.kind !== how.kind ? 0.16 : 1;
        pen.fillStyle = colours[call.kind] ?? colours.other;
        if (call.dropped) hollow(pen, pen.fillStyle, from, y, to - from, high);
        else box(pen, from, y, to - from, high);
        if (call.error) {
          hollow(pen, ink("wrong"), from - 1, y - 1, to - from + 2, high + 2, 1.5);
          if (to - from > 9 && high >= 6) cross(pen, ink("ground"), (from + to) / 2, y + high / 2);
        }
      });
      if (step.flags.includes("repeat")) {
        pen.globalAlpha = how.kind && !step.calls.some((call) => call.kind === how.kind) ? 0.16 : 1;
        pen.fillStyle = ink("wrong");
        const [from, to] = how.axis === "time" ? end(xOf(spans.from[i] + (step.model_ms ?? 0)), cell[1]) : end(cell[0] + gap, cell[1]);
        pen.fillRect(from, layout.base + 3, to - from, 2.5);
      }
      if (!step.calls.length) {
        pen.globalAlpha = how.kind ? 0.16 : 1;
        hollow(pen, ink("ink-3"), Math.max(cell[0], (cell[0] + cell[1]) / 2 - 3), layout.base - BAR, Math.min(6, cell[1] - cell[0]), BAR - 2);
      }
    }
    pen.globalAlpha = 1;
  }

  // Where steps are narrower than a hair: for each column the kinds of its calls, on each other, by their number.
  function drawColumns(pen, ink, colours, layout, first, last) {
    const columns = [];
    for (let i = first; i <= last; i += 1) {
      const at = Math.floor((xOf(spans.from[i]) - plot.left) / COLUMN);
      const column = (columns[at] ??= { kinds: {}, calls: 0, steps: 0, model: 0, errors: 0, repeats: 0 });
      column.steps += 1;
      for (const call of steps[i].calls) {
        column.kinds[call.kind] = (column.kinds[call.kind] ?? 0) + 1;
        column.calls += 1;
      }
      column.model += modelTimed ? (steps[i].model_ms ?? 0) / slowest : (steps[i].usage?.output ?? 0) / wordiest;
      column.errors += steps[i].flags.includes("error");
      column.repeats += steps[i].flags.includes("repeat");
    }
    const most = Math.max(1, ...columns.filter(Boolean).map((column) => column.calls / column.steps)); // some have no step
    const room = layout.base - layout.calls;
    const order = [...KINDS].sort((a, b) => (b === how.kind) - (a === how.kind)); // what was chosen stands on the ground
    columns.forEach((column, at) => {
      const x = plot.left + at * COLUMN;
      let y = layout.base;
      for (const kind of order) {
        const high = ((column.kinds[kind] ?? 0) / column.steps / most) * room;
        pen.globalAlpha = how.kind && kind !== how.kind ? 0.16 : 1;
        pen.fillStyle = colours[kind];
        pen.fillRect(x, y - high, COLUMN - 0.3, high);
        y -= high;
      }
      pen.globalAlpha = how.kind ? 0.35 : 0.85;
      pen.fillStyle = ink("text-call");
      const high = Math.max(column.model ? 1 : 0, (column.model / column.steps) * MODEL);
      pen.fillRect(x, layout.model + MODEL - high, COLUMN - 0.3, high);
      pen.fillStyle = ink("wrong");
      const strong = (n) => (n ? 0.25 + (0.75 * n) / column.steps : 0);
      pen.globalAlpha = strong(column.errors);
      pen.fillRect(x, layout.calls - 5, COLUMN, 3);
      pen.globalAlpha = strong(column.repeats);
      pen.fillRect(x, layout.base + 3, COLUMN, 2.5);
    });
    pen.globalAlpha = 1;
  }

  // A subagent's run as a light bar, its calls in it as ticks.
  function drawAgents(pen, ink, colours, { runs }, at) {
    for (const run of runs) {
      const from = xOf(run.from);
      const width = Math.max(3, xOf(run.to) - from - 1);
      const y = at + (run.row % 3) * (BAR + 2);
      pen.globalAlpha = how.kind && how.kind !== "subagent" ? 0.2 : 0.45;
      pen.fillStyle = colours.subagent;
      box(pen, from, y, width, BAR);
      pen.globalAlpha = how.kind && how.kind !== "subagent" ? 0.3 : 1;
      if (width < run.ticks.length * 2) continue;
      for (const tick of run.ticks) {
        const x = xOf(tick.from);
        pen.fillStyle = tick.error ? ink("wrong") : colours[tick.kind] ?? colours.other;
        pen.fillRect(x + 1, y + 1, Math.max(1, Math.min(xOf(tick.to) - x - 1.5, width)), BAR - 2);
      }
    }
    pen.globalAlpha = 1;
  }

  function drawEvents(pen, ink, at, first, last) {
    pen.fillStyle = ink("ink-3");
    for (let i = first; i <= last; i += 1) {
      if (!steps[i].events?.length) continue;
      const x = xOf(spans.from[i]);
      pen.beginPath();
      pen.moveTo(x, at + 1);
      pen.lineTo(x + 4, at + 5);
      pen.lineTo(x, at + 9);
      pen.lineTo(x - 4, at + 5);
      pen.fill();
    }
  }

  function drawHits(pen, ink, height) {
    pen.fillStyle = ink("accent");
    const many = how.hits.length > plot.width / 8;
    for (const n of how.hits) {
      if (n < how.first || n > how.last) continue;
      const x = xOf((spans.from[n - 1] + spans.to[n - 1]) / 2);
      if (x < plot.left - 1 || x > plot.left + plot.width + 1) continue;
      if (many) {
        pen.fillRect(x - 0.5, height - RULER - 3, 1, 5);
        continue;
      }
      pen.beginPath();
      pen.moveTo(x, height - RULER - 4);
      pen.lineTo(x + 3.5, height - RULER + 2);
      pen.lineTo(x - 3.5, height - RULER + 2);
      pen.fill();
    }
  }

  // Lines first, so that none of them crosses a label.
  function drawMarks(pen, ink, marks, bottom, ground) {
    const topOf = (mark) => (mark.row === undefined ? top : 3 + mark.row * TEXT_ROW);
    for (const mark of marks) {
      pen.strokeStyle = mark.own ? ink("ink-2") : ink("ink-3");
      pen.lineWidth = mark.own ? 1.5 : 1;
      pen.setLineDash(mark.own ? [] : [3, 2.5]);
      pen.beginPath();
      pen.moveTo(mark.x + 0.5, topOf(mark));
      pen.lineTo(mark.x + 0.5, bottom);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.textBaseline = "middle";
    pen.lineWidth = 4;
    pen.lineJoin = "round";
    pen.strokeStyle = ground;
    for (const mark of marks) {
      if (mark.row === undefined) continue;
      const leftwards = mark.from < mark.x;
      const place = [leftwards ? mark.x - 5 : mark.x + 6, topOf(mark) + TEXT_ROW / 2];
      pen.textAlign = leftwards ? "right" : "left";
      pen.strokeText(markText(mark), ...place);
      pen.fillStyle = mark.own ? ink("ink") : ink("ink-2");
      pen.fillText(markText(mark), ...place);
      if (mark.own) pen.fillRect(mark.x - 2, topOf(mark), 5, 5);
    }
  }

  function show(n) {
    current = n;
    if (!steps.length) return;
    const i = Math.max(0, Math.min(steps.length - 1, n - 1));
    if (spans.from[i] < lo - 1e-9 || spans.to[i] > hi + 1e-9) {
      const [from, to] = domain();
      const span = hi - lo;
      if (span < to - from - 1e-9 && spans.from[i] >= from - 1e-9 && spans.to[i] <= to + 1e-9) {
        lo = Math.max(from, Math.min(to - span, spans.from[i] - span / 2));
        hi = lo + span;
        draw();
      }
    }
    const x = xOf(spans.from[i]);
    const width = Math.max(2, xOf(spans.to[i]) - x);
    const inside = x >= plot.left - 2 && x <= plot.left + plot.width + 2;
    band.style.opacity = line.style.opacity = inside ? "1" : "0";
    band.style.transform = `translateX(${x}px)`;
    band.style.width = `${Math.min(width, plot.left + plot.width - x)}px`;
    line.style.transform = `translateX(${width < 6 ? x + width / 2 - 1 : x - 1}px)`;
    element.setAttribute("aria-valuenow", String(n));
    element.setAttribute("aria-valuetext", describe(n));
  }

  function look(changed) {
    const narrowed = ["axis", "first", "last"].some((name) => name in changed && changed[name] !== how[name]);
    Object.assign(how, changed);
    if ("axis" in changed) {
      spans = spansOf(steps, how.axis);
      agents = subagentLanes(data, how.axis, spans);
    }
    if (narrowed || "axis" in changed) [lo, hi] = domain();
    draw();
  }

  // Show less or more of the chosen steps, around the play head.
  function zoom(factor) {
    const [from, to] = domain();
    const least = how.axis === "count" ? Math.min(8, to - from) : (to - from) / 200;
    const span = Math.max(least, Math.min(to - from, (hi - lo) * factor));
    const middle = (spans.from[current - 1] + spans.to[current - 1]) / 2;
    lo = Math.max(from, Math.min(to - span, middle - span / 2));
    hi = lo + span;
    draw();
  }

  let scrubbing = false;
  let origin = 0; // asked for once in each drag
  const point = (event) => onStep(stepAt(event.clientX - origin));
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !steps.length) return;
    scrubbing = true;
    origin = element.getBoundingClientRect().left;
    element.setPointerCapture(event.pointerId);
    hover.hidden = true;
    point(event);
  });
  element.addEventListener("pointermove", (event) => {
    if (scrubbing) {
      point(event);
      return;
    }
    const x = event.clientX - element.getBoundingClientRect().left;
    hover.hidden = !steps.length || x < plot.left || x > plot.left + plot.width;
    if (hover.hidden) return;
    fill(hover, describe(stepAt(x)));
    hover.style.left = `${Math.max(4, Math.min(x + 10, element.clientWidth - hover.offsetWidth - 4))}px`;
  });
  for (const name of ["pointerup", "pointercancel"]) element.addEventListener(name, () => (scrubbing = false));
  element.addEventListener("pointerleave", () => (hover.hidden = true));

  // Sizes and themes change under us.
  const sized = new ResizeObserver(draw);
  sized.observe(element);
  const themed = new MutationObserver(() => {
    draw();
    clearTimeout(later);
    later = setTimeout(draw, 300); // a notebook's theme is a stylesheet, which is there a little later than its name
  });
  let later = 0;
  themed.observe(document.body, { attributes: true });
  return {
    element, look, show, zoom,
    end() {
      draw.cancel();
      clearTimeout(later);
      sized.disconnect();
      themed.disconnect();
    },
  };
}

function box(pen, x, y, width, height, radius = 2) {
  pen.beginPath();
  if (width > 4 && height > 3) pen.roundRect(x, y, width, height, radius);
  else pen.rect(x, y, width, height);
  pen.fill();
}

function hollow(pen, colour, x, y, width, height, thick = 1) {
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  pen.beginPath();
  pen.roundRect(x + thick / 2, y + thick / 2, Math.max(0.5, width - thick), Math.max(0.5, height - thick), 2);
  pen.stroke();
}

function cross(pen, colour, x, y) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x - 2, y - 2);
  pen.lineTo(x + 2, y + 2);
  pen.moveTo(x + 2, y - 2);
  pen.lineTo(x - 2, y + 2);
  pen.stroke();
}

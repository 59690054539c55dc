// The main figure: what each cap keeps and saves, over the runs by their length. Its axis is that of the cap's slider.

const SIZE = { left: 44, right: 30, off: 20, top: 26, curve: 214, gap: 24, bars: 58, bottom: 4 };

// From a cap to its place; no cap is at the right end, and before it are the caps beyond the end of the axis.
function scaleOf(base, width) {
  const last = base.end;
  const caps = base.axes[0].values.filter((value) => value !== null && value <= last);
  const room = width - SIZE.left - SIZE.right;
  const log = (value) => Math.log(Math.max(value, 0.7) / 0.7) / Math.log(last / 0.7);
  const share = base.log ? log : (value) => value / last;
  const x = (value) => SIZE.left + (value === null ? room + SIZE.off : value > last ? room + SIZE.off / 2 : room * share(value));
  const end = SIZE.left + room;
  return Object.assign(x, { caps, last, end, known: base.known_to ? x(base.known_to) : end }); // nothing is on record beyond `known`
}

function gridValues(base, last, width) {
  if (base.log) return [1, 3, 10, 30, 100, 300, 1000, 3000, 10000].filter((value) => value <= last);
  const wanted = Math.max(3, Math.floor(width / 90));
  const step = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000].find((one) => last / one <= wanted) ?? last;
  return Array.from({ length: Math.floor(last / step) + 1 }, (_, n) => n * step);
}

// A path that goes along each value to the next, because a cap is a whole number.
function stairs(x, y, caps, values) {
  const parts = [];
  caps.forEach((cap, n) => {
    if (values[n] === null || values[n] === undefined) return;
    const to = n + 1 < caps.length ? x(caps[n + 1]) : x.known;
    parts.push(`${parts.length ? "L" : "M"}${x(cap).toFixed(1)} ${y(values[n]).toFixed(1)}H${to.toFixed(1)}`);
  });
  return parts.join("");
}

function band(x, y, caps, lower, upper) {
  const forth = stairs(x, y, caps, upper);
  const back = [];
  for (let n = caps.length - 1; n >= 0; n -= 1) {
    const from = n + 1 < caps.length ? x(caps[n + 1]) : x.known;
    back.push(`L${from.toFixed(1)} ${y(lower[n]).toFixed(1)}H${x(caps[n]).toFixed(1)}`);
  }
  return forth && `${forth}${back.join("")}Z`;
}

// Where a line has most room for its name: inside the figure, away from other lines and other names.
function labelPlace(x, y, mine, others, text, taken) {
  const wide = 7 * text.length;
  let best = null;
  x.caps.forEach((cap, n) => {
    const at = x(cap);
    if (at - wide / 2 < SIZE.left + 4 || at + wide / 2 > x.end || mine[n] === null) return;
    const near = x.caps.map((one, i) => [Math.abs(x(one) - at), i]).filter(([away]) => away <= wide / 2 + 8).map(([, i]) => i);
    for (const side of [-1, 1]) {
      const line = side < 0 ? Math.min(...near.map((i) => y(mine[i]))) : Math.max(...near.map((i) => y(mine[i])));
      const level = line + side * 13;
      if (level < SIZE.top + 8 || level > y(0) - 8) continue;
      if (taken.some((one) => Math.abs(one.at - at) < (one.wide + wide) / 2 + 8 && Math.abs(one.level - level) < (one.tall ?? 18))) continue;
      const clear = Math.min(...near.flatMap((i) => others.map((line2) => Math.abs(y(line2[i] ?? -9) - level))), 60);
      if (!best || clear > best.clear + 1) best = { clear, at, level, wide };
    }
  });
  if (best) taken.push(best);
  return best;
}

function chart(data, width, act) {
  const { base, answer, recommended } = data;
  const { curve } = answer;
  const mark = data.trial?.mark;
  const most = mark ? topOf(mark) : 1;
  const tall = Math.round(SIZE.curve * Math.min(most, MAX_TALL));
  const x = scaleOf(base, width);
  const { caps, last } = x;
  const total = answer.kept.of;
  const y = (share) => SIZE.top + tall * (1 - share / most);
  const lower = caps.map((_, n) => (total ? curve.lower[n] / total : null));
  const upper = caps.map((_, n) => (total ? curve.upper[n] / total : null));
  const least = caps.map((_, n) => (total ? curve.at_least[n] : null));
  const saved = caps.map((_, n) => curve.saved[n] ?? null);
  const foot = SIZE.top + tall + SIZE.gap;
  const height = foot + SIZE.bars + SIZE.bottom;
  const svg = h("svg", { class: "figure", role: "img", viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": summary(data) });

  for (const share of sharesTo(most)) {
    put(svg, h("line", { class: "rule", x1: SIZE.left, x2: x.end, y1: y(share), y2: y(share) }),
      h("text", { class: "tick", x: SIZE.left - 7, y: y(share) + 4, "text-anchor": "end" }, `${100 * share}%`));
  }
  put(svg, hatching());
  const [runs, caption] = bars(data, x, foot);
  put(svg, runs);
  const now = answer.setting.max_steps;
  if (recommended?.setting?.max_steps) put(svg, line("recommended", x(recommended.setting.max_steps), SIZE.top - 8, foot + SIZE.bars));
  if (total) {
    put(svg, h("path", { class: "band", d: band(x, y, caps, least, upper) }),
      h("path", { class: "line kept", d: stairs(x, y, caps, lower) }),
      h("line", { class: "keep", x1: SIZE.left, x2: x.known, y1: y(data.keep), y2: y(data.keep) }));
  }
  put(svg, h("path", { class: "line saved", d: stairs(x, y, caps, saved) }));
  const taken = [{ at: x(now), wide: 0, level: SIZE.top + tall / 2, tall }];
  const ofTrial = mark && trialMarks(mark, x, y, most, taken);
  if (total) {
    const clear = caps.find((_, n) => Math.max(saved[n] ?? 0, lower[n]) < data.keep - 0.12) ?? caps[0];
    const keepText = `keep ${percent(data.keep)}`;
    const wide = 7 * keepText.length;
    const from = Math.min(x(clear) + 4, x.end - wide);
    taken.push({ at: from + wide / 2, wide, level: y(data.keep) - 7 });
    put(svg, h("text", { class: "label keep", x: from, y: y(data.keep) - 3 }, keepText));
  }
  const keep = caps.map(() => data.keep);
  const names = [
    ["kept", lower, [saved, upper, least, keep], base.proxy ? "kept (proxy)" : "successes kept"],
    ["saved", saved, [lower, least, upper, keep], `${base.measure} saved`],
    ["bound", least, [saved, lower, keep], "lower bound"],
  ];
  for (const [name, mine, others, text] of names) {
    const spot = mine.some((value) => value !== null) ? labelPlace(x, y, mine, others, text, taken) : null;
    if (spot) put(svg, h("text", { class: `label ${name}`, x: spot.at, y: spot.level + 4, "text-anchor": "middle" }, text));
  }
  const n = caps.indexOf(now);
  put(svg, line("present", x(now), SIZE.top - 8, foot + SIZE.bars), caption,
    h("text", { class: "present", x: Math.min(Math.max(x(now), 30), width - 30), y: 11, "text-anchor": "middle" }, now === null ? "no cap" : `cap ${count(now)}`));
  if (mark) put(svg, ofTrial);
  if (n >= 0 && total) put(svg, h("circle", { class: "dot kept", cx: x(now), cy: y(lower[n]), r: 4 }));
  if (n >= 0 && saved[n] !== null) put(svg, h("circle", { class: "dot saved", cx: x(now), cy: y(saved[n]), r: 4 }));
  const place = h("div", { class: "chart" },
    h("h4", {}, visible(curve.title)), h("p", { class: "quiet" }, curve.note), svg, barsKey(data));
  follow(place, svg, data, act, (at, atY) => (mark && isAtMark(mark, x, at) && atY < y(0) ? mark : nearest(x, caps, at)));
  return place;
}

function line(name, at, from, to) {
  return h("line", { class: name, x1: at, x2: at, y1: from, y2: to });
}

function nearest(x, caps, at) {
  return caps.reduce((best, one) => (Math.abs(x(one) - at) < Math.abs(x(best) - at) ? one : best), caps[0]);
}

// The numbers of a cap beside the pointer, inside the figure; a click sets the cap, or the next one that there is.
function follow(place, svg, data, act, find) {
  const found = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    return find((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
  };
  svg.addEventListener("click", (event) => {
    const cap = found(event);
    if (cap && !cap.tips) act.choose({ max_steps: nearest((one) => one, act.caps, cap) });
  });
  svg.addEventListener("pointermove", (event) => {
    place.querySelector(".tooltip")?.remove();
    const cap = found(event);
    if (!cap) return;
    const shown = cap.tips ? trialTooltip(cap) : tooltip(data, cap);
    place.append(shown);
    const box = place.getBoundingClientRect();
    const left = event.clientX - box.left;
    const flip = left + 14 + shown.offsetWidth > box.width;
    shown.style.left = `${Math.max(Math.min(0, box.width - shown.offsetWidth), flip ? left - 14 - shown.offsetWidth : left + 14)}px`;
    shown.style.top = `${Math.max(0, Math.min(event.clientY - box.top - 20, box.height - shown.offsetHeight))}px`;
  });
  svg.addEventListener("pointerleave", () => place.querySelector(".tooltip")?.remove());
}

// The numbers of a cap, in words of Python.
function tooltip({ base, answer }, cap) {
  const rows = answer.curve.tips[base.axes[0].values.indexOf(cap)] ?? [];
  return h("div", { class: "tooltip", role: "presentation" }, h("b", {}, `cap ${count(cap)}`),
    h("table", {}, rows.map((cells) => h("tr", {}, cells.map((cell, at) => h("td", at ? { class: "number" } : {}, cell))))),
    h("span", { class: "quiet" }, "click to set"));
}

// Runs by their length: successes above the line, failures and runs without a label below it. Those that the setting
// stops have an edge in the colour of what is saved.
function bars({ base, answer }, x, foot) {
  const { edges, success, failure, unknown } = base.lengths;
  const cut = answer.cut_by_length;
  const below = failure.map((runs, bin) => runs + unknown[bin]);
  const [above, under] = [Math.max(0, ...success), Math.max(0, ...below)];
  const unit = SIZE.bars / Math.max(1, above + under);
  const zero = foot + above * unit;
  const group = h("g", { class: "bars" });
  success.forEach((n, bin) => {
    if (!n && !below[bin]) return;
    const isLonger = edges[bin] >= x.last && bin === success.length - 1; // of those beyond the end of the axis
    const from = isLonger ? x.end + 3 : x(edges[bin]);
    const wide = isLonger ? SIZE.off - 7 : Math.max(1, Math.min(x(edges[bin + 1]), x.end + 1) - from - 1);
    const range = edges[bin + 1] - edges[bin] > 1 ? `${edges[bin]}\u2013${edges[bin + 1] - 1}` : `${edges[bin]}`;
    const stopped = cut.success[bin] + cut.failure[bin] + cut.unknown[bin];
    const words = [successes(n, base), failures(failure[bin], base), unknown[bin] ? `${count(unknown[bin])} without a label` : null];
    const open = cut.unknown[bin] && !base.proxy ? `, ${count(cut.unknown[bin])} of them of unknown outcome` : "";
    const bar = h("g", {}, h("title", {}, `${range} steps: ${words.filter(Boolean).join(", ")}; ${count(stopped)} stopped${open}`));
    const stack = [["success", n, cut.success[bin], -1, 0], ["failure", failure[bin], cut.failure[bin], 1, 0], ["unknown", unknown[bin], cut.unknown[bin], 1, failure[bin]]];
    for (const [name, runs, ended, side, start] of stack) {
      const left = runs - ended;
      const top = (first, many) => (side < 0 ? zero - (first + many) * unit : zero + first * unit);
      if (left) put(bar, h("rect", { class: name, x: from, y: top(start, left), width: wide, height: left * unit }));
      if (ended) put(bar, h("rect", { class: `${name} cut`, ...(name === "unknown" && !base.proxy ? { fill: `url(#boolab-hatch-${hatchings})` } : {}), x: from + 0.5, y: top(start + left, ended), width: Math.max(wide - 1, 1), height: ended * unit }));
    }
    put(group, bar);
  });
  const sums = [success, failure, unknown].map((runs) => runs.reduce((sum, n) => sum + n, 0));
  const caption = [
    `${successes(sums[0], base)} above`,
    `${failures(sums[1], base)} below`, sums[2] ? `${count(sums[2])} without a label` : null, answer.cut.n ? "outlined: stopped" : null,
    base.longer ? `at the end ${count(base.longer)} of ${count(x.last)} steps or more` : null,
  ];
  put(group, h("line", { class: "rule", x1: SIZE.left, x2: x.end, y1: zero, y2: zero }));
  const listed = (parts) => parts.filter(Boolean).join(", ");
  const all = listed(caption); // of which as much is written as there is room for
  const texts = [`${base.noun}s by length: ${all}`, all, listed(caption.filter((_, n) => n !== 3)), listed(caption.slice(0, 2))];
  const text = texts.find((one) => 5.8 * one.length < x.end) ?? texts.at(-1);
  const now = x(answer.setting.max_steps);
  const wide = 6.4 * text.length;
  const isLeft = now < x.end && now > x.end - wide && now > SIZE.left + wide; // of the line of the present cap
  return [group, h("text", { class: "caption", x: isLeft ? SIZE.left : x.end, y: foot - 7, "text-anchor": isLeft ? "start" : "end" }, text)];
}

// The pattern of runs that are stopped and of unknown outcome. Each figure has its own: one of a hidden figure is not drawn.
let hatchings = 0;

function hatching() {
  hatchings += 1;
  const pattern = h("pattern", { id: `boolab-hatch-${hatchings}`, width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    h("rect", { class: "ground", width: 4, height: 4 }), h("rect", { class: "stripe", width: 1.6, height: 4 }));
  return h("defs", {}, pattern);
}

// What the bars mean, where outcomes are unknown.
function barsKey({ base, answer }) {
  if (base.proxy || !base.lengths.unknown.some(Boolean)) return null;
  const names = [["success", "success"], ["failure", "failure"], ["unknown", "unknown outcome"]];
  return h("ul", { class: "key" }, names.map(([name, words]) => h("li", {}, h("i", { class: name, "aria-hidden": "true" }), words)),
    answer.cut.unknown ? h("li", {}, hatch(), "stopped, of unknown outcome: may be lost") : null);
}

// Of families, the runs of successes are counted: a success is that of the whole family.
function successes(n, { proxy, families, success }) {
  if (families) return `${count(n)} of ${success}`;
  return proxy ? `${count(n)} that ended by themselves` : n === 1 ? "1 success" : `${count(n)} successes`;
}

function failures(n, { proxy, families }) {
  const noun = proxy ? "other" : "failure";
  return families ? `${count(n)} of ${noun}s` : plural(n, noun);
}

// The figure in words, for those who do not see it.
function summary({ base, answer, recommended, trial }) {
  const advice = recommended?.setting ? ` The recommended step cap is ${limitText(recommended.setting.max_steps)}.` : "";
  const stopped = `It stops ${count(answer.cut.n)} of ${plural(base.units, base.noun)}.`;
  const open = answer.cut.unknown && !base.proxy
    ? ` ${count(answer.cut.unknown)} of these ${answer.cut.unknown === 1 ? "has" : "have"} no known outcome and may be lost successes: it keeps ${answer.kept_shares} of the successes, whatever unknown ones are.`
    : "";
  return `${answer.curve.title}. ${answer.verdict.join(" ")} ${stopped}${open}${advice}${trial ? ` Trial: ${visible(trial.sentence)}` : ""}`;
}

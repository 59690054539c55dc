// Replay's timeline: the calls over steps or over time, below them what they cost, and the limits that would have stopped
// them. All that does not move is drawn once, on a canvas; the play head moves over it. The lanes are in
// replay_lanes.js, the places of steps and marks in replay_axis.js.

// The timeline. `onStep(n)` gets the step that the reader points at, `openRun(index)` the subagent's run, and
// `openCompaction(after)` the compaction after a step that was chosen. What is returned: `element`, `look` (what to
// draw: `axis`, `first` and `last` step, `kind` that stands out, `hits`), `show(n)` moves the play head,
// `zoom(factor)`, `end`.
function timelineOf(data, onStep, describe, { openRun, openCompaction } = {}) {
  const { steps } = data;
  const canvas = h("canvas", { "aria-hidden": "true" });
  const band = h("div", { class: "head-band" });
  const hover = h("div", { class: "hover", hidden: true, "aria-hidden": "true" });
  const labels = h("div", { class: "lanes" });
  const slider = h(
    "div",
    {
      class: "timeline", role: "slider", tabindex: "0", "aria-label": `Timeline of ${plural(steps.length, "step")}`,
      "aria-valuemin": "1", "aria-valuemax": String(Math.max(1, steps.length)),
    },
    canvas, labels, band,
  );
  const openers = h("div", { class: "openers", role: "group", "aria-label": "Subagents and compactions" });
  const element = h("div", { class: "timeline-frame" }, slider, openers, hover);
  const scale = logScale(steps);
  const curves = (data.curves ?? []).map((curve) => {
    const known = curve.values.filter((value) => value !== null);
    return { ...curve, most: Math.max(curve.limit ?? 0, ...known.slice(-1), known.reduce((most, one) => Math.max(most, one), 0)) * 1.04 || 1, end: known[known.length - 1] };
  });
  const paid = data.bill && { ...data.bill, most: data.bill.context.reduce((most, one) => Math.max(most, sumOf(one)), 0) };
  const hasMarks = (data.children ?? []).some((child) => child.step) || (data.between ?? []).some(({ kind }) => kind === "compaction");
  const hasRepeats = steps.some((step) => step.flags.includes("repeat"));
  const parallel = steps.reduce((most, step) => Math.max(most, step.calls.length), 1);
  const how = { axis: "count", first: 1, last: steps.length, kind: null, hits: [] };
  let spans = spansOf(steps, "count");
  let lo = 0;
  let hi = 1;
  let current = 1;
  let plot = { left: 76, width: 100 };

  const xOf = (value) => plot.left + ((value - lo) / (hi - lo || 1)) * plot.width;
  const domain = () => [spans.from[how.first - 1] ?? 0, spans.to[how.last - 1] ?? 1];
  const stepAt = (x) => {
    const value = lo + ((x - plot.left) / plot.width) * (hi - lo);
    return Math.max(how.first, Math.min(how.last, lastUpTo(spans.from, value) + 1));
  };

  const draw = eachFrame(() => {
    const width = element.clientWidth;
    if (!width) return;
    const style = getComputedStyle(slider);
    const colours = {};
    const ink = (name) => (colours[name] ??= style.getPropertyValue(`--${name}`).trim());
    const pen = canvas.getContext("2d");
    const font = `10.5px ${style.fontFamily}`;
    pen.font = font;
    const narrow = width < 640;
    const sideways = curves.length || scale || paid ? (narrow ? 62 : 104) : 18;
    plot = { left: narrow ? 74 : 88, width: Math.max(50, width - (narrow ? 74 : 88) - sideways) };
    const { left } = plot;
    const right = left + plot.width;
    const marks = placedMarks(
      (data.marks ?? []).filter((mark) => mark.step !== null)
        .sort((one, other) => one.step - other.step || !one.reason - !other.reason), // stops name a place before words do
      (step) => xOf(step > 0 ? spans.to[step - 1] ?? hi : spans.from[0] ?? 0),
      left, right, (place) => pen.measureText(markText({ ...place, labels: [...place.labels, "", ""] })).width,
    );
    const rows = marks.reduce((most, one) => Math.max(most, (one.row ?? -1) + 1), 0);
    const flags = 3 + rows * LANES.text;
    const curvesHigh = width < 1000 ? LANES.curvesLow : LANES.curves;
    const at = { repeats: flags + 6 };
    at.calls = at.repeats + (hasRepeats ? 6 : 0);
    at.callsHeight = parallel > 1 ? LANES.calls + 8 : LANES.calls;
    at.errors = at.calls + at.callsHeight + LANES.errors / 2 + 1;
    at.model = at.errors + LANES.errors / 2 + 4;
    at.paid = at.model + (scale ? LANES.model + 9 : 0);
    at.curves = at.paid + (paid ? LANES.paid + 8 : 0);
    at.marks = at.curves + (curves.length ? curvesHigh + 6 : 0);
    at.ruler = at.marks + (hasMarks ? LANES.marks : 0);
    const height = at.ruler + LANES.ruler;
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    slider.style.height = `${height + 1}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = font;
    pen.textBaseline = "middle";
    fill(
      labels,
      lane("calls", at.calls + at.callsHeight / 2),
      scale && lane(scale.timed ? "model time" : "tokens out", at.model + 5), scale && lane("log scale", at.model + 18, "quiet"),
      paid && lane("context", at.paid + 18), paid && lane(!narrow && paid.window ? `${short(paid.most)} of ${short(paid.window)}` : `to ${short(paid.most)}`, at.paid + 31, "quiet"),
      curves.map((curve, i) => lane(curve.label, at.curves + curvesHigh / 2 + (i - (curves.length - 1) / 2) * 13, curve.key === "cost" ? "" : "quiet")),
      hasMarks && lane("opens", at.marks + LANES.marks / 2),
      lane(how.axis === "time" ? "time" : "step", at.ruler + LANES.ruler / 2),
    );
    const first = Math.max(how.first - 1, lastUpTo(spans.from, lo));
    const last = Math.min(how.last - 1, lastUpTo(spans.from, hi));
    const see = { pen, ink, steps, how, spans, xOf, left, right, first, last };
    // Turns: a light line where one starts, if they are not as many as the steps.
    const turns = (data.turns ?? []).slice(1).filter((turn) => turn.first - 1 > first && turn.first - 1 <= last);
    pen.fillStyle = ink("line");
    if (turns.length * 24 < plot.width) for (const turn of turns) pen.fillRect(Math.round(xOf(spans.from[turn.first - 1])), at.calls - 3, 1, at.ruler - at.calls);
    if (scale) drawScale(see, at, right);
    drawRuler(pen, ink, at.ruler, right);
    pen.save();
    pen.beginPath();
    pen.rect(left - 2, 0, plot.width + 4, height);
    pen.clip();
    drawCalls(see, at.calls, at.callsHeight);
    drawErrors(see, at.errors);
    if (hasRepeats) drawRepeats(see, at.repeats);
    if (scale) drawBars(see, at.model, LANES.model, scale);
    if (paid) drawPaid(see, at.paid + PAID_TEXT, LANES.paid - PAID_TEXT, paid);
    const context = curves.find((curve) => curve.key === "context");
    if (context) drawCurve(see, at.curves, curvesHigh, context, { filled: ink("sunk") }); // first: all others stand on it
    for (const curve of [...curves].reverse()) drawCurve(see, at.curves, curvesHigh, curve, looks(ink)[curve.key]);
    pen.restore();
    if (paid) {
      drawMisses(see, at.paid, paid);
      drawPaidKey(see, at.paid + PAID_TEXT, LANES.paid - PAID_TEXT, narrow);
    }
    if (curves.length) drawEnds(see, at.curves, curvesHigh, right, narrow);
    if (scale?.timed) drawSlow(see, at.model);
    drawHits(pen, ink, at.ruler);
    drawMarks(pen, ink, marks, at.ruler - 1, flags, style.backgroundColor);
    drawOpeners(at.marks);
    band.style.top = `${flags + 3}px`;
    band.style.height = `${at.ruler - flags - 3}px`;
    show(current);
  });

  const looks = (ink) => ({
    cost: { colour: ink("ink"), thick: 1.6 },
    context: { colour: ink("ink3"), thick: 1.2 },
    tokens: { colour: ink("ink3"), thick: 1.2, dash: [2, 2] },
  });
  const lane = (text, y, name = "") => h("span", { class: `lane ${name}`, style: { top: `${Math.round(y) - 8}px` } }, text);
  const markText = ({ labels: all }) => {
    const one = visible(all[0]).replace(/\s+/g, " ");
    return `${one.length > 30 ? `${one.slice(0, 29)}…` : one}${all.length > 1 ? ` +${all.length - 1}` : ""}`;
  };

  function drawRuler(pen, ink, top, right) {
    pen.fillStyle = ink("line2");
    pen.fillRect(plot.left, top, plot.width, 1);
    pen.fillStyle = ink("ink3");
    pen.textAlign = "center";
    const y = top + LANES.ruler / 2 + 1;
    const most = plot.width / 90;
    if (how.axis === "time") {
      for (const ms of ruled(lo, hi, most)) pen.fillText(clock(ms), Math.min(xOf(ms), right - 8), y);
      return;
    }
    const numbers = ruled(lo + 1, hi, Math.min(most, hi - lo)).filter((n) => Number.isInteger(n) && n > 0 && n <= hi);
    const between = numbers.length > 1 ? numbers[1] - numbers[0] : 1;
    const odd = Array.from({ length: Math.ceil(hi / between) }, (_, k) => 1 + k * between); // 1, 3, 5
    const shown = lo > 0 ? numbers : between <= 2 ? odd : [1, ...numbers.filter((n) => n - 1 > between / 2)];
    for (const n of new Set(shown)) pen.fillText(count(n), Math.min(xOf(n - 0.5), right + 12 - pen.measureText(count(n)).width / 2), y);
  }

  function drawScale({ pen, ink }, at, right) {
    pen.textAlign = "left";
    let before = Infinity;
    for (const { part, text } of scale.ticks) {
      const y = Math.round(at.model + LANES.model * (1 - part));
      pen.fillStyle = ink("line");
      pen.fillRect(plot.left, y, plot.width, 1);
      pen.fillStyle = ink("ink3");
      if (before - y < 11) continue;
      pen.fillText(text, right + 6, y);
      before = y;
    }
  }

  // Steps that took many times as long as usual say how long.
  function drawSlow({ pen, ink, first, last, left, right }, top) {
    pen.fillStyle = ink("ink2");
    const taken = [];
    for (const { step, text } of data.slow ?? []) {
      if (step - 1 < first || step - 1 > last) continue;
      const width = pen.measureText(text).width + 8;
      const x = xOf(spans.to[step - 1]) + 4;
      const from = x + width <= right ? x : xOf(spans.from[step - 1]) - width + 4;
      if (from < left || taken.some((one) => one.from < from + width && from < one.to)) continue;
      taken.push({ from, to: from + width });
      pen.textAlign = "left";
      pen.lineWidth = 3;
      pen.strokeStyle = ink("bg");
      pen.strokeText(text, from, top + 4);
      pen.fillText(text, from, top + 4);
    }
  }

  // What each curve ends at, and the limit of its cost.
  function drawEnds({ pen, ink }, top, high, right, narrow) {
    const units = { usd: money, tokens: short };
    const heightOf = (curve, value) => top + high * (1 - Math.min(1, value / curve.most));
    const ends = curves.filter((curve) => curve.end !== undefined).map((curve) => {
      const value = units[curve.unit](curve.end);
      const of = curve.limit !== null && curve.key !== "cost" ? ` of ${short(curve.limit)}` : "";
      return { y: heightOf(curve, curve.end), text: narrow ? value : `${curve.key} ${value}${of}`, colour: ink(curve.key === "cost" ? "ink" : "ink3") };
    });
    pen.textAlign = "left";
    for (const { y, text, colour } of apart(ends, 12, top, top + high)) {
      pen.fillStyle = colour;
      pen.fillText(text, right + 6, y);
    }
    const cost = curves.find((curve) => curve.key === "cost" && curve.limit !== null);
    if (!cost) return;
    const y = Math.round(heightOf(cost, cost.limit)) + 0.5;
    pen.strokeStyle = ink("ink2");
    pen.lineWidth = 1;
    pen.setLineDash([1, 2]);
    pen.beginPath();
    pen.moveTo(plot.left, y);
    pen.lineTo(right, y);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = ink("ink3");
    pen.fillText(`limit ${money(cost.limit)}`, plot.left + 3, y + 8.5);
  }

  function drawHits(pen, ink, top) {
    pen.fillStyle = ink("tool-write");
    for (const n of how.hits) {
      if (n < how.first || n > how.last) continue;
      const x = xOf((spans.from[n - 1] + spans.to[n - 1]) / 2);
      if (x < plot.left - 1 || x > plot.left + plot.width + 1) continue;
      const wide = how.hits.length > plot.width / 8 ? 1 : 5;
      pen.fillRect(x - wide / 2, top + 1, wide, 3);
    }
  }

  // Lines first, so that none of them crosses a label.
  function drawMarks(pen, ink, marks, bottom, flags, ground) {
    const topOf = (mark) => (mark.row === undefined ? flags : 3 + mark.row * LANES.text);
    for (const mark of marks) {
      pen.strokeStyle = mark.own ? ink("ink") : ink("ink2");
      pen.lineWidth = mark.own ? 1.5 : 1;
      pen.setLineDash(mark.own ? [] : [3, 2.5]);
      pen.beginPath();
      pen.moveTo(mark.x + 0.5, topOf(mark) + LANES.text - 3);
      pen.lineTo(mark.x + 0.5, bottom);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.lineWidth = 4;
    pen.lineJoin = "round";
    pen.strokeStyle = ground;
    for (const mark of marks) {
      pen.fillStyle = mark.own ? ink("ink") : ink("ink2");
      if (mark.own) pen.fillRect(mark.x - 3, flags, 6, 6);
      else triangle(pen, mark.x + 0.5, flags);
      if (mark.row === undefined) continue;
      const leftwards = mark.from < mark.x;
      const place = [leftwards ? mark.x - 5 : mark.x + 6, topOf(mark) + LANES.text / 2];
      pen.textAlign = leftwards ? "right" : "left";
      pen.strokeText(markText(mark), ...place);
      pen.fillText(markText(mark), ...place);
    }
  }

  function drawOpeners(top) {
    openers.hidden = !hasMarks;
    if (!hasMarks) return;
    const focused = [...openers.children].indexOf(document.activeElement);
    fill(openers, placedOpeners(data, xOf, spans, plot.left, plot.left + plot.width).map(({ x, all }) => {
      const [one] = all;
      const words = all.length > 1 ? `${plural(all.length, one.kind)}, steps ${count(one.step)} to ${count(all[all.length - 1].step)}` : `${one.words}, step ${count(one.step)}`;
      const kinds = new Set(all.map(({ kind }) => kind));
      const label = kinds.size > 1 && all.length > 1 ? words.replace(one.kind, "mark") : words;
      return h(
        "button", { type: "button", class: `opener ${one.kind}`, "aria-label": `${label}: open`, title: label, style: { left: `${x - LANES.marks / 2}px`, top: `${top}px` }, onclick: () => open(all) },
        h("span", { "aria-hidden": "true" }, all.length > 1 ? count(all.length) : one.kind === "compaction" ? "⇊" : "›"),
      );
    }));
    if (focused >= 0) openers.children[Math.min(focused, openers.childElementCount - 1)]?.focus({ preventScroll: true });
  }

  // Of several at one place, each in turn.
  function open(all) {
    const one = all.length > 1 ? all.find(({ step }) => step > current) ?? all[0] : all[0];
    onStep(one.step);
    if (one.kind === "compaction") openCompaction?.(one.after);
    else if (all.length === 1) openRun?.(one.index);
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
    band.style.opacity = inside ? "1" : "0";
    band.classList.toggle("thin", width < 6);
    band.style.transform = `translateX(${x}px)`;
    band.style.width = `${Math.min(width, plot.left + plot.width - x)}px`;
    slider.setAttribute("aria-valuenow", String(n));
    slider.setAttribute("aria-valuetext", describe(n));
  }

  function look(changed) {
    const narrowed = ["axis", "first", "last"].some((name) => name in changed && changed[name] !== how[name]);
    Object.assign(how, changed);
    if ("axis" in changed) spans = spansOf(steps, how.axis);
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

  // What a step was, beside the pointer and inside the frame.
  function tell(n, x, y) {
    const step = steps[n - 1];
    const failed = step.calls.filter((call) => call.error).length;
    const facts = [
      step.model_ms ? `model ${duration(step.model_ms)}` : null, step.usage?.cost ? money(step.usage.cost) : null,
      step.usage?.input ? `${short(step.usage.input)} context` : null, step.usage?.output ? `${short(step.usage.output)} out` : null,
    ].filter(Boolean).join(" · ");
    const calls = step.calls.slice(0, 3).map((call) => h("div", { class: "of-call" }, h("span", { class: `dot kind-${call.kind}` }), h("span", {}, visible(call.label || call.tool).replace(/\s+/g, " ")), call.streak > 1 && ` ↻ ${call.streak}`));
    const marks = (data.marks ?? []).filter((mark) => mark.step === n).map((mark) => visible(mark.label));
    const missed = missesOf(data, n).map(({ text }) => h("div", {}, `cache missed: ${text}`));
    fill(
      hover, h("b", {}, `step ${count(n)}`), ` of ${count(steps.length)}`, failed > 0 && h("span", { class: "wrong" }, ` ✕ ${plural(failed, "call")} failed`),
      calls.length ? calls : h("div", {}, "text"), step.calls.length > 3 && h("div", {}, `+ ${plural(step.calls.length - 3, "call")}`),
      facts && h("div", { class: "quiet" }, facts), missed, marks.length > 0 && h("div", { class: "quiet" }, `⚑ ${marks.join("; ")}`),
    );
    hover.hidden = false;
    const beside = x + 14 + hover.offsetWidth <= slider.clientWidth - 4 ? x + 14 : x - 14 - hover.offsetWidth;
    hover.style.left = `${Math.max(4, beside)}px`;
    hover.style.top = `${Math.max(2, Math.min(y + 12, slider.clientHeight - hover.offsetHeight - 3))}px`;
  }

  let scrubbing = false;
  let origin = 0; // asked for once in each drag
  const point = (event) => onStep(stepAt(event.clientX - origin));
  slider.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !steps.length) return;
    scrubbing = true;
    origin = slider.getBoundingClientRect().left;
    slider.setPointerCapture(event.pointerId);
    hover.hidden = true;
    point(event);
  });
  slider.addEventListener("pointermove", (event) => {
    if (scrubbing) {
      point(event);
      return;
    }
    const box_ = slider.getBoundingClientRect();
    const x = event.clientX - box_.left;
    hover.hidden = !steps.length || x < plot.left || x > plot.left + plot.width;
    if (!hover.hidden) tell(stepAt(x), x, event.clientY - box_.top);
  });
  for (const name of ["pointerup", "pointercancel"]) slider.addEventListener(name, () => (scrubbing = false));
  slider.addEventListener("pointerleave", () => (hover.hidden = true));

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

function triangle(pen, x, y) {
  pen.beginPath();
  pen.moveTo(x - 4, y);
  pen.lineTo(x + 4, y);
  pen.lineTo(x, y + 5);
  pen.fill();
}

// What a cap, a budget and a threshold would have kept, saved and stopped. In a notebook Python answers each move of its
// sliders with new data; a page without a kernel holds the answers to some hundred settings, and has sliders here.

const LENGTHS = { success: ["--kept", "succeeded"], failure: ["--ink3", "failed"], unknown: ["--line", "no label"] };

function limitText(value) {
  return value === null ? NO_LIMIT : count(value);
}

// --- Figure: what each cap keeps and saves, over the runs by their length ----------------------------------------------

const SIZE = { left: 44, right: 16, top: 36, curve: 190, gap: 34, bars: 64, bottom: 34 };

function scaleOf(base, width) {
  const caps = base.axes[0].values.filter((value) => value !== null);
  const last = Math.max(caps[caps.length - 1] ?? 1, base.lengths.edges[base.lengths.edges.length - 1]);
  const room = width - SIZE.left - SIZE.right;
  const log = (value) => Math.log(Math.max(value, 0.7) / 0.7) / Math.log(last / 0.7);
  const share = base.log ? log : (value) => value / last;
  return Object.assign((value) => SIZE.left + room * Math.min(share(value), 1), { caps, last });
}

function ticks(base, last, width) {
  if (base.log) return [1, 3, 10, 30, 100, 300, 1000, 3000, 10000].filter((value) => value <= last);
  const wanted = Math.max(3, Math.floor(width / 90));
  const step = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000].find((one) => last / one <= wanted) ?? last;
  return Array.from({ length: Math.floor(last / step) + 1 }, (_, n) => n * step);
}

// A path that goes along each value to the next, because a cap is a whole number.
function stairs(x, y, caps, values, end) {
  const parts = [];
  caps.forEach((cap, n) => {
    if (values[n] === null || values[n] === undefined) return;
    const to = n + 1 < caps.length ? x(caps[n + 1]) : end;
    parts.push(`${parts.length ? "L" : "M"}${x(cap).toFixed(1)} ${y(values[n]).toFixed(1)}H${to.toFixed(1)}`);
  });
  return parts.join("");
}

function band(x, y, caps, lower, upper, end) {
  const forth = stairs(x, y, caps, upper, end);
  const back = [];
  for (let n = caps.length - 1; n >= 0; n -= 1) {
    const from = n + 1 < caps.length ? x(caps[n + 1]) : end;
    back.push(`L${from.toFixed(1)} ${y(lower[n]).toFixed(1)}H${x(caps[n]).toFixed(1)}`);
  }
  return forth && `${forth}${back.join("")}Z`;
}

// Where a line has most room for its name: inside the figure, away from the other one.
function labelPlace(caps, mine, other, x, y, width, text) {
  const wide = 6.6 * text.length;
  let best = null;
  caps.forEach((cap, n) => {
    const at = x(cap);
    if (at - wide / 2 < SIZE.left + 4 || at + wide / 2 > width - SIZE.right || mine[n] === null) return;
    const near = caps.map((one, i) => [Math.abs(x(one) - at), i]).filter(([away]) => away <= wide / 2 + 8).map(([, i]) => i);
    for (const side of [-1, 1]) {
      const line = side < 0 ? Math.min(...near.map((i) => y(mine[i]))) : Math.max(...near.map((i) => y(mine[i])));
      const level = line + side * 15;
      if (level < SIZE.top + 8 || level > SIZE.top + SIZE.curve - 6) continue;
      const clear = Math.min(...near.flatMap((i) => other.map((line2) => Math.abs(y(line2[i] ?? -9) - level))), 60);
      if (!best || clear > best.clear + 1) best = { clear, at, level };
    }
  });
  return best;
}

function figure(data, width, act) {
  const { base, answer, recommended } = data;
  const x = scaleOf(base, width);
  const { caps, last } = x;
  const end = x(last);
  const total = answer.kept.of;
  const y = (share) => SIZE.top + SIZE.curve * (1 - share);
  const lower = caps.map((_, n) => (total ? answer.curve.lower[n] / total : null));
  const upper = caps.map((_, n) => (total ? answer.curve.upper[n] / total : null));
  const least = caps.map((_, n) => (total ? answer.curve.at_least[n] : null));
  const saved = caps.map((_, n) => answer.curve.saved[n] ?? null);
  const foot = SIZE.top + SIZE.curve + SIZE.gap;
  const height = foot + SIZE.bars + SIZE.bottom;
  const svg = h("svg", { class: "figure", role: "img", viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": summary(data) });

  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    put(svg, h("line", { class: "rule", x1: SIZE.left, x2: width - SIZE.right, y1: y(share), y2: y(share) }),
      h("text", { class: "tick", x: SIZE.left - 7, y: y(share) + 4, "text-anchor": "end" }, `${100 * share}%`));
  }
  if (total) {
    put(svg, h("path", { class: "band", d: band(x, y, caps, least, upper, end) }),
      h("path", { class: "line kept", d: stairs(x, y, caps, lower, end) }));
  }
  put(svg, h("path", { class: "line saved", d: stairs(x, y, caps, saved, end) }));
  put(svg, bars(data, x, foot, act));
  const kept = base.proxy ? "kept (proxy)" : "successes kept";
  for (const [mine, others, text, name] of [[lower, [saved, upper], kept, "kept"], [saved, [lower, upper], `${base.measure} saved`, "saved"]]) {
    const place = mine.some((value) => value !== null) ? labelPlace(caps, mine, others, x, y, width, text) : null;
    if (place) put(svg, h("text", { class: `label ${name}`, x: place.at, y: place.level + 4, "text-anchor": "middle" }, text));
  }
  put(svg, mark(recommended?.setting?.max_steps, "recommended", x, foot));
  put(svg, mark(answer.setting.max_steps, "present", x, foot));
  for (const value of ticks(base, last, width)) {
    put(svg, h("text", { class: "tick", x: x(value), y: foot + SIZE.bars + 15, "text-anchor": "middle" }, short(value)));
  }
  const unit = base.lengths.turns ? "steps, in the longest turn of a run" : "steps";
  put(svg, h("text", { class: "tick", x: width - SIZE.right, y: height - 4, "text-anchor": "end" }, unit),
    h("text", { class: "caption", x: SIZE.left, y: foot - 10 }, "runs by length"),
    answer.cut.n ? h("text", { class: "caption cut", x: SIZE.left + 88, y: foot - 10 }, "stopped by this setting") : null);
  const place = h("div", { class: "chart" }, svg);
  const nearest = (event, some) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    return [...some].sort((a, b) => Math.abs(x(a) - at) - Math.abs(x(b) - at))[0];
  };
  svg.addEventListener("click", (event) => {
    const near = nearest(event, act.caps);
    if (near !== undefined) act.choose({ max_steps: near });
  });
  svg.addEventListener("pointermove", (event) => {
    const cap = nearest(event, caps);
    if (cap === undefined) return;
    const shown = tooltip(data, cap);
    place.querySelector(".tooltip")?.remove();
    place.append(shown);
    const box = place.getBoundingClientRect();
    const left = event.clientX - box.left;
    const flip = left + 14 + shown.offsetWidth > box.width;
    shown.style.left = `${Math.max(0, flip ? left - 14 - shown.offsetWidth : left + 14)}px`;
    shown.style.top = `${Math.max(0, Math.min(event.clientY - box.top - 20, box.height - shown.offsetHeight))}px`;
  });
  svg.addEventListener("pointerleave", () => place.querySelector(".tooltip")?.remove());
  return place;
}

function mark(cap, name, x, foot) {
  if (cap === null || cap === undefined) return null;
  const at = x(cap);
  const right = at > x(x.last) - 110;
  const text = name === "present" ? `cap ${count(cap)}` : `recommended ${count(cap)}`;
  const level = name === "present" ? 12 : 27; // above the curves and all their names, each on a line of its own
  return h("g", { class: `mark ${name}` },
    h("line", { x1: at, x2: at, y1: level - 10, y2: foot + SIZE.bars }),
    h("text", { x: at + (right ? -5 : 5), y: level, "text-anchor": right ? "end" : "start" }, text));
}

// Runs by their length, by what became of them; those that the setting cuts have a bar's top in the colour of a cut.
function bars({ base, answer }, x, foot) {
  const { edges, ...kinds } = base.lengths;
  const n = edges.length - 1;
  const names = Object.keys(LENGTHS).filter((name) => kinds[name]?.some(Boolean));
  const sums = Array.from({ length: n }, (_, bin) => names.reduce((sum, name) => sum + kinds[name][bin], 0));
  const most = Math.max(1, ...sums);
  const up = (runs) => (SIZE.bars * runs) / most;
  const group = h("g", { class: "bars" });
  for (let bin = 0; bin < n; bin += 1) {
    if (!sums[bin]) continue;
    const from = x(edges[bin]);
    const wide = Math.max(1, x(edges[bin + 1]) - from - 1);
    const cut = answer.cut_by_length[bin];
    const range = edges[bin + 1] - edges[bin] > 1 ? `${edges[bin]}\u2013${edges[bin + 1] - 1}` : `${edges[bin]}`;
    const left = sums[bin] - cut;
    const bar = h("g", {}, h("title", {}, `${range} steps: ${plural(sums[bin], "run")}, ${count(cut)} stopped`));
    if (left) put(bar, h("rect", { class: "left", x: from, y: foot + SIZE.bars - up(left), width: wide, height: up(left) }));
    if (cut) put(bar, h("rect", { class: "cut", x: from, y: foot + SIZE.bars - up(sums[bin]), width: wide, height: up(cut) }));
    put(group, bar);
  }
  put(group, h("line", { class: "rule", x1: SIZE.left, x2: x(x.last), y1: foot + SIZE.bars, y2: foot + SIZE.bars }),
    h("text", { class: "tick", x: SIZE.left - 7, y: foot + 9, "text-anchor": "end" }, short(most)),
    h("text", { class: "tick", x: SIZE.left - 7, y: foot + SIZE.bars + 3, "text-anchor": "end" }, "0"));
  return group;
}

// The figure in words, for those who do not see it.
function summary({ base, answer, recommended }) {
  const { kept, cut, setting } = answer;
  const saved = answer.saved[0];
  const parts = [
    `Step cap ${limitText(setting.max_steps)}: keeps ${span(kept.lower, kept.upper)} of ${count(kept.of)} ${base.success}`,
    saved.share === null ? null : `saves ${percent(saved.saved, saved.of)} of the ${saved.label}`,
    `stops ${count(cut.n)} of ${plural(base.runs, "run")}`,
  ];
  const advice = recommended?.setting ? ` The recommended step cap is ${limitText(recommended.setting.max_steps)}.` : "";
  return `${parts.filter(Boolean).join(", ")}.${advice}`;
}

// --- How the runs end ------------------------------------------------------------------------------------------------

function ends({ base, answer }) {
  const bar = h("div", { class: "stops", role: "img", "aria-label": answer.ends.map(({ reason, n }) => `${n} ${reason}`).join(", ") });
  const key = h("ul", { class: "key" });
  for (const { reason, n } of answer.ends) {
    const known = reason !== "censored";
    const fill = known ? `var(--stop-${reason})` : "var(--line)";
    const edge = known ? `var(--ink-${reason})` : "var(--ink3)";
    put(bar, h("span", { "data-reason": reason, title: `${reason} ${count(n)}`, style: { "flex-grow": n, background: fill, "--edge": edge } }));
    put(key, h("li", {}, h("i", { style: { background: fill, "--edge": edge }, "aria-hidden": "true" }),
      reason === "censored" ? "censored: stopped by its own limit" : reason.replaceAll("_", " "), " ", h("b", {}, count(n))));
  }
  const open = answer.open.not_identified
    ? h("p", { class: "quiet" }, `${plural(answer.open.not_identified, "run")} stopped in a turn that others follow: the rest is unknown.`)
    : null;
  return h("section", {}, h("h4", {}, `How the ${plural(base.runs, "run")} end`), bar, key, open);
}

// --- The runs that are cut --------------------------------------------------------------------------------------------

function table(data, act) {
  const { base, answer } = data;
  const several = new Set(answer.rows.map((row) => row.agent)).size > 1;
  if (Object.values(answer.setting).every((value) => value === null || typeof value === "string")) {
    return h("section", { class: "hint" }, h("h4", {}, "No limit is set: nothing is stopped, and nothing saved"),
      h("p", { class: "quiet" }, "Move a slider, choose a cap in the figure, or use the recommended setting: the runs that it stops are listed here, and each can be replayed."));
  }
  if (!answer.cut.n) return h("section", {}, h("h4", {}, "This setting stops no run"));
  const named = answer.rows.every((row) => row.task);
  const head = [named ? null : "run", "task", several ? "agent" : null, base.proxy ? null : "the run", "stopped by"].filter(Boolean);
  const rows = answer.rows.map((row) => h("tr", { class: "run-row", "data-run": visible(row.run) },
    named ? null : h("td", { class: "name" }, visible(row.run)),
    h("td", { class: "name", title: visible(row.run) }, visible(row.task)),
    several ? h("td", { class: "name" }, visible(row.agent)) : null,
    base.proxy ? null : h("td", {}, fate(row)),
    h("td", { class: "why" }, h("i", { class: "chip", style: { background: `var(--stop-${row.reason})`, "--edge": `var(--ink-${row.reason})` }, "aria-hidden": "true" }),
      row.reason === "unknown" ? "an unknown counter" : `${row.reason.replaceAll("_", " ")}${row.limit === null ? "" : ` ${count(row.limit)}`}`),
    h("td", { class: "number" }, count(row.at)),
    h("td", { class: "number" }, row.ended ? count(row.needed) : `over ${count(row.needed)}`),
    h("td", {}, data.held && !data.held.includes(row.run)
      ? h("span", { class: "quiet", title: "this file does not contain its steps" }, "not here")
      : h("button", { class: "link open", type: "button", "aria-label": `replay ${visible(row.run)} from step ${row.at}`, onclick: () => act.open(row) }, "replay"))));
  const more = answer.cut.n - rows.length;
  return h("section", { class: "cut" },
    h("h4", {}, `The ${plural(answer.cut.n, "run")} that this setting stops`),
    h("div", { class: "scroll" }, h("table", { "aria-label": "Runs that the setting stops" },
      h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)),
        h("th", { scope: "col", class: "number" }, "at step"), h("th", { scope: "col", class: "number" }, "it took"),
        h("th", { scope: "col" }, h("span", { class: "only-read" }, "replay")))),
      h("tbody", {}, rows))),
    more > 0 && !data.grid ? h("button", { class: "more", type: "button", onclick: act.more }, `+ ${plural(more, "more run")}`) : null,
    more > 0 && data.grid ? h("p", { class: "quiet" }, `and ${plural(more, "more run")}`) : null);
}

function fate(row) {
  if (row.success === null) return h("span", { class: "quiet" }, "no label");
  if (!row.success) return h("span", { class: "quiet" }, "failed");
  return row.lost ? h("span", { class: "wrong" }, "success lost") : "success, may be kept";
}

// --- What is recommended, and how to write a setting down ---------------------------------------------------------------

function advice({ base, recommended, searching }) {
  const text = recommended ? [...recommended.sentences] : searching ? ["Computing the recommended setting\u2026"] : [];
  if (!text.length) return null;
  const limits = recommended?.setting
    ? base.axes.map(({ key, label }) => h("li", {}, `${label} `, h("b", {}, limitText(recommended.setting[key]))))
    : null;
  const sure = recommended?.setting
    ? `keeps at least ${percent(recommended.keep, 1)} of the ${base.success}, at ${percent(recommended.confidence, 1)} confidence`
    : null;
  return h("section", { class: "advice", "aria-live": "polite" },
    h("h4", {}, searching && !recommended ? text[0] : recommended?.setting ? "Recommended" : "Nothing can be recommended"),
    limits ? h("ul", { class: "limits" }, limits) : null,
    sure ? h("p", {}, sure) : null,
    recommended ? h("details", {}, h("summary", {}, "evidence"), [...text, ...recommended.notes].map((line) => h("p", { class: "quiet" }, visible(line)))) : null);
}

function writing(state, draw) {
  const { code, how } = state.data.answer;
  const texts = [...how, { name: "python", title: "Python", text: code }];
  const shown = texts.find(({ name }) => name === state.writing) ?? texts[0];
  const choice = h("select", {
    class: "harness", "aria-label": "the harness in which the present setting is set", onchange: (event) => {
      state.writing = event.target.value;
      draw();
    },
  }, texts.map(({ name, title }) => h("option", { value: name, selected: name === shown.name }, title)));
  const field = h("textarea", {
    class: "code written", readonly: true, spellcheck: "false", rows: Math.min(24, shown.text.split("\n").length), value: shown.text,
    "aria-label": "the present setting, to copy", onfocus: (event) => event.target.select(),
  });
  const copy = h("button", {
    class: "copy", type: "button", onclick: async (event) => {
      field.select();
      try {
        await navigator.clipboard.writeText(shown.text);
        event.target.textContent = "copied";
      } catch {
        event.target.textContent = "selected: copy it with your keyboard";
      }
    },
  }, "copy");
  return h("section", { class: "writing" }, h("h4", {}, "How to set it"), h("div", { class: "buttons" }, choice, copy), field);
}

// --- Controls of a page without a kernel -------------------------------------------------------------------------------

function panel(data, act) {
  const names = { max_steps: "boolab-cap", tool_budget: "boolab-budget", doom_loop: "boolab-doom" };
  const sliders = data.base.axes.map(({ key, label, unit }) => {
    const values = data.grid.values[key];
    const shown = (place) => (values[place] === null ? NO_LIMIT : `${count(values[place])} ${unit}`);
    const place = values.indexOf(data.answer.setting[key]);
    const output = h("output", {}, shown(place));
    const input = h("input", {
      type: "range", min: 0, max: values.length - 1, step: 1, value: place, "aria-label": label, "aria-valuetext": shown(place),
      oninput: (event) => {
        const value = Number(event.target.value);
        output.textContent = shown(value);
        event.target.setAttribute("aria-valuetext", shown(value));
        act.choose({ [key]: values[value] });
      },
    });
    return { key, input, output, shown, node: h("label", { class: `slider ${names[key]}` }, h("span", {}, label), output, input) };
  });
  const fixed = "This file contains some settings; a notebook has all.";
  const { setting: wanted, reason } = data.recommended ?? {};
  const why = reason ? `Nothing can be recommended: ${visible(reason)}` : null;
  const use = data.recommended
    ? h("button", { class: "boolab-recommend", type: "button", disabled: !wanted, title: why, onclick: () => act.choose(wanted) }, "Set the recommendation")
    : null;
  const node = h("div", { class: "panel" }, sliders.map((one) => one.node), use, why && h("p", { class: "quiet boolab-why" }, `${why}.`), h("p", { class: "quiet" }, fixed));
  return {
    node,
    follow(setting) {
      for (const { key, input, output, shown } of sliders) {
        const place = data.grid.values[key].indexOf(setting[key]);
        input.value = place;
        output.textContent = shown(place);
        input.setAttribute("aria-valuetext", shown(place));
      }
    },
  };
}

function answerAt(grid, setting) {
  const [caps, budgets, dooms] = ["max_steps", "tool_budget", "doom_loop"].map((key) => grid.values[key]);
  const column = dooms.indexOf(setting.doom_loop) * budgets.length + budgets.indexOf(setting.tool_budget);
  return { ...grid.answers[column * caps.length + caps.indexOf(setting.max_steps)], curve: grid.curves[column] };
}

function render({ model, el }) {
  el.classList.add("boolab", "boolab-caplab");
  const state = { data: null, writing: null, width: 0, panel: null };
  const live = h("p", { class: "only-read", "aria-live": "polite" });
  const side = h("div", { class: "side" });
  const place = h("div", { class: "main" });
  let saying = 0;

  const act = {
    caps: [],
    choose(limits) {
      if (!state.data.grid) {
        change(model, { wanted: { ...limits } });
        return;
      }
      const setting = { ...state.data.answer.setting, ...limits };
      state.data = { ...state.data, answer: answerAt(state.data.grid, setting) };
      state.panel.follow(setting);
      draw();
    },
    open(row) {
      change(model, { opened: { run: row.run, step: Math.max(1, row.at) } });
    },
    more() {
      change(model, { rows: model.get("rows") + 100 });
    },
  };

  const paint = () => {
    const { data } = state;
    if (!data) return;
    const width = Math.max(320, Math.round(place.clientWidth || 640));
    state.width = width;
    const focused = place.contains(document.activeElement) ? document.activeElement : null;
    const again = focused && [...focused.classList].map((name) => `.${name}`).join("");
    const row = focused?.closest("[data-run]")?.dataset.run;
    const opened = place.querySelector(".advice details")?.open;
    const scrolled = place.querySelector(".scroll")?.scrollTop ?? 0;
    if (!data.base.runs) {
      fill(place, h("p", {}, "There are no runs to try a limit on."));
      return;
    }
    const beside = width >= 840;
    const trade = beside ? 300 : Math.min(width, 420);
    const notes = h("p", { class: "quiet notes" }, [...data.base.notes, data.base.counted_by].join(" "));
    fill(place, verdict(data), numbers(data),
      h("div", { class: beside ? "charts beside" : "charts" }, figure(data, beside ? width - trade - 28 : width, act), frontier(data, trade)),
      h("div", { class: beside ? "below-charts beside" : "below-charts" }, table(data, act), writing(state, draw)),
      advice(data), ends(data), notes);
    if (opened) place.querySelector(".advice details").open = true;
    const scroll = place.querySelector(".scroll");
    if (scroll) scroll.scrollTop = scrolled;
    if (again) {
      const same = [...place.querySelectorAll(again)].find((one) => !row || one.closest("[data-run]")?.dataset.run === row);
      same?.focus({ preventScroll: true });
    }
    clearTimeout(saying);
    saying = setTimeout(() => fill(live, summary(data)), 400);
  };
  const draw = eachFrame(paint);

  const stop = withData(model, el, (data) => {
    if (!state.data) fill(el, side, place, live);
    state.data = data;
    if (data.grid) {
      state.data = { ...data, answer: answerAt(data.grid, data.answer.setting) };
      state.panel = panel(state.data, act);
      fill(side, state.panel.node);
    }
    side.hidden = !data.grid;
    act.caps = (data.grid ? data.grid.values.max_steps : data.base.axes[0].values).filter((value) => value !== null);
    draw();
  });
  const resized = new ResizeObserver(() => {
    if (Math.abs(place.clientWidth - state.width) > 1) draw();
  });
  resized.observe(place);
  return () => {
    stop();
    resized.disconnect();
    draw.cancel();
    clearTimeout(saying);
  };
}

export default { render };

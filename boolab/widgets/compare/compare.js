// Two runs side by side: equal steps folded, the first difference marked.

const chunk = 40; // rows that are drawn at once
const context = 2; // equal steps that stay in view before a difference

function render({ model, el }) {
  el.classList.add("boolab", "boolab-compare");
  return withData(model, el, (data) => drawCompare(model, el, data));
}

function drawCompare(model, el, data) {
  const open = (side, step) => {
    change(model, { opened: { run: data.sides[side].run, step: Math.max(1, Math.min(step, data.sides[side].steps)) } });
  };
  const rows = h("div", { class: "rows", tabindex: 0, role: "region", "aria-label": "Steps of both, side by side" });
  const more = h("button", { class: "more-rows fold" });
  put(rows, more);
  const drawMore = inParts(makersOf(data, open), chunk, "more row", more, (added) => more.before(...added));
  drawMore();
  const different = () => [...rows.querySelectorAll(".row.first-different, .divergence")];
  const mark = (element) => {
    for (const other of rows.querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    element?.setAttribute("aria-current", "true");
  };
  const reveal = (element) => {
    if (!element) return;
    mark(element);
    element.scrollIntoView({ block: "center" });
  };
  const toDivergence = () => reveal(rows.querySelector(".divergence"));
  const move = (by) => () => {
    let all = different();
    const now = all.findIndex((one) => one.hasAttribute("aria-current"));
    if (by > 0 && now === all.length - 1 && drawMore()) all = different();
    reveal(all[now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, now + by))]);
  };
  const none = data.divergence ? null : "The steps do not differ";
  fill(
    el,
    h("h3", { class: "finding" }, visible(data.title)),
    h("div", { class: "heads" }, headOf(data, 0, open), h("div", { class: "gutter" }), headOf(data, 1, open)),
    differencesOf(data),
    h(
      "div",
      { class: "bar" },
      h("button", { class: "to-divergence", onclick: toDivergence, disabled: !data.divergence, title: none }, "First difference"),
      h("button", { class: "previous-difference", "aria-label": "Previous difference", onclick: move(-1), disabled: !data.divergence, title: none }, "‹"),
      h("button", { class: "next-difference", "aria-label": "Next difference", onclick: move(1), disabled: !data.divergence, title: none }, "›"),
      h("span", { class: "quiet" }, summaryOf(data)),
    ),
    rows,
    tableOf(data),
    data.notes.length > 0 && h("p", { class: "notes quiet" }, visible(data.notes.join(" "))),
  );
  keys(el, { d: toDivergence, n: move(1), N: move(-1), p: move(-1) });
  mark(rows.querySelector(".divergence")); // it stands near the top: the page is not scrolled for it
}

function summaryOf(data) {
  const total = (kind, side) => data.stretches.filter((one) => one.kind === kind).reduce((sum, one) => sum + one[side], 0);
  const parts = [`${plural(total("same", "n_a"), "equal step")}`];
  if (total("results", "n_a")) parts.push(`${count(total("results", "n_a"))} with other results`);
  const pairs = data.stretches.filter(({ kind }) => kind === "different").map(({ n_a, n_b }) => [n_a, n_b, Math.min(n_a, n_b)]);
  const sum = (amount) => pairs.reduce((all, one) => all + amount(one), 0);
  const differ = sum(([, , both]) => both); // side by side, as the rows are
  if (differ) parts.push(`${count(differ)} ${differ === 1 ? "differs" : "differ"}`);
  for (const side of [0, 1]) {
    const own = sum((one) => one[side] - one[2]);
    if (own) parts.push(`${count(own)} only in ${visible(data.sides[side].name)}`);
  }
  return parts.join(" · ");
}

function headOf(data, side, open) {
  const one = data.sides[side];
  const step = data.divergence ? data.divergence.step : one.steps;
  return h(
    "section",
    { class: "head", "data-side": side ? "b" : "a" },
    h("h4", {}, visible(one.name), h("span", { class: "quiet facts" }, one.facts && ` ${visible(one.facts)}`)),
    h("p", { class: "stop said" }, one.reason && stopSwatch(one.reason), visible(one.stop[0].toUpperCase() + one.stop.slice(1)), "."),
    h("button", { class: "open", disabled: one.steps === 0, onclick: () => open(side, step), "aria-label": `Replay ${visible(one.name)} at step ${count(Math.min(step, one.steps))}` }, `Replay at step ${count(Math.max(1, Math.min(step, one.steps)))}`),
  );
}

// In what two agents or policies differ; what is many lines long is folded.
function differencesOf(data) {
  if (!data.differences) return null;
  const { of, rows, prompt } = data.differences;
  const names = data.sides.map((one) => visible(one.name));
  const table = () => h("table", {}, h("thead", {}, h("tr", {}, ["", ...names].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name), [row.a, row.b].map((one) => h("td", { class: "said" }, visible(one)))))));
  return h(
    "section",
    { class: "differences" },
    of === "policies" ? null : h("h4", {}, rows.length || prompt.length ? "What differs in the agents" : "The agents have the same limits, tools and prompts"),
    !rows.length ? null : of === "policies" ? h("details", {}, h("summary", {}, `${plural(rows.length, "setting")} of the policies ${rows.length === 1 ? "differs" : "differ"}`), table()) : table(),
    prompt.length > 0 && h("details", {}, h("summary", {}, `prompts: ${plural(onlyOld(prompt), "line")} only in ${names[0]}, ${count(onlyNew(prompt))} only in ${names[1]}`), diffTable(prompt, "Lines in which the prompts differ")),
  );
}

function tableOf(data) {
  if (!data.table.length) return null;
  const heads = ["", data.sides[0].name, data.sides[1].name, "difference"];
  return h(
    "table",
    { class: "amounts" },
    h("caption", { class: "only-read" }, "What both used"),
    h("thead", {}, h("tr", {}, heads.map((name, i) => h("th", { scope: "col", class: i ? "number" : null }, visible(name))))),
    h("tbody", {}, data.table.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name), [row.a, row.b, row.difference].map((one) => h("td", { class: "number" }, one ?? "unknown"))))),
  );
}

// --- Rows -------------------------------------------------------------------------------------------------------------

// What draws each row, in order: a long comparison is drawn as far as it is scrolled.
function makersOf(data, open) {
  const out = [];
  const at = data.divergence ? data.divergence.step - 1 : null;
  let marked = at === null;
  const mark = () => {
    marked = true;
    out.push(() => h("div", { class: "divergence", role: "note" }, h("b", {}, "First difference"), data.did.some(Boolean) && h("div", { class: "row" }, data.did.map((did, side) => [side ? h("div", { class: "gutter" }) : null, h("div", { class: "said" }, did ? visible(did) : "")]))));
  };
  for (const stretch of data.stretches) {
    if (!marked && (stretch.a >= at || stretch.b >= at)) mark();
    const n = Math.max(stretch.n_a, stretch.n_b);
    const row = (k) => rowAt(data, stretch, k, open);
    const folded = stretch.kind === "same" && n > context + 2 ? n - context : 0;
    if (folded) out.push(() => foldOf(stretch, folded, row));
    for (let k = folded; k < n; k += 1) out.push(() => row(k));
  }
  if (!marked) mark();
  return out;
}

// A button that stands for rows, and draws some of them at a time.
function foldOf(stretch, to, row) {
  const button = h("button", { class: "fold", "aria-expanded": "false" });
  let next = 0;
  const name = () => {
    const numbers = [`steps ${count(stretch.a + next + 1)}–${count(stretch.a + to)}`];
    if (stretch.a !== stretch.b) numbers.push(`${count(stretch.b + next + 1)}–${count(stretch.b + to)}`);
    fill(button, plural(to - next, "equal step"), h("span", { class: "quiet" }, ` ${numbers.join(" and ")}`));
  };
  button.addEventListener("click", () => {
    const until = Math.min(next + chunk, to);
    const added = Array.from({ length: until - next }, (_, k) => row(next + k));
    next = until;
    button.before(...added);
    if (next === to) button.remove();
    else name();
    added[0]?.querySelector("button")?.focus({ preventScroll: true });
  });
  name();
  return button;
}

// Whether both steps have calls, and the same.
function sameCalls(data, places) {
  const [a, b] = places.map((place, side) => data.steps[side][place]);
  return Boolean(a?.calls.length) && a.commands === b?.commands;
}

// The words of two texts, each with whether the other one has it at that place: a longest common subsequence.
function wordsApart(texts) {
  const [a, b] = texts.map((text) => text.split(/(?<=\s)/));
  const most = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i -= 1) for (let j = b.length - 1; j >= 0; j -= 1) most[i][j] = a[i].trim() === b[j].trim() ? most[i + 1][j + 1] + 1 : Math.max(most[i + 1][j], most[i][j + 1]);
  const out = [[], []];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i].trim() === b[j].trim()) {
      out[0].push([a[i++], false]);
      out[1].push([b[j++], false]);
    } else if (j === b.length || (i < a.length && most[i + 1][j] >= most[i][j + 1])) out[0].push([a[i++], true]);
    else out[1].push([b[j++], true]);
  }
  return out;
}

const marked = (words) => words.map(([word, changed]) => (changed ? h("mark", {}, visible(word)) : visible(word)));

const signs = { texts: ["≈", "the same calls, other text"], same: ["=", "the same"], results: ["≈", "the same calls, other results"], different: ["≠", "not the same"] };

function rowAt(data, stretch, k, open) {
  const has = [k < stretch.n_a, k < stretch.n_b];
  const places = [stretch.a + k, stretch.b + k];
  const kind = stretch.kind === "different" && sameCalls(data, places) ? "texts" : stretch.kind;
  const [sign, words] = has[0] && has[1] ? signs[kind] : has[0] ? ["←", `only ${data.sides[0].name}`] : ["→", `only ${data.sides[1].name}`];
  const left = has[0] ? data.steps[0][places[0]] : null;
  const right = has[1] ? (data.steps[1][places[1]] ?? left) : null;
  const texts = stretch.kind === "different" && left?.text && right?.text ? wordsApart([left.text, right.text]).map(marked) : [null, null];
  return h(
    "div",
    { class: `row ${stretch.kind}${kind === "texts" ? " same-calls" : ""}${k === 0 && stretch.kind !== "same" ? " first-different" : ""}`, "data-a": has[0] ? places[0] + 1 : null, "data-b": has[1] ? places[1] + 1 : null },
    stepOf(data, 0, places[0], left, open, texts[0]),
    h("div", { class: "gutter", title: visible(words) }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "only-read" }, visible(words))),
    stepOf(data, 1, places[1], right, open, texts[1]),
  );
}

function stepOf(data, side, place, step, open, text) {
  if (!step) return h("div", { class: "step none" });
  const number = h("button", { class: "number-of link", "aria-label": `Replay ${visible(data.sides[side].name)} at step ${place + 1}`, onclick: () => open(side, place + 1) }, count(place + 1));
  const states = { failed: "failed", dropped: "dropped" };
  const calls = step.calls.map((call) =>
    h(
      "div",
      { class: `call ${call.state}` },
      h("span", { class: "swatch", "aria-hidden": "true", style: { background: `var(--tool-${call.kind}, var(--idle))` } }),
      h("span", { class: "code said" }, visible(call.label)),
      call.missing && h("span", { class: "quiet missing" }, `arguments ${call.missing}`),
      states[call.state] && h("span", { class: call.state === "failed" ? "wrong" : "quiet" }, ` ${states[call.state]}`),
    ),
  );
  return h(
    "div",
    { class: "step", "data-side": side ? "b" : "a" },
    number,
    h("div", { class: "what" }, calls, step.text && h("div", { class: "text said" }, text ?? visible(step.text)), step.missing && h("div", { class: "quiet" }, step.missing), step.error && h("div", { class: "wrong said" }, visible(step.error)), !calls.length && !step.text && !step.missing && !step.error && h("span", { class: "quiet" }, "no text")),
  );
}

export default { render };

// What Replay shows of one step: texts and reasoning, the calls with their results, and what they cost.
//
// stepElement(data, n, context) returns the element of step n, from 1: `section.step`. It makes no
// request, sets no timer, and needs no end: a row can be dropped and made again. `context`, all of it optional:
//   pattern         what the reader looks for, from sought(query): it is marked
//   opened          a Set that the caller keeps for a run: what the reader unfolded, so that a row is as high as before
//   onStep(n)       a link to another step was chosen
//   openRun(index)  the run of data.children[index] was chosen
// The event "unfold" on the element opens what is folded until a hit can be seen; it is done when dispatchEvent returns.

const FOLD_CHARS = 2000;
const WRAP = 96; // about as many characters fit into a line
const MOST_MARKED = 2000;

function hitsIn(text, pattern) {
  return pattern && text ? (text.match(pattern) ?? []).length : 0;
}

// A text with what was looked for in it marked, as nodes.
function marked(text, pattern) {
  const shown = visible(text);
  if (!pattern) return [shown];
  const nodes = [];
  let end = 0;
  for (const found of shown.matchAll(pattern)) {
    if (nodes.length > MOST_MARKED) break;
    nodes.push(shown.slice(end, found.index), h("mark", {}, found[0]));
    end = found.index + found[0].length;
  }
  return [...nodes, shown.slice(end)];
}

// Where a long text is folded: after about so many lines as they wrap, or characters, and between characters that belong together.
function foldAt(text, lines) {
  let end = -1;
  for (let n = 0; n < lines;) {
    const start = end + 1;
    end = text.indexOf("\n", start);
    const wraps = Math.max(1, Math.ceil(((end < 0 ? text.length : end) - start) / WRAP));
    if (wraps > lines - n + 2) {
      end = text.lastIndexOf(" ", start + (lines - n) * WRAP);
      if (end <= start) end = start + (lines - n) * WRAP;
      break;
    }
    n += wraps;
    if (end < 0) break;
  }
  if (end < 0 || end === text.length - 1) end = text.length;
  else if (end < text.length && text[end - 1] === "\r") end -= 1;
  end = Math.min(end, FOLD_CHARS);
  return end - (end < text.length && /[\ud800-\udbff]/.test(text[end - 1]) ? 1 : 0);
}

function linesIn(text) {
  let lines = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < text.length - 1; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines;
}

// One step in a line, for the timeline and for screen readers.
function inWords(data, n) {
  const step = data.steps[n - 1];
  if (!step) return "no steps";
  const calls = step.calls.slice(0, 3).map((call) => {
    const facts = [call.error && "failed", call.dropped && "dropped", call.streak > 1 && `same call ×${call.streak}`];
    return [visible(call.label || call.tool).replace(/\s+/g, " ").slice(0, 60), ...facts.filter(Boolean)].join(", ");
  });
  const more = step.calls.length > 3 ? ` and ${plural(step.calls.length - 3, "more call")}` : "";
  return `step ${count(n)} of ${count(data.steps.length)}: ${calls.join("; ") || "text"}${more}`;
}

// The contents of a step's row in the transcript: see the top of this file.
function stepElement(data, n, context = {}) {
  const step = data.steps[n - 1];
  const folds = foldsOf(context.opened ?? new Set(), context.pattern ?? null);
  const turn = (data.turns ?? []).find((one) => one.first === n);
  const last = n === data.steps.length;
  const facts = step.facts ?? stepFacts(data, n);
  const words = (key, text, name, lines) => folds.text(`${n}.${key}`, text, { name, words: true, lines });
  const element = h(
    "section", { class: "step", "data-step": n, "aria-label": `Step ${count(n)}` },
    h("p", { class: "facts" }, facts),
    turn?.text && h("div", { class: "asked" }, h("span", { class: "by" }, "user"), words("asked", turn.text, "asked-text", 4)),
    turn?.missing?.text !== undefined && h("p", { class: "quiet no-text" }, `user: not on record, ${plural(turn.missing.text, "character")}`),
    (step.events ?? []).map((event, i) => h("div", { class: "event" }, h("span", { class: "by" }, visible(event.kind)), words(`event${i}`, event.text ?? "", "event-text", 4))),
    missesOf(data, n).map(({ text }) => h("div", { class: "event missed" }, h("span", { class: "by" }, "cache missed"), h("span", { class: "said" }, text))),
    step.reasoning && folds.details(`${n}.reasoning`, `reasoning, ${plural(step.reasoning.length, "character")}`, () => words("reasoned", step.reasoning, "reasoned", 30), step.reasoning),
    step.text ? words("text", step.text, "said-text", last ? 40 : 12) : (step.missing?.text !== undefined || !step.calls.length || facts.length > 0) && h("p", { class: "quiet no-text" }, step.missing?.text === undefined ? "no text" : `text not on record, ${plural(step.missing.text, "character")}`),
    step.error && h("div", { class: "event broke" }, h("span", { class: "by wrong" }, "✕ the step broke"), words("error", step.error, "event-text", 12)),
    step.calls.map((call, k) => cardOf(data, n, k, folds, context)),
  );
  element.addEventListener("unfold", () => folds.unfold(element));
  return element;
}

// The miss of the cache in the request of a step, if there is one.
const missesOf = (data, n) => (data.bill?.misses ?? []).filter((miss) => miss.step === n);

// What a step cost: its money and that so far, the context that was sent, the time that the model took.
function stepFacts(data, n) {
  const { usage, model_ms: took, finish } = data.steps[n - 1];
  const cost = (data.gauges ?? []).find((one) => one.key === "cost")?.values[n] ?? null;
  const facts = [
    finish && !["stop", "tool_calls", "end_turn", "tool_use"].includes(finish) && visible(finish),
    data.bill && usage?.cost && cost > usage.cost && money(usage.cost),
    cost && (data.bill && cost > (usage?.cost ?? 0) ? `${money(cost)} so far` : money(cost)),
    usage?.input && `${short(usage.input)} context`,
    usage?.output && `${short(usage.output)} out`,
    took !== null && took !== undefined && took > 0 && duration(took),
  ];
  return facts.filter(Boolean).map((fact) => h("span", {}, fact));
}

// What can be folded in a step. What the reader opened is in `opened`, by its key, so that a row that is drawn again is
// as high as it was.
function foldsOf(opened, pattern) {
  const hidden = []; // what is folded away and has hits in it

  function foldable(key, { draw, isLong, less, more, hits }) {
    if (!isLong) return draw(true);
    let body = draw(opened.has(key));
    const button = h("button", { type: "button", class: "fold link", onclick: () => set(!opened.has(key)) });
    const name = () => {
      const found = opened.has(key) ? 0 : hits;
      fill(button, opened.has(key) ? less : more.action, found ? h("span", { class: "hits" }, plural(found, "hit")) : null);
      button.setAttribute("aria-expanded", String(opened.has(key)));
      fill(told, more.always ?? (opened.has(key) ? "" : more.told));
    };
    const told = h("span", { class: "quiet" });
    const set = (all) => {
      if (all) opened.add(key);
      else opened.delete(key);
      const next = draw(all);
      body.replaceWith(next);
      body = next;
      name();
    };
    name();
    if (hits && !opened.has(key)) hidden.push(() => set(true));
    return h("div", { class: "foldable" }, body, h("div", { class: "folded" }, told, button));
  }

  // A text with its first lines.
  function text(key, all, { name, words = false, lines }) {
    const end = foldAt(all, lines);
    const rest = all.slice(end).replace(/^\r?\n/, "");
    const draw = (whole) => put(h(words ? "div" : "pre", { class: `said ${name}` }), marked(whole ? all : all.slice(0, end), pattern));
    const told = `+ ${plural(linesIn(rest), "line")}, ${sizeOf(rest)}`;
    return foldable(key, { draw, isLong: end < all.length, less: "Show less", more: { told, action: "Show all" }, hits: hitsIn(rest, pattern) });
  }

  // Something that is shown on demand only.
  function details(key, summary, draw, searched = "") {
    const found = hitsIn(searched, pattern);
    const element = h("details", { class: `on-demand ${key.split(".").pop()}`, open: opened.has(key) || null }, h("summary", {}, summary, found ? h("span", { class: "hits" }, plural(found, "hit")) : null));
    const show = () => {
      if (element.open) opened.add(key);
      else opened.delete(key);
      if (element.open && element.childElementCount === 1) put(element, draw());
    };
    element.addEventListener("toggle", show);
    if (opened.has(key)) put(element, draw());
    if (found && !opened.has(key)) hidden.push(() => ((element.open = true), show()));
    return element;
  }

  // Open what is folded until a hit can be seen.
  function unfold(element) {
    while (hidden.length && !element.querySelector("mark")) hidden.shift()();
  }

  return { text, details, foldable, unfold, pattern };
}

// What Replay shows of one step: texts and reasoning, the calls with their results, and what they cost.

const FOLD_LINES = 12;
const FOLD_CHARS = 2000;
const MOST_MARKED = 2000;
const SHORT_ARGUMENTS = 100;

// What a reader looks for, as a pattern: the words themselves, in any case.
const sought = (query) => (query ? new RegExp(query.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), "gi") : null);

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

// Where a long text is folded: after so many lines or characters, and between characters that belong together.
function foldAt(text, lines) {
  let end = -1;
  for (let n = 0; n < lines; n += 1) {
    end = text.indexOf("\n", end + 1);
    if (end < 0) break;
  }
  if (end < 0 || end === text.length - 1) end = text.length;
  if (end <= FOLD_CHARS) return end;
  return FOLD_CHARS - (/[\ud800-\udbff]/.test(text[FOLD_CHARS - 1]) ? 1 : 0);
}

function linesIn(text) {
  let lines = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < text.length - 1; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines;
}

// A text that may be long: folded, with a button that shows how much more there is.
function foldable(text, { name, pattern, words = false, lines = FOLD_LINES }) {
  const end = foldAt(text, lines);
  const body = h(words ? "div" : "pre", { class: `said ${name}` });
  if (end === text.length) return { element: put(body, marked(text, pattern)) };
  const rest = text.slice(end);
  const hidden = linesIn(rest.startsWith("\n") ? rest.slice(1) : rest);
  const more = rest.startsWith("\n") || hidden > 1 ? plural(hidden, "more line") : `${count(rest.length)} more characters`;
  const found = hitsIn(rest, pattern);
  const button = h("button", { type: "button", class: "fold link", onclick: () => open(button.ariaExpanded !== "true") });
  const open = (all) => {
    fill(body, marked(all ? text : text.slice(0, end), pattern));
    fill(button, all ? "fold" : `+ ${more}${found ? ` with ${plural(found, "hit")}` : ""}`);
    button.setAttribute("aria-expanded", String(all));
  };
  open(false);
  return { element: h("div", { class: "foldable" }, body, button), found, open };
}

// Arguments that fit are shown on one line: pretty JSON breaks lines between its parts only, never inside a text.
function oneLine(call) {
  if (call.parse_error || call.arguments.length > 3 * SHORT_ARGUMENTS) return null;
  const line = call.arguments.split("\n").map((part) => part.trim()).join(" ").replace(/^([[{]) | ([\]}])$/g, "$1$2");
  return line.length <= SHORT_ARGUMENTS ? line : null;
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

// The texts of a step that a search looks through.
function textsOf(data, n) {
  const step = data.steps[n - 1];
  const texts = [step.text, step.reasoning, step.error];
  for (const call of step.calls) texts.push(call.tool, call.arguments, call.result);
  for (const event of step.events ?? []) texts.push(event.text);
  for (const turn of data.turns ?? []) if (turn.first === n) texts.push(turn.text);
  if (n === data.steps.length && tellsMore(data)) texts.push(data.answer);
  return texts;
}

const tellsMore = (data) => Boolean(data.answer) && data.answer !== data.steps[data.steps.length - 1]?.text;

// The panel of one step. `openRun(index)` opens a subagent's run.
function stepPanel(data, { openRun }) {
  const element = h("section", { class: "step", tabindex: "0", "aria-label": "The step" });
  let reasons = false;

  function show(n, pattern, find = false) {
    const step = data.steps[n - 1];
    if (!step) {
      fill(element, h("p", { class: "quiet" }, "This run has no steps."), answer(pattern));
      return;
    }
    const folds = [];
    const fold = (text, how) => {
      const one = foldable(text, { pattern, ...how });
      folds.push(one);
      return one.element;
    };
    const turn = (data.turns ?? []).findIndex((one) => one.first === n);
    fill(
      element,
      h("h4", {}, `Step ${count(n)}`, (data.turns ?? []).length > 1 && h("span", { class: "quiet" }, ` turn ${step.turn}`)),
      h("p", { class: "facts" }, factsOf(step).map((fact) => [h("span", {}, fact), " "])),
      turn >= 0 && data.turns[turn].text && h("div", { class: "asked" }, h("span", { class: "by" }, "user"), fold(data.turns[turn].text, { name: "asked-text", words: true, lines: 6 })),
      (step.events ?? []).map((event) => h("div", { class: "event" }, h("span", { class: "by" }, visible(event.kind)), fold(event.text ?? "", { name: "event-text", words: true, lines: 4 }))),
      step.reasoning && reasoningOf(step, fold),
      step.text ? fold(step.text, { name: "said-text", words: true, lines: 40 }) : !step.calls.length && h("p", { class: "quiet" }, "The model wrote no text."),
      step.error && h("div", { class: "event broke" }, h("span", { class: "by wrong" }, "✕ the step broke"), fold(step.error, { name: "event-text", words: true })),
      step.calls.map((call, k) => callOf(call, n, k, fold, pattern)),
      n === data.steps.length && answer(pattern),
    );
    if (find && !element.querySelector("mark")) folds.find((one) => one.found)?.open(true);
  }

  const answer = (pattern) =>
    tellsMore(data) && h("div", { class: "answer" }, h("span", { class: "by" }, "answer"), foldable(data.answer, { name: "answer-text", words: true, lines: 40, pattern }).element);

  function reasoningOf(step, fold) {
    const open = reasons || null;
    const details = h("details", { class: "reasoning", open }, h("summary", {}, `reasoning, ${plural(step.reasoning.length, "character")}`), fold(step.reasoning, { name: "reasoned", words: true, lines: 30 }));
    details.addEventListener("toggle", () => (reasons = details.open));
    return details;
  }

  function callOf(call, n, k, fold, pattern) {
    const line = oneLine(call);
    const facts = [
      call.error && h("span", { class: "badge wrong" }, "✕ failed"),
      call.dropped && h("span", { class: "badge" }, "◌ dropped, not executed"),
      call.parse_error && h("span", { class: "badge wrong" }, "arguments are not JSON"),
      call.streak > 1 && h("span", { class: "badge wrong" }, `same call ×${call.streak}`),
    ];
    return h(
      "article",
      { class: "call", "data-kind": call.kind, "aria-label": `call ${k + 1} of ${data.steps[n - 1].calls.length}: ${visible(call.tool)}` },
      h(
        "div", { class: "called" },
        h("b", { class: "code tool" }, marked(call.tool, pattern)),
        line !== null && h("span", { class: "code said arguments" }, marked(line, pattern)),
        facts,
        h("span", { class: "took" }, h("span", { class: "kind" }, data.kinds[call.kind] ? singular(call.kind) : visible(call.kind)), call.ms !== null && call.ms !== undefined && ` ${duration(call.ms)}`),
      ),
      line === null && fold(call.arguments, { name: "code arguments" }),
      call.result !== null && call.result !== undefined
        ? call.result === "" ? h("p", { class: "quiet result" }, "empty result") : fold(call.result, { name: "code result" })
        : !call.dropped && h("p", { class: "quiet result" }, "no result on record"),
      call.same_result_as && h("p", { class: "quiet same" }, `The result is byte for byte that of step ${count(call.same_result_as)}.`),
      call.child !== null && call.child !== undefined && data.children?.[call.child] && childOf(call.child),
    );
  }

  function childOf(index) {
    const { run } = data.children[index];
    return h(
      "button", { type: "button", class: "subagent", onclick: () => openRun(index) },
      h("span", { class: "turner", "aria-hidden": "true" }, "›"), `subagent ${visible(run.title ?? "")}: ${plural(run.steps.length, "step")}`, run.stop && `, ${visible(run.stop.reason)}`,
    );
  }

  return { element, show };
}

const singular = (kind) => (kind === "other" ? "other tool" : kind);

function factsOf(step) {
  const { input, cached, output, reasoning, cost } = step.usage ?? {};
  const known = (value) => value !== null && value !== undefined;
  return [
    step.finish && visible(step.finish),
    known(input) && `${count(input)} in${cached ? ` (${count(cached)} cached)` : ""}`,
    known(output) && `${count(output)} out${reasoning ? ` (${count(reasoning)} reasoning)` : ""}`,
    known(cost) && money(cost),
    known(step.ttft_ms) && `first token ${duration(step.ttft_ms)}`,
    known(step.model_ms) && `model ${duration(step.model_ms)}`,
    known(step.duration_ms) && `step ${duration(step.duration_ms)}`,
  ].filter(Boolean);
}

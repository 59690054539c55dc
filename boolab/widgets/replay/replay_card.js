// Replay's cards: one for each tool call of a step, with its edits as diffs. All that is shown was prepared in Python.

const RESULT_LINES = 6;
const DIFF_ROWS = 16; // rows of a diff before it is folded
const SAME_ROWS = 3; // lines around a change, where there are many that stay the same
const INLINE = 90; // characters of further arguments that stand beside the main one

// The size of a text as it is stored: UTF-8.
function sizeOf(text) {
  const n = new Blob([text]).size;
  return n < 1000 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`;
}

function ordinal(n) {
  const end = n % 100 >= 11 && n % 100 <= 13 ? "th" : ["th", "st", "nd", "rd"][n % 10] ?? "th";
  return `${count(n)}${end}`;
}

// The card of one call.
function cardOf(data, n, k, folds, { onStep, openRun }) {
  const call = data.steps[n - 1].calls[k];
  const key = `${n}.${k}`;
  const { pattern } = folds;
  const stepLink = (to) => h("button", { type: "button", class: "link to-step", onclick: () => onStep?.(to) }, `step ${count(to)}`);
  const fields = call.fields ?? [];
  const inline = fields.every(([, text]) => !text.includes("\n")) && fields.reduce((sum, [name, text]) => sum + name.length + text.length, 0) <= INLINE;
  const flags = [
    call.streak > 2 && h("span", { class: "flag" }, "↻ ", h("span", { class: "word" }, "same call,"), `${ordinal(call.streak)} time`),
    call.streak === 2 && h("span", { class: "flag" }, "↻ same call", call.same_call_as && call.same_call_as !== n && [" as ", stepLink(call.same_call_as)]),
    call.parse_error && h("span", { class: "badge wrong" }, "✕ arguments are not JSON"),
    (call.error || call.refused) && !call.parse_error && h("span", { class: "badge wrong" }, call.refused ? "✕ refused" : "✕ failed"),
    call.dropped && h("span", { class: "badge" }, "◌ not executed"),
  ];
  const { missing } = call;
  const raw = h("button", { type: "button", class: "link raw", "aria-expanded": "false", title: "the arguments as JSON" }, "JSON");
  const json = h("pre", { class: "said code json", hidden: true });
  const showRaw = (open) => {
    json.hidden = !open;
    raw.setAttribute("aria-expanded", String(open));
    if (open) fill(json, marked(call.arguments, pattern));
  };
  raw.addEventListener("click", () => showRaw(json.hidden));
  return h(
    "article",
    { class: "call", "data-kind": call.kind, "aria-label": `call ${k + 1} of ${data.steps[n - 1].calls.length}: ${visible(call.tool)}` },
    h(
      "div", { class: "called" },
      h("span", { class: `dot kind-${call.kind}`, title: data.kinds?.[call.kind] ?? call.kind }),
      h("b", { class: "tool" }, marked(call.tool, pattern)),
      h("span", { class: "code about", title: visible(call.about ?? "") }, marked(call.about ?? "", pattern)),
      inline && fields.map(([name, text]) => h("span", { class: "beside" }, h("span", { class: "name" }, `${visible(name)} `), h("span", { class: "code" }, marked(text, pattern)))),
      missing?.arguments !== undefined && h("span", { class: "unrecorded quiet" }, unrecordedOf(call)),
      h("span", { class: "facts-of-call" }, flags, missing?.result !== undefined && call.same_result_as && h("span", { class: "same" }, "= same result as ", stepLink(call.same_result_as)), call.arguments && call.arguments !== "{}" && raw, call.ms !== null && call.ms !== undefined && call.ms > 0 && h("span", { class: "took" }, duration(call.ms))),
    ),
    json,
    !inline && h("dl", { class: "fields" }, fields.map(([name, text], i) => [h("dt", {}, visible(name)), h("dd", {}, folds.text(`${key}.field${i}`, text, { name: "code", lines: 12 }))])),
    (call.edits ?? []).map((edit, i) => diffOf(edit, `${key}.edit${i}`, folds, Boolean(edit.path) && edit.path !== (i ? call.edits[i - 1].path : call.about))),
    missing?.arguments === undefined && resultOf(call, key, folds, stepLink),
    call.child !== null && call.child !== undefined && data.children?.[call.child] && childOf(data.children[call.child].run, () => openRun?.(call.child)),
  );
}

// What is known of a call whose texts are not on record: their sizes.
function unrecordedOf({ missing, result, dropped }) {
  const names = ["arguments", "result"].filter((name) => missing[name] !== undefined);
  const sizes = names.map((name) => count(missing[name])).join(", ");
  const rest = names.length > 1 || dropped ? "" : result === "" ? ", no output" : ", no result on record";
  return [h("span", { class: "word" }, `${names.join(" and ")} `), `not on record (${sizes} characters)${rest}`];
}

// A result with its first lines; one that was there before, byte for byte, as a link to it.
function resultOf(call, key, folds, stepLink) {
  const { result } = call;
  if (call.missing?.result !== undefined) return h("p", { class: "quiet result" }, `result not on record, ${plural(call.missing.result, "character")}`);
  if (result === null || result === undefined) return !call.dropped && h("p", { class: "quiet result" }, "no result on record");
  if (result === "") return h("p", { class: "quiet result" }, "no output");
  if (!call.same_result_as) return folds.text(`${key}.result`, result, { name: "code result", lines: RESULT_LINES });
  const same = h("span", { class: "same" }, "= same result as ", stepLink(call.same_result_as), ", byte for byte");
  return folds.foldable(`${key}.result`, {
    draw: (all) => (all ? put(h("pre", { class: "said code result" }), marked(result, folds.pattern)) : h("span", { hidden: true })),
    isLong: true, less: "Show less", more: { always: same, action: `Show ${sizeOf(result)}` }, hits: hitsIn(result, folds.pattern),
  });
}

// A subagent in a line: what it was to do, how it ended, and what it used. A click opens its run.
function childOf(run, open) {
  return h(
    "button", { type: "button", class: "subagent", title: "open the run of this subagent", onclick: open },
    h("span", { class: "turner", "aria-hidden": "true" }, "›"),
    h("span", { class: "who" }, h("b", {}, visible(run.title || "subagent")), ` ${visible(run.header.title)}`),
    h("span", { class: "used" }, outcomeOf(run.header), usedOf(run.header).map((one) => [" · ", one])),
  );
}

function outcomeOf({ outcome }) {
  return h("span", { class: `outcome ${OUTCOMES[outcome.sign] ?? ""}` }, `${outcome.sign} ${visible(outcome.label)}`, outcome.score && `, ${visible(outcome.score)}`);
}

// What a run used, each in a few words.
const usedOf = ({ kpis }) => kpis.map(({ name, value, label }) => (name === "steps" ? `${value} ${label}` : name === "tokens" ? `${value} tokens` : value));

// A diff: numbers of the old and the new lines, a sign, and the line with what changed in it darker.
function diffOf(edit, key, folds, named) {
  const { pattern } = folds;
  let old = edit.first ?? 1;
  let now = edit.first ?? 1;
  const lines = edit.rows.map(([sign, ...parts]) => {
    const line = { sign, parts, old: sign === "+" ? "" : old, now: sign === "-" ? "" : now };
    if (sign !== "+") old += 1;
    if (sign !== "-") now += 1;
    return line;
  });
  const note = [edit.note, edit.first === null && lines.length > 0 && "line numbers count from the first line of the edit"].filter(Boolean).join("; ");
  const near = nearChanges(lines);
  const short_ = near.slice(0, DIFF_ROWS);
  const isLong = near.length > DIFF_ROWS || near.length < lines.length;
  const shown = short_.filter((one) => one !== null).length;
  const text = (line) => line.parts.join("");
  const seen = new Set(short_);
  const hidden = lines.filter((line) => !seen.has(line));
  return h(
    "div", { class: "edit" },
    (named || note) && h("p", { class: "edit-name" }, named && h("span", { class: "code" }, marked(edit.path, pattern)), note && h("span", { class: "quiet" }, named ? ` ${visible(note)}` : visible(note))),
    folds.foldable(key, {
      draw: (all) => h("table", { class: "diff", "aria-label": `changes of ${visible(edit.path)}` }, h("tbody", {}, (all ? lines : short_).map((line) => rowOfDiff(line, pattern)))),
      isLong, less: "Show less", more: { told: `+ ${plural(lines.length - shown, "line")}`, action: "Show all" },
      hits: hidden.reduce((sum, line) => sum + hitsIn(text(line), pattern), 0),
    }),
  );
}

// The lines near changes; null where others are left out.
function nearChanges(lines) {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, i) => {
    if (line.sign !== " ") near.fill(1, Math.max(0, i - SAME_ROWS), i + SAME_ROWS + 1);
  });
  const shown = [];
  lines.forEach((line, i) => {
    if (near[i]) shown.push(line);
    else if (shown[shown.length - 1] !== null) shown.push(null);
  });
  return shown;
}

const SIGN_NAMES = { "-": "removed", "+": "added" };
function rowOfDiff(line, pattern) {
  if (line === null) return h("tr", { class: "gap" }, h("td", {}), h("td", {}), h("td", { class: "sign" }, "⋯"), h("td", {}));
  const { sign, parts } = line;
  return h(
    "tr", { class: SIGN_NAMES[sign] ?? "same" },
    h("td", {}, line.old), h("td", {}, line.now),
    h("td", { class: "sign", "aria-label": SIGN_NAMES[sign] ?? null }, sign === "-" ? "−" : sign),
    h("td", { class: "line" }, parts.map((part, i) => (i % 2 ? h("span", { class: "changed" }, marked(part, pattern)) : marked(part, pattern)))),
  );
}

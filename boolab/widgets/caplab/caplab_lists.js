// What follows the figures: the runs that a setting stops, how to set it, and the evidence.

// --- How the runs end ------------------------------------------------------------------------------------------------

// What is no reason to stop, in words.
const UNSTOPPED = {
  censored: "censored: stopped by its own limit", interrupted: "interrupted: another turn follows", not_on_record: "not on record",
};

function ends({ base, answer }, open) {
  const bar = h("div", { class: "stops", role: "img", "aria-label": answer.ends.map(({ reason, n }) => `${n} ${reason}`).join(", ") });
  const key = h("ul", { class: "key" });
  for (const { reason, n } of answer.ends) {
    const known = !Object.hasOwn(UNSTOPPED, reason);
    const fill = known ? `var(--stop-${reason})` : "var(--line)";
    const edge = known ? `var(--ink-${reason})` : "var(--ink3)";
    put(bar, h("span", { "data-reason": reason, title: `${reason} ${count(n)}`, style: { "flex-grow": n, background: fill, "--edge": edge } }));
    put(key, h("li", {}, h("i", { style: { background: fill, "--edge": edge }, "aria-hidden": "true" }),
      UNSTOPPED[reason] ?? reason.replaceAll("_", " "), " ", h("b", {}, count(n))));
  }
  const still = answer.open.not_identified
    ? h("p", { class: "quiet" }, `${plural(answer.open.not_identified, base.noun)} stopped in a turn that others follow: the rest is unknown.`)
    : null;
  return fold(open, "ends", { class: "ends" }, [h("b", {}, `How the ${plural(base.units, base.noun)} end`), ` with ${answer.short}`], bar, key, still);
}

// The main figure as a table, drawn when it is opened: a row for each cap, a column for each row of a tooltip.
function capTable({ base, answer }, open) {
  const place = h("div", { class: "scroll" });
  const { tips } = answer.curve;
  const names = tips.reduce((most, tip) => (tip.length > most.length ? tip : most), []).map(([name]) => name);
  const cell = (tip, name) => (tip.find(([one]) => one === name) ?? []).slice(1).filter(Boolean).join(", ");
  const draw = () => fill(place, h("table", { "aria-label": "What each step cap keeps, saves and stops" },
    h("thead", {}, h("tr", {}, ["step cap", ...names].map((name) => h("th", { scope: "col", class: "number" }, name)))),
    h("tbody", {}, tips.map((tip, n) => h("tr", {}, h("th", { scope: "row", class: "number" }, limitText(base.axes[0].values[n])),
      names.map((name) => h("td", { class: "number" }, cell(tip, name))))))));
  const details = fold(open, "caps", { class: "caps", ontoggle: ({ target }) => target.open && draw() },
    [h("b", {}, "All step caps"), " as a table"], place);
  if (details.open) draw();
  return details;
}

// --- The runs that are stopped -----------------------------------------------------------------------------------------

// Successes first, each with what is spent and what is saved of it on one scale; failures are folded.
function table(data, open, act) {
  const { base, answer } = data;
  const { cut, rows } = answer;
  if (answer.short === NO_LIMIT) {
    return h("section", { class: "hint" }, h("h4", {}, `No ${base.noun} is stopped`),
      h("p", { class: "quiet" }, `Move a slider${data.recommended?.setting ? ", set the recommendation," : ""} or choose a cap in the figure: what it stops is listed here, and can be replayed.`));
  }
  if (!cut.n) return h("section", {}, h("h4", {}, `This setting stops no ${base.noun}`));
  const isOpen = ({ success }) => success === null && !base.proxy;
  const [won, unsettled, rest] = [rows.filter(({ success }) => success), rows.filter(isOpen), rows.filter((row) => !row.success && !isOpen(row))];
  const unknown = base.proxy ? 0 : cut.unknown;
  const [noun, several] = base.families
    ? [`${base.noun} of ${base.success}`, `${base.noun}s of ${base.success}`]
    : base.proxy ? [`${base.noun} that had ended by itself`, `${base.noun}s that had ended by themselves`] : ["success", "successes"];
  const title = cut.succeeded
    ? h("h4", {}, h("span", { class: "wrong" }, `\u2715 ${count(cut.succeeded)} ${cut.succeeded === 1 ? noun : several}`), " that this setting stops, longest first")
    : h("h4", {}, `This setting stops no ${noun}`);
  const others = cut.n - cut.succeeded - unknown;
  const hidden = cut.succeeded - won.length;
  const more = (n, what) => (n <= 0 ? null : data.grid
    ? h("p", { class: "quiet" }, `and ${count(n)} more`)
    : h("button", { class: "more", type: "button", onclick: act.more }, `+ ${plural(n, what)}`));
  const failures = others ? fold(open, "failures", { class: "failures", first: !won.length && !unknown },
    `${plural(others, cut.failed === others && !base.proxy && !base.families ? "failure" : `other ${base.noun}`)} that it stops, longest first`,
    rest.length ? runTable(data, rest, `Other ${base.noun}s that the setting stops`, act) : null, more(others - rest.length, `more ${base.noun}`)) : null;
  const undecided = unknown ? h("div", { class: "undecided" },
    h("h4", {}, hatch(), `${plural(unknown, base.noun)} of unknown outcome that this setting stops, longest first`),
    h("p", { class: "quiet" }, "Each may be a lost success: boolab label LOGS asks about them."),
    unsettled.length ? runTable(data, unsettled, `${base.noun}s of unknown outcome that the setting stops`, act) : null,
    more(unknown - unsettled.length, `more ${base.noun}`)) : null;
  const missing = data.held && rows.some((row) => !data.held.includes(row.run));
  const elsewhere = missing ? h("p", { class: "quiet elsewhere" }, "Where Replay is missing, this page does not hold the run: open bl.CapLab(runs) in a notebook.") : null;
  return h("section", { class: "cut" }, unknown ? losses(data) : null, title, won.length ? runTable(data, won, "Successes that the setting stops", act) : null,
    more(hidden, `more ${base.noun}`), undecided, failures, elsewhere);
}

// What is stopped, by outcome: lost successes, what may be one, and failures.
function losses({ base, answer }) {
  const { n, succeeded, unknown, failed } = answer.families ?? answer.cut;
  const noun = answer.families ? "family" : base.noun;
  const parts = [["lost", succeeded, count(succeeded), "\u2715 successes"], ["hatch", unknown, count(unknown), "of unknown outcome: may be lost"], ["failure", failed, count(failed), "failures"]];
  const words = `Of ${count(n)} that are stopped, ${count(succeeded)} ${succeeded === 1 ? "is a success" : "are successes"}, ${count(unknown)} of unknown outcome and ${count(failed)} ${failed === 1 ? "a failure" : "failures"}`;
  return [
    h("div", { class: "losses", role: "img", "aria-label": words }, parts.map(([name, size]) => (size ? h("span", { class: name, style: { "flex-grow": size } }) : null))),
    h("ul", { class: "key" }, h("li", {}, `Stopped ${answer.families ? "families" : `${noun}s`}:`), parts.map(([name, size, text, label]) => (size ? h("li", {}, h("i", { class: name, "aria-hidden": "true" }), h("b", {}, text), ` ${label}`) : null)))];
}

// The step of the run at which it is stopped.
const stepOf = ({ begins, at }) => begins + Math.max(1, at);

const BAR = 150; // the width of the longest run

function runTable(data, rows, name, act) {
  const { answer } = data;
  const agents = new Set(answer.rows.map((row) => row.agent)).size > 1;
  const most = Math.max(...answer.rows.map(({ needed }) => needed), 1);
  const unsure = rows.some(({ success, lost }) => success && !lost);
  const reasons = new Set(answer.rows.map(({ reason }) => reason)).size > 1 || answer.rows.some(({ reason }) => reason !== "step_cap");
  const heads = ["task", agents ? "agent" : null, h("span", { class: "number" }, "steps"),
    h("span", {}, "spent, ", h("span", { class: "saved" }, "saved")), reasons ? "stopped by" : null, unsure ? "success" : null, "ended on record", h("span", { class: "only-read" }, "replay")];
  const bar = ({ at, needed }) => h("svg", { class: "spent", width: BAR, height: 10, viewBox: `0 0 ${BAR} 10`, preserveAspectRatio: "none", role: "img", "aria-label": `${count(at)} of ${plural(needed, "step")} spent` },
    h("rect", { class: "before", x: 0, y: 1, width: (BAR * Math.min(at, needed)) / most, height: 8 }),
    h("rect", { class: "after", x: (BAR * Math.min(at, needed)) / most, y: 1, width: Math.max(0, (BAR * (needed - at)) / most), height: 8 }));
  const line = (row) => h("tr", { class: "run-row", "data-run": visible(row.run), "data-begins": row.begins },
    h("td", { class: "name", title: visible(row.run) }, visible(row.name)),
    agents ? h("td", { class: "name" }, visible(row.agent)) : null,
    h("td", { class: "number" }, count(row.needed)), h("td", {}, bar(row)),
    reasons ? h("td", { class: "why" }, row.reason === "unknown" ? "an unknown counter" : `${row.reason === "step_cap" ? "cap" : row.reason.replaceAll("_", " ")}${row.limit === null ? "" : ` ${count(row.limit)}`}`) : null,
    unsure ? h("td", { class: "why" }, row.lost ? h("span", { class: "wrong" }, "\u2715 lost") : "may be kept") : null,
    h("td", { class: "why" }, row.ended_by),
    h("td", {}, data.held && !data.held.includes(row.run)
      ? null
      : h("button", { class: "link open", type: "button", "aria-label": `replay ${visible(row.run)} from step ${stepOf(row)}`, onclick: () => act.open(row) }, "Replay")));
  return h("div", { class: "scroll" }, h("table", { "aria-label": name },
    h("thead", {}, h("tr", {}, heads.filter(Boolean).map((one) => h("th", { scope: "col" }, one)))), h("tbody", {}, rows.map(line))));
}

// --- What is recommended, and how to set it ----------------------------------------------------------------------------

function advice({ base, recommended, searching }, open) {
  const text = recommended ? [...recommended.sentences, ...recommended.notes] : searching ? ["Computing the recommended setting\u2026"] : [];
  if (!text.length) return null;
  const sure = recommended?.setting
    ? `${recommended.words} It keeps at least ${percent(recommended.keep, 1)} of the ${base.success}.`
    : recommended ? visible(recommended.words) : text[0];
  return fold(open, "advice", { class: "advice" }, [h("b", {}, recommended && !recommended.setting ? "Nothing is recommended" : "Recommended"), " ", sure],
    recommended ? text.map((line) => h("p", { class: "quiet" }, visible(line))) : null);
}

const FIRST = ["claude-code", "langgraph", "pydantic-ai", "boolab"]; // the harnesses in view; the others are folded

// A row for each harness: its name, the lines with the limits, a button that copies the text, and the whole text folded.
function howToSet({ answer }, open) {
  if (answer.short === NO_LIMIT) return h("section", { class: "ways" }, h("h4", {}, "How to set it"), h("p", { class: "quiet" }, "Where a limit is set, what to paste into each harness is here."));
  const ways = answer.how.filter(({ short }) => short);
  const inView = FIRST.flatMap((name) => ways.filter((way) => way.name === name));
  const rest = ways.filter((way) => !inView.includes(way));
  const without = answer.how.filter(({ short }) => !short).map(({ title }) => title);
  const row = ({ name, title, where, text, line, short, others, notes }) => h("div", { class: "way", "data-name": name },
    fold(open, `${name} ${where}`, {}, [h("span", { class: "title" }, title), h("code", { class: "code", title: line }, line)],
      h("p", { class: "quiet" }, where), h("pre", { class: "code written" }, text),
      others.map((other) => [h("p", { class: "quiet" }, other.where), h("pre", { class: "code written" }, other.text)]),
      notes.map((note) => h("p", { class: "quiet" }, note))),
    copyButton(text, short, title, short === answer.short));
  return h("section", { class: "ways" }, h("h4", {}, `How to set ${answer.short}`), inView.map(row),
    rest.length ? fold(open, "harnesses", { class: "others-place", first: !inView.length }, `${count(rest.length)} more`, rest.map(row)) : null,
    without.length ? h("p", { class: "quiet" }, `Cannot be set in: ${[...new Set(without)].join(", ")}.`) : null);
}

const MAX_LABEL = 12; // letters of what a button copies

// A button that copies a text; its label names the limits where they are not all.
function copyButton(text, short, title, isWhole) {
  const label = isWhole ? "Copy" : short.length > MAX_LABEL ? `Copy ${short.split(", ").length} limits` : `Copy ${short}`;
  return h("button", {
    class: "copy", type: "button", "aria-label": `${label} for ${title}`, title: `${short}, for ${title}`, onclick: async (event) => {
      const button = event.currentTarget;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        const shown = button.previousElementSibling; // without the clipboard, the text is selected, to copy by keyboard
        shown.open = true;
        getSelection().selectAllChildren(shown.querySelector("pre"));
        button.textContent = "Selected";
      }
    },
  }, label);
}

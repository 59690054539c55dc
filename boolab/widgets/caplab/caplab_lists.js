// What follows the figures: the runs that a setting stops, how to set it, and the evidence.

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

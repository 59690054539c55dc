// The runs of a setting, or of a failure: each opens in Replay, at its last step.

// Open a run below, or close the one that is open. `opens` are the ids of those that can be opened; null for all.
function toggleRun(model, run) {
  const mine = model.get("opened")?.run === run.id;
  change(model, { opened: mine ? null : { run: run.id, step: Math.max(1, run.steps) } });
}

const LISTED = 12; // runs that are drawn at once

const canOpen = (data, id) => data.opens === null || data.opens.includes(id);

function replayButton(model, data, run, row) {
  if (!canOpen(data, run.id)) return null;
  const mine = model.get("opened")?.run === run.id;
  return h("button", { type: "button", class: "open", "data-keep": `${row} ${run.id}`, "aria-pressed": String(mine), "aria-label": `Replay ${visible(run.id)}`, onclick: () => toggleRun(model, run) }, mine ? "Close" : "Replay");
}

// The first runs of a setting are drawn, and more on request; `parts` keeps how often that was asked for, by setting.
function runsTable(model, data, row, name, parts) {
  const outcome = (run) => (run.success === null ? "no label" : run.success ? "✓ success" : "✕ failure");
  const rest = row.runs - row.listed.length;
  const heads = [["task"], ["run", "number"], ["how it ended"], ["steps", "number"], ["outcome"], ["cost", "number"]];
  const seen = new Map(); // how many runs of each task are above
  const makers = row.listed.map((run) => {
    seen.set(run.task, (seen.get(run.task) ?? 0) + 1);
    const number = seen.get(run.task);
    return () => rowOf(run, number);
  });
  const rowOf = (run, number) => {
    const open = canOpen(data, run.id);
    const onclick = (event) => {
      if (!open || event.target.closest("button")) return;
      event.currentTarget.querySelector("button").focus({ preventScroll: true }); // Replay scrolls into view from there
      toggleRun(model, run);
    };
    return h("tr", { class: open ? "run opens" : "run", "data-run": run.id, "aria-current": model.get("opened")?.run === run.id ? "true" : null, onclick },
      h("td", { class: "said task", title: visible(run.task) }, visible(run.task)),
      h("td", { class: "number", title: visible(run.id) }, count(number)),
      h("td", {}, stopSwatch(run.reason), stopWords(run.reason)),
      h("td", { class: "number" }, count(run.steps)),
      h("td", {}, outcome(run)),
      h("td", { class: "number" }, run.cost === null ? "unknown" : money(run.cost)),
      h("td", {}, replayButton(model, data, run, "open")));
  };
  const body = h("tbody");
  const more = h("button", { type: "button", class: "more" });
  const drawMore = inParts(makers, LISTED, "run", more, (added) => put(body, added));
  for (let part = 0; part < (parts.get(name) ?? 1); part += 1) drawMore();
  more.addEventListener("click", () => parts.set(name, (parts.get(name) ?? 1) + 1));
  return [
    h("table", { "aria-label": `Runs under ${visible(name)}` },
      h("thead", {}, h("tr", {}, heads.map(([head, kind]) => h("th", { scope: "col", class: kind }, head)), h("th", {}, h("span", { class: "only-read" }, "replay")))),
      body),
    more,
    rest > 0 ? h("p", { class: "quiet" }, `${plural(rest, "more run")} ${rest === 1 ? "is" : "are"} not listed here${data.state === "running" ? " while the sweep runs" : ": runs_df has all"}.`) : null,
  ];
}

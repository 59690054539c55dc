// A sweep: how far it is, how runs end, what each setting came to, and what failed.
const STATES = {
  waiting: "not begun",
  running: "running",
  done: "done",
  interrupted: "interrupted",
  failed: "failed",
  snapshot: "read from the store",
};

const FIRST = 24; // settings

function render({ model, el }) {
  let data = null;
  let drawnAt = 0;
  let announced = "";
  let sorted = null; // the column that rows are sorted by, and whether downwards
  let all = false; // whether all settings are shown, or the first ones
  const parts = new Map(); // how much of a setting's runs is drawn
  let unfolded = false; // whether settings with the same numbers have rows of their own
  const open = new Set(); // the settings whose runs are listed
  const more = h("button", { type: "button", class: "more", "data-keep": "more", onclick: () => ((all = true), redraw()) });
  const unfold = h("button", { type: "button", class: "more", "data-keep": "unfold", onclick: () => ((unfolded = true), redraw()) });
  const filter = h("input", { type: "search", class: "filter", placeholder: "filter settings", "aria-label": "Show settings that contain this text", oninput: redraw });
  const body = h("tbody");
  const headline = h("h3");
  const clock = h("p", { class: "clock" });
  const bar = h("div", { class: "bar", role: "progressbar", "aria-label": "runs done", "aria-valuemin": 0 });
  const verdict = h("p", { class: "verdict" });
  const ended = h("p", { class: "ended wrong", role: "alert" });
  const reasons = h("section", { class: "reasons", "aria-label": "Why runs stopped" });
  const table = h("div", { class: "by-setting", role: "region", "aria-label": "Results by setting" });
  const failures = h("section", { class: "failures", "aria-label": "What failed" });
  const notes = h("footer", { class: "quiet" });
  const state = h("span", { class: "only-read", "aria-live": "polite" });
  const refresh = h("button", { class: "refresh", type: "button", onclick: ask }, "refresh");
  const root = h(
    "div",
    { class: "boolab boolab-sweep_view", role: "group", "aria-label": "A sweep" },
    verdict, h("header", {}, headline, clock, refresh), bar, ended, reasons, table, failures, notes, state,
  );
  put(el, root);

  function ask() {
    refresh.disabled = true;
    change(model, { refreshed: model.get("refreshed") + 1 });
  }

  // The clock runs between two messages: a run may take minutes.
  function tick() {
    const went = data.state === "running" && !data.still ? performance.now() - drawnAt : 0;
    const left = data.left_ms === null ? null : Math.max(0, data.left_ms - went);
    fill(clock, [
      STATES[data.state],
      data.elapsed_ms === null ? null : duration(data.elapsed_ms + went),
      data.rate === null ? null : pace(data.rate),
      left === null ? null : `about ${duration(left)} left`,
      data.before ? `${count(data.before)} were done before` : null,
      data.store ? visible(data.store) : null,
    ].filter(Boolean).map((text, place) => h("span", place ? {} : { class: "state" }, text)));
  }

  function draw(given) {
    data = given;
    drawnAt = performance.now();
    const { done, total } = data;
    root.dataset.state = data.state;
    fill(headline, h("b", {}, count(done)), total === null ? ` ${done === 1 ? "run" : "runs"}` : ` of ${plural(total, "run")}`);
    tick();
    const share = total ? done / total : 0;
    bar.hidden = total === null || done === total; // a full bar adds nothing
    verdict.hidden = !data.verdict;
    fill(verdict, visible(data.verdict));
    bar.setAttribute("aria-valuemax", total ?? done);
    bar.setAttribute("aria-valuenow", done);
    bar.setAttribute("aria-valuetext", `${count(done)} of ${count(total)} runs, ${STATES[data.state]}`);
    fill(bar, h("i", { style: { width: `${100 * share}%` } }));
    ended.hidden = !data.ended;
    fill(ended, h("span", { class: "said" }, visible(data.ended)));
    refresh.hidden = !data.refresh;
    refresh.disabled = false;
    fill(reasons, data.reasons.length ? [h("h4", {}, "Why runs stopped"), stacked(data.reasons, done), key()] : null);
    redraw();
    fill(notes, data.notes.map((note) => h("span", {}, note)), data.still && data.opens.length ? h("span", {}, `This page holds the steps of ${plural(data.opens.length, "run")}, which can be replayed.`) : null);
    const news = data.state === "running" ? `${Math.floor(share * 10) * 10}% done` : STATES[data.state];
    if (news !== announced) fill(state, (announced = news));
  }

  // What is below the headline, the focus kept on what it was on.
  function redraw() {
    if (!data) return;
    const had = document.activeElement?.dataset?.keep;
    drawTable();
    drawFailures();
    if (had) [...root.querySelectorAll("[data-keep]")].find((one) => one.dataset.keep === had)?.focus({ preventScroll: true });
  }

  function stacked(parts, all) {
    const text = parts.map((one) => `${stopWords(one.reason)} ${count(one.n)}`).join(", ");
    return h("div", { class: "stack", role: "img", "aria-label": text, title: text }, parts.map((one) =>
      h("i", { style: { width: `${(100 * one.n) / all}%`, background: `var(--stop-${one.reason})`, "border-color": `var(--ink-${one.reason})` } })));
  }

  function key() {
    return h("ul", { class: "key" }, data.reasons.map((one) =>
      h("li", { "data-reason": one.reason }, stopSwatch(one.reason), stopWords(one.reason), " ", h("b", {}, count(one.n)))));
  }

  function drawTable() {
    const { rows, fixed } = data;
    if (!rows.length) {
      fill(table, h("p", { class: "quiet" }, data.state === "waiting" ? "Give this view to a sweep: sweep(..., progress=view)." : "No run is done yet."));
      return;
    }
    const settings = data.planned_rows && data.planned_rows > data.n_rows ? `${count(data.n_rows)} of ${plural(data.planned_rows, "setting")} have begun` : plural(data.n_rows, "setting");
    const wanted = filter.value.trim().toLowerCase();
    const found = rows.filter((row) => nameOf(row).toLowerCase().includes(wanted));
    const folds = !wanted && !unfolded && found.some((row) => row.copy);
    const shown = folds ? found.filter((row) => !row.copy) : found;
    const columns = columnsOf(rows, folds);
    const by = columns.find((one) => one.name === sorted?.name);
    if (by) shown.sort((a, b) => (sorted.down ? -1 : 1) * compared(by.key(a), by.key(b)));
    if (!table.contains(filter)) fill(table, h("h4"), filter, h("div", { class: "scroll-x" }, h("table", { "aria-label": "Runs by setting" }, h("thead"), body)), more, unfold);
    fill(table.querySelector("h4"), wanted ? `${count(shown.length)} of ${settings}` : settings, fixed.length ? h("span", { class: "fixed" }, " all with ", fixed.map((one, place) => [place ? ", " : "", visible(one.name), " ", h("b", {}, visible(one.value))])) : null);
    fill(table.querySelector("thead"), h("tr", {}, columns.map((one) => headOf(one))));
    fill(body, shown.slice(0, all ? shown.length : FIRST).map((row) => {
      const is = open.has(nameOf(row));
      return [
        h("tr", { class: is ? "setting chosen" : "setting", onclick: (event) => !event.target.closest("button") && choose(row) }, columns.map((one) => one.cell(row))),
        is ? h("tr", { class: "its-runs" }, h("td", { colspan: columns.length }, runsTable(model, data, row, nameOf(row), parts))) : null,
      ];
    }));
    unfold.hidden = !folds;
    fill(unfold, `+ ${plural(found.length - shown.length, "setting")} with the same numbers`);
    more.hidden = all || shown.length <= FIRST;
    fill(more, `+ ${plural(shown.length - FIRST, "setting")}`);
  }

  // `folds`: a row stands for those that differ in a limit without effect.
  function columnsOf(rows, folds) {
    const text = (row, i) => visible(folds ? row.spans[i] : row.values[i]);
    const named = data.columns.map((_, i) => ({
      name: data.heads[i], unit: data.units[i], key: (row) => ordered(row.values[i]),
      cell: (row) => h("td", { class: data.units[i] ? "limit" : "said" }, i ? text(row, i) : [chooser(row), text(row, i)]),
    }));
    return [
      ...named,
      { name: "runs", class: "number", key: (row) => row.runs, cell: (row) => h("td", { class: "number runs" }, named.length ? null : chooser(row), count(row.runs), row.planned && row.planned !== row.runs ? h("span", { class: "quiet" }, ` of ${count(row.planned)}`) : null) },
      { name: "how they end", unit: "share of runs", class: "ends", cell: (row) => h("td", { class: "ends" }, stacked(row.reasons, row.runs)) },
      rows.some((row) => row.labelled) && { name: "successes", unit: axis(), class: "shares", key: (row) => row.share ?? -1, cell: (row) => h("td", { class: "shares" }, success(row)) },
      { name: "mean steps", unit: "per run", class: "number", key: (row) => row.steps, cell: (row) => h("td", { class: "number steps" }, row.steps.toFixed(1)) },
      rows.some((row) => row.priced) && { name: "mean cost", unit: "per run", class: "number", key: (row) => row.cost ?? -1, cell: (row) => h("td", { class: "number cost" }, money(row.cost)) },
    ].filter(Boolean);
  }

  const nameOf = (row) => row.values.map((value, i) => `${data.heads[i]} ${value}`).join(", ");

  // The axis of the intervals below it.
  const axis = () => h("span", { class: "success" }, h("span", { class: "axis", "aria-hidden": "true" }, ["0%", "50%", "100%"].map((text) => h("span", {}, text))), h("span"));

  function headOf(one) {
    const unit = one.unit ? h("span", { class: "unit" }, one.unit) : null;
    if (!one.key) return h("th", { scope: "col", class: one.class }, h("span", { class: "sort" }, visible(one.name)), unit);
    const mine = sorted?.name === one.name;
    const sort = () => {
      sorted = { name: one.name, down: mine && !sorted.down };
      redraw();
    };
    return h("th", { scope: "col", class: one.class, "aria-sort": mine ? (sorted.down ? "descending" : "ascending") : null },
      h("button", { type: "button", class: "sort", "data-keep": `sort ${one.name}`, onclick: sort }, visible(one.name), h("span", { "aria-hidden": "true" }, mine ? (sorted.down ? " ↓" : " ↑") : "")), unit);
  }

  function choose(row) {
    const name = nameOf(row);
    if (!open.delete(name)) open.add(name);
    redraw();
  }

  function chooser(row) {
    const name = nameOf(row);
    const is = open.has(name);
    return h("button", { type: "button", class: "choose", "data-keep": `runs ${name}`, "aria-expanded": is ? "true" : "false", "aria-label": `Runs under ${visible(name)}`, onclick: () => choose(row) }, is ? "▾" : "▸");
  }

  function success(row) {
    if (!row.labelled) return h("span", { class: "quiet" }, "no label");
    const whole = (share) => percent(share, 1, 0);
    const text = `${whole(row.share)}, 95% interval ${whole(row.low)} to ${whole(row.high)}, ${plural(row.tasks, "task")}`;
    return h("span", { class: "success", title: text },
      h("span", { class: "interval", role: "img", "aria-label": text },
        h("i", { class: "range", style: { left: whole(row.low), width: whole(row.high - row.low) } }),
        h("i", { class: "point", style: { left: whole(row.share) } })),
      h("span", {}, h("b", {}, count(row.successes)), ` of ${count(row.labelled)}`));
  }

  function drawFailures() {
    const { failures: some, n_failures: kinds, failed } = data;
    fill(failures, !some.length ? null : [
      h("h4", {}, stopSwatch("error"), `${plural(failed, "run")} failed`, kinds > some.length ? h("span", { class: "quiet" }, `, with ${count(kinds)} different errors; the most frequent:`) : null),
      h("ul", {}, some.map((one) => h("li", {},
        h("b", {}, `${count(one.runs)} ×`),
        h("div", {},
          h("p", { class: "said code" }, visible(one.error)),
          h("p", { class: "quiet" }, "First: run ", h("span", { class: "code" }, visible(one.run_id.slice(0, 12))),
            one.where.length ? `, ${visible(one.where.join(", "))}` : "", ", task ", h("span", { class: "said" }, visible(one.task.length > 90 ? `${one.task.slice(0, 89)}…` : one.task)),
            " ", replayButton(model, data, { id: one.run_id, steps: one.steps }, "failed")))))),
    ]);
  }

  model.on("change:opened", redraw);
  const stop = withData(model, root, draw);
  const timer = setInterval(() => data?.state === "running" && !data.still && tick(), 1000);
  return () => {
    stop();
    model.off("change:opened", redraw);
    clearInterval(timer);
  };
}

// What a value is sorted by: numbers as numbers, "No limit" after all of them.
function ordered(value) {
  const number = Number(value.replaceAll(",", ""));
  return value === "No limit" ? Infinity : Number.isNaN(number) ? value : number;
}

function compared(a, b) {
  return a === b ? 0 : typeof a === typeof b ? (a < b ? -1 : 1) : typeof a === "number" ? -1 : 1;
}

function pace(rate) {
  if (rate >= 1) return `${count(rate)} runs/s`;
  return rate * 60 >= 1 ? `${(rate * 60).toFixed(1)} runs/min` : `${(rate * 3600).toFixed(1)} runs/h`;
}

export default { render };

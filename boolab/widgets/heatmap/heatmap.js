// Two settings against a measure: a grid of cells, and the runs of the chosen one.

const pageOf = 12; // rows of the list that are drawn at once

function render({ model, el }) {
  el.classList.add("boolab", "boolab-heatmap");
  return withData(model, el, (data) => {
    const draw = () => drawHeatmap(model, el, layered(data, model.get("metric")));
    model.off("change:metric", el.heatmapMetric);
    el.heatmapMetric = draw;
    model.on("change:metric", draw);
    draw();
  });
}

// The data with the texts and colours of one metric.
function layered(data, metric) {
  const layer = data.layers.find((one) => one.value === metric) ?? data.layers[0];
  if (!layer) return data;
  return { ...data, ...layer, rows: data.rows.map((line, row) => line.map((cell, column) => ({ ...cell, ...layer.cells[row][column] }))) };
}

// The metrics, one of which is shown.
function switchOf(model, el, data) {
  const show = (value) => {
    change(model, { metric: value });
    el.querySelector(`.metrics [data-value="${value}"]`)?.focus({ preventScroll: true });
  };
  return h("div", { class: "metrics", role: "group", "aria-label": "What the cells show" }, data.layers.map((one) =>
    h("button", { type: "button", "data-value": one.value, "aria-pressed": one.value === data.value ? "true" : "false", onclick: () => show(one.value) }, one.name)));
}

// Put the readout beside a cell, inside the frame.
function placeBeside(readout, cell, el) {
  const frame = el.getBoundingClientRect();
  const at = cell.getBoundingClientRect();
  const zoom = frame.width / el.offsetWidth || 1;
  const left = (at.right - frame.left) / zoom + 6;
  const fits = left + readout.offsetWidth <= el.offsetWidth;
  readout.style.left = `${Math.max(0, fits ? left : (at.left - frame.left) / zoom - readout.offsetWidth - 6)}px`;
  readout.style.top = `${(at.bottom - frame.top) / zoom + 6}px`;
}

function drawHeatmap(model, el, data) {
  const title = h("h3", { class: "finding" }, visible(data.title));
  if (!data.rows.length) {
    fill(el, title, h("p", { class: "quiet" }, data.notes.map(visible).join(" ")));
    return;
  }
  const heading = headingId();
  title.id = heading;
  const readout = h("p", { class: "readout", hidden: true });
  const hint = h("p", { class: "quiet hint" }, "Point at a cell for its numbers; choose it to see its runs here.");
  const list = h("section", { class: "runs", "aria-live": "polite" });
  const { grid, cells } = gridOf(data, heading);
  fill(
    el,
    title,
    data.layers.length > 1 && switchOf(model, el, data),
    keyOf(data),
    h("div", { class: "with-axes" }, h("div", { class: "y-name" }, `${data.y.name}, in ${data.y.unit}`), h("div", { class: "scroll" }, grid), h("div", { class: "x-name" }, `${data.x.name}, in ${data.x.unit}`)),
    hint,
    list,
    readout,
    h("p", { class: "notes quiet" }, visible(data.notes.join(" "))),
  );
  const marked = placeWhere(data, (cell) => cell.recommended);
  let focused = null;
  let chosen = null;
  const say = (at) => {
    const cell = at && String(at) !== String(chosen) && cellAt(data, at); // what is chosen has its numbers below
    readout.hidden = !cell;
    if (!cell) return;
    fill(readout, h("b", {}, upper(cell.name)), h("span", {}, upper(factsOf(data, cell))));
    placeBeside(readout, cells[at[0]][at[1]], el);
  };
  const stand = (at) => {
    if (focused) cells[focused[0]][focused[1]].tabIndex = -1;
    focused = at;
    cells[at[0]][at[1]].tabIndex = 0;
  };
  const focus = (at, move) => {
    stand(at);
    if (move) cells[at[0]][at[1]].focus();
    say(at);
  };
  const choose = (at) => {
    const value = at && { [data.x.axis]: valueOf(data.x, at[1]), [data.y.axis]: valueOf(data.y, data.rows.length - 1 - at[0]) };
    change(model, { selected: value });
    show(at);
  };
  const show = (at) => {
    if (chosen) cells[chosen[0]][chosen[1]].setAttribute("aria-selected", "false");
    chosen = at;
    if (at) cells[at[0]][at[1]].setAttribute("aria-selected", "true");
    drawRuns(model, list, data, at && cellAt(data, at), () => {
      choose(null);
      if (at) focus(at, true);
    });
    hint.hidden = Boolean(at);
    say(!at && grid.contains(document.activeElement) ? focused : null);
  };
  const fromModel = () => {
    const at = placeOf(data, model.get("selected"));
    if (String(at) === String(chosen)) return;
    show(at);
    if (at) focus(at, false);
  };
  cells.forEach((line, row) =>
    line.forEach((cell, column) => {
      cell.addEventListener("pointerenter", () => say([row, column]));
      cell.addEventListener("focus", () => focus([row, column], false));
      cell.addEventListener("click", () => {
        focus([row, column], true);
        choose([row, column]);
      });
    }),
  );
  grid.addEventListener("pointerleave", () => say(grid.querySelector(".cell:focus-visible") ? focused : null));
  grid.addEventListener("focusout", () => say(null));
  const last = [cells.length - 1, cells[0].length - 1];
  const by = (rows, columns) => () => {
    const [row, column] = focused ?? [0, 0];
    focus([clamp(row + rows, last[0]), clamp(column + columns, last[1])], true);
  };
  keys(grid, {
    ArrowUp: by(-1, 0),
    ArrowDown: by(1, 0),
    ArrowLeft: by(0, -1),
    ArrowRight: by(0, 1),
    PageUp: by(-5, 0),
    PageDown: by(5, 0),
    Home: by(0, -1e6),
    End: by(0, 1e6),
    "shift+Home": by(-1e6, -1e6),
    "shift+End": by(1e6, 1e6),
    Enter: () => focused && choose(focused),
    " ": () => focused && choose(focused),
  });
  el.heatmapClose = () => (chosen ? choose(null) : false);
  if (!el.heatmapKeys) keys(el, { Escape: () => el.heatmapClose() });
  el.heatmapKeys = true;
  model.off("change:selected", el.heatmapSelected);
  el.heatmapSelected = fromModel;
  model.on("change:selected", fromModel);
  stand(marked ?? [last[0], 0]);
  chosen = undefined;
  fromModel();
}

let headings = 0;
const headingId = () => `boolab-heatmap-${(headings += 1)}-${Math.random().toString(36).slice(2, 8)}`;
const clamp = (n, most) => Math.min(Math.max(n, 0), most);
const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const valueOf = (side, place) => side.values[place];
const cellAt = (data, [row, column]) => data.rows[row][column];

function placeWhere(data, holds) {
  for (const [row, line] of data.rows.entries()) {
    const column = line.findIndex(holds);
    if (column >= 0) return [row, column];
  }
  return null;
}

function placeOf(data, selected) {
  if (!selected) return null;
  const column = data.x.values.indexOf(selected[data.x.axis] ?? null);
  const up = data.y.values.indexOf(selected[data.y.axis] ?? null);
  return column < 0 || up < 0 ? null : [data.rows.length - 1 - up, column];
}

function factsOf(data, cell) {
  const kept = cell.facts[0]?.startsWith("keeps ") && data.measure.startsWith("successes kept"); // it has the count
  const number = cell.text === "?" ? "unknown" : kept ? null : `${data.measure.replace(/ \(share\)$/, "")} ${cell.text}`;
  return [number, ...cell.facts].filter(Boolean).map(visible).join("; ");
}

const marksOf = (data, cell) => [cell.good && data.keep && "inside the line", cell.recommended && "recommended"].filter(Boolean);

// --- The grid ---------------------------------------------------------------------------------------------------------

function gridOf(data, heading) {
  const corner = h("div", { class: "corner", role: "columnheader" }, h("span", { class: "only-read" }, data.y.name));
  const heads = data.x.ticks.map((tick, i) => h("div", { class: "x-tick", role: "columnheader", "aria-label": `${data.x.name} ${tick}`, "data-off": data.x.values[i] === null }, tick));
  const cells = [];
  const lines = data.rows.map((line, row) => {
    const up = data.rows.length - 1 - row;
    const made = line.map((cell, column) => cellOf(data, cell, up, column));
    cells.push(made);
    const head = h("div", { class: "y-tick", role: "rowheader", "aria-label": `${data.y.name} ${data.y.ticks[up]}` }, data.y.ticks[up]);
    return h("div", { class: "line", role: "row", "data-off": data.y.values[up] === null && data.rows.length > 1 }, head, made);
  });
  const columns = data.x.ticks.length;
  const grid = h("div", { class: "grid", role: "grid", "aria-labelledby": heading, "aria-rowcount": lines.length + 1, "aria-colcount": columns + 1, style: { "--columns": columns } });
  put(grid, lines, h("div", { class: "line ticks", role: "row" }, corner, heads));
  return { grid, cells };
}

function cellOf(data, cell, up, column) {
  const names = ["--area", "--on-area", "--area-in-dark", "--on-area-in-dark"];
  const shade = Object.fromEntries((cell.fill ?? []).map((colour, at) => [names[at], colour]));
  const border = { t: up === data.y.ticks.length - 1, b: up === 0, l: column === 0, r: column === data.x.ticks.length - 1 };
  const closing = cell.good && data.keep ? Object.keys(border).filter((side) => border[side]) : []; // the line ends nowhere
  return h(
    "div",
    {
      class: "cell",
      role: "gridcell",
      tabindex: -1,
      "aria-selected": "false",
      "aria-label": `${cell.name}: ${[factsOf(data, cell), ...marksOf(data, cell)].join("; ")}`,
      "data-x": data.x.ticks[column],
      "data-y": data.y.ticks[up],
      "data-good": cell.good,
      "data-recommended": cell.recommended,
      "data-unknown": !cell.fill && !cell.faint,
      "data-faint": Boolean(cell.faint),
      "data-edges": cell.edges || null,
      "data-off": data.x.values[column] === null && data.x.values.length > 1,
      style: { ...shade, ...Object.fromEntries([...cell.edges, ...closing].map((side) => [`--${side}`, 1])) },
    },
    h("span", { class: "number" }, cell.text),
    cell.count && h("span", { class: "count" }, cell.count),
    cell.recommended && h("span", { class: "star", "aria-hidden": "true" }, "★"),
  );
}

function keyOf(data) {
  const lowest = (tick, place) => (place || !data.scale.from_lowest ? "" : " (lowest)");
  const ticks = data.scale.ticks.map((tick, place) => h("span", { style: { left: `${100 * tick.at}%` } }, `${tick.text}${lowest(tick, place)}`));
  const [light, dark] = data.scale.colours.map((colours) => `linear-gradient(to right, ${colours.join(", ")})`);
  const bar = h("div", { class: "bar", style: { "--area": light, "--area-in-dark": dark } });
  const cells = data.rows.flat();
  const sample = (name, text) => h("span", { class: "sample" }, h("span", { class: `swatch ${name}`, "aria-hidden": "true" }, name === "recommended" ? "★" : null), text);
  return h(
    "div",
    { class: "key" },
    h("div", { class: "scale", role: "img", "aria-label": `Colours from ${data.scale.ticks[0].text} to ${data.scale.ticks.at(-1).text}: ${data.measure}` }, h("span", { class: "measure" }, data.measure), bar, h("div", { class: "scale-ticks" }, ticks)),
    data.keep && sample("enough", `inside the line: ${visible(data.keep)}`),
    cells.some((cell) => cell.recommended) && sample("recommended", "recommended"),
    cells.some((cell) => !cell.fill && !cell.faint) && sample("unknown", "unknown"),
  );
}

// --- The runs of a cell -----------------------------------------------------------------------------------------------

function drawRuns(model, list, data, cell, close) {
  if (!cell) {
    fill(list);
    return;
  }
  const { listed } = cell;
  const head = h("div", { class: "runs-head" }, h("h4", {}, upper(cell.name)), h("button", { class: "close", "aria-label": "Close the list", onclick: close }, "×"));
  if (!data.can_list) {
    fill(list, head, h("p", { class: "facts" }, upper(factsOf(data, cell))), h("p", { class: "quiet" }, "An aggregate does not name its runs: pass them, as in Heatmap(table, runs)."));
    return;
  }
  const others = cell.facts.filter((fact) => !fact.startsWith("stops ")); // how many it stops is in the next line
  const facts = h("p", { class: "facts" }, upper(factsOf(data, { ...cell, facts: others })));
  const stopped = listed.stopped ? `${count(listed.stopped)} of ${plural(listed.all, "run")} ${listed.stopped === 1 ? "is" : "are"} stopped` : `None of ${plural(listed.all, "run")} is stopped`;
  const parts = [listed.made ? plural(listed.all, "run") : stopped];
  if (listed.made && listed.stopped) parts.push(`${count(listed.stopped)} stopped`);
  if (listed.cut) parts.push(`${count(listed.cut)} of them successes that it loses`);
  if (listed.undecided) parts.push(`${count(listed.undecided)} ${listed.cut ? "more" : "of them successes"} that it may lose`);
  const body = h("tbody");
  const more = h("button", { class: "more" });
  const makers = listed.run.map((_, place) => () => rowOf(model, data, listed, place));
  inParts(makers, pageOf, "more run", more, (added) => put(body, added))();
  const table = h(
    "table",
    {},
    h("caption", { class: "only-read" }, `Runs under ${cell.name}`),
    h("thead", {}, h("tr", {}, ["task", "under this setting", "stopped by"].map((name) => h("th", { scope: "col", class: name === "task" ? "task" : null }, name)), h("th", { scope: "col", class: "number" }, "at step"), h("th", { scope: "col", class: "number" }, "of steps"), h("th", { scope: "col" }, h("span", { class: "only-read" }, "open")))),
    body,
  );
  const rest = (listed.made ? listed.all : listed.stopped) - listed.run.length;
  fill(
    list,
    head,
    facts,
    h("p", { class: "quiet counts" }, parts.join(", "), data.can_open ? "." : ". Give the runs to open them, as in Heatmap(table, runs)."),
    listed.run.length > 0 && h("div", { class: "scroll" }, table),
    more,
    rest > 0 && h("p", { class: "quiet" }, `${plural(rest, "more run")} ${rest === 1 ? "is" : "are"} not listed here.`),
  );
}

function rowOf(model, data, listed, place) {
  const run = data.runs[listed.run[place]];
  const why = data.whys[listed.why[place]];
  const step = listed.step[place];
  const open = () => {
    change(model, { opened: { run: run.id, step } });
    for (const other of row.parentNode.querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    row.setAttribute("aria-current", "true");
  };
  const openFrom = (element) => {
    element.querySelector("button").focus({ preventScroll: true }); // Replay scrolls into view from there
    open();
  };
  const name = visible(run.id);
  const reason = why.stopped && why.reason;
  const opened = model.get("opened");
  const row = h(
    "tr",
    { class: run.opens ? "run-row opens" : "run-row", onclick: (event) => run.opens && !event.target.closest("button") && openFrom(row), "data-run": name, "data-step": step, "aria-current": opened?.run === run.id && opened?.step === step ? "true" : null },
    h("td", { class: run.task ? "task said" : "task code", title: name }, run.task ? visible(run.task) : name),
    h("td", { class: why.cut ? "wrong" : null }, why.cut && "✕ ", why.text),
    h("td", {}, reason && h("span", { class: "reason" }, stopSwatch(reason), stopWords(reason))),
    h("td", { class: "number" }, count(step)),
    h("td", { class: "number" }, run.steps === null ? "" : count(run.steps)),
    h("td", {}, h("button", { class: "open link", disabled: !run.opens, "aria-label": `Replay ${name} at step ${step}`, onclick: open }, "Replay")),
  );
  return row;
}

export default { render };

// Replay: a run, played. The play head moves here; Python gets its place at the end of each movement.

const SPEEDS = [1, 2, 4, 8, 16];
const STEP_MS = 600;
const LONGEST_WAIT_MS = 2000;
const ROW = 25; // the height of a line of the outline
const JUMPS = { error: "e", repeat: "r", limit: "l" };
const HELP = [
  ["space", "play, pause"], ["← →", "step by step"], ["shift ← →", "ten steps"], ["home end", "first, last step"],
  ["↑ ↓", "in the outline: the item before, after"], ["e r l", "next error, repeat, limit (shift: previous)"],
  ["n", "next of the chosen kind (shift: previous)"], ["/", "search"], ["enter", "next hit (shift: previous)"],
  ["+ −", "zoom the timeline"], ["esc", "leave the search"], ["?", "these keys"],
];

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

// The items of the outline, of which only those in sight are in the page.
function outlineOf(data, { onItem, onTurn }) {
  const list = h("div", { class: "rows" });
  const all = h("button", { type: "button", class: "all-turns link", hidden: true, onclick: () => onTurn(null) }, "all turns");
  const scroller = h("div", { class: "scroller" }, list);
  const element = h("nav", { class: "outline", "aria-label": "Outline" }, all, scroller);
  let rows = [];
  let items = []; // the rows that are items, and their first steps
  let firsts = [];
  let drawn = "";
  let now = -1;
  let shown = 1;
  // What the page would have to be laid out for, kept: it is asked for in every frame.
  let top = 0;
  let height = 400;

  function drawNow() {
    const from = Math.max(0, Math.floor(top / ROW) - 4);
    const to = Math.min(rows.length, Math.ceil((top + height) / ROW) + 4);
    if (`${from} ${to}` === drawn) {
      const before = list.querySelector("[aria-current]");
      before?.removeAttribute("aria-current");
      before?.setAttribute("tabindex", "-1"); // one stop on the way through the page: up and down lead to the others
      const current = list.querySelector(`[data-row="${now}"]`);
      current?.setAttribute("aria-current", "step");
      current?.setAttribute("tabindex", "0");
      return;
    }
    drawn = `${from} ${to}`;
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.row : null;
    fill(list, rows.slice(from, to).map((row, i) => rowOf(row, from + i)));
    if (focused === null) return;
    (list.querySelector(`[data-row="${focused}"]`) ?? element.closest("[tabindex]"))?.focus({ preventScroll: true });
  }
  const draw = eachFrame(drawNow);
  scroller.addEventListener("scroll", () => {
    top = scroller.scrollTop;
    draw();
  });
  const sized = new ResizeObserver(([{ contentRect }]) => {
    height = contentRect.height || height;
    show(shown);
  });
  sized.observe(scroller);

  function rowOf(row, at) {
    const { item, turn, n } = row;
    const place = { top: `${at * ROW}px` };
    if (turn) {
      return h(
        "button",
        { type: "button", class: "turn", style: place, "data-row": at, "data-turn": n, title: visible(turn.title), onclick: () => onTurn(n) },
        visible(turn.title) || `turn ${n + 1}`,
      );
    }
    const current = at === now;
    const steps = item.first === item.last ? count(item.first) : `${count(item.first)}–${count(item.last)}`;
    return h(
      "button",
      {
        type: "button", class: "item", tabindex: current ? "0" : "-1", style: place, "data-row": at, "data-first": item.first, "data-kind": item.kind,
        "aria-current": current ? "step" : null, title: `${visible(item.label)} (${item.first === item.last ? "step" : "steps"} ${steps})`,
        onclick: () => onItem(item.first),
      },
      h("span", { class: `dot kind-${item.kind}`, "aria-hidden": "true" }),
      h("span", { class: "label" }, visible(item.label).replace(/\s+/g, " ")),
      item.errors ? h("span", { class: "failed", "aria-label": `, ${plural(item.errors, "failure")}` }, item.errors > 1 ? `✕${item.errors}` : "✕") : null,
      h("span", { class: "at", "aria-hidden": "true" }, count(item.first)),
    );
  }

  // Which items there are: of the chosen steps, of the chosen kind.
  function look({ first, last, kind, narrowed }) {
    rows = [];
    for (const [n, turn] of data.outline.entries()) {
      const items = turn.items.filter((item) => item.last >= first && item.first <= last && (!kind || item.kind === kind));
      const full = data.turns?.[n] ?? turn;
      if ((full.first ?? items[0]?.first ?? 0) > last || (full.last ?? Infinity) < first) continue;
      rows.push({ turn: { title: turn.title ?? full.title }, n }, ...items.map((item) => ({ item })));
    }
    items = rows.flatMap((row, at) => (row.item ? [at] : []));
    firsts = items.map((at) => rows[at].item.first);
    all.hidden = !narrowed;
    list.style.height = `${rows.length * ROW}px`;
    drawn = "";
    draw();
  }

  function show(n) {
    shown = n;
    const near = items[lastUpTo(firsts, n)] ?? -1;
    now = near >= 0 && rows[near].item.first <= n && n <= rows[near].item.last ? near : -1;
    const at = now * ROW;
    if (now >= 0 && (at < top || at + ROW > top + height)) {
      top = clamp(at - height / 2, 0, Math.max(0, rows.length * ROW - height));
      scroller.scrollTop = top;
    }
    drawNow();
  }

  // The step of the item before or after the current one; focus goes with it.
  function beside(direction) {
    let at = now + direction;
    while (rows[at] && !rows[at].item) at += direction;
    return rows[at]?.item.first ?? null;
  }

  const follow = () => requestAnimationFrame(() => list.querySelector("[aria-current]")?.focus({ preventScroll: true }));
  const end = () => {
    draw.cancel();
    sized.disconnect();
  };
  return { element, look, show, beside, follow, end };
}

// Counters at the boundary after the current step, against their limits.
function gaugesOf(data) {
  const units = { tokens: short, usd: money, ms: duration, count };
  const gauges = (data.gauges ?? []).map((gauge) => {
    const shown = units[gauge.unit] ?? count;
    const limited = gauge.limit !== null && gauge.limit !== undefined;
    const whole = limited ? gauge.limit : Math.max(...gauge.values.filter((value) => value !== null), 0);
    const value = h("b");
    const fillBar = h("span", { class: "filled" });
    const element = h(
      "div",
      { class: `gauge${limited ? "" : " unlimited"}`, "data-key": gauge.key, role: "meter", "aria-label": gauge.label, "aria-valuemin": "0", "aria-valuemax": String(whole || 1) },
      h("div", { class: "told" }, h("span", {}, gauge.label), h("span", {}, value, limited ? ` of ${shown(gauge.limit)}` : " no limit")),
      h("div", { class: "bar" }, fillBar),
    );
    const show = (n) => {
      const at = gauge.values[n] ?? null;
      fill(value, shown(at));
      fillBar.style.width = `${whole && at !== null ? clamp((at / whole) * 100, 0, 100) : 0}%`;
      element.classList.toggle("reached", limited && at !== null && at >= gauge.limit);
      element.setAttribute("aria-valuenow", String(at === null ? 0 : Math.min(at, whole || 1)));
      element.setAttribute("aria-valuetext", at === null ? "unknown" : `${shown(at)}${limited ? ` of ${shown(gauge.limit)}` : ", no limit"}`);
    };
    return { element, show };
  });
  return { element: h("div", { class: "gauges" }, gauges.map((one) => one.element)), show: (n) => gauges.forEach((one) => one.show(n)) };
}

// Where each rule would have stopped this record, or intervened, from the first to those that never would. Only a stop is
// ticked once it is passed, so that the ticks are as many as the heading counts.
function wouldOf(data, onStep) {
  const marks = [...(data.marks ?? [])].sort((a, b) => (a.step ?? Infinity) - (b.step ?? Infinity));
  if (!marks.length) return { element: null, show() {} };
  const rows = marks.map((mark) => {
    const never = mark.step === null;
    const words = [
      h("span", { class: "label" }, visible(mark.label).replace(/: never$/, ""), mark.own && h("span", { class: "quiet" }, " this run")),
      h("span", { class: "at" }, never ? "never" : `${mark.acts === "unknown" ? "from " : ""}step ${count(mark.step)}`),
    ];
    const names = { "data-policy": mark.policy, "data-rule": mark.rule };
    const button = never
      ? h("div", { class: "row never", ...names }, words)
      : h("button", { type: "button", class: `row${mark.own ? " own" : ""}`, ...names, onclick: () => onStep(Math.max(1, mark.step)) }, words);
    return { mark, button };
  });
  const show = (n) => {
    for (const { mark, button } of rows) {
      const passed = mark.acts === "stops" ? "passed" : "";
      const state = mark.step === null ? "" : mark.step === n ? "here" : mark.step < n ? passed : "";
      if (button.dataset.state === state) continue;
      button.dataset.state = state;
      if (state === "here") button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    }
  };
  const heading = h("h4", {}, data.acting ?? "would have stopped it earlier: none");
  return { element: h("div", { class: "would", role: "group", "aria-label": "Where each rule would have stopped this run" }, heading, rows.map((row) => row.button)), show };
}

// A run drawn into an element, its state in traits. Returns what its keys do and what ends it.
function playerOf(el, data, traits) {
  const { steps } = data;
  const total = steps.length;
  let step = clamp(traits.get("step") ?? 1, Math.min(1, total), total);
  let scope = { first: 1, last: total, turn: null };
  let kind = null;
  let hits = []; // the steps with hits, in order
  let hitCount = 0;
  let pattern = null;
  let finding = false;
  let playTimer = 0;
  let saveTimer = 0;
  let sayTimer = 0;
  let searchTimer = 0;
  let moving = false;
  const children = {}; // their traits, and whether they are open, for when one comes back to their step
  const isOpen = {};
  const icon = (sign) => h("span", { "aria-hidden": "true" }, sign);
  const button = (name, label, onclick, ...content) => h("button", { type: "button", class: name, "aria-label": label, title: label, onclick }, content);

  // --- Moving -------------------------------------------------------------------------------------------------------

  const save = () => {
    clearTimeout(saveTimer);
    saveTimer = 0;
    moving = true; // sent only now: a step that was set and not sent would be set back by the echo of the one before
    traits.set("step", step);
    moving = false;
    traits.save_changes();
  };
  const set = (name, value) => {
    traits.set(name, value);
    save();
  };
  const playing = () => Boolean(traits.get("playing")) && total > 0;

  function go(n, find = false) {
    if (!total) return;
    const next = clamp(Math.round(n), scope.first, scope.last);
    finding = find;
    if (next !== step) {
      if (!playing()) clearTimeout(saveTimer);
      if (!playing() || !saveTimer) saveTimer = setTimeout(save, 200);
    }
    step = next;
    if (find) shownStep = null;
    paint();
  }

  // A step chosen by its number is shown even if it is not among those of the chosen turn.
  function goAnywhere(n) {
    if (n < scope.first || n > scope.last) narrow(null);
    go(n);
  }

  function onStepTrait() {
    const next = clamp(traits.get("step") ?? 1, Math.min(1, total), total);
    if (moving || next === step) return;
    step = next;
    if (step < scope.first || step > scope.last) narrow(null);
    paint();
    schedule();
  }

  function schedule() {
    clearTimeout(playTimer);
    if (!playing()) return;
    const speed = traits.get("speed") || 1;
    const real = steps[step - 1].duration_ms ?? STEP_MS;
    const wait = axis() === "time" ? clamp(real, 20, LONGEST_WAIT_MS) : STEP_MS;
    playTimer = setTimeout(() => {
      if (step < scope.last) go(step + 1);
      if (step >= scope.last) set("playing", false);
      schedule();
    }, wait / speed);
  }

  function play() {
    if (!total) return;
    if (!playing() && step >= scope.last) go(scope.first);
    set("playing", !playing());
  }

  function onPlaying() {
    const on = playing();
    if (on && step >= scope.last) go(scope.first);
    fill(playButton, icon(on ? "❚❚" : "▶"), on ? " pause" : " play");
    playButton.setAttribute("aria-pressed", String(on));
    schedule();
    if (!on) say();
  }

  const axis = () => (data.timed && traits.get("axis") === "time" ? "time" : "count");

  // The next step, forwards or backwards, of which something is true.
  function jump(direction, wanted, name) {
    for (let n = step + direction; n >= scope.first && n <= scope.last; n += direction) {
      if (wanted(steps[n - 1], n)) return go(n, name === "hit");
    }
    fill(status, `no ${direction > 0 ? "later" : "earlier"} ${name}`);
    return undefined;
  }
  const jumpFlag = (flag, direction) => jump(direction, (one) => one.flags.includes(flag), flag);
  const isKind = (one) => (kind === "text" ? !one.calls.length : one.calls.some((call) => call.kind === kind));
  const jumpKind = (direction) => kind && jump(direction, isKind, kindName(kind));
  const kindName = (one) => visible(data.kinds[one] ?? one);

  // --- Narrowing ----------------------------------------------------------------------------------------------------

  function narrow(turn) {
    const chosen = turn === null ? null : data.turns[turn];
    scope = chosen ? { first: clamp(chosen.first, 1, total), last: clamp(chosen.last, 1, total), turn } : { first: 1, last: total, turn: null };
    look();
    if (chosen) go(scope.first);
  }

  function choose(next) {
    kind = kind === next ? null : next;
    look();
    if (kind && !isKind(steps[step - 1])) jumpKind(1);
  }

  function look() {
    timeline.look({ first: scope.first, last: scope.last, kind, hits });
    outline.look({ ...scope, kind, narrowed: scope.turn !== null });
    outline.show(step);
    drawChips();
    drawJumps();
  }

  function drawChips() {
    const counts = {};
    for (let n = scope.first; n <= scope.last; n += 1) {
      for (const call of steps[n - 1].calls) counts[call.kind] = (counts[call.kind] ?? 0) + 1;
    }
    fill(
      chips,
      Object.keys(data.kinds).filter((one) => totals[one]).map((one) =>
        h(
          "button",
          { type: "button", "data-kind": one, "aria-pressed": String(kind === one), title: `only ${kindName(one)}`, onclick: () => { choose(one); chips.querySelector(`[data-kind="${CSS.escape(one)}"]`)?.focus(); } },
          h("span", { class: `dot kind-${one}`, "aria-hidden": "true" }), kindName(one), h("b", {}, ` ${count(counts[one] ?? 0)}`),
        ),
      ),
      kind && button("previous-kind", `previous of ${kindName(kind)}`, () => jumpKind(-1), icon("‹")),
      kind && button("next-kind", `next of ${kindName(kind)}`, () => jumpKind(1), icon("›")),
    );
  }

  function drawJumps() {
    for (const [flag, one] of Object.entries(jumps)) {
      const n = steps.slice(Math.max(0, scope.first - 1), scope.last).filter((each) => each.flags.includes(flag)).length;
      fill(one.number, count(n));
      one.element.classList.toggle("none", n === 0);
      for (const each of one.element.querySelectorAll("button")) each.disabled = n === 0;
    }
  }

  // --- Searching ----------------------------------------------------------------------------------------------------

  function find() {
    const query = traits.get("query") ?? "";
    if (search.value !== query) search.value = query;
    pattern = sought(query);
    hits = [];
    hitCount = 0;
    if (pattern) {
      for (let n = 1; n <= total; n += 1) {
        let here = 0;
        for (const text of textsOf(data, n)) here += hitsIn(text, pattern);
        if (here) hits.push(n);
        hitCount += here;
      }
    }
    fill(found, pattern ? (hits.length ? `${plural(hitCount, "hit")} in ${plural(hits.length, "step")}` : "no hits") : "");
    for (const one of [hitBack, hitOn]) one.hidden = !hits.length;
    timeline.look({ hits });
    finding = Boolean(pattern);
    shownStep = null;
    paint();
  }
  const onQuery = () => {
    clearTimeout(searchTimer);
    find();
  };
  function typed() {
    clearTimeout(searchTimer);
    searchTimer = setTimeout(() => set("query", search.value), 150);
  }
  const jumpHit = (direction) => {
    if (search.value !== (traits.get("query") ?? "")) {
      clearTimeout(searchTimer);
      set("query", search.value);
      if (hits.includes(step)) return undefined;
    }
    const among = new Set(hits);
    return jump(direction, (_, n) => among.has(n), "hit");
  };

  // --- What is drawn ------------------------------------------------------------------------------------------------

  const totals = {};
  for (const one of steps) for (const call of one.calls) totals[call.kind] = (totals[call.kind] ?? 0) + 1;

  const status = h("span", { class: "only-read", role: "status", "aria-live": "polite" });
  const say = () => {
    clearTimeout(sayTimer);
    sayTimer = setTimeout(() => !playing() && fill(status, inWords(data, step)), 400);
  };
  const timeline = timelineOf(data, goAnywhere, (n) => inWords(data, n));
  const outline = outlineOf(data, { onItem: goAnywhere, onTurn: narrow });
  const gauges = gaugesOf(data);
  const would = wouldOf(data, goAnywhere);
  const panel = stepPanel(data, { openRun, isOpen });
  const number = h("b");
  const playButton = h("button", { type: "button", class: "play", title: "play, pause (space)", onclick: play });
  const previousButton = button("previous", "previous step", () => go(step - 1), icon("‹"));
  const nextButton = button("next", "next step", () => go(step + 1), icon("›"));
  const speed = h("select", { class: "speed", "aria-label": "speed", onchange: () => set("speed", Number(speed.value)) }, SPEEDS.map((one) => h("option", { value: String(one) }, `${one}×`)));
  const axisButton = h("button", { type: "button", class: "axis", hidden: !data.timed, onclick: () => set("axis", axis() === "time" ? "count" : "time") });
  const jumps = Object.fromEntries(
    Object.entries(JUMPS).map(([flag, key]) => {
      const n = h("span", { class: "n" });
      const element = h(
        "div", { class: `jump jump-${flag}`, role: "group", "aria-label": flag },
        button("back", `previous ${flag} (shift+${key})`, () => jumpFlag(flag, -1), icon("‹")),
        h("span", { class: "name" }, `${flag} `, n),
        button("forward", `next ${flag} (${key})`, () => jumpFlag(flag, 1), icon("›")),
      );
      return [flag, { element, number: n }];
    }),
  );
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Kinds of calls" });
  const search = h("input", { class: "search", type: "search", placeholder: "search (/)", "aria-label": "search in this run", spellcheck: "false", autocomplete: "off", oninput: typed });
  const found = h("span", { class: "found quiet", role: "status", "aria-live": "polite" });
  const hitBack = button("hit-back", "previous hit (shift+enter)", () => jumpHit(-1), icon("‹"));
  const hitOn = button("hit-on", "next hit (enter)", () => jumpHit(1), icon("›"));
  const help = h("dl", { class: "help", hidden: true }, HELP.map(([key, what]) => h("div", {}, h("dt", { class: "code" }, key), h("dd", {}, what))));
  const helpButton = h("button", { type: "button", class: "keys", "aria-label": "keys", title: "keys (?)", "aria-expanded": "false", onclick: () => showHelp() }, "?");
  const showHelp = () => {
    help.hidden = !help.hidden;
    helpButton.setAttribute("aria-expanded", String(!help.hidden));
  };

  fill(
    el,
    h(
      "header", {},
      h("h3", {}, visible(data.title ?? "run")),
      h("p", { class: "pills" }, [data.policy, data.model, ...(data.pills ?? [])].filter(Boolean).map((one) => h("span", { class: "pill" }, visible(one)))),
      data.stop && h("p", { class: "stop" }, stopSwatch(data.stop.reason), visible(data.stop.text ?? data.stop.reason)),
      data.finding && h("p", { class: "finding" }, visible(data.finding)),
    ),
    h(
      "div", { class: "frame" },
      timeline.element,
      h(
        "div", { class: "controls" },
        h(
          "div", { class: "line" },
          h("div", { class: "transport" }, previousButton, playButton, nextButton, speed, h("span", { class: "step-number" }, "step ", number, ` of ${count(total)}`)),
          h("div", { class: "jumps" }, Object.values(jumps).map((one) => one.element)),
          h(
            "div", { class: "views" }, axisButton,
            button("zoom-out", "show more of the timeline (−)", () => timeline.zoom(2), icon("−")),
            button("zoom-in", "show less of the timeline (+)", () => timeline.zoom(0.5), icon("+")),
            helpButton,
          ),
        ),
        h("div", { class: "line" }, chips, h("div", { class: "searching" }, found, search, hitBack, hitOn)),
      ),
      help,
      h("div", { class: "body" }, outline.element, panel.element, h("aside", { class: "side", tabindex: "0", "aria-label": "Counters and limits" }, gauges.element, would.element)),
    ),
    (data.notes ?? []).length > 0 && h("p", { class: "notes quiet" }, data.notes.map((note) => h("span", {}, `${visible(note)} `))),
    status,
  );

  function openRun(index, place) {
    const { run } = data.children[index];
    children[index] ??= traitsOf({ step: 1, playing: false, speed: traits.get("speed"), axis: traits.get("axis"), query: "" });
    const inner = h("div", { class: "inner", tabindex: "0", role: "group", "aria-label": `Replay of subagent ${visible(run.title ?? "")}` });
    fill(place, inner);
    const nested = playerOf(inner, run, children[index]);
    keys(inner, keysOf(() => nested), FIELD_KEYS);
    return nested.end;
  }

  let shownStep = null;
  function paintNow() {
    outline.show(step); // first: it scrolls, for which what was changed before would have to be laid out
    fill(number, count(step));
    timeline.show(step);
    if (shownStep !== step) panel.show(step, pattern, finding);
    shownStep = step;
    finding = false;
    gauges.show(step);
    would.show(step);
    previousButton.disabled = step <= scope.first;
    nextButton.disabled = step >= scope.last;
    if (!playing()) say();
  }
  const paint = eachFrame(paintNow);

  const onSpeed = () => {
    speed.value = String(SPEEDS.includes(traits.get("speed")) ? traits.get("speed") : 1);
    schedule();
  };
  const onAxis = () => {
    fill(axisButton, `axis: ${axis()}`);
    axisButton.setAttribute("aria-label", `axis: ${axis()}; change to ${axis() === "time" ? "count" : "time"}`);
    timeline.look({ axis: axis() });
    schedule();
  };
  const listeners = { step: onStepTrait, playing: onPlaying, speed: onSpeed, axis: onAxis, query: onQuery };
  for (const [name, listener] of Object.entries(listeners)) traits.on(`change:${name}`, listener);

  playButton.disabled = total === 0;
  if (total) look();
  onAxis();
  onSpeed();
  find();
  onPlaying();
  paintNow();

  return {
    go, play, jumpFlag, jumpKind, jumpHit, showHelp,
    by: (n) => go(step + n),
    first: () => go(scope.first),
    last: () => go(scope.last),
    zoom: timeline.zoom,
    search: () => search.select(),
    leave() {
      if (document.activeElement === search) el.focus({ preventScroll: true });
      else if (!help.hidden) showHelp();
      else return false;
      return undefined;
    },
    beside(direction) {
      if (!outline.element.contains(document.activeElement)) return false;
      const n = outline.beside(direction);
      if (n !== null) goAnywhere(n);
      outline.follow();
      return undefined;
    },
    end() {
      for (const [name, listener] of Object.entries(listeners)) traits.off(`change:${name}`, listener);
      for (const timer of [playTimer, sayTimer, searchTimer]) clearTimeout(timer);
      if (saveTimer) save();
      paint.cancel();
      for (const part of [timeline, outline, panel]) part.end();
    },
  };
}

const FIELD_KEYS = ["Enter", "shift+Enter", "Escape"];

// What keys do, for whichever run is drawn.
function keysOf(player) {
  const inSearch = (event, act) => (event.target.matches?.(".search") ? act() : false);
  return {
    " ": () => player()?.play(),
    ArrowLeft: () => player()?.by(-1),
    ArrowRight: () => player()?.by(1),
    "shift+ArrowLeft": () => player()?.by(-10),
    "shift+ArrowRight": () => player()?.by(10),
    PageUp: (event) => (event.target.matches?.(".timeline") ? player()?.by(-10) : false),
    PageDown: (event) => (event.target.matches?.(".timeline") ? player()?.by(10) : false),
    ArrowUp: () => player()?.beside(-1),
    ArrowDown: () => player()?.beside(1),
    Home: () => player()?.first(),
    End: () => player()?.last(),
    ...Object.fromEntries(
      Object.entries(JUMPS).flatMap(([flag, key]) => [
        [key, () => player()?.jumpFlag(flag, 1)],
        [key.toUpperCase(), () => player()?.jumpFlag(flag, -1)],
      ]),
    ),
    n: () => player()?.jumpKind(1),
    N: () => player()?.jumpKind(-1),
    "+": () => player()?.zoom(0.5),
    "-": () => player()?.zoom(2),
    "/": () => player()?.search(),
    "?": () => player()?.showHelp(),
    Enter: (event) => (event.target.matches?.("button, summary, select") ? false : player()?.jumpHit(1)),
    "shift+Enter": (event) => (event.target.matches?.("button, summary, select") ? false : player()?.jumpHit(-1)),
    Escape: () => player()?.leave(),
  };
}

function render({ model, el }) {
  let player = null;
  el.classList.add("boolab", "boolab-replay");
  el.tabIndex = 0;
  el.setAttribute("role", "group");
  keys(el, keysOf(() => player), FIELD_KEYS);
  let arrived = false;
  const stop = withData(model, el, (data) => {
    player?.end();
    el.setAttribute("aria-label", `Replay of ${visible(data.title ?? "a run")}`);
    player = playerOf(el, data, model);
    if (!arrived) arrive(el);
    arrived = true;
  });
  return () => {
    stop();
    player?.end();
    player = null;
  };
}

// A run that was opened from a list above it: scroll there, or it may be below the window's edge.
function arrive(el) {
  const whole = el.closest(".boolab-whole, #views");
  if (!whole?.contains(document.activeElement) || el.contains(document.activeElement)) return;
  el.focus({ preventScroll: true });
  el.scrollIntoView({ block: "nearest" });
}

export default { render };

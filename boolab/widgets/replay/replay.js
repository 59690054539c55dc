// Replay: a run, played. The play head moves here; Python gets its place at the end of each movement.

const SPEEDS = [1, 2, 4, 8, 16];
const STEP_MS = 600;
const LONGEST_WAIT_MS = 2000;

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

// What a reader looks for, as a pattern: the words themselves, in any case.
const sought = (query) => (query ? new RegExp(query.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), "gi") : null);

// The texts of a step that a search looks through.
function textsOf(data, n) {
  const step = data.steps[n - 1];
  const texts = [step.text, step.reasoning, step.error];
  for (const call of step.calls) texts.push(call.tool, ...shownOf(call), call.result);
  for (const event of step.events ?? []) texts.push(event.text);
  for (const turn of data.turns ?? []) if (turn.first === n) texts.push(turn.text);
  for (const row of data.between ?? []) if (row.after === n) texts.push(row.details);
  return texts;
}

// What a card shows of a call's arguments, as texts.
function shownOf(call) {
  const fields = (call.fields ?? []).flatMap(([name, text]) => [name, text]);
  const lines = (call.edits ?? []).flatMap((edit) => [edit.path, ...edit.rows.map(([, ...parts]) => parts.join(""))]);
  return [call.about, ...fields, ...lines];
}

// A run drawn into an element, its state in traits. `openRun(index)` opens a subagent's run; `above`, if this is one's, is
// the run that started it. Returns what its keys do and what ends it.
function playerOf(el, data, traits, { openRun, above }) {
  const { steps } = data;
  const total = steps.length;
  let step = clamp(traits.get("step") ?? 1, Math.min(1, total), total);
  let scope = { first: 1, last: total, turn: null };
  let kind = null;
  let hits = []; // the steps with hits, in order
  let pattern = null;
  let finding = false;
  let playTimer = 0;
  let saveTimer = 0;
  let sayTimer = 0;
  let searchTimer = 0;
  let moving = false;
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
    fill(playButton, icon(on ? "❚❚" : "▶"), h("span", { class: "word" }, on ? " Pause" : " Play"));
    playButton.setAttribute("aria-label", on ? "Pause" : "Play");
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
    tell(`no ${direction > 0 ? "later" : "earlier"} ${name}`);
    return undefined;
  }
  const jumpFlag = (flag, direction) => jump(direction, (one) => one.flags.includes(flag), flag);
  const isKind = (one) => (kind === "text" ? !one.calls.length : one.calls.some((call) => call.kind === kind));
  const jumpKind = (direction) => kind && jump(direction, isKind, visible(data.kinds[kind] ?? kind));

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
    const counts = { ...none };
    flagged = Object.fromEntries(Object.keys(JUMPS).map((flag) => [flag, []]));
    for (let n = scope.first; n <= scope.last; n += 1) {
      for (const call of steps[n - 1].calls) counts[call.kind] += 1;
      for (const flag of steps[n - 1].flags) flagged[flag]?.push(n);
    }
    timeline.look({ first: scope.first, last: scope.last, kind, hits });
    outline.look({ ...scope, kind, narrowed: scope.turn !== null, counts, onKind: choose, jumpKind });
    outline.show(step);
    showJumps();
  }

  // "error 4 of 14": the last one that was passed, or that is shown.
  let flagged = {};
  function showJumps() {
    for (const [flag, { element, number }] of Object.entries(jumps)) {
      const all = flagged[flag] ?? [];
      const passed = all.length && all[0] <= step ? lastUpTo(all, step) + 1 : 0;
      const unknown = flag === "error" && data.unknown_errors && !all.length;
      if (unknown) fill(number, h("span", { class: "word" }, "not recorded"), h("span", { class: "sign-only" }, "?"));
      else fill(number, h("b", {}, count(passed)), ` of ${count(all.length)}`);
      element.title = unknown ? "Whether calls failed is not on record" : "";
      element.classList.toggle("none", all.length === 0);
      for (const each of element.querySelectorAll("button")) each.disabled = all.length === 0;
    }
  }

  // --- Searching ----------------------------------------------------------------------------------------------------

  function find() {
    const query = traits.get("query") ?? "";
    if (search.value !== query) search.value = query;
    pattern = sought(query);
    hits = [];
    if (pattern) {
      const after = new Set(data.between.filter((one) => hitsIn(one.details, pattern)).map((one) => clamp(one.after, 1, total)));
      for (let n = 1; n <= total; n += 1) if (after.has(n) || textsOf(data, n).some((text) => hitsIn(text, pattern))) hits.push(n);
    }
    for (const one of [hitBack, hitOn]) one.hidden = !hits.length;
    timeline.look({ hits });
    finding = Boolean(pattern);
    transcript.again();
    paint();
  }
  function showHits() {
    const passed = hits.length && hits[0] <= step ? lastUpTo(hits, step) + 1 : 0;
    fill(found, pattern ? (hits.length ? `${count(passed)} of ${count(hits.length)}` : "no hits") : "");
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

  const none = {}; // no calls of each kind that the run has
  for (const one of steps) for (const call of one.calls) none[call.kind] = 0;

  const status = h("span", { class: "only-read", role: "status", "aria-live": "polite" });
  const notice = h("span", { class: "notice quiet", hidden: true });
  const tell = (words) => {
    fill(status, words);
    fill(notice, words);
    notice.hidden = false;
    clearTimeout(noticeTimer);
    noticeTimer = setTimeout(() => (notice.hidden = true), 2500);
  };
  let noticeTimer = 0;
  const say = () => {
    clearTimeout(sayTimer);
    sayTimer = setTimeout(() => !playing() && fill(status, inWords(data, step)), 400);
  };
  const header = headerOf(data, { above, openRun });
  const timeline = timelineOf(data, goAnywhere, (n) => inWords(data, n), { openRun, openCompaction });
  // Show the step before a compaction, and what the compaction did.
  function openCompaction(after) {
    paintNow();
    const details = transcript.follows(after)?.querySelector("details");
    if (details) details.open = true;
  }
  function openBetween({ kind, after, child }) {
    if (kind === "subagent") return openRun(child);
    goAnywhere(Math.max(1, after));
    if (kind === "compaction") openCompaction(after);
    return undefined;
  }
  const outline = outlineOf(data, { onItem: goAnywhere, onBetween: openBetween, onTurn: narrow, openRun });
  const gauges = gaugesOf(data);
  const would = wouldOf(data, goAnywhere);
  const opened = new Set(); // what was unfolded in the steps
  const transcript = transcriptOf(data, { stepRow: (n) => stepRowOf(data, n, { pattern, openRun, opened, onStep: goAnywhere }), onStep: goAnywhere, openRun, pattern: () => pattern });
  const links = linksOf(data, { step: () => step, link: () => traits.linkTo?.(step) ?? null, say: tell });
  const number = h("b");
  const playButton = h("button", { type: "button", class: "play", title: "play, pause (space)", onclick: play });
  const previousButton = button("previous", "previous step (←)", () => go(step - 1), icon("‹"));
  const nextButton = button("next", "next step (→)", () => go(step + 1), icon("›"));
  const speed = h("select", { class: "speed", "aria-label": "speed", onchange: () => set("speed", Number(speed.value)) }, SPEEDS.map((one) => h("option", { value: String(one) }, `${one}×`)));
  const axisButton = h("button", { type: "button", class: "axis", hidden: !data.timed, onclick: () => set("axis", axis() === "time" ? "count" : "time") });
  const jumps = Object.fromEntries(
    Object.entries(JUMPS).map(([flag, key]) => {
      const n = h("span", { class: "n" });
      const element = h(
        "div", { class: `jump jump-${flag}`, role: "group", "aria-label": flag },
        button("back", `previous ${flag} (shift+${key})`, () => jumpFlag(flag, -1), icon("‹")),
        h("span", { class: "name" }, h("span", { class: "word" }, `${flag} `), n),
        button("forward", `next ${flag} (${key})`, () => jumpFlag(flag, 1), icon("›"), h("kbd", { "aria-hidden": "true" }, key)),
      );
      return [flag, { element, number: n }];
    }),
  );
  const search = h("input", { class: "search", type: "search", placeholder: "search", "aria-label": "search in this run", spellcheck: "false", autocomplete: "off", oninput: typed });
  const found = h("span", { class: "found quiet", role: "status", "aria-live": "polite" });
  const hitBack = button("hit-back", "previous hit (shift+enter)", () => jumpHit(-1), icon("‹"));
  const hitOn = button("hit-on", "next hit (enter)", () => jumpHit(1), icon("›"));
  const help = h(
    "section", { class: "help", hidden: true, "aria-label": "keys and view" },
    h("div", { class: "views" }, axisButton, button("zoom-out", "show more of the timeline (−)", () => timeline.zoom(2), "zoom out"), button("zoom-in", "show less of the timeline (+)", () => timeline.zoom(0.5), "zoom in")),
    h("dl", {}, HELP.map(([key, what]) => h("div", {}, h("dt", { class: "code" }, key), h("dd", {}, what)))),
  );
  const helpButton = h("button", { type: "button", class: "keys", "aria-label": "keys and view", title: "keys and view (?)", "aria-expanded": "false", onclick: () => showHelp() }, "?");
  const showHelp = () => {
    help.hidden = !help.hidden;
    helpButton.setAttribute("aria-expanded", String(!help.hidden));
  };
  const notes = (data.notes ?? []).length > 0 && h("div", { class: "notes quiet" }, data.notes.map((note) => h("p", {}, visible(note))));

  fill(
    el,
    header.element,
    timeline.element,
    h(
      "div", { class: "toolbar", role: "group", "aria-label": "Playing and searching" },
      h("div", { class: "transport" }, previousButton, playButton, nextButton, speed, h("span", { class: "step-number" }, h("span", { class: "word" }, "step "), number, ` of ${count(total)}`), notice),
      h("div", { class: "jumps" }, Object.values(jumps).map((one) => one.element)),
      h("div", { class: "searching" }, search, found, hitBack, hitOn, h("kbd", { "aria-hidden": "true" }, "/")),
      h("div", { class: "links" }, links.buttons, helpButton),
    ),
    help,
    links.place,
    h(
      "div", { class: "body" }, outline.element, total ? transcript.element : h("section", { class: "transcript" }, h("p", { class: "quiet" }, "This run has no steps."), data.between.map((one) => betweenOf(one, null, openRun))),
      h("aside", { class: "side", tabindex: "0", "aria-label": "Counters and limits" }, gauges.element, would.element, notes),
    ),
    status,
  );

  let shownStep = null;
  function paintNow() {
    outline.show(step); // first: it scrolls, for which what was changed before would have to be laid out
    fill(number, count(step));
    timeline.show(step);
    if (shownStep !== step || finding) transcript.show(step);
    if (finding) reveal();
    shownStep = step;
    finding = false;
    gauges.show(step);
    would.show(step);
    showJumps();
    showHits();
    links.show();
    previousButton.disabled = step <= scope.first;
    nextButton.disabled = step >= scope.last;
    if (!playing()) say();
  }
  const paint = eachFrame(paintNow);

  // Show the first hit of the step, unfolding what it is in.
  function reveal() {
    const row = transcript.rowElement(step);
    if (!row?.querySelector("mark")) row?.dispatchEvent(new CustomEvent("unfold"));
    const mark = row?.querySelector("mark");
    if (mark) transcript.reveal(mark, step);
  }

  const onSpeed = () => {
    speed.value = String(SPEEDS.includes(traits.get("speed")) ? traits.get("speed") : 1);
    schedule();
  };
  const onAxis = () => {
    const other = axis() === "time" ? "count" : "time";
    fill(axisButton, `timeline by ${other === "time" ? "time" : "step"}`);
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
    go, play, jumpFlag, jumpHit, showHelp,
    by: (n) => go(step + n),
    first: () => go(scope.first),
    last: () => go(scope.last),
    zoom: timeline.zoom,
    search: () => search.select(),
    outline: () => outline.follow(),
    copyLink: links.copyLink,
    again: () => transcript.show(step),
    pause: () => playing() && play(),
    leave() {
      if (document.activeElement === search) search.closest("[tabindex]").focus({ preventScroll: true });
      else if (!help.hidden) showHelp();
      else if (links.close() || header.close()) return undefined;
      else if (above) above.back();
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
      for (const timer of [playTimer, sayTimer, searchTimer, noticeTimer]) clearTimeout(timer);
      if (saveTimer) save();
      paint.cancel();
      for (const part of [timeline, outline, transcript]) part.end();
    },
  };
}

// A step's row of the transcript, with its number beside it.
function stepRowOf(data, n, context) {
  const step = stepElement(data, n, context);
  const element = h("article", { class: "row step-row", "data-step": n, "aria-label": `step ${count(n)}` }, h("span", { class: "number", "aria-hidden": "true" }, count(n)), step);
  element.addEventListener("unfold", () => step.dispatchEvent(new CustomEvent("unfold")));
  return { element, end() {} };
}

// The runs that are open: the one that is shown, and above it those whose subagents were opened. The last one is seen.
function levelsIn(el) {
  const levels = [];
  const kept = new Map(); // the traits of subagents' runs, for when one comes back to them

  function open(data, traits) {
    const element = h("div", { class: "level" });
    const before = levels[levels.length - 1];
    before?.player.pause();
    if (before) before.element.hidden = true;
    el.append(element);
    const level = { element, data, traits, player: null };
    levels.push(level);
    const above = before ? { title: before.data.header.title, step: before.data.children.find(({ run }) => run === data)?.step, back: close } : null;
    level.player = playerOf(element, data, traits, { openRun, above });
    if (before) el.focus({ preventScroll: true });
  }

  // The run of a subagent of the run that is seen. Its link is one in the page of the first run.
  function openRun(index, step = null) {
    const { data, traits } = levels[levels.length - 1];
    const { run } = data.children[index];
    const first = levels[0].traits;
    if (!kept.has(run)) {
      const own = traitsOf({ step: 1, playing: false, speed: traits.get("speed"), axis: traits.get("axis"), query: "" });
      own.linkTo = first.linkTo && ((n) => first.linkTo(n, run.run_id));
      own.on("change:step", () => first.keepLink?.(own.get("step"), run.run_id));
      kept.set(run, own);
    }
    const own = kept.get(run);
    if (step !== null) own.set("step", step);
    open(run, own);
    first.keepLink?.(own.get("step"), run.run_id);
  }

  function close() {
    const { element, player } = levels.pop();
    player.end();
    element.remove();
    const now = levels[levels.length - 1];
    now.element.hidden = false;
    now.player.again();
    levels[0].traits.keepLink?.(now.traits.get("step"), levels.length > 1 ? now.data.run_id : null);
    el.focus({ preventScroll: true });
  }

  // Show a step of a run by its id: of the first one, or of a subagent below it. A run that is not here is left alone.
  function reach(run_id, step) {
    const path = levels.length ? pathTo(levels[0].data, run_id) : null;
    if (!path) return false;
    while (levels.length > 1) close();
    path.forEach((index, depth) => {
      const { data, traits } = levels[levels.length - 1];
      traits.set("step", data.children[index].step ?? 1);
      openRun(index, depth === path.length - 1 ? step : null);
    });
    if (!path.length) levels[0].traits.set("step", step);
    return true;
  }

  const end = () => {
    for (const { element, player } of levels.splice(0)) {
      player.end();
      element.remove();
    }
  };
  return { open, end, reach, player: () => levels[levels.length - 1]?.player ?? null };
}

// The places among children that lead from a run to one below it; null if it is not there.
function pathTo(data, run_id) {
  if (data.run_id === run_id) return [];
  for (const [index, { run }] of data.children.entries()) {
    const below = pathTo(run, run_id);
    if (below) return [index, ...below];
  }
  return null;
}

function render({ model, el }) {
  el.classList.add("boolab", "boolab-replay");
  el.tabIndex = 0;
  el.setAttribute("role", "group");
  const levels = levelsIn(el);
  keys(el, keysOf(levels.player), FIELD_KEYS);
  let arrived = false;
  // A link names the run, which may be a subagent's, and the step in it.
  const reachAsked = () => {
    const asked = model.get("asked") ?? askedInJupyter();
    return Boolean(asked) && levels.reach(asked.run, asked.step);
  };
  model.on("change:asked", reachAsked);
  const stop = withData(model, el, (data) => {
    levels.end();
    el.setAttribute("aria-label", `Replay of ${visible(data.title ?? "a run")}`);
    if (inJupyter()) model.linkTo = (step, run = data.run_id) => linkInJupyter(step, run);
    levels.open(data, model);
    if (!arrived && reachAsked() && inJupyter()) {
      globalThis.boolabFollowed = true;
      el.scrollIntoView({ block: "nearest" });
    }
    if (!arrived) arrive(el);
    arrived = true;
  });
  return () => {
    model.off("change:asked", reachAsked);
    stop();
    levels.end();
  };
}

// A run that was opened from a list above it: scroll there, or it may be below the window's edge.
function arrive(el) {
  const whole = el.closest(".boolab-whole:not(.boolab-labeling), #views"); // while runs are labelled, each key has the next one drawn
  if (!whole?.contains(document.activeElement) || el.contains(document.activeElement)) return;
  el.focus({ preventScroll: true });
  el.scrollIntoView({ block: "nearest" });
}

export default { render };

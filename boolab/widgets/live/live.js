// A run while it happens: what it does now, the cards of its latest steps, and the limits that can be moved. Buttons and
// fields send messages; what they change is drawn when the kernel reports it.

const LATE_MS = 4000; // how long the kernel may take to answer before the page reports that it has not
const SILENT_MS = 12000; // how long it may send nothing at all while a run continues
const SAY_MS = 8000; // how often steps are announced at most
const NEAR = 48; // pixels from the end within which the cards follow the run

const STATES = {
  running: ["●", "Running"], pausing: ["❚❚", "Pausing"], paused: ["❚❚", "Paused"], stopping: ["■", "Stopping"], ended: ["■", "Ended"],
};

function render({ model, el }) {
  let data = null;
  let dead = false; // whether the kernel is gone
  let lastNews = performance.now();
  let announced = 0;
  let said = "";
  let late = 0;
  const button = (name, label, sign, key, onclick) =>
    h("button", { type: "button", class: name, title: `${name.replace("-", " ")} (${key})`, "aria-keyshortcuts": key, onclick }, h("span", { class: "sign", "aria-hidden": "true" }, sign), label);
  let wishes = {}; // values of limits that were set and are not sent yet: a slider is moved in many steps
  let wishTimer = 0;
  const sendWishes = () => {
    const value = wishes;
    clearTimeout(wishTimer);
    wishes = {};
    if (Object.keys(value).length) send("limits", value);
  };
  const send = (action, value = null) => {
    if (dead || data?.still || data?.state === "ended") return;
    sendWishes();
    clearTimeout(late);
    late = setTimeout(() => tell("The kernel has not answered yet: it may be busy with a cell."), LATE_MS);
    model.send({ do: action, value });
  };

  // --- The head, and what happens now
  const title = h("h3");
  const facts = h("p", { class: "facts-line" });
  const kpis = h("div", { class: "kpis" });
  const pauseButton = button("pause", "Pause", "❚❚", "p", () => send(held() ? "play" : "pause"));
  const stepButton = button("step-once", "Step", "▸❙", "s", () => send("step"));
  const stopButton = button("stop", "Stop", "■", "x", () => send("stop"));
  const replayButton = button("replay", [h("span", { class: "word" }, "Open in "), "Replay"], "↧", "r", () => change(model, { opened: { run: data.run_id, step: Math.max(1, data.n_steps) } }));
  const buttons = h("div", { class: "buttons", role: "toolbar", "aria-label": "Run" }, pauseButton, stepButton, stopButton);
  const stateLine = h("p", { class: "state-line" });
  const now = h("p", { class: "now" });
  const notice = h("p", { class: "notice", role: "alert" });
  const news = h("span", { class: "only-read", role: "status", "aria-live": "polite" });
  const tell = (words) => words !== notice.textContent && fill(notice, words);

  // --- The cards of the latest steps
  const before = h("p", { class: "before quiet", hidden: true });
  const cards = h("div", { class: "cards" });
  const end = h("div", { class: "end", hidden: true });
  const steps = h("section", { class: "latest", tabindex: "0", "aria-label": "Latest steps" }, before, cards, end);
  const opened = new Set(); // what was unfolded
  const shown = new Map(); // by number: the row of a step

  // --- Limits, counts and messages
  const limits = h("div", { class: "limits" });
  const rows = new Map(); // by name: the controls of a limit
  const counts = h("div", { class: "counts" });
  const note = h("input", { class: "message", type: "text", "aria-label": "A message to the agent", placeholder: "A message to the agent", autocomplete: "off" });
  const sendButton = h("button", { type: "button", class: "send", onclick: () => sendNote() }, "Send");
  const waiting = h("p", { class: "quiet waiting" });
  const fixed = h("p", { class: "quiet fixed" });
  const hints = [["p", "pause, continue"], ["s", "one step"], ["x", "stop"], ["m", "message"], ["r", "Replay"]];
  const speak = h(
    "section", { "aria-label": "Message and keys" }, h("h4", {}, "Message"), h("div", { class: "note" }, note, sendButton), waiting,
    h("p", { class: "keys quiet" }, hints.map(([key, what], i) => [h("span", {}, h("kbd", {}, key), what, i < hints.length - 1 && " ·"), " "])),
  );
  const side = h(
    "aside", { class: "side", "aria-label": "Limits, counts and messages" },
    h("h4", {}, "Limits"), limits, fixed, counts,
    speak,
  );
  const root = h(
    "div", { class: "boolab boolab-live", role: "group", "aria-label": "Live run", tabindex: "-1" },
    h("header", {}, h("div", { class: "top" }, h("div", { class: "about" }, title, facts), kpis),
      h("div", { class: "bar" }, buttons, h("div", { class: "doing" }, stateLine, now), replayButton), notice),
    h("div", { class: "body" }, steps, side), news,
  );
  put(el, root);
  const held = () => data?.state === "paused" || data?.state === "pausing";
  keys(root, { p: () => pauseButton.click(), s: () => stepButton.click(), x: () => stopButton.click(), r: () => replayButton.click(), m: () => note.focus() });
  keys(note, { Enter: () => sendNote(), Escape: () => root.focus({ preventScroll: true }) }, ["Enter", "Escape"]);

  function sendNote() {
    const text = note.value.trim();
    if (!text) return note.focus();
    send("send", text);
    note.value = "";
    return undefined;
  }

  function draw(given) {
    const first = data === null;
    dead = false; // a kernel that is reached again sends news
    const follows = steps.scrollHeight - steps.scrollTop - steps.clientHeight < NEAR;
    data = given;
    lastNews = performance.now();
    clearTimeout(late);
    root.dataset.state = dead ? "dead" : data.state;
    drawHead();
    drawCards();
    drawLimits();
    drawCounts();
    if (first || follows) steps.scrollTop = steps.scrollHeight;
    announce(first);
  }

  function drawHead() {
    fill(title, visible(data.title));
    title.title = visible(data.task);
    fill(facts, data.facts.map((fact, n) => [n > 0 && h("span", { class: "separator", "aria-hidden": "true" }, "·"), h("span", { class: "fact", title: visible(fact) }, visible(fact))]));
    fill(kpis, data.kpis.map((one) => h("div", { class: `kpi ${one.name}` }, h("b", {}, one.value), h("span", {}, one.label))));
    tell(visible(data.fault) || "");
    drawState();
  }

  // What the state is, where a page has no kernel, or no longer has one, included.
  function drawState() {
    const over = data.state === "ended";
    const idle = dead || data.still || over;
    const [sign, word] = STATES[data.state];
    const at = data.n_steps ? ` after ${plural(data.n_steps, "step")}` : " before its first step";
    const words = over
      ? [stopSwatch(data.end.reason), h("b", {}, `Ended: ${visible(data.end.text)}`)]
      : dead ? h("b", { class: "wrong" }, `✕ The kernel has stopped, and the run with it${data.n_steps ? `: ${plural(data.n_steps, "step")} had been shown` : ""}.`)
        : data.still ? h("b", {}, `Saved while the run was ${word.toLowerCase()}${at}. What followed is not known here.`)
          : [h("span", { class: "sign", "aria-hidden": "true" }, sign), h("b", {}, word), held() && at];
    fill(stateLine, words);
    for (const one of [pauseButton, stepButton, stopButton]) one.disabled = idle || data.state === "stopping";
    for (const one of [note, sendButton]) one.disabled = idle;
    stepButton.disabled ||= !held();
    buttons.hidden = speak.hidden = data.still;
    replayButton.hidden = !data.n_steps || (dead && !data.still);
    fill(pauseButton, h("span", { class: "sign", "aria-hidden": "true" }, held() ? "▶" : "❚❚"), held() ? "Continue" : "Pause");
    root.classList.toggle("idle", idle);
    drawNow();
  }

  // The step under way and for how long; drawn again each second.
  function drawNow() {
    if (!data) return;
    const doing = data.now;
    const silent = performance.now() - lastNews > SILENT_MS && !dead && !data.still && data.state !== "ended";
    root.classList.toggle("silent", silent);
    if (silent) tell("No news from the kernel: it is busy with a cell, or it has stopped. What the run does is not known.");
    if (dead || data.still || data.state === "ended") return void fill(now, data.end?.error && h("span", { class: "wrong said" }, visible(data.end.error)));
    if (!doing.what) return void fill(now, data.state === "paused" ? "The next step waits." : "");
    const passed = Math.max(0, Date.now() / 1000 - data.since);
    const seconds = passed >= 1 ? `, ${passed < 60 ? `${Math.floor(passed)} s` : duration(1000 * passed)}` : "";
    fill(now, `Step ${count(doing.step)}: ${doing.what === "tool" ? "runs " : doing.text ? "the model writes" : "waits for the model"}`, doing.what === "tool" && h("span", { class: "code" }, visible(doing.text)), seconds,
      doing.what === "model" && doing.text && h("span", { class: "partial code" }, visible(doing.text).replace(/\s+/g, " ")));
  }

  function drawCards() {
    const all = [];
    all.length = data.n_steps;
    data.rows.forEach((row, i) => { all[data.first - 1 + i] = row; });
    for (const [n, row] of shown) if (!all[n - 1]) (row.remove(), shown.delete(n));
    for (let n = data.first; n < data.first + data.rows.length; n += 1) {
      if (shown.has(n)) continue;
      const row = h("div", { class: "step-row" }, h("span", { class: "number" }, count(n)), stepElement({ steps: all, kinds: {}, turns: [] }, n, { opened, onStep: toStep }));
      shown.set(n, row);
      cards.append(row);
    }
    before.hidden = data.first <= 1;
    fill(before, `${plural(data.first - 1, "earlier step")}: open the run in Replay`);
    if (!data.n_steps && data.state !== "ended") fill(end, h("p", { class: "quiet" }, data.state === "running" && !data.still ? "The first step is on its way." : "No step yet."));
    else fill(end, data.end && h("p", { class: "stop-line" }, stopSwatch(data.end.reason), h("b", {}, `The run ended here: ${visible(data.end.text)}.`), h("span", { class: "rule", "aria-hidden": "true" })));
    end.hidden = !end.childElementCount;
  }

  function toStep(n) {
    const row = shown.get(n);
    if (row) row.scrollIntoView({ block: "nearest" });
    else change(model, { opened: { run: data.run_id, step: n } });
  }

  // --- A limit: a slider whose track shows the count, a field, and whether it is off.

  function drawLimits() {
    fill(fixed, visible(data.fixed));
    for (const limit of data.limits) {
      if (!rows.has(limit.name)) {
        rows.set(limit.name, limitRow(limit));
        limits.append(rows.get(limit.name).element);
      }
      rows.get(limit.name).show(limit);
    }
  }

  function limitRow({ name, label, title, unit, least }) {
    let limit = null;
    const wish = (value) => {
      wishes[name] = value;
      clearTimeout(wishTimer);
      wishTimer = setTimeout(sendWishes, 150);
      told(value);
    };
    const slider = h("input", { type: "range", min: least, step: 1, "aria-label": label, oninput: () => { field.value = slider.value; off.checked = false; wish(Number(slider.value)); } });
    sliderKeys(slider);
    const field = h("input", { type: "number", min: least, max: 1000000, step: 1, "aria-label": `${label}, in ${unit}`, onchange: () => {
      const value = Math.round(Number(field.value));
      if (!field.value || !(value >= least)) field.value = limit.wanted ?? "";
      else { off.checked = false; wish(value); }
    } });
    const off = h("input", { type: "checkbox", "aria-label": `${label} off`, onchange: () => wish(off.checked ? null : Math.max(least, Number(slider.value))) });
    const reading = h("p", { class: "reading" });
    const element = h("div", { class: "limit", "data-limit": name },
      h("div", { class: "name" }, h("b", {}, title), h("label", { class: "off" }, off, "off"), field),
      h("div", { class: "track" }, h("i", { class: "filled" }), slider), reading);
    const filled = element.querySelector(".filled");
    const share = (value) => (slider.max > least ? Math.min(1, Math.max(0, (value - least) / (slider.max - least))) : 0);

    function told(value) {
      const reached = value !== null && limit.count !== null && limit.count >= value;
      element.classList.toggle("reached", reached);
      element.classList.toggle("off", value === null);
      const inForce = limit.value;
      fill(reading, h("span", {}, h("b", {}, count(limit.count)), inForce === null ? ` ${limit.count === 1 ? unit.slice(0, -1) : unit}, no limit` : ` of ${count(inForce)} ${unit}`),
        value !== inForce && h("span", { class: "pending" }, `${value === null ? "off" : count(value)} from the next step`));
      slider.setAttribute("aria-valuetext", `${value === null ? "no limit" : count(value)}; ${limit.count ?? "unknown"} ${unit} so far`);
    }

    function show(next) {
      limit = next;
      const value = name in wishes ? wishes[name] : next.wanted;
      const busy = document.activeElement;
      slider.max = Math.max(next.reach, Number(slider.max) && rows.has(name) ? Number(slider.max) : 0);
      slider.value = value ?? slider.max;
      if (busy !== field) field.value = value ?? "";
      off.checked = value === null;
      filled.style.width = `calc(8px + ${share(next.count ?? 0)} * (100% - 16px))`;
      filled.hidden = !next.count;
      for (const one of [slider, field, off]) one.disabled = root.classList.contains("idle");
      told(value);
    }
    return { element, show };
  }

  function drawCounts() {
    fill(counts, data.counts.length > 0 && h("h4", {}, "Also counted"), data.counts.map((one) => {
      const share = one.count === null ? 0 : Math.min(1, one.count / one.threshold);
      const form = one.unit === "usd" ? money : one.unit === "ms" ? duration : count;
      return h("div", { class: `count${share >= 1 ? " reached" : ""}`, title: one.name },
        h("p", {}, h("span", { class: "label" }, visible(one.label)), h("span", { class: "value" }, h("b", {}, form(one.count)), ` of ${form(one.threshold)}`)),
        h("div", { class: "gauge", role: "img", "aria-label": `${visible(one.label)}: ${form(one.count)} of ${form(one.threshold)}` }, h("i", { style: { width: `${100 * share}%` } })));
    }));
    fill(waiting, data.waiting ? `${plural(data.waiting, "message")} ${data.state === "ended" ? "not delivered" : "to be delivered before the next step"}` : "");
  }

  // For screen readers: each change of the state, and now and then where the run is.
  function announce(first) {
    const at = performance.now();
    const state = `${data.state} ${data.end?.text ?? ""}`;
    const step = data.n_steps ? inWords({ steps: { length: data.n_steps, [data.n_steps - 1]: data.rows.at(-1) } }, data.n_steps) : "";
    if (state !== said) {
      if (!first) fill(news, data.end ? `The run has ended: ${visible(data.end.text)}` : `${STATES[data.state][1]}${step && `, ${step}`}`);
      said = state;
      announced = at;
    } else if (at - announced > SAY_MS && step) {
      fill(news, step);
      announced = at;
    }
  }

  const beat = () => {
    lastNews = performance.now();
    if (root.classList.contains("silent")) tell("");
    if (dead && data) draw(data);
  };
  const gone = () => {
    if (!data || data.state === "ended" || data.still) return;
    dead = true;
    root.dataset.state = "dead";
    drawState();
    drawLimits();
    fill(news, stateLine.textContent);
  };
  model.on("change:_beat", beat);
  model.on("comm_live_update", gone);
  const timer = setInterval(drawNow, 1000);
  const ends = withData(model, root, draw);
  return () => {
    ends();
    clearInterval(timer);
    clearTimeout(wishTimer);
    clearTimeout(late);
    model.off("change:_beat", beat);
    model.off("comm_live_update", gone);
  };
}

export default { render };

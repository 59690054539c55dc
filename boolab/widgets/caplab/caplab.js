// What a cap, a budget and a threshold would have kept, saved and stopped. In a notebook Python answers each move of a
// control with new data; a page without a kernel holds the answers to some hundred settings.

const PATIENCE_MS = 3000; // after which a move is sent though the last one has no answer

const [BESIDE_FIGURE, BESIDE_LIST] = [1000, 1180]; // the widths of a cell from which the frontier, and how to set it, are there

// What a page holds is in columns of a tool budget and a doom-loop threshold each.
function columnOf(grid, setting) {
  return grid.columns.find((one) => one.tool_budget === setting.tool_budget && one.doom_loop === setting.doom_loop);
}

// The answer to a setting of a page. Python sends the texts of harnesses as patterns and the numbers in them.
function answerAt(grid, setting) {
  const { caps, answers, curve } = columnOf(grid, setting);
  const answer = answers[caps.indexOf(setting.max_steps)];
  const [pattern, numbers] = answer.how;
  const how = grid.patterns[pattern].split("\0").map((part, n) => part + (numbers[n] ?? "")).join("");
  return { ...answer, curve, how: JSON.parse(how) };
}

// The next looser limit of some ascending values, of which the last one is null.
const looser = (values, limit) => values.find((one) => one === null || (limit !== null && one >= limit));

// The setting of a page that is nearest to a wanted one.
function fitting(grid, wanted) {
  const [tool_budget, doom_loop] = ["tool_budget", "doom_loop"].map((key) => looser(grid.values[key], wanted[key]));
  const max_steps = looser(columnOf(grid, { tool_budget, doom_loop }).caps, wanted.max_steps);
  return { ...wanted, max_steps, tool_budget, doom_loop };
}

// The limits that an agent is shown with at first: see `opening` in Python.
function openingOf({ recommended }) {
  return recommended?.setting ?? { max_steps: null, tool_budget: null, doom_loop: null };
}

// The data of a page for another setting, and if it is one of another agent, with all that is of that agent.
function heldAt(data, wanted, isChosen = true) {
  const { setting: now } = data.answer;
  const agent = wanted.agent ?? now.agent;
  const of = { ...data, ...data.by_agent[agent] };
  const start = agent === now.agent || isChosen ? now : openingOf(of);
  const setting = { ...start, ...wanted, agent };
  return { ...of, answer: answerAt(of.grid, fitting(of.grid, setting)) };
}

// The values of a control: those of Python's sliders, or those that the page has answers to.
function valuesOf(data, key) {
  if (!data.grid) return data.base.axes.find((axis) => axis.key === key).values;
  return data.grid.values[key] ?? columnOf(data.grid, data.answer.setting).caps;
}

const capsOf = (data) => (data.base.units ? valuesOf(data, "max_steps").filter((value) => value !== null) : []);

// Sends moves to Python one at a time: while one has no answer, the newest values of the next one are collected.
function asking(model) {
  let [n, sent, next, timer] = [0, null, null, 0];
  const send = () => {
    [sent, next] = [next, null];
    n += 1;
    clearTimeout(timer);
    timer = setTimeout(() => answered(n), PATIENCE_MS);
    change(model, { wanted: { ...sent, n } });
  };
  const answered = (which) => {
    if (which !== n || !sent) return;
    sent = null;
    if (next) send();
    else clearTimeout(timer);
  };
  return {
    ask(wanted) {
      next = { ...next, ...wanted };
      if (!sent) send();
    },
    answered,
    get waiting() {
      return { ...sent, ...next };
    },
    end: () => clearTimeout(timer),
  };
}

function render({ model, el }) {
  el.classList.add("boolab", "boolab-caplab");
  const state = { data: null, width: 0, sliders: [], cap: null, isChosen: false };
  const live = h("p", { class: "only-read", "aria-live": "polite" });
  const [agents, answer, others, counting, label, advised, figure, trade, track, result, tried, list, how, foot, more] = [
    "top", "answer", "others", "counting", "label", "advised-place", "figure-place", "trade-place", "track-place", "result", "trial-place", "list", "how", "foot", "more-place",
  ].map((name) => h("div", { class: name }));
  const some = h("p", { class: "quiet" });
  const open = new Map();
  const side = h("div", { class: "side" }, others, counting, h("div", { class: "chosen" }, label, advised));
  const charts = h("div", { class: "charts" }, figure, trade);
  const capbar = h("div", { class: "capbar" }, track, result);
  const below = h("div", { class: "below" }, list, how);
  const body = h("div", { class: "body" }, agents, answer,
    h("div", { class: "main" }, side, h("div", { class: "column" }, charts, capbar, tried, below)), foot, more);
  const asked = asking(model);
  let saying = 0;

  const act = {
    caps: [],
    choose(wanted) {
      if (!state.data.grid) {
        asked.ask(wanted);
        move();
        return;
      }
      state.isChosen ||= !("agent" in wanted);
      state.data = heldAt(state.data, wanted, state.isChosen);
      act.caps = capsOf(state.data);
      move();
      draw();
    },
    open(row) {
      change(model, { opened: { run: row.run, step: stepOf(row) } });
    },
    more() {
      change(model, { rows: model.get("rows") + 100 });
    },
  };

  // Where there is little room, what is beside the main figure and the list comes below both.
  const arrange = () => {
    const wide = el.clientWidth;
    const [tradeAt, howAt] = [wide < BESIDE_FIGURE ? foot : charts, wide < BESIDE_LIST ? foot : below];
    if (trade.parentNode !== tradeAt) tradeAt.append(trade);
    if (how.parentNode !== howAt) howAt.append(how);
  };

  // Move the controls to what is shown, or to what has been asked for since.
  const move = () => {
    const { data } = state;
    const setting = { ...data.answer.setting, ...asked.waiting };
    const [first, ...rest] = data.base.axes;
    for (const [n, axis] of rest.entries()) state.sliders[n].follow(data, valuesOf(data, axis.key), setting[axis.key]);
    state.cap.follow(data.base, valuesOf(data, first.key), setting.max_steps, data, state.width);
    fill(label, "Step cap ", h("strong", {}, limitText(setting.max_steps)));
  };

  const make = () => {
    const [first, ...rest] = state.data.base.axes;
    state.cap = capSlider(first, act);
    state.sliders = rest.map((axis) => limitSlider(axis, act));
    fill(track, state.cap.node);
    fill(others, h("h4", {}, "Other limits"), state.sliders.map((one) => one.node), some);
    fill(el, body, live);
  };

  const paint = () => {
    const { data } = state;
    if (!data) return;
    if (!data.base.units) {
      fill(el, h("p", {}, "There are no runs to try a limit on."));
      return;
    }
    if (!state.cap) make();
    arrange();
    state.width = Math.max(300, Math.round(figure.clientWidth || 640));
    const focused = el.contains(document.activeElement) ? document.activeElement : null;
    const kept = focused && focused.type !== "range"; // the sliders stay, all else is drawn anew
    const again = kept && [...focused.classList].map((name) => `.${name}`).join("");
    const rowOf = (one) => JSON.stringify({ ...one?.closest("[data-run]")?.dataset });
    const row = rowOf(focused);
    fill(agents, heading(data), agentTabs(data, act));
    fill(answer, verdict(data), numbers(data));
    fill(figure, chart(data, state.width, act));
    fill(trade, frontier(data, Math.max(240, Math.min(trade.clientWidth || 300, 420)), act));
    fill(advised, adviceButton(data, act));
    fill(some, data.grid?.some || null);
    some.hidden = !some.textContent;
    fill(counting, keepControl(data, act), countingControls(data, open, act));
    const [saved] = data.answer.saved;
    fill(result, data.answer.kept.of ? h("p", {}, h("b", { class: "kept" }, span(data.answer.kept)), ` of ${count(data.answer.kept.of)} kept`) : null,
      saved.share === null ? null : h("p", {}, h("b", { class: "saved" }, percent(saved.share)), ` of the ${saved.label} saved`));
    fill(tried, trialText(data, open));
    fill(list, table(data, open, act));
    fill(how, howToSet(data, open));
    fill(more, advice(data, open), capTable(data, open), ends(data, open), h("div", { class: "notes" }, h("p", { class: "quiet" }, [...data.base.notes, data.base.counted_by].join(" ")),
      data.grid ? h("p", {}, data.grid.note) : null));
    move();
    if (again) {
      const same = [...el.querySelectorAll(again)].find((one) => rowOf(one) === row);
      same?.focus({ preventScroll: true });
    }
    clearTimeout(saying);
    saying = setTimeout(() => fill(live, summary(data)), 400);
  };
  const draw = eachFrame(paint);

  const stop = withData(model, el, (data) => {
    state.data = data;
    if (data.grid && data.base.units) {
      const { base, trial, recommended, grid } = data;
      const by_agent = { ...data.by_agent, [data.answer.setting.agent]: { base, trial, recommended, grid } };
      state.data = heldAt({ ...data, by_agent }, {});
    }
    act.caps = capsOf(state.data);
    asked.answered(data.answered);
    draw();
  });
  const resized = new ResizeObserver(() => {
    if (!state.cap) return;
    arrange();
    if (Math.abs(figure.clientWidth - state.width) > 1) draw();
  });
  resized.observe(el);
  const seen = new IntersectionObserver(([{ isIntersecting, boundingClientRect: box }]) => {
    capbar.classList.toggle("stuck", !isIntersecting && box.bottom < innerHeight / 2);
  });
  seen.observe(figure);
  return () => {
    stop();
    asked.end();
    resized.disconnect();
    seen.disconnect();
    draw.cancel();
    clearTimeout(saying);
  };
}

export default { render };

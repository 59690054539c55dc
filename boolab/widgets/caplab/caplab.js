// What a cap, a budget and a threshold would have kept, saved and stopped. In a notebook Python answers each move of a
// control with new data; a page without a kernel holds the answers to some hundred settings.

const PATIENCE_MS = 3000; // after which a move is sent though the last one has no answer

function answerAt(grid, setting) {
  const [caps, budgets, dooms] = ["max_steps", "tool_budget", "doom_loop"].map((key) => grid.values[key]);
  const column = dooms.indexOf(setting.doom_loop) * budgets.length + budgets.indexOf(setting.tool_budget);
  return { ...grid.answers[column * caps.length + caps.indexOf(setting.max_steps)], curve: grid.curves[column] };
}

// The values of a control: those of Python's sliders, or those that the page has answers to.
function valuesOf(data, key) {
  return data.grid ? data.grid.values[key] : data.base.axes.find((axis) => axis.key === key).values;
}

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
  const state = { data: null, width: 0, sliders: [], cap: null };
  const live = h("p", { class: "only-read", "aria-live": "polite" });
  const [agents, answer, figure, trade, label, advised, result, list, how, more] = [
    "top", "answer", "figure-place", "trade-place", "label", "advised-place", "result", "list", "how", "more-place",
  ].map((name) => h("div", { class: name }));
  const others = h("div", { class: "others" });
  const counting = h("div", { class: "counting" });
  const open = new Map();
  const track = h("div", { class: "track-place" });
  const capbar = h("div", { class: "capbar" }, h("div", { class: "name" }, label, advised), track, result);
  const body = h("div", { class: "body" }, agents, answer, h("div", { class: "charts" }, others, figure, trade), capbar,
    h("div", { class: "below" }, list, how), more);
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
      const setting = { ...state.data.answer.setting, ...wanted };
      state.data = { ...state.data, answer: answerAt(state.data.grid, setting) };
      move();
      draw();
    },
    open(row) {
      change(model, { opened: { run: row.run, step: Math.max(1, row.at) } });
    },
    more() {
      change(model, { rows: model.get("rows") + 100 });
    },
  };

  // Move the controls to what is shown, or to what has been asked for since.
  const move = () => {
    const { data } = state;
    const setting = { ...data.answer.setting, ...asked.waiting };
    const [first, ...rest] = data.base.axes;
    for (const [n, axis] of rest.entries()) state.sliders[n].follow(valuesOf(data, axis.key), setting[axis.key], data.recommended);
    state.cap.follow(data.base, valuesOf(data, first.key), setting.max_steps, data.recommended, state.width);
    fill(label, "Step cap ", h("strong", {}, limitText(setting.max_steps)));
  };

  const make = () => {
    const [first, ...rest] = state.data.base.axes;
    state.cap = capSlider(first, act);
    state.sliders = rest.map((axis) => limitSlider(axis, act));
    fill(track, state.cap.node);
    fill(others, h("h4", {}, "Other limits"), state.sliders.map((one) => one.node), counting,
      state.data.grid ? h("p", { class: "quiet" }, "This file contains some settings; a notebook has all.") : null);
    fill(el, body, live);
  };

  const paint = () => {
    const { data } = state;
    if (!data) return;
    if (!data.base.runs) {
      fill(el, h("p", {}, "There are no runs to try a limit on."));
      return;
    }
    if (!state.cap) make();
    state.width = Math.max(300, Math.round(figure.clientWidth || 640));
    const focused = el.contains(document.activeElement) ? document.activeElement : null;
    const kept = focused && focused.type !== "range"; // the sliders stay, all else is drawn anew
    const again = kept && [...focused.classList].map((name) => `.${name}`).join("");
    const row = focused?.closest("[data-run]")?.dataset.run;
    fill(agents, agentTabs(data, act));
    fill(answer, verdict(data), numbers(data));
    fill(figure, chart(data, state.width, act));
    fill(trade, frontier(data, Math.max(240, Math.min(trade.clientWidth || 300, 420)), act));
    fill(advised, adviceButton(data, act));
    fill(counting, keepControl(data, act), countingControls(data, open, act));
    const [saved] = data.answer.saved;
    fill(result, data.answer.kept.of ? h("p", {}, h("b", { class: "kept" }, span(data.answer.kept)), ` of ${count(data.answer.kept.of)} kept`) : null,
      saved.share === null ? null : h("p", {}, h("b", { class: "saved" }, percent(saved.share)), ` of the ${saved.label} saved`));
    fill(list, table(data, open, act));
    fill(how, howToSet(data, open));
    fill(more, advice(data, open), capTable(data, open), ends(data, open), h("p", { class: "quiet notes" }, [...data.base.notes, data.base.counted_by].join(" ")));
    move();
    if (again) {
      const same = [...el.querySelectorAll(again)].find((one) => !row || one.closest("[data-run]")?.dataset.run === row);
      same?.focus({ preventScroll: true });
    }
    clearTimeout(saying);
    saying = setTimeout(() => fill(live, summary(data)), 400);
  };
  const draw = eachFrame(paint);

  const stop = withData(model, el, (data) => {
    state.data = data.grid ? { ...data, answer: answerAt(data.grid, data.answer.setting) } : data;
    act.caps = data.base.runs ? valuesOf(data, "max_steps").filter((value) => value !== null) : [];
    asked.answered(data.answered);
    draw();
  });
  const resized = new ResizeObserver(() => {
    if (state.cap && Math.abs(figure.clientWidth - state.width) > 1) draw();
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

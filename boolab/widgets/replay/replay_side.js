// Replay's right pane: counters after the step against their limits, and where limits would have stopped the run.

function gaugesOf(data) {
  const units = { tokens: short, usd: money, ms: duration, count };
  const heading = h("h4");
  const gauges = (data.gauges ?? []).map((gauge) => {
    const shown = units[gauge.unit] ?? count;
    const limited = gauge.limit !== null && gauge.limit !== undefined;
    const whole = limited ? gauge.limit : 0;
    const value = h("b");
    const filled = h("span", { class: "filled" });
    const element = h(
      "div",
      { class: `gauge${limited ? "" : " unlimited"}`, "data-key": gauge.key, role: "meter", "aria-label": gauge.label, "aria-valuemin": "0", "aria-valuemax": String(whole || gauge.values.reduce((most, one) => Math.max(most, one ?? 0), 1)) },
      h("div", { class: "told" }, h("span", {}, gauge.label), h("span", {}, value, h("span", { class: "quiet" }, limited ? ` of ${shown(gauge.limit)}${gauge.by ? `, ${visible(gauge.by)}` : ""}` : " no limit"))),
      limited && h("div", { class: "bar" }, filled),
    );
    const show = (n) => {
      const at = gauge.values[n] ?? null;
      fill(value, at === null ? "not known" : shown(at));
      filled.style.width = `${whole && at !== null ? Math.min(100, (at / whole) * 100) : 0}%`;
      element.classList.toggle("reached", limited && at !== null && at >= gauge.limit);
      element.setAttribute("aria-valuenow", String(at === null ? 0 : limited ? Math.min(at, whole) : at));
      element.setAttribute("aria-valuetext", at === null ? "unknown" : `${shown(at)}${limited ? ` of ${shown(gauge.limit)}` : ", no limit"}`);
    };
    return { element, show };
  });
  const summary = h("summary");
  const sent = h("p");
  const request = h("details", { class: "request" }, summary, sent);
  const show = (n) => {
    fill(heading, `${data.counts_by_turn ? "This turn, after" : "Counters after"} step ${count(n)}`);
    for (const one of gauges) one.show(n);
    fill(summary, `What was sent for step ${count(n)}`);
    fill(sent, data.requests[n - 1] ?? "");
  };
  return { element: h("div", { class: "gauges" }, heading, gauges.map((one) => one.element), data.requests.length > 0 && request), show };
}

// Where each rule would have stopped this record, or intervened, from the first to those that never would.
function wouldOf(data, onStep) {
  const marks = (data.marks ?? []).filter((mark) => !mark.own || mark.rule).sort((a, b) => (a.step ?? Infinity) - (b.step ?? Infinity));
  if (!marks.length) return { element: null, show() {} };
  const rows = marks.map((mark) => {
    const never = mark.step === null;
    const name = mark.own ? `${mark.limit}, this run` : [mark.policy, mark.acts === "stops" ? mark.limit : null].filter(Boolean).join(", ") || mark.label;
    const how = { unknown: "unknown from ", "steps in": "message, " }[mark.acts] ?? "";
    const words = [
      h("span", { class: "label" }, h("span", { class: "flag", "aria-hidden": "true" }, "⚑ "), visible(name)),
      h("span", { class: "at" }, never ? "never" : `${how}step ${count(mark.step)}`),
    ];
    const names = { "data-policy": mark.policy, "data-rule": mark.rule };
    const element = never
      ? h("div", { class: "row never", ...names }, words)
      : h("button", { type: "button", class: `row${mark.own ? " own" : ""}`, ...names, onclick: () => onStep(Math.max(1, mark.step)) }, words);
    return { mark, element };
  });
  const never = rows.filter((row) => row.mark.step === null);
  const few = never.length < 4;
  const show = (n) => {
    for (const { mark, element } of rows) {
      const state = mark.step === null || mark.acts === "unknown" ? "" : Math.max(1, mark.step) === n ? "here" : "";
      if (element.dataset.state === state) continue;
      element.dataset.state = state;
      if (state) element.setAttribute("aria-current", "step");
      else element.removeAttribute("aria-current");
    }
  };
  const element = h(
    "div", { class: "would", role: "group", "aria-label": "Where each limit would have stopped this run" },
    h("h4", {}, "Where limits would have stopped it"), rows.filter((row) => row.mark.step !== null || few).map((row) => row.element),
    !few && h("details", {}, h("summary", {}, `never: ${never.length < rows.length ? `${count(never.length)} others` : `all ${count(never.length)}`}`), never.map((row) => row.element)),
    h("p", { class: "quiet" }, "Valid for limits that the model cannot see."),
  );
  return { element, show };
}

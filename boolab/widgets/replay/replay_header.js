// Replay's head: what the run was to do, how it ended, what it used, and one sentence about it.

const OUTCOMES = { "✓": "resolved", "✕": "failed" };

// `above` is the run whose subagent this is: its `title`, its `step`, and `back`, which shows it again; null for the run
// that is shown first. `openRun(index)` opens a subagent's run.
function headerOf(data, { above, openRun }) {
  const head = data.header;
  const place = h("section", { class: "more", hidden: true, tabindex: "0", "aria-label": "more about the run" });
  const buttons = [];
  const opener = (label, name, content) => {
    const button = h("button", { type: "button", class: `link open-${name}`, "aria-expanded": "false" }, label);
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") !== "true";
      for (const one of buttons) one.setAttribute("aria-expanded", "false");
      button.setAttribute("aria-expanded", String(open));
      place.hidden = !open;
      fill(place, open && content());
    });
    buttons.push(button);
    return button;
  };
  const text = (words) => () => h("div", { class: "said" }, visible(words));
  const tools = () => h("ul", {}, head.tools.map((tool) => h("li", {}, h("span", { class: "code said" }, visible(tool.name)), h("span", { class: "quiet" }, ` ${plural(tool.calls, "call")}`))));
  const subagents = () =>
    h("ul", {}, data.children.map(({ run, step }, index) => h("li", {}, h("button", { type: "button", class: "link", onclick: () => openRun(index) }, visible(run.header.title)), h("span", { class: "quiet" }, " ", outcomeOf(run.header), `, ${usedOf(run.header).join(", ")}; ${step === null ? "the call that started it is not on record" : `started in step ${count(step)}`}`))));
  const facts = [
    ...head.facts.map((fact, n) => h("span", { class: `fact${n === head.facts.length - 1 ? " last" : ""}`, title: visible(fact) }, visible(fact))),
    head.task && visible(head.task) !== visible(head.title) && opener("task", "task", text(head.task)),
    head.system && opener("system prompt", "system", text(head.system)),
    head.tools.length > 0 && opener(plural(head.tools.length, "tool"), "tools", tools),
    data.children.length > 0 && opener(plural(data.children.length, "subagent"), "subagents", subagents),
  ].filter(Boolean);
  // What stands after the first comma is left out where there is little room.
  const kpi = (value, label, name = "") => {
    const [first, ...rest] = label.split(", ");
    return h("div", { class: `kpi ${name}`, title: `${value} ${label}` }, h("b", {}, value), h("span", { class: "base" }, first, rest.length > 0 && h("span", { class: "rest" }, `, ${rest.join(", ")}`)));
  };
  const { sign, label, score, detail } = head.outcome;
  const judged = [score, detail].filter(Boolean).map(visible).join(", ");
  const { happened, limit, loss } = head.verdict;
  const element = h(
    "header", {},
    above && h("p", { class: "trail" }, h("button", { type: "button", class: "back link", onclick: above.back }, "‹ back to ", above.step ? `step ${count(above.step)} of ` : "", h("b", {}, visible(above.title))), h("span", { class: "quiet" }, " a subagent's run")),
    h(
      "div", { class: "top" },
      h(
        "div", { class: "about" },
        h("h3", { title: visible(head.title) }, visible(head.title)),
        h("p", { class: "facts-line" }, facts.map((one, n) => [n > 0 && h("span", { class: "separator", "aria-hidden": "true" }, "·"), one])),
      ),
      h("div", { class: "kpis" }, kpi(`${sign} ${visible(label)}`, judged, `outcome ${OUTCOMES[sign] ?? ""} ${score ? "scored" : ""}`), head.kpis.map((one) => kpi(one.value, one.label, one.name))),
    ),
    h("p", { class: "verdict" }, visible(happened), limit && h("b", {}, ` ${visible(limit)}`), loss && ` ${loss}`),
    place,
  );
  const close = () => {
    const open = buttons.find((one) => one.getAttribute("aria-expanded") === "true");
    open?.click();
    return Boolean(open);
  };
  return { element, close };
}

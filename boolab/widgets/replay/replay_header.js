// Replay's head: what the run was to do, how it ended, what it used, and one sentence about it.

// `back` closes the run of a subagent (null for the run that is shown first); `openRun(index)` opens one.
function headerOf(data, { back, openRun }) {
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
    h("ul", {}, data.children.map(({ run, step }, index) => h("li", {}, h("button", { type: "button", class: "link", onclick: () => openRun(index) }, visible(run.header.title)), h("span", { class: "quiet" }, ` ${plural(run.steps.length, "step")}, ${step === null ? "the call that started it is not on record" : `started in step ${count(step)}`}`))));
  const facts = [
    ...head.facts.map((fact, n) => h("span", { class: `fact${n === head.facts.length - 1 ? " last" : ""}`, title: visible(fact) }, visible(fact))),
    head.task && visible(head.task) !== visible(head.title) && opener("task", "task", text(head.task)),
    head.system && opener("system prompt", "system", text(head.system)),
    head.tools.length > 0 && opener(plural(head.tools.length, "tool"), "tools", tools),
    data.children.length > 0 && opener(plural(data.children.length, "subagent"), "subagents", subagents),
  ].filter(Boolean);
  const kpi = (value, label, name = "") => h("div", { class: `kpi ${name}` }, h("b", {}, value), h("span", {}, label));
  const { sign, label, detail } = head.outcome;
  const { happened, limit, loss } = head.verdict;
  const element = h(
    "header", {},
    h(
      "div", { class: "top" },
      h(
        "div", { class: "about" },
        h("h3", { title: visible(head.title) }, back && h("button", { type: "button", class: "back", onclick: back }, "‹ back to the run above"), visible(head.title)),
        h("p", { class: "facts-line" }, facts.map((one, n) => [n > 0 && h("span", { class: "separator", "aria-hidden": "true" }, "·"), one])),
      ),
      h("div", { class: "kpis" }, kpi(`${sign} ${label}`, visible(detail), `outcome ${label}`), head.kpis.map((one) => kpi(one.value, one.label))),
    ),
    h("p", { class: "verdict" }, visible(happened), limit && h("b", {}, ` ${visible(limit)}`), loss && ` ${loss}`),
    place,
  );
  return { element };
}

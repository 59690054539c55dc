// The agents, the answer in a sentence, and four numbers below it. All texts come from Python.

const NO_LIMIT = "no limit";

function limitText(value) {
  return value === null ? NO_LIMIT : count(value);
}

const MAX_TABS = 6;

// A tab for each agent; a menu for those that find no place. A page without a kernel may not hold all of them.
function agentTabs({ agents, answer, by_agent }, act) {
  if (agents.length < 2) return null;
  const shown = agents.find(({ name }) => name === answer.setting.agent);
  const isHeld = ({ name }) => !by_agent || Object.hasOwn(by_agent, name);
  const missing = agents.filter((one) => !isHeld(one));
  const why = (one) => (isHeld(one) ? null : `This page does not hold the runs of ${visible(one.title)}: a notebook does.`);
  const tabs = agents.length > MAX_TABS + 1 ? agents.slice(0, MAX_TABS) : agents;
  const others = agents.slice(tabs.length);
  const tab = (one) => h("button", {
    type: "button", "aria-pressed": String(one === shown), disabled: !isHeld(one), title: why(one), onclick: () => act.choose({ agent: one.name }),
  }, h("span", { class: "title" }, visible(one.title)), h("span", { class: "detail" }, visible(one.detail)));
  const menu = others.length ? h("select", {
    "aria-label": "other agents", onchange: (event) => act.choose({ agent: event.target.value }),
  }, h("option", { value: "", disabled: true, selected: !others.includes(shown) }, `${others.length} more\u2026`),
  others.map((one) => h("option", { value: one.name, selected: one === shown, disabled: !isHeld(one) }, `${visible(one.title)} (${visible(one.detail)})`))) : null;
  const several = agents.filter(({ name }) => name !== "all").length;
  const only = missing.length ? ` This page holds ${count(agents.length - missing.length)} of these ${count(agents.length)}; a notebook has all.` : "";
  return h("div", { class: "agents boolab-agent" },
    h("div", { class: "tabs", role: "group", "aria-label": "agent" }, tabs.map(tab), menu),
    h("p", { class: "quiet" }, `${plural(several, "agent")} on record: choose one. A limit fits the agent it was chosen for.${only}`));
}

function verdict({ answer }) {
  const [first, rest] = answer.verdict;
  return h("p", { class: "verdict" }, visible(first), rest ? h("span", {}, ` ${visible(rest)}`) : null);
}

function numbers({ answer }) {
  return h("dl", { class: "numbers" }, answer.numbers.map(({ key, label, value, of, below, wrong }) =>
    h("div", { "data-key": key }, h("dt", {}, label),
      h("dd", {}, h("strong", {}, value), " ", h("span", {}, of),
        h("span", { class: "below" }, below, below && wrong ? ", " : null, wrong ? h("span", { class: "wrong" }, `\u2715 ${wrong}`) : null)))));
}

function span({ lower, upper }) {
  return lower === upper ? count(lower) : `${count(lower)}\u2013${count(upper)}`;
}

// What is folded, and stays as the user left it when all is drawn anew: `open` is a map from names to flags. The click is
// noted, because the event of a toggle may come after the next frame.
function fold(open, name, { first = false, ...attributes }, summary, ...children) {
  const noted = (event) => open.set(name, !event.currentTarget.parentElement.open);
  return h("details", { ...attributes, open: open.get(name) ?? first }, h("summary", { onclick: noted }, summary), children);
}

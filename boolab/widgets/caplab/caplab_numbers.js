// The agents, the answer in a sentence, and four numbers below it. All texts come from Python.

const NO_LIMIT = "no limit";

function limitText(value) {
  return value === null ? NO_LIMIT : count(value);
}

const MAX_TABS = 6;

// A tab for each agent; a menu for those that find no place. A page without a kernel holds one agent only.
function agentTabs({ agents, answer, grid }, act) {
  if (agents.length < 2) return null;
  const shown = agents.find(({ name }) => name === answer.setting.agent);
  const only = `This file holds the runs of ${visible(shown.title)}; a notebook has all.`;
  const tabs = agents.length > MAX_TABS + 1 ? agents.slice(0, MAX_TABS) : agents;
  const others = agents.slice(tabs.length);
  const tab = ({ name, title, detail }) => h("button", {
    type: "button", "aria-pressed": String(name === shown.name), disabled: Boolean(grid) && name !== shown.name,
    title: grid && name !== shown.name ? only : null, onclick: () => act.choose({ agent: name }),
  }, h("span", { class: "title" }, visible(title)), h("span", { class: "detail" }, visible(detail)));
  const menu = others.length ? h("select", {
    "aria-label": "other agents", disabled: Boolean(grid), onchange: (event) => act.choose({ agent: event.target.value }),
  }, h("option", { value: "", disabled: true, selected: !others.includes(shown) }, `${others.length} more\u2026`),
  others.map((one) => h("option", { value: one.name, selected: one === shown }, `${visible(one.title)} (${visible(one.detail)})`))) : null;
  const several = agents.filter(({ name }) => name !== "all").length;
  return h("div", { class: "agents boolab-agent" },
    h("div", { class: "tabs", role: "group", "aria-label": "agent" }, tabs.map(tab), menu),
    h("p", { class: "quiet" }, `${plural(several, "agent")} on record. A limit fits the agent it was chosen for.${grid ? ` ${only}` : ""}`));
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

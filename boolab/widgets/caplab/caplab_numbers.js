// The agents, the answer in a sentence, and four numbers below it. All texts come from Python.

const NO_LIMIT = "no limit";

function limitText(value) {
  return value === null ? NO_LIMIT : count(value);
}

const MAX_TABS = 5;

// A tab for each agent; a menu for those that find no place. A page without a kernel may not hold all of them.
function agentTabs({ agents, answer, by_agent }, act) {
  if (agents.length < 2) return null;
  const shown = shownAgent({ agents, answer });
  const held = agents.filter(({ name }) => !by_agent || Object.hasOwn(by_agent, name));
  const tabs = held.length > MAX_TABS + 1 ? held.slice(0, MAX_TABS) : held;
  const others = held.slice(tabs.length);
  const tab = (one) => h("button", {
    type: "button", "aria-pressed": String(one === shown), onclick: () => act.choose({ agent: one.name }),
  }, h("span", { class: "title" }, visible(one.title)), h("span", { class: "detail" }, visible(one.detail)));
  const menu = others.length ? h("select", {
    "aria-label": "other agents", onchange: (event) => act.choose({ agent: event.target.value }),
  }, h("option", { value: "", disabled: true, selected: !others.includes(shown) }, `${others.length} more\u2026`),
  others.map((one) => h("option", { value: one.name, selected: one === shown }, `${visible(one.title)} (${visible(one.detail)})`))) : null;
  return h("div", { class: "agents boolab-agent" },
    h("div", { class: "tabs", role: "group", "aria-label": "agent" }, held.length > 1 ? [tabs.map(tab), menu] : null),
    held.length < agents.length ? h("p", { class: "quiet" }, `${plural(agents.length - held.length, "more group")} of runs on record: open them in a notebook with bl.CapLab(runs).`) : null);
}

const shownAgent = ({ agents, answer }) => agents.find(({ name }) => name === answer.setting.agent) ?? agents[0];

// What the numbers are of: an agent, its data set and its runs.
function heading(data) {
  const { title, detail } = shownAgent(data);
  const several = data.recommended?.overview.map(visible).join(" ") ?? "";
  return h("div", { class: "of" }, h("p", {}, h("b", {}, "CapLab"), ` \u00b7 ${visible(title)}, ${visible(detail)}`), h("p", { class: "quiet" }, several));
}

function verdict({ answer, recommended, searching }) {
  const late = searching && !recommended ? ["The recommendation is being computed."] : [];
  const [first, ...rest] = [...answer.verdict, ...late].map(visible);
  return h("p", { class: "verdict" }, first, rest.length ? h("span", {}, ` ${rest.join(" ")}`) : null);
}

// The base of a number, and apart from it shares of other amounts, for which a narrow cell has no room.
function baseOf(of) {
  const [base, ...others] = of.split(/, (?=[\d.]+% of the )/);
  return [h("span", {}, base), others.length ? h("span", { class: "others-saved" }, `, ${others.join(", ")}`) : null];
}

function numbers({ answer }) {
  return h("dl", { class: "numbers" }, answer.numbers.map(({ key, label, value, of, below, wrong, open }) =>
    h("div", { "data-key": key }, h("dt", {}, label),
      h("dd", {}, h("strong", {}, value), " ", baseOf(of),
        h("span", { class: "below" }, below, below && wrong ? ", " : null, wrong ? h("span", { class: "wrong" }, `\u2715 ${wrong}`) : null),
        open ? h("span", { class: "below open" }, hatch(), open) : null))));
}

// The mark of what is stopped and of unknown outcome.
const hatch = () => h("i", { class: "hatch", "aria-hidden": "true" });

function span({ lower, upper }) {
  return lower === upper ? count(lower) : `${count(lower)}\u2013${count(upper)}`;
}

// What is folded, and stays as the user left it when all is drawn anew: `open` is a map from names to flags. The click is
// noted, because the event of a toggle may come after the next frame.
function fold(open, name, { first = false, ...attributes }, summary, ...children) {
  const noted = (event) => open.set(name, !event.currentTarget.parentElement.open);
  return h("details", { ...attributes, open: open.get(name) ?? first }, h("summary", { onclick: noted }, summary), children);
}

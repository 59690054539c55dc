// The controls. They are drawn here in a notebook too, so that the cap's slider has the axis of the figure.

const CLASSES = { max_steps: "boolab-cap", tool_budget: "boolab-budget", doom_loop: "boolab-doom" };
const LETTER = 6.4; // the width of a letter in a tick, at most
const BOLD = 1.12; // of which a bold one has more
const TICK = '10.5px system-ui, "DejaVu Sans", sans-serif';
const pen = document.createElement("canvas").getContext("2d");

// How wide a text of a tick is.
function tickWidth(text, bold) {
  pen.font = bold ? `600 ${TICK}` : TICK;
  return pen.measureText(text).width + 1;
}

// Labels of ticks, from the most important one on: in the middle of their tick, or to one side of it, or left out where
// they would touch another.
function spread(marks, width) {
  const taken = [];
  return marks.map((mark) => {
    const wide = tickWidth(mark.text, mark.name === "recommended");
    const inside = (from) => Math.min(Math.max(from, 0), width - wide);
    const free = (from) => from >= 0 && taken.every(([a, b]) => from > b + 5 || from + wide < a - 5);
    const from = [mark.at - wide / 2, mark.at - wide + 8, mark.at - 8].map(inside).find(free);
    if (from === undefined) return { ...mark, text: "" };
    taken.push([from, from + wide]);
    return { ...mark, from };
  });
}

function tickMarks(marks, width) {
  return spread(marks, width).map(({ at, from, text, name, title }) => [
    h("i", { class: `mark ${name}`, style: { left: `${at}px` }, title }),
    text ? h("span", { class: `mark ${name}`, style: { left: `${from}px` }, title }, text) : null,
  ]);
}

// What is marked on a slider: the end, which has one place only, what is recommended, or what is left off, the
// tightest cap that keeps enough on record, then the defaults of harnesses.
function marksOf(axis, values, recommended, at, onRecord = null) {
  const marks = [];
  if (recommended?.setting?.[axis.key] !== null) marks.push({ at: at(null), text: NO_LIMIT, name: "end" });
  if (recommended?.setting) {
    const value = recommended.setting[axis.key];
    if (values.includes(value)) marks.push({ at: at(value), text: value === null ? NO_LIMIT : `${count(value)} recommended`, name: "recommended" });
  }
  const leftOff = recommended?.action === "leave" ? recommended.candidate?.[axis.key] : null;
  if (values.includes(leftOff) && leftOff !== null) marks.push({ at: at(leftOff), text: `${count(leftOff)} left off`, name: "left-off" });
  if (onRecord !== null && onRecord !== recommended?.candidate?.[axis.key]) marks.push({ at: at(onRecord), text: `${count(onRecord)} on record`, name: "on-record" });
  for (const { value, label } of axis.ticks) {
    const first = label.split(", ")[0];
    marks.push({ at: at(value), text: `${count(value)} ${first}`, name: "harness", title: `${count(value)}: default of ${label}` });
  }
  return marks;
}

// A slider beside the figure: values that are evenly apart.
function limitSlider(axis, act) {
  const output = h("output", {});
  const name = axis.label[0].toUpperCase() + axis.label.slice(1);
  const input = h("input", { type: "range", min: 0, step: 1, "aria-label": name, oninput: () => act.choose({ [axis.key]: values[Number(input.value)] }) });
  const ticks = h("div", { class: "ticks", "aria-hidden": "true" });
  let values = [];
  sliderKeys(input);
  const node = h("div", { class: `limit ${CLASSES[axis.key]}` }, h("label", {}, name, output), input, ticks);
  return {
    node,
    follow({ recommended, grid, base }, possible, value) {
      values = possible;
      input.max = values.length - 1;
      input.value = values.indexOf(value);
      const all = base.axes.find((one) => one.key === axis.key).values;
      input.disabled = values.length < 2;
      input.title = !input.disabled ? "" : all.length < 2 ? "There is nothing to limit on record." : grid ? `This page holds no ${axis.label} of this agent: a notebook has all.` : "";
      output.textContent = limitText(value);
      input.setAttribute("aria-valuetext", value === null ? NO_LIMIT : `${count(value)} ${axis.unit}`);
      const width = node.clientWidth || 236;
      const at = (one) => {
        const place = values.findIndex((other) => other !== null && one !== null && other >= one);
        return 8 + ((width - 16) * (place < 0 ? values.length - 1 : place)) / Math.max(1, values.length - 1);
      };
      fill(ticks, tickMarks(marksOf(axis, values, recommended, at), width));
    },
  };
}

// The cap's slider. The field takes the keys; the pointer is read on the axis of the figure.
function capSlider(axis, act) {
  let values = [];
  let x = null;
  const choose = (value) => act.choose({ max_steps: value });
  const input = h("input", { type: "range", min: 0, step: 1, "aria-label": "Step cap", oninput: () => choose(values[Number(input.value)]) });
  const thumb = h("span", { class: "thumb" });
  const rail = h("span", { class: "rail" });
  const ticks = h("div", { class: "ticks", "aria-hidden": "true" });
  const unit = h("div", { class: "unit", "aria-hidden": "true" });
  const track = h("div", { class: "track boolab-cap" }, rail, input, thumb, ticks, unit);
  sliderKeys(input);
  const to = (event) => {
    const box = track.getBoundingClientRect();
    choose(nearest(x, values, ((event.clientX - box.left) * track.clientWidth) / box.width));
  };
  track.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    event.preventDefault();
    track.setPointerCapture(event.pointerId);
    input.focus({ preventScroll: true });
    to(event);
  });
  track.addEventListener("pointermove", (event) => {
    if (track.hasPointerCapture(event.pointerId)) to(event);
  });
  return {
    node: track,
    follow(base, possible, value, { recommended, answer }, width) {
      values = possible;
      x = scaleOf(base, width);
      input.max = values.length - 1;
      input.value = values.indexOf(value);
      input.setAttribute("aria-valuetext", value === null ? NO_LIMIT : `${count(value)} ${axis.unit}`);
      thumb.style.left = `${x(value)}px`;
      rail.style.left = `${SIZE.left}px`;
      rail.style.width = `${x(null) - SIZE.left}px`;
      const numbers = gridValues(base, x.last, width).filter(Boolean).map((one) => ({ at: x(one), text: count(one), name: "number" }));
      fill(ticks, tickMarks([...marksOf(axis, values, recommended, x, answer.curve.tightest), ...numbers], width));
      fill(unit, `${axis.label}, in ${axis.unit}${axis.ticks.length ? "; named ticks: defaults of harnesses" : ""}`);
    },
  };
}

// The share of successes that the recommendation keeps at least. A page without a kernel holds one.
function keepControl({ keep, keeps, answer, recommended, grid }, act) {
  const words = [answer.curve.on_record, recommended?.setting ? recommended.words : null].filter(Boolean).join(" ");
  const shown = (share) => `${percent(share)} of successes`;
  return h("div", { class: "keep" },
    h("label", { class: "choice" }, h("span", {}, "Keep at least"), grid
      ? h("b", {}, shown(keep))
      : h("select", { class: "boolab-keep", onchange: (event) => act.choose({ keep: Number(event.target.value) }) },
        keeps.map((share) => h("option", { value: share, selected: share === keep }, shown(share))))),
    h("p", { class: "quiet" }, words));
}

// The button for what is recommended; where there is none, why.
function adviceButton({ recommended, searching, grid, answer }, act) {
  if (recommended && !recommended.setting) {
    return h("div", { class: "advised" }, h("p", { class: "quiet boolab-why" }, "Nothing is recommended: ", visible(recommended.words)));
  }
  const wanted = recommended?.setting;
  const isSet = wanted && Object.keys(wanted).every((name) => wanted[name] === answer.setting[name]);
  const late = grid && !recommended ? "This page was made before the recommendation was computed" : null;
  const limits = wanted ? recommended.words.split(": ")[1].replace(/\.$/, "") : "";
  const text = isSet ? `Recommended ${limits} is set` : wanted ? `Set recommended ${limits}` : searching ? "Computing the recommendation\u2026" : "Set the recommendation";
  return h("div", { class: "advised" },
    h("button", {
      class: "boolab-recommend", type: "button", disabled: Boolean(late) || isSet || (searching && !recommended), title: isSet ? "The numbers are those of this setting." : late,
      onclick: () => act.choose(grid ? wanted : { recommended: true }),
    }, text),
    late ? h("p", { class: "quiet boolab-why" }, `${late}.`) : null);
}

// How calls are counted. A page without a kernel holds one way only.
function countingControls({ counting, grid }, open, act) {
  const { same, choices, own, scope, exempt, tools } = counting;
  const fixed = Boolean(grid);
  const why = fixed ? "This page holds one way to count: a notebook has all." : null;
  const choice = (name, label, options, value) => h("label", { class: "choice" }, label,
    h("select", { class: `boolab-${name}`, disabled: fixed, title: why, onchange: (event) => act.choose({ [name]: event.target.value }) },
      options.map(([one, words]) => h("option", { value: one, selected: one === value }, words))));
  const box = (tool) => h("label", { class: "tool" }, h("input", {
    type: "checkbox", checked: exempt.includes(tool), disabled: fixed, title: why,
    onchange: (event) => act.choose({ exempt: event.target.checked ? [...exempt, tool] : exempt.filter((one) => one !== tool) }),
  }), visible(tool));
  const names = exempt.length > 2 ? `${count(exempt.length)} tools` : exempt.map(visible).join(", ") || "none";
  return [
    fold(open, "exempt", { class: "boolab-exempt" }, ["Exempt tools: ", h("b", {}, names)],
      h("p", { class: "quiet" }, "Their repeats are no loop, such as those of a tool that polls."),
      h("div", { class: "tools" }, tools.map(box))),
    fold(open, "counting", { class: "boolab-counting" }, "How calls are counted",
      choice("same", "Calls are repeats if they have the", choices.map(({ name, words }) => [name, words]), same),
      own.length ? h("p", { class: "quiet" }, own.map(visible).join("; ")) : null,
      choice("scope", "Limits hold for", [["turn", "each turn"], ["run", "the whole run"]], scope),
      why ? h("p", { class: "quiet" }, why) : null),
  ];
}

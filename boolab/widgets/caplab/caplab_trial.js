// A trial of a step cap beyond the runs on record: three kinds of evidence at that cap, side by side and never mixed.

const [MAX_SHARE, MAX_TALL] = [4, 1.5]; // where bounds are cut off, and how much taller the figure may become
const HAZARDS_AT = 22; // how far they are from the other marks

// The highest share that the axis shows, with room for a name above 100%.
function topOf({ bounds, branches, hazards }) {
  const highs = [bounds, hazards].filter(Boolean).map(({ high }) => Math.min(high, MAX_SHARE));
  return Math.max(1.2, ...highs, branches?.high ?? 0) * 1.02;
}

function sharesTo(most) {
  const step = [0.25, 0.5, 1, 2, 5, 10, 20, 50, 100].find((one) => most / one <= 6) ?? most;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, n) => n * step);
}

const isAtMark = ({ cap, hazards }, x, at) => at > x(cap) - (hazards ? HAZARDS_AT + 9 : 12) && at < x(cap) + 9;

// An interval with caps.
function whisker(name, at, wide, from, to) {
  return h("path", { class: name, d: `M${at - wide} ${from}H${at + wide}M${at} ${from}V${to}M${at - wide} ${to}H${at + wide}` });
}

// The marks and their names; the places of the names are added to those that are taken.
function trialMarks({ cap, label, bounds, branches, hazards }, x, y, most, taken) {
  const at = x(cap);
  const edge = at - (hazards ? HAZARDS_AT + 10 : 12);
  const group = h("g", { class: "trial" });
  const name = (kind, text, right, level) => {
    const wide = 7 * text.length;
    const free = (where) => !taken.some((one) => Math.abs(one.at - (right - wide / 2)) < (one.wide + wide) / 2 && Math.abs(one.level - where) < (one.tall ?? 16) && one.wide);
    const place = [0, 16, -16, 32, -32].map((off) => level + off).find((one) => one > SIZE.top + 5 && one < y(0) - 5 && free(one)) ?? level;
    taken.push({ at: right - wide / 2, wide, level: place });
    put(group, h("text", { class: `label ${kind}`, x: right, y: place + 4, "text-anchor": "end" }, text));
  };
  put(group, h("line", { class: "known", x1: x.known, x2: x.known, y1: SIZE.top + 34, y2: y(0) }));
  const top = y(Math.min(bounds.high, most));
  put(group, h("rect", { class: "bounds", x: at - 8, y: top, width: 16, height: Math.max(1, y(Math.max(0, bounds.low)) - top) }));
  if (hazards) {
    put(group, whisker("hazards", at - HAZARDS_AT, 3, y(Math.max(0, hazards.low)), y(Math.min(hazards.high, most))),
      h("path", { class: "hazards point", d: `M${at - HAZARDS_AT - 4} ${y(hazards.value)}l4 -4l4 4l-4 4Z` }));
  }
  if (branches) {
    put(group, whisker("branches", at, 6, y(Math.max(0, branches.low)), y(branches.high)),
      h("circle", { class: "dot kept", cx: at, cy: y(branches.value ?? (branches.low + branches.high) / 2), r: 4.5 }));
  }
  name("trial", label, edge, SIZE.top + 9);
  name("cap", `cap ${count(cap)}`, edge, SIZE.top + 25);
  if (hazards) name("hazards", "hazards", edge, y(hazards.value));
  name("bounds", "bounds", edge, y(Math.max(0, bounds.low)) - 8);
  return group;
}

// What is beside the pointer, in words of Python.
function trialTooltip({ cap, label, tips }) {
  return h("div", { class: "tooltip of-trial", role: "presentation" }, h("b", {}, `cap ${count(cap)}, ${label}`),
    h("table", {}, tips.map((cells) => h("tr", {}, cells.map((cell, n) => h("td", n ? { class: "number" } : {}, cell))))));
}

// The first sentence of the result, and the evidence: folded where the figure draws it.
function trialText({ trial }, open) {
  if (!trial) return null;
  const { sentence, columns, rows, mark } = trial;
  const evidence = h("div", { class: "scroll" }, h("table", { "aria-label": "Evidence of the trial" },
    h("thead", {}, h("tr", {}, columns.map((one, n) => h("th", { scope: "col", class: n % 4 ? "number" : null }, one)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, n) => h("td", { class: n % 4 ? "number" : null }, visible(cell))))))));
  return h("section", { class: "tried" }, h("p", {}, h("b", {}, "Trial"), ` ${visible(sentence)}`),
    mark ? h("p", { class: "quiet" }, visible(mark.note)) : null,
    mark ? fold(open, "evidence", {}, "Evidence", evidence) : evidence);
}

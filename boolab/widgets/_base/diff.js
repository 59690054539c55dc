// The lines that differ in two texts: two line numbers, − or + before a line that is not in both, and what changed in
// it darker. Each line has its numbers, null where it is not in that text, and parts, of which every second is changed.
function diffTable(lines, name) {
  const row = (line) => {
    const kind = line.new === null ? "removed" : line.old === null ? "added" : "kept";
    const text = line.parts.map((part, place) => (place % 2 ? h("span", { class: "changed" }, visible(part)) : visible(part)));
    return h("tr", { class: kind }, h("td", { class: "number" }, line.old), h("td", { class: "number" }, line.new), h("td", { class: "sign" }, { removed: "−", added: "+", kept: "" }[kind]), h("td", { class: "code said" }, text));
  };
  return h("table", { class: "line-diff", "aria-label": `${name}: old number, new number, sign, text` }, h("tbody", {}, lines.map(row)));
}

// How many lines are in the old text only, and how many in the new one.
const onlyOld = (lines) => lines.filter((line) => line.new === null).length;
const onlyNew = (lines) => lines.filter((line) => line.old === null).length;

// An agent's file as a form to read: without a kernel, nothing can be checked or saved. In a notebook the fields
// are controls of ipywidgets, and only the results are drawn here.
function render({ model, el }) {
  const root = h("div", { class: "boolab boolab-agent_editor", role: "group", "aria-label": "An agent's file" });
  put(el, root);
  return withData(model, root, (data) => {
    fill(root,
      data.title ? h("h3", {}, visible(data.title)) : null,
      h("div", { class: "boolab-columns" },
        data.fields.length ? h("dl", {}, data.fields.map((field) => [
          h("dt", { title: field.help || null }, field.label),
          h("dd", { "data-field": field.name },
            field.value ? h("div", { class: "said" }, visible(field.value)) : h("div", { class: "quiet" }, "not set"),
            field.message ? h("p", { class: "wrong", role: "alert" }, "✕ ", visible(field.message)) : null),
        ])) : null,
        h("div", { class: "results" },
          diffOf(data.diff),
          list("Under this policy", data.limits, "limits"),
          list("Unknown to boolab, kept as it is", data.extra.map((one) => `${one.name}: ${one.value}`), "extra"))));
  });
}

// What saving changes: two line numbers, − or + before a line that is not in both, and what changed in it darker.
function diffOf(lines) {
  if (!lines.length) return null;
  const row = (line) => {
    const kind = line.new === null ? "removed" : line.old === null ? "added" : "kept";
    return h("tr", { class: kind }, h("td", { class: "number" }, line.old), h("td", { class: "number" }, line.new), h("td", { class: "sign" }, { removed: "−", added: "+", kept: "" }[kind]), h("td", { class: "code said" }, line.parts.map((part, place) => (place % 2 ? h("span", { class: "changed" }, visible(part)) : visible(part)))));
  };
  return h("section", { class: "diff" }, h("h4", {}, `Saving removes ${plural(lines.filter((line) => line.new === null).length, "line")}, adds ${count(lines.filter((line) => line.old === null).length)}`), h("table", { "aria-label": "Lines that saving changes: old number, new number, sign, text" }, h("tbody", {}, lines.map(row))));
}

function list(title, lines, name) {
  return lines.length ? h("section", { class: name }, h("h4", {}, title), h("ul", {}, lines.map((line) => h("li", { class: "said" }, visible(line))))) : null;
}

export default { render };

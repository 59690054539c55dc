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
          list(`Limits under policy ${visible(data.policy)}`, data.limits, "limits"),
          list("Unknown to boolab, kept as it is", data.extra.map((one) => `${one.name}: ${one.value}`), "extra"))));
  });
}

function diffOf(lines) {
  return lines.length ? h("section", { class: "diff" }, h("h4", {}, `Saving removes ${plural(onlyOld(lines), "line")}, adds ${count(onlyNew(lines))}`), diffTable(lines, "Lines that saving changes")) : null;
}

function list(title, lines, name) {
  return lines.length ? h("section", { class: name }, h("h4", {}, title), h("ul", {}, lines.map((line) => h("li", { class: "said" }, visible(line))))) : null;
}

export default { render };

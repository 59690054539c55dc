// An agent's file as a form to read: without a kernel, nothing can be checked or saved. In a notebook the fields
// are controls of ipywidgets, and only the results are drawn here.
function render({ model, el }) {
  const root = h("div", { class: "boolab boolab-agent_editor", role: "group", "aria-label": "An agent's file" });
  put(el, root);
  return withData(model, root, (data) => {
    fill(root,
      data.verdict ? h("p", { class: data.verdict.startsWith("✕") ? "verdict wrong" : "verdict" }, visible(data.verdict)) : null,
      data.title ? h("h3", {}, visible(data.title)) : null,
      h("div", { class: "boolab-columns" },
        data.fields.length ? h("dl", {}, data.fields.map((field) => [
          h("dt", { title: field.help || null }, field.label),
          h("dd", { "data-field": field.name },
            field.value ? h("div", { class: "said" }, visible(field.name === "prompt" ? reflowed(field.value) : field.value)) : h("div", { class: "quiet" }, field.applying ? `not set: ${visible(field.applying)}` : "not set"),
            field.message ? h("p", { class: "wrong", role: "alert" }, "✕ ", visible(field.message)) : null),
        ])) : null,
        h("div", { class: "results" },
          diffOf(data.diff),
          list(`Limits under policy ${visible(data.policy)}`, data.limits, "limits"),
          list("Unknown to boolab, kept as it is", data.extra.map((one) => `${one.name}: ${one.value}`), "extra"))));
  });
}

// A prompt without the line breaks within its paragraphs. Lists, headings, quotes, tables and code keep theirs.
function reflowed(text) {
  if (text.includes("```")) return text;
  return text.replace(/(\S)[ \t]*\r?\n(?=[A-Za-z("'`])/g, (all, before, at) => (/^\s*([-*+#>|]|\d+[.)])/.test(lineBefore(text, at)) ? all : `${before} `));
}

const lineBefore = (text, at) => text.slice(text.lastIndexOf("\n", at) + 1, at + 1);

function diffOf(lines) {
  return lines.length ? h("section", { class: "diff" }, h("h4", {}, `Saving removes ${plural(onlyOld(lines), "line")}, adds ${count(onlyNew(lines))}`), diffTable(lines, "Lines that saving changes")) : null;
}

function list(title, lines, name) {
  return lines.length ? h("section", { class: name }, h("h4", {}, title), h("ul", {}, lines.map((line) => h("li", { class: "said" }, visible(line))))) : null;
}

export default { render };

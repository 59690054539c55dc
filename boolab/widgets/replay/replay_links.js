// A link to a step, and the code that opens it.

const codeFor = (data, step) => data.code.join(String(step));

// Put a text on the clipboard; where the page may not, as in the frame of an exported notebook, by the older way.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea", { value: text, class: "only-read", "aria-hidden": "true" });
    const before = document.activeElement;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    before?.focus({ preventScroll: true });
    return done;
  }
}

// Buttons "Copy link" and "As code". `link()` is the address of the step, or null where a page has none of its own.
function linksOf(data, { step, link, say }) {
  const code = h("pre", { class: "code said" });
  const place = h("section", { class: "as-code", hidden: true, "aria-label": "Python that opens this step" }, code);
  const show = () => {
    if (!place.hidden) fill(code, codeFor(data, step()));
  };
  const codeButton = h("button", {
    type: "button", class: "show-code", "aria-expanded": "false",
    onclick: () => {
      place.hidden = !place.hidden;
      codeButton.setAttribute("aria-expanded", String(!place.hidden));
      show();
    },
  }, h("span", { class: "word" }, "As "), h("span", { class: "short-name" }, "code"));
  const close = () => !place.hidden && (codeButton.click(), true);
  const copy = async (text, what) => say((await copied(text)) ? `${what} copied` : `${what} could not be copied: choose “As code”`);
  place.append(h("button", { type: "button", class: "copy-code", onclick: () => copy(codeFor(data, step()), "code") }, "Copy code"));
  const copyLink = () => {
    const address = link();
    return address ? copy(address, "link") : copy(codeFor(data, step()), "code");
  };
  const linkButton = h("button", { type: "button", class: "copy-link", title: "copy a link to this step (c); in a notebook, the code that opens it", onclick: copyLink }, h("span", { class: "word" }, "Copy "), h("span", { class: "short-name" }, "link"));
  return { buttons: [linkButton, codeButton], place, show, close, copyLink };
}

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

// In JupyterLab the address of the notebook has the run and the step: ?replay=RUN:40. The view in it that has such a run
// shows the step, also one that comes back with its kernel, or without.
const inJupyter = () => document.getElementById("jupyter-config-data") !== null;
function linkInJupyter(step, run) {
  const address = new URL(location.href);
  address.search = new URLSearchParams({ replay: `${run}:${step}` });
  address.hash = "";
  return address.href;
}
// JupyterLab changes its address while it starts: what counts is the one that was opened. It is followed once.
function askedInJupyter() {
  if (!inJupyter() || globalThis.boolabFollowed) return null;
  const opened = performance.getEntriesByType("navigation")[0]?.name ?? location.href;
  return askedBy(new URL(opened).searchParams.get("replay") ?? "");
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
  const linkButton = h("button", { type: "button", class: "copy-link", title: "copy a link to this step (c)", onclick: copyLink }, h("span", { class: "word" }, "Copy "), h("span", { class: "short-name" }, "link"));
  return { buttons: [linkButton, codeButton], place, show, close, copyLink };
}

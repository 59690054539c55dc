// What all widgets share. Read before each widget's own file, as one module with it.

// An element. Strings and numbers become text, never markup; null and false are left out. `attributes` may hold
// `class`, `style` (an object), `on...` (a listener), flags, and anything that setAttribute takes but URLs.
function h(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "rect", "circle", "polyline", "text", "title", "defs", "pattern"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "value" && !svg) element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  put(element, ...children);
  return element;
}

// Append children to an element, texts as text.
function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

// Replace what an element holds.
function fill(element, ...children) {
  element.textContent = "";
  return put(element, ...children);
}

// A text from a log with nothing in it that a reader cannot see: control characters, and marks that turn the
// direction of writing, as visible signs. Line ends and tabs stay.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
function visible(text) {
  return String(text).replace(/\r\n/g, "\n").replace(UNSEEN, (one) => {
    const code = one.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f ? "\u2421" : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
}

// The data that Python packed: compressed JSON.
async function unpacked(view) {
  const stream = new Blob([view]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// Numbers as people read them. `null` is unknown, never zero.
const GROUPED = new Intl.NumberFormat("en-US"); // made once: toLocaleString makes one for each number
const count = (n) => (n === null || n === undefined ? "?" : GROUPED.format(Math.round(n)));
const short = (n) =>
  n === null || n === undefined ? "?" : n < 1e4 ? count(n) : n < 1e6 ? `${(n / 1e3).toFixed(1)}k` : `${(n / 1e6).toFixed(1)}M`;
const money = (dollars) =>
  dollars === null || dollars === undefined ? "?" : `$${dollars.toFixed(dollars !== 0 && dollars < 0.1 ? 4 : 2)}`;
function duration(ms) {
  if (ms === null || ms === undefined) return "?";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return seconds < 3600
    ? `${Math.floor(seconds / 60)} min ${seconds % 60} s`
    : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
function percent(part, whole = 1, digits = 1) {
  return whole ? `${((100 * part) / whole).toFixed(digits).replace(/\.0$/, "")}%` : "?";
}
const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

// Take keys on an element by their name ("ArrowLeft", "shift+ArrowLeft", "e"). What is taken goes no further, because
// notebooks have shortcuts of their own; what is typed into a field is left alone, but for the keys in `inFields`.
function keys(element, handlers, inFields = []) {
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const name = (event.shiftKey && event.key.length > 1 ? "shift+" : "") + event.key;
    const field = event.target.matches?.("input:not([type=range]), select, textarea");
    if (field && !inFields.includes(name)) {
      event.stopPropagation();
      return;
    }
    const handler = handlers[name];
    if (!handler && event.key.length === 1) event.stopPropagation();
    if (!handler || (name === " " && event.target.closest?.("button, summary"))) return;
    if (handler(event) === false) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

// The keys of a slider. JupyterLab has arrows as shortcuts of its own, so they are not left to the field.
function sliderKeys(input) {
  const to = (place) => {
    const before = input.value;
    input.value = place;
    if (input.value !== before) input.dispatchEvent(new Event("input"));
  };
  const by = (steps) => () => to(Number(input.value) + steps);
  keys(input, {
    ArrowRight: by(1), ArrowUp: by(1), ArrowLeft: by(-1), ArrowDown: by(-1), PageUp: by(10), PageDown: by(-10),
    Home: () => to(0), End: () => to(input.max),
  });
}

// Set traits of a model, and send them to the kernel, if there is one.
function change(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

// A stop reason's swatch, in the look that it has in all plots.
function stopSwatch(reason) {
  const known = /^[a-z_]+$/.test(reason) ? reason : "unknown";
  return h("span", { class: "swatch", "aria-hidden": "true", style: { background: `var(--stop-${known})`, "border-color": `var(--ink-${known})` } });
}

// A stop reason as people read it: a limit by its name.
const THRESHOLDS = { doom_loop: "doom-loop threshold", error_streak: "error-streak threshold" };
const stopWords = (reason) => THRESHOLDS[reason] ?? visible(reason.replaceAll("_", " "));

// Draw the first of many things, and a button for those that follow. `draw` draws the next ones, and returns the first
// of these, or null.
function inParts(makers, size, noun, button, place) {
  let next = 0;
  const draw = () => {
    if (next === makers.length) return null;
    const added = makers.slice(next, next + size).map((make) => make());
    next += added.length;
    place(added);
    button.hidden = next === makers.length;
    button.textContent = `+ ${plural(makers.length - next, noun)}`;
    return added[0];
  };
  button.addEventListener("click", () => draw()?.querySelector("button")?.focus({ preventScroll: true }));
  return draw;
}

// Draw once per frame, however often it is requested.
function eachFrame(draw) {
  let asked = 0;
  const ask = () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      draw();
    });
  };
  ask.cancel = () => cancelAnimationFrame(asked);
  return ask;
}

// Keep keys for a widget, and for the controls beside it: in JupyterLab a letter is a shortcut wherever no field has the
// focus, and two d's delete the cell.
function ownKeys(el) {
  const mark = () => {
    for (const one of [el, el.closest(".boolab-whole")]) one?.setAttribute("data-lm-suppress-shortcuts", "true");
  };
  mark();
  requestAnimationFrame(mark); // by then it stands in the page
}

// The data of a model, unpacked now and whenever they change. An error is shown in place of what was drawn, which stays,
// hidden: the next data are drawn into it. Returns a function that ends it.
function withData(model, el, draw) {
  ownKeys(el);
  const failure = h("p", { class: "drawing-error wrong", role: "alert" });
  let latest = 0;
  const read = async () => {
    const mine = (latest += 1);
    try {
      const data = await unpacked(model.get("_data"));
      if (mine !== latest) return;
      failure.remove();
      el.classList.remove("not-drawn"); // before it is drawn: what is hidden has no width
      draw(data);
    } catch (error) {
      if (mine !== latest) return;
      el.classList.add("not-drawn");
      el.prepend(fill(failure, `This widget could not be drawn: ${error.message}`));
      console.error("This widget could not be drawn:", error);
    }
  };
  model.on("change:_data", read);
  read();
  return () => {
    latest = -1;
    model.off("change:_data", read);
  };
}

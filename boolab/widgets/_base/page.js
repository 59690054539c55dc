// Widgets in a page without a kernel: each gets a model that holds its traits, and draws itself.
// `modules` (name to module) and `views` (what to draw) come from page.py.

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
}

function mount(view, place, prepare = () => {}) {
  const data = view.data === null ? null : new DataView(bytesOf(view.data).buffer);
  const model = traitsOf({ ...view.traits, _data: data });
  prepare(model);
  const el = document.createElement("div");
  place.append(el);
  return { model, end: modules[view.module].render({ model, el }) };
}

// The address may say which theme, and which step of a run, or of a subagent's: #dark&step=40&in=agent-7
const asked = new URLSearchParams(location.hash.slice(1));
const dark = asked.has("dark") || (!asked.has("light") && matchMedia("(prefers-color-scheme: dark)").matches);
document.body.classList.toggle("dark", dark);

// Keep the step of the page's own run in the address, and make links of it.
function keepStep(model) {
  if (location.protocol === "about:") return; // the frame of a notebook, which has no address of its own
  model.linkTo = (step, run = null) => {
    const address = new URL(location.href);
    const theme = asked.has("dark") ? ["dark"] : asked.has("light") ? ["light"] : [];
    address.hash = [...theme, `step=${step}`, ...(run === null ? [] : [`in=${encodeURIComponent(run)}`])].join("&");
    return address.href;
  };
  model.keepLink = (step, run = null) => history.replaceState(null, "", model.linkTo(step, run));
  const ask = () => {
    const named = new URLSearchParams(location.hash.slice(1));
    const step = Number(named.get("step"));
    if (!Number.isInteger(step) || step < 1) return;
    if (named.has("in")) model.set("asked", { run: named.get("in"), step });
    else model.set("step", step);
  };
  ask();
  model.on("change:step", () => model.keepLink(model.get("step")));
  addEventListener("hashchange", ask);
}
const place = document.getElementById("views");
const runs = new Map(views.runs); // an object would take ids such as "constructor" for its own
const models = views.shown.map((view) => mount(view, place, view.module === "replay" ? keepStep : undefined).model);
// A run that is chosen opens in Replay below, if this file holds it.
const opened = document.createElement("div");
opened.className = "opened";
opened.setAttribute("aria-live", "polite");
place.append(opened);
let end = null;
for (const model of models) {
  model.on("change:opened", () => {
    const chosen = model.get("opened");
    end?.(); // it may be playing
    end = null;
    opened.textContent = "";
    if (!chosen) return;
    const kept = runs.get(chosen.run);
    if (kept) ({ end } = mount({ ...kept, traits: { ...kept.traits, step: chosen.step } }, opened));
    else opened.textContent = `This file does not contain the steps of ${chosen.run}: open it where the runs are.`;
    opened.scrollIntoView({ block: "nearest" });
  });
}
// In a frame of another page, such as the report: say how high this one is, so that it need not scroll by itself. That
// page may say which theme it has, and which step of which run its own address asks for: see saved_view.py.
if (parent !== window) {
  addEventListener("message", ({ source, data }) => {
    const step = source === parent && typeof data?.replay === "string" ? askedBy(data.replay) : null;
    if (step) for (const model of models) model.set("asked", step);
    if (source === parent && typeof data?.dark === "boolean") document.body.classList.toggle("dark", data.dark);
  });
  new ResizeObserver(() => {
    const height = document.body.getBoundingClientRect().height;
    parent.postMessage({ height }, "*");
  }).observe(document.body);
}

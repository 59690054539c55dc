// The desk: one unit to judge at a time, the keys, and what the answers show of each value.
const ANSWERS = ["s", "f", "u"];
const LATE_MS = 4000;

function render({ model, el }) {
  let data = null;
  let isWaiting = false; // a key was sent, and the kernel has not answered yet: what is shown may be answered already
  let late = 0;
  const verdict = h("p", { class: "verdict" });
  const about = h("p", { class: "about" });
  const bar = h("div", { class: "bar", role: "toolbar", "aria-label": "Answers" });
  const note = h("input", { class: "note-field", type: "text", "aria-label": "A note to keep with the answer", placeholder: "A note to keep with the answer; Enter keeps it", autocomplete: "off" });
  const noteLine = h("p", { class: "note-line", hidden: true }, note);
  const fault = h("p", { class: "fault wrong", role: "alert" });
  const messages = h("div", { class: "messages", "aria-live": "polite" });
  const card = h("section", { class: "card", "aria-label": "The question" });
  const side = h("section", { class: "side", "aria-label": "What the answers show" });
  const root = h(
    "div", { class: "boolab boolab-labeler", role: "group", "aria-label": "Label runs", tabindex: -1 },
    h("header", {}, verdict, about), bar, noteLine, fault, messages, h("div", { class: "main" }, card, side),
  );
  put(el, root);

  function send(key, text = "") {
    if (isWaiting || !data) return;
    isWaiting = true;
    root.classList.add("waiting");
    clearTimeout(late);
    late = setTimeout(() => fill(fault, "The kernel has not answered yet: this key may not be written."), LATE_MS);
    model.send({ key, unit: data.question?.id ?? "", text });
  }

  function press(key) {
    if (data?.phase === "asking" && data.question) {
      if (key === "n") showNote();
      else if (key === "o") toReplay();
      else send(key);
      if (ANSWERS.includes(key) || key === "z") root.focus({ preventScroll: true }); // Replay may have it, and is closed
    } else if (["asking", "paused"].includes(data?.phase) && ["q", "z"].includes(key)) send(key);
  }

  function showNote() {
    noteLine.hidden = false;
    note.value = data.question.note;
    note.focus({ preventScroll: true });
  }

  function whole() {
    return el.closest(".boolab-whole");
  }

  function toReplay() {
    const replay = whole()?.querySelector(".boolab-replay");
    replay?.focus({ preventScroll: true });
    replay?.scrollIntoView({ block: "nearest" });
  }

  keys(root, Object.fromEntries("sfuznoewq".split("").map((key) => [key, () => press(key)])));
  keys(note, {
    Enter: () => {
      noteLine.hidden = true;
      send("note", note.value);
      root.focus({ preventScroll: true });
    },
    Escape: () => {
      noteLine.hidden = true;
      root.focus({ preventScroll: true });
    },
  }, ["Enter", "Escape"]);

  // In Replay the keys that answer still do, and Escape leads back. Replay has none of them for itself.
  function inReplay(event) {
    if (root.contains(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches?.("input:not([type=range]), select, textarea") || ![...ANSWERS, "z", "w", "q"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    press(event.key);
  }
  function back(event) {
    if (event.key !== "Escape" || root.contains(event.target)) return;
    root.focus({ preventScroll: true });
    root.scrollIntoView({ block: "nearest" });
  }
  let outer = null;
  const listen = requestAnimationFrame(() => {
    outer = whole();
    outer?.addEventListener("keydown", inReplay, true);
    outer?.addEventListener("keydown", back);
  });

  function draw(given) {
    const first = data === null;
    const isNext = data?.question?.id !== given.question?.id || data?.phase !== given.phase;
    data = given;
    isWaiting = false;
    clearTimeout(late);
    root.classList.remove("waiting");
    root.dataset.phase = data.phase;
    if (isNext) noteLine.hidden = true;
    fill(fault, visible(data.fault));
    drawHead();
    drawKeys();
    fill(messages, data.messages.map((text) => h("p", { class: "said" }, visible(text))));
    if (isNext || first) drawCard();
    else drawNote();
    drawSide();
  }

  function drawHead() {
    fill(verdict, h("b", {}, visible(data.verdict)));
    fill(about,
      h("span", { class: "so-far" }, h("b", {}, plural(data.answers, "answer")), `; ${data.more}`),
      data.criterion ? h("span", { class: "said" }, "a success is: ", h("b", {}, visible(data.criterion))) : null,
      data.who ? h("span", { class: "said" }, visible(data.who)) : null,
      h("span", { class: "said" }, visible(data.file)));
  }

  function drawKeys() {
    const isAsking = data.phase === "asking" && data.question;
    bar.hidden = !isAsking;
    if (!isAsking || bar.childElementCount) return;
    put(bar, data.question.keys.map(([key, name]) => h("button", {
      type: "button", class: ANSWERS.includes(key) ? "answer" : "other", "data-key": key, "aria-keyshortcuts": key, onclick: () => press(key),
    }, h("kbd", { "aria-hidden": "true" }, key), name)));
  }

  function drawCard() {
    if (data.phase === "criterion") return drawCriterion();
    const { question } = data;
    if (!question) return fill(card, data.phase === "paused" ? paused() : data.phase === "asking" ? h("p", { class: "done" }, "No question is open.") : h("p", { class: "quiet" }, "A saved view: it has the state alone. Questions are asked where Python runs."));
    fill(card,
      h("h4", {}, visible(question.title)),
      data.plan.map((line) => h("p", { class: "plan said" }, visible(line))),
      h("dl", {},
        part("note", "Note", question.note, ""),
        part("task", "Task", question.task, "No text is on record."),
        part("message", "Last message", question.message, "None."),
        part("files", "Changed files", question.files.join("\n"), "None that is seen in the calls."),
        part("tests", "Last test output", question.tests, "None.")));
    const tests = card.querySelector(".tests dd");
    if (tests) tests.scrollTop = tests.scrollHeight; // its summary is its end
    return undefined;
  }

  function part(name, title, text, missing) {
    const attributes = text ? { class: "said", tabindex: 0, "aria-label": title, role: "region" } : { class: "quiet" };
    return h("div", { class: name, hidden: name === "note" && !text }, h("dt", {}, title), h("dd", attributes, text ? visible(text) : missing));
  }

  function drawNote() {
    card.querySelector(".note")?.replaceWith(part("note", "Note", data.question?.note ?? "", ""));
  }

  function paused() {
    return h("p", { class: "done" }, "Paused: every answer is in the file. ", h("button", { type: "button", "data-key": "q", onclick: () => send("q") }, h("kbd", { "aria-hidden": "true" }, "q"), "continue"));
  }

  function drawCriterion() {
    const field = h("input", { type: "text", "aria-label": "What a success is", placeholder: "tests pass and I would merge it", autocomplete: "off" });
    const start = () => field.value.trim() && send("start", field.value);
    keys(field, { Enter: start }, ["Enter"]);
    fill(card,
      h("h4", {}, "What is a success?"),
      h("p", { class: "quiet" }, "In a few words. It is asked once, stands in the file of labels, and above each question."),
      h("p", { class: "criterion" }, field, h("button", { type: "button", class: "start", onclick: start }, "Start")));
    return undefined;
  }

  function drawSide() {
    fill(side,
      h("h4", {}, "Shown to be kept"),
      h("p", { class: "quiet" }, `of the successes, at least, with ${data.confidence} confidence; the mark is at ${data.keepText}`),
      h("ol", {}, data.values.map((one) => h("li", { "data-verdict": one.verdict },
        h("div", { class: "row" }, h("span", { class: "name" }, one.label), h("span", { class: one.verdict === "no" ? "wrong" : "word" }, one.sign ? `${one.sign} ` : "", one.word)),
        one.verdict === "waiting" ? null : h("div", { class: "track", role: "img", "aria-label": `${one.label}: ${one.word}` },
          h("i", { class: "fill", style: { width: `${100 * one.bound}%` } }), h("i", { class: "goal", style: { left: `${100 * data.keep}%` } })),
        one.verdict === "waiting" || data.phase === "criterion" ? null : h("p", { class: "quiet" }, `${count(one.successes)} ${one.successes === 1 ? "success" : "successes"}, ${count(one.lost)} lost${one.expected ? `; about ${count(one.expected)} more answers` : ""}`)))),
      data.sources.length ? h("details", {}, h("summary", {}, "Where the answers are from"), data.sources.map((line) => h("p", { class: "said quiet" }, visible(line)))) : null);
  }

  const end = withData(model, root, draw);
  return () => {
    end();
    clearTimeout(late);
    cancelAnimationFrame(listen);
    outer?.removeEventListener("keydown", inReplay, true);
    outer?.removeEventListener("keydown", back);
  };
}

export default { render };

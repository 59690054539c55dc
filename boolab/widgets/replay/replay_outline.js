// Replay's outline: what was done in which steps, with the limits between them. Only lines in sight are in the page.

const ROW = 21; // the height of a line
const SIGNS = { limit: "⚑", stop: "■", compaction: "⇊", subagent: "›" };

// `onItem(n)` gets the first step of an item, `onBetween(row)` what stands between steps, `onTurn(n)` a turn; `openRun(index)`
// opens a subagent's run.
function outlineOf(data, { onItem, onBetween, onTurn, openRun }) {
  const list = h("div", { class: "rows" });
  const all = h("button", { type: "button", class: "all-turns link", hidden: true, onclick: () => onTurn(null) }, "all turns");
  const scroller = h("div", { class: "scroller" }, list);
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Kinds of calls" });
  const element = h("nav", { class: "outline", "aria-label": "Outline" }, all, scroller, chips);
  const manyTurns = data.outline.length > 1;
  let rows = [];
  let items = []; // the rows that are items, and their first steps
  let firsts = [];
  let drawn = "";
  let now = -1;
  let shown = 1;
  // What the page would have to be laid out for, kept: it is asked for in every frame.
  let top = 0;
  let height = 400;

  function drawNow() {
    const from = Math.max(0, Math.floor(top / ROW) - 4);
    const to = Math.min(rows.length, Math.ceil((top + height) / ROW) + 4);
    if (`${from} ${to}` === drawn) {
      const before = list.querySelector("[aria-current]");
      before?.removeAttribute("aria-current");
      before?.setAttribute("tabindex", "-1"); // one stop on the way through the page: up and down lead to the others
      const current = list.querySelector(`[data-row="${now}"]`);
      current?.setAttribute("aria-current", "step");
      current?.setAttribute("tabindex", "0");
      return;
    }
    drawn = `${from} ${to}`;
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.row : null;
    fill(list, rows.slice(from, to).map((row, i) => rowOf(row, from + i)));
    if (focused === null) return;
    (list.querySelector(`[data-row="${focused}"]`) ?? element.closest("[tabindex]"))?.focus({ preventScroll: true });
  }
  const draw = eachFrame(drawNow);
  scroller.addEventListener("scroll", () => {
    top = scroller.scrollTop;
    draw();
  });
  const sized = new ResizeObserver(([{ contentRect }]) => {
    height = contentRect.height || height;
    // Before it was laid out, it did not scroll.
    scroller.scrollTop = Math.min(top, rows.length * ROW - height);
    top = scroller.scrollTop;
    show(shown);
  });
  sized.observe(scroller);

  const line = (at, attributes, ...content) => h("button", { type: "button", style: { top: `${at * ROW}px` }, "data-row": at, ...attributes }, content);

  function rowOf({ item, turn, n, between, child }, at) {
    if (turn) {
      return line(at, { class: "turn", "data-turn": n, title: visible(turn.title), onclick: () => onTurn(n) }, visible(turn.title) || `turn ${n + 1}`);
    }
    if (between) {
      const where = between.after ? `after step ${count(between.after)}` : "before the first step";
      return line(
        at, { class: `between ${between.kind}`, tabindex: "-1", title: `${visible(between.name)}, ${where}`, onclick: () => onBetween(between) },
        h("span", { class: "at", "aria-hidden": "true" }), h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[between.kind]),
        h("span", { class: "label" }, visible(between.name)),
      );
    }
    if (child !== undefined) {
      const { header, steps } = data.children[child].run;
      return line(
        at, { class: "child", tabindex: "-1", title: `subagent: ${visible(header.title)}, ${visible(header.outcome.label)}`, onclick: () => openRun(child) },
        h("span", { class: "at", "aria-hidden": "true" }), h("span", { class: "sign", "aria-hidden": "true" }, SIGNS.subagent),
        h("span", { class: "label" }, visible(header.title)), h("span", { class: "size" }, plural(steps.length, "step")),
      );
    }
    const current = at === now;
    const steps = item.first === item.last ? count(item.first) : `${count(item.first)}–${count(item.last)}`;
    return line(
      at,
      {
        class: "item", tabindex: current ? "0" : "-1", "data-first": item.first, "data-kind": item.kind, "aria-current": current ? "step" : null,
        title: `${visible(item.label)} (${item.first === item.last ? "step" : "steps"} ${steps})`, onclick: () => onItem(item.first),
      },
      h("span", { class: "at", "aria-hidden": "true" }, steps),
      h("span", { class: `dot kind-${item.kind}`, "aria-hidden": "true" }),
      h("span", { class: "label" }, visible(item.label).replace(/\s+/g, " ")),
      item.repeats > 0 && h("span", { class: "repeats", "aria-label": `, ${plural(item.repeats, "repeat")}` }, `↻ ${count(item.repeats)}`),
      item.errors > 0 && h("span", { class: "failed", "aria-label": `, ${plural(item.errors, "failure")}` }, item.errors > 1 ? `✕ ${count(item.errors)}` : "✕"),
    );
  }

  // Which items there are: of the chosen steps, of the chosen kind.
  function look({ first, last, kind, narrowed, counts, onKind, jumpKind }) {
    rows = [];
    const between = kind ? [] : data.between.filter((one) => one.after >= first - 1 && one.after <= last);
    const started = kind && kind !== "subagent" ? [] : data.children.map(({ step }, child) => ({ step, child })).filter(({ step }) => step !== null);
    started.sort((a, b) => a.step - b.step);
    let next = 0;
    let nextChild = 0;
    for (const [n, turn] of data.outline.entries()) {
      const chosen = turn.items.filter((item) => item.last >= first && item.first <= last && (!kind || item.kind === kind));
      const full = data.turns?.[n] ?? turn;
      if ((full.first ?? chosen[0]?.first ?? 0) > last || (full.last ?? Infinity) < first) continue;
      if (manyTurns) rows.push({ turn: { title: turn.title ?? full.title }, n });
      for (const item of chosen) {
        while (next < between.length && between[next].after < item.first) rows.push({ between: between[next++] });
        rows.push({ item });
        while (nextChild < started.length && started[nextChild].step < item.first) nextChild += 1;
        while (nextChild < started.length && started[nextChild].step <= item.last) rows.push({ child: started[nextChild++].child });
      }
    }
    while (next < between.length) rows.push({ between: between[next++] });
    items = rows.flatMap((row, at) => (row.item ? [at] : []));
    firsts = items.map((at) => rows[at].item.first);
    all.hidden = !narrowed;
    list.style.height = `${rows.length * ROW}px`;
    drawn = "";
    drawChips(kind, counts, onKind, jumpKind);
    draw();
  }

  function drawChips(kind, counts, onKind, jumpKind) {
    const name = (one) => visible(data.kinds[one] ?? one);
    const step = (direction, sign, word) =>
      h("button", { type: "button", class: `${word}-kind`, "aria-label": `${word} of ${name(kind)}`, title: `${word} of ${name(kind)}`, onclick: () => jumpKind(direction) }, sign);
    const focused = chips.contains(document.activeElement) ? document.activeElement.dataset.kind : null;
    fill(
      chips,
      Object.keys(data.kinds).filter((one) => one in counts).map((one) =>
        h(
          "button", { type: "button", "data-kind": one, "aria-pressed": String(kind === one), title: `only ${name(one)}`, onclick: () => onKind(one) },
          h("span", { class: `dot kind-${one}`, "aria-hidden": "true" }), name(one), h("b", {}, ` ${count(counts[one])}`),
        ),
      ),
      kind && [step(-1, "‹", "previous"), step(1, "›", "next")],
    );
    if (focused) chips.querySelector(`[data-kind="${CSS.escape(focused)}"]`)?.focus();
  }

  function show(n) {
    shown = n;
    const near = items[lastUpTo(firsts, n)] ?? -1;
    now = near >= 0 && rows[near].item.first <= n && n <= rows[near].item.last ? near : -1;
    const at = now * ROW;
    if (now >= 0 && (at < top || at + ROW > top + height)) {
      top = Math.max(0, Math.min(at - height / 2, rows.length * ROW - height));
      scroller.scrollTop = top;
    }
    drawNow();
  }

  // The step of the item before or after the current one; focus goes with it.
  function beside(direction) {
    let at = now + direction;
    while (rows[at] && !rows[at].item) at += direction;
    return rows[at]?.item.first ?? null;
  }

  const follow = () => requestAnimationFrame(() => list.querySelector("[aria-current]")?.focus({ preventScroll: true }));
  const end = () => {
    draw.cancel();
    sized.disconnect();
  };
  return { element, look, show, beside, follow, end };
}

// Replay's transcript: all steps of a run and what stands between them, of which only those in sight are in the page. A
// row is as high as it turns out to be; until it was drawn, its height is estimated from its texts.

const BETWEEN = 40; // the usual height of what stands between steps
const BEYOND = 300; // pixels that are drawn above and below what is in sight
const LEAD = 48; // how far below the upper edge a step is put that was not in sight

// About how high a step is: its text, and for each call a head and the lines of its result that are not folded.
function likelyHeight(step) {
  const lines = (text, most) => {
    let n = 1;
    for (let at = text.indexOf("\n"); at >= 0 && n < most; at = text.indexOf("\n", at + 1)) n += 1;
    return Math.min(most, Math.max(n, Math.ceil(text.length / 100)));
  };
  const calls = step.calls.map((call) => (call.missing?.arguments !== undefined ? 36 : 70) + (call.result && !call.same_result_as ? 17 * lines(call.result, 6) : 0));
  return 40 + 19 * (step.text ? lines(step.text, 12) : 1) + calls.reduce((sum, one) => sum + one, 0);
}

// The heights of rows, their sums, and the row at a height, each in logarithmic time.
function heightsOf(usual) {
  const n = usual.length;
  const each = Float64Array.from(usual);
  const tree = new Float64Array(n + 1);
  for (let i = 1; i <= n; i += 1) {
    tree[i] += each[i - 1];
    const up = i + (i & -i);
    if (up <= n) tree[up] += tree[i];
  }
  let highest = 1;
  while (highest * 2 <= n) highest *= 2;
  return {
    of: (i) => each[i],
    above(i) {
      let sum = 0;
      for (let at = i; at > 0; at -= at & -at) sum += tree[at];
      return sum;
    },
    set(i, height) {
      const more = height - each[i];
      each[i] = height;
      if (more) for (let at = i + 1; at <= n; at += at & -at) tree[at] += more;
      return more;
    },
    rowAt(y) {
      let at = 0;
      let left = Math.max(0, y);
      for (let bit = highest; bit; bit >>= 1) {
        if (at + bit <= n && tree[at + bit] <= left) left -= tree[(at += bit)];
      }
      return Math.min(at, n - 1);
    },
  };
}

// `stepRow(n)` makes a step's row and what ends it; `onStep(n)` gets the step that was chosen in it; `openRun(index)`
// opens a subagent's run; `pattern()` is what is searched for.
function transcriptOf(data, { stepRow, onStep, openRun, pattern }) {
  const { rows, rowOfStep } = rowsOfTranscript(data);
  const heights = heightsOf(rows.map((row) => (row.step ? likelyHeight(data.steps[row.step - 1]) : BETWEEN)));
  const block = h("div", { class: "drawn" });
  const space = h("div", { class: "space" }, block);
  const element = h("section", { class: "transcript", tabindex: "0", "aria-label": "Transcript" }, space);
  const drawn = new Map(); // by its place: the element of a row, and what ends it
  let current = 1;
  let top = 0;
  let height = 0;
  let first = 0;
  let missed = false; // whether a step was chosen while it was not laid out

  function make(i) {
    const row = rows[i];
    const made = row.step ? stepRow(row.step) : { element: betweenOf(row.between, pattern(), openRun), end() {} };
    if (row.step) {
      made.element.addEventListener("click", (event) => {
        if (!event.target.closest("button, a, summary, input") && getSelection().isCollapsed) onStep(row.step);
      });
      mark(made.element, row.step === current);
    }
    sized.observe(made.element);
    return made;
  }

  function drop(i) {
    const { element: row, end } = drawn.get(i);
    drawn.delete(i);
    sized.unobserve(row);
    end();
    if (row.contains(document.activeElement)) element.focus({ preventScroll: true });
    row.remove();
  }

  // The tabulator stops in the chosen step only: to go through those of all steps would have no end.
  function mark(row, chosen) {
    for (const one of row.querySelectorAll("button, summary")) one.tabIndex = chosen ? 0 : -1;
    if (chosen) row.setAttribute("aria-current", "step");
    else row.removeAttribute("aria-current");
  }

  // The row that stays where it is when all rows get other heights: the chosen step, if it is in sight.
  function heldRow() {
    const i = rowOfStep[current - 1];
    if (i === undefined) return heights.rowAt(top);
    const from = heights.above(i);
    return from < top + height && from + heights.of(i) > top ? i : heights.rowAt(top);
  }

  // Draw what is in sight. `anchor` is the row that stays where it is when others turn out higher than was thought.
  function drawNow(anchor = heights.rowAt(top)) {
    if (!rows.length || !height || !element.clientHeight) return; // what is not laid out has no heights
    const offset = heights.above(anchor) - top;
    for (let pass = 0; pass < 4; pass += 1) {
      first = heights.rowAt(top - BEYOND);
      const last = heights.rowAt(top + height + BEYOND);
      for (const i of [...drawn.keys()]) if (i < first || i > last) drop(i);
      let after = null;
      let made = false;
      for (let i = last; i >= first; i -= 1) {
        if (!drawn.has(i)) {
          drawn.set(i, make(i));
          block.insertBefore(drawn.get(i).element, after);
          made = true;
        }
        after = drawn.get(i).element;
      }
      if (!made && pass) break;
      let changed = false;
      for (const [i, row] of drawn) changed = heights.set(i, row.element.offsetHeight) !== 0 || changed;
      top = Math.max(0, Math.min(heights.above(anchor) - offset, heights.above(rows.length) - height));
      if (!changed) break;
    }
    space.style.height = `${heights.above(rows.length)}px`;
    block.style.transform = `translateY(${heights.above(first)}px)`;
    if (Math.abs(element.scrollTop - top) >= 1) element.scrollTop = top;
  }
  const draw = eachFrame(() => {
    if (!element.clientHeight) return; // a notebook takes cells out of the page that are not in sight
    if (Math.abs(element.scrollTop - top) >= 1) top = element.scrollTop;
    drawNow();
  });
  element.addEventListener("scroll", draw);
  const sized = new ResizeObserver((entries) => {
    const mine = entries.some((one) => one.target === element);
    if (!mine) return draw();
    height = element.clientHeight;
    if (!drawn.size || missed) return show(current);
    return drawNow(heldRow()); // of another width, or back in the page and scrolled to its beginning
  });
  sized.observe(element);

  // Choose a step. One that is not in sight is put near the upper edge, with the end of the one before it.
  function show(n, again = false) {
    current = n;
    for (const { element: row } of drawn.values()) if (row.dataset.step) mark(row, Number(row.dataset.step) === n);
    const i = rowOfStep[n - 1];
    missed = !element.clientHeight;
    if (i === undefined || missed || !height) return;
    if (again && drawn.has(i)) drop(i);
    const from = heights.above(i);
    const seen = drawn.has(i) && from >= top && from + Math.min(heights.of(i), height - LEAD) <= top + height;
    if (!seen) top = Math.max(0, from - LEAD);
    drawNow(seen ? heights.rowAt(top) : i);
  }

  // Draw all rows again, such as after a search.
  function again() {
    for (const i of [...drawn.keys()]) drop(i);
    drawNow();
  }

  // Scroll so that an element within a step can be seen.
  function reveal(inner, n) {
    drawNow(rowOfStep[n - 1]); // it may have been unfolded
    const down = inner.getBoundingClientRect().top - element.getBoundingClientRect().top;
    if (down >= 0 && down < height - 30) return;
    top = Math.max(0, top + down - 80);
    drawNow();
  }

  // Scroll to the first row between the steps that follows one, and return it.
  function follows(after) {
    const i = after ? rowOfStep[after - 1] + 1 : 0;
    top = Math.max(0, heights.above(i) - 2 * LEAD);
    drawNow(i);
    return drawn.get(i)?.element ?? null;
  }

  const rowElement = (n) => drawn.get(rowOfStep[n - 1])?.element ?? null;
  function end() {
    draw.cancel();
    for (const i of [...drawn.keys()]) drop(i);
    sized.disconnect();
  }
  return { element, show, again, reveal, follows, rowElement, end };
}

// The rows of the transcript: each step, and after it what stands between it and the next.
function rowsOfTranscript(data) {
  const rows = [];
  const rowOfStep = [];
  let next = 0;
  const upTo = (n) => {
    while (next < data.between.length && data.between[next].after <= n) rows.push({ between: data.between[next++] });
  };
  upTo(0);
  for (let n = 1; n <= data.steps.length; n += 1) {
    rowOfStep.push(rows.length);
    rows.push({ step: n });
    upTo(n);
  }
  upTo(Infinity);
  return { rows, rowOfStep };
}

function betweenOf({ kind, title, text, details, about, child }, pattern, openRun) {
  const shown = details && h("div", { class: "said" }, marked(details, pattern));
  return h(
    "div", { class: `row between ${kind}` },
    h("div", { class: "line" }, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[kind]), h("div", {}, kind === "subagent" ? h("button", { type: "button", class: "link opens", onclick: () => openRun(child) }, h("b", {}, visible(title))) : h("b", {}, visible(title)), text && h("span", { class: "quiet" }, ` ${visible(text)}`)), h("span", { class: "rule", "aria-hidden": "true" })),
    kind === "compaction" && details ? h("details", { open: Boolean(pattern) && hitsIn(details, pattern) > 0 }, h("summary", {}, visible(about || "its summary")), shown) : shown,
  );
}

// Running agents: a row for each, and where a limit would stop one.
const COLUMNS = ["agent", "turn", "steps", "calls", "tokens", "cost", "equal calls", "next limit", "task"];
const NUMBERS = new Set(["turn", "steps", "calls", "tokens", "cost", "equal calls"]);

function render({ model, el }) {
  let data = null;
  let announced = -1;
  const headline = h("h3");
  const about = h("p", { class: "about" });
  const toggle = h("button", { class: "toggle", type: "button", onclick: () => change(model, { following: !model.get("following") }) });
  const alerts = h("section", { class: "alerts", "aria-label": "Alerts" });
  const table = h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Running agents" });
  const news = h("span", { class: "only-read", "aria-live": "polite" });
  const root = h(
    "div",
    { class: "boolab boolab-watch_view", role: "group", "aria-label": "Running agents" },
    h("header", {}, headline, about, toggle), alerts, table, news,
  );
  put(el, root);
  keys(table, { ArrowDown: () => move(1), ArrowUp: () => move(-1) });

  function active() {
    return root.getRootNode().activeElement;
  }

  function move(by) {
    const buttons = [...table.querySelectorAll("button")];
    const place = buttons.indexOf(active());
    buttons[Math.min(Math.max(place + by, 0), buttons.length - 1)]?.focus();
  }

  function open(run, step) {
    change(model, { opened: { run, step: Math.max(1, step) } });
  }

  function draw(given) {
    data = given;
    const [what, sign] = verdict();
    fill(headline, h("b", {}, count(data.n_rows)), ` running ${data.n_rows === 1 ? "agent" : "agents"}${what && "; "}`, what && h("span", { class: sign ? "wrong" : null }, `${sign}${what}`));
    fill(about, [
      h("span", { class: "state" }, data.following ? "following" : data.still ? "saved view" : "stopped"),
      h("span", {}, plural(data.files, "file")),
      data.rule === null ? null : h("span", { class: "said" }, `${plural(data.n_alerts, "alert")} of ${visible(data.rule)}`),
    ].filter(Boolean));
    toggle.hidden = Boolean(data.still);
    fill(toggle, data.following ? "stop following" : "follow again");
    drawAlerts();
    drawTable();
    if (announced >= 0 && data.n_alerts > announced) fill(news, `Alert: ${visible(data.alerts[0].text)}`);
    announced = data.n_alerts;
  }

  // How many of the agents a limit would stop, and the sign of that.
  function verdict() {
    if (data.rule === null || !data.n_rows) return ["", ""];
    if (!data.n_fired) return ["no limit would stop one yet", ""];
    return [`a limit would stop ${data.n_rows === 1 ? "it" : `${count(data.n_fired)} of them`}`, "✕ "];
  }

  function drawAlerts() {
    fill(alerts, !data.alerts.length ? null : [
      h("h4", {}, "Alerts: the agents continue"),
      h("ul", {}, data.alerts.slice(0, 6).map((one) => h("li", { "data-kind": one.kind },
        h("time", { class: "quiet" }, new Date(1000 * one.at).toLocaleTimeString("en-GB")),
        stopSwatch(one.reason),
        h("button", { class: "link said", type: "button", "data-alert": `${one.run} ${one.step}`, onclick: () => open(one.run, one.step) },
          one.kind === "withdrawn" ? "withdrawn: " : "", visible(one.text))))),
    ]);
  }

  function drawTable() {
    const kept = { top: table.scrollTop, left: table.scrollLeft };
    const focused = active()?.dataset?.run;
    if (!data.rows.length) {
      fill(table, h("p", { class: "quiet" }, "No agent is running here. An agent appears when its log is written to."));
      return;
    }
    const opened = model.get("opened")?.run;
    fill(
      table,
      h("table", { "aria-label": "Running agents" },
        h("thead", {}, h("tr", {}, COLUMNS.map((name) => h("th", { scope: "col", class: NUMBERS.has(name) ? "number" : null }, name)))),
        h("tbody", {}, data.rows.map((row) => h("tr", { class: row.reason ? "fired" : null, onclick: (event) => event.target.closest("button") || open(row.run_id, row.step) },
          h("th", { scope: "row", style: { "padding-left": `${10 + 18 * Math.min(row.depth, 6)}px` } },
            h("button", { class: "link said", type: "button", "data-run": row.run_id, title: `Open in Replay: ${visible(row.title)}`, "aria-current": opened === row.run_id ? "true" : null, onclick: () => open(row.run_id, row.step) },
              row.depth ? h("span", { class: "quiet", "aria-hidden": "true" }, "↳ ") : null, visible(row.name))),
          h("td", { class: "number" }, count(row.turn)),
          h("td", { class: "number steps" }, count(row.steps)),
          h("td", { class: "number" }, count(row.tool_calls)),
          h("td", { class: "number" }, short(row.tokens)),
          h("td", { class: "number" }, money(row.cost_usd)),
          h("td", { class: "number" }, count(row.repeat_streak)),
          h("td", { class: "limit" }, limit(row)),
          h("td", { class: "task said" }, visible(row.task)))))),
      data.n_rows > data.rows.length ? h("p", { class: "quiet" }, `and ${count(data.n_rows - data.rows.length)} more`) : null,
    );
    table.scrollTop = kept.top;
    table.scrollLeft = kept.left;
    if (focused) [...table.querySelectorAll("button")].find((one) => one.dataset.run === focused)?.focus({ preventScroll: true });
  }

  function limit(row) {
    const [next] = row.limits;
    const text = row.state || (next ? next.text : "");
    return [
      next ? h("div", { class: "gauge", role: "img", "aria-label": next.text, title: row.limits.map((one) => one.text).join("\n") },
        h("i", { style: { width: `${100 * next.share}%` }, class: next.share >= 1 ? "full" : next.share >= 0.8 ? "near" : null })) : null,
      h("span", { class: row.reason ? "wrong" : row.state ? "quiet" : null }, row.reason ? stopSwatch(row.reason) : null, text),
      row.state && next && !row.reason ? h("span", { class: "quiet" }, `, ${next.text}`) : null,
    ];
  }

  const redraw = () => data && drawTable();
  model.on("change:opened", redraw);
  const end = withData(model, root, draw);
  return () => {
    end();
    model.off("change:opened", redraw);
  };
}

export default { render };

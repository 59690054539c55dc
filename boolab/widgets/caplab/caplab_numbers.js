// The answer in a sentence, and four numbers below it: each with its base, and its bound or its measure.

const NO_LIMIT = "no limit";

function span(lower, upper) {
  return lower === upper ? count(lower) : `${count(lower)}\u2013${count(upper)}`;
}

function amount(saved, value) {
  return saved.measure === "cost" ? money(value) : short(value);
}

// A share that is promised, rounded down: 95% is at least 95%.
function promised(share) {
  return `${(Math.floor(share * 1000 + 1e-9) / 10).toFixed(1)}%`;
}

function confidence(base) {
  return `${(100 * base.confidence).toFixed(1).replace(/\.0$/, "")}%`;
}

function verdict({ answer }) {
  const [first, rest] = answer.verdict;
  return h("p", { class: "verdict" }, visible(first), rest ? h("span", {}, ` ${visible(rest)}`) : null);
}

function keptNumber({ base, answer }) {
  const { kept } = answer;
  const shares = [...new Set([percent(kept.lower, kept.of), percent(kept.upper, kept.of)])].join("\u2013");
  return {
    key: "kept",
    label: base.proxy ? "Ended by themselves (proxy), kept" : "Successes kept",
    value: kept.of ? span(kept.lower, kept.upper) : "none",
    of: kept.of ? `of ${count(kept.of)}, ${shares}` : "to keep",
    below: kept.of ? `at least ${promised(answer.at_least)} with ${confidence(base)} confidence` : null,
  };
}

function savedNumber({ answer }) {
  const [saved, other] = answer.saved;
  const known = saved.share !== null;
  const also = other && other.share !== null ? `and ${percent(other.saved, other.of)} of the ${other.label}` : "counted on record";
  return {
    key: `saved-${saved.measure}`,
    label: `${saved.label[0].toUpperCase()}${saved.label.slice(1)} saved`,
    value: known ? percent(saved.saved, saved.of) : "?",
    of: known ? `${amount(saved, saved.saved)} of ${amount(saved, saved.of)}` : "not on record",
    below: also,
  };
}

function stoppedNumber({ base, answer }) {
  const { n, failed, succeeded } = answer.cut;
  const noun = base.proxy ? "that had ended by themselves" : succeeded === 1 ? "success" : "successes";
  const lost = succeeded ? h("span", { class: "wrong" }, `\u2715 ${count(succeeded)} ${noun}`) : `no ${base.proxy ? "run that had ended by itself" : "success"}`;
  return {
    key: "cut",
    label: "Runs stopped",
    value: count(n),
    of: `of ${count(base.runs)}`,
    below: [failed ? `${plural(failed, "failure")}, ` : "", lost],
  };
}

function tradeNumber({ answer }) {
  const [saved] = answer.saved;
  const { each, costs, poor } = answer.trade;
  return {
    key: "trade",
    label: `${saved.label[0].toUpperCase()}${saved.label.slice(1)} saved per lost success`,
    value: each === null ? "\u2013" : each.split(" ")[0],
    of: each === null ? "no success is lost" : `${poor ? "below" : "not below"} the even trade`,
    below: costs === null ? null : `a success costs ${costs} on record`,
  };
}

function numbers(data) {
  const cells = [keptNumber(data), savedNumber(data), stoppedNumber(data), tradeNumber(data)];
  return h("dl", { class: "numbers" }, cells.map(({ key, label, value, of, below }) =>
    h("div", { "data-key": key }, h("dt", {}, label),
      h("dd", {}, h("strong", {}, value), " ", h("span", {}, of), below ? h("span", { class: "below" }, below) : null))));
}

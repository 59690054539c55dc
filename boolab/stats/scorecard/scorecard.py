"""How well stop rules separate runs that fail from runs that do not, and what stopping there would have saved and cost.

An alarm is a run in which the rule fires. It is true if the run is positive: it failed, or has the property that the
user names. A rule is judged on the runs for which both are known.

Tasks are the units of all intervals: the runs of one may depend on each other in any way. Shares, of runs and of steps,
have the interval of Clopper and Pearson for whole tasks (`boolab.stats.intervals`). The lift, which is none, has the
percentiles of resampled tasks, which are valid for many tasks none of which has a large part of all, or that of the
precision where it is wider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from boolab.core.text import count, shorten
from boolab.core.types import Scope
from boolab.display.numbers import format_all, level, percent
from boolab.errors import SettingError
from boolab.frames.data_set import attach_set
from boolab.frames.dtypes import FLOAT, INT, TEXT
from boolab.limits.function_rule import AnyRule
from boolab.limits.learned.models import BILLION
from boolab.limits.learned.rule import LearnedRule
from boolab.limits.stop import Threshold
from boolab.stats.finding import Finding, frame_of, pairs
from boolab.stats.intervals import check_confidence, interval_columns
from boolab.stats.scorecard.alarms import NOT_REPORTED, watches_repeats
from boolab.stats.scorecard.metrics import (
    CAP,
    CLEAN,
    COUNTS,
    LIFT,
    LOST_COLUMNS,
    NOT_ENDED,
    RATIOS,
    UNNAMED,
    GroupScores,
    Material,
    Positive,
    RuleAlarms,
    Scores,
    Truth,
    decide_material,
    material_of,
    scores_of,
    truth_of,
    units_in,
)
from boolab.stats.trade import TRADE, Trade
from boolab.stats.units import cluster_notes, keys_of, split_groups
from boolab.whatif.question import listed_rules
from boolab.whatif.recordings import Recorded
from boolab.whatif.step_table import Ints, check_scope

_COLUMNS: Final[Mapping[str, str]] = {
    "rule": TEXT,
    **dict.fromkeys(COUNTS, INT),
    **dict.fromkeys(interval_columns(*RATIOS), FLOAT),
    **dict.fromkeys(("base_rate", *LIFT), FLOAT),
    "saved_steps": INT,
    **dict.fromkeys(("saved_steps_low", "saved_steps_high"), FLOAT),
    **dict.fromkeys(("saved_steps_on_true_alarms", "saved_tool_calls", "saved_tokens"), INT),
    "saved_cost_usd": FLOAT,
    **dict.fromkeys((*LOST_COLUMNS, *CAP), INT),
    **TRADE,
    **dict.fromkeys(("converged", *CLEAN, "n_unknown"), INT),
    **dict.fromkeys(("unit", "positive_is"), TEXT),
    "confidence": FLOAT,
}
_TABLE: Final = (
    *("rule", "n_runs", "alarms", "true_alarms", "precision", "lift", "recall", "saved_steps"),
    "same_kept_cap_saved_steps",
)
_MAX_SENTENCES: Final = 12  # rows that get sentences
_MAX_NAMED: Final = 6  # rules in a note
_DETECTED: Final = ("doom_loop", "error_streak", "stuck")


def scorecard(
    runs: Recorded,
    rules: AnyRule | Iterable[AnyRule],
    *,
    positive: Positive | None = None,
    by: str | Sequence[str] | None = None,
    scope: Scope = "auto",
    converged: bool = False,
    confidence: float = 0.95,
) -> Finding:
    """How well stop rules separate runs that fail from runs that do not, and what they would have saved and cost.

    An *alarm* is a run in which the rule fires after a step, in any turn. A *positive* is a run that failed, by its
    label. Where no run of a group has a label, a run that did not end by itself is positive; `positive_is` and every
    sentence report it. Where turns have labels of their own, each turn is judged as a run. Runs without a label are
    left out; a rule's row also leaves out runs where a counter it needs is unknown.

    An alarm *converged* if the repeated call was work and not a loop: later in the same scope (the turn, or with
    `scope="run"` the run) the same call comes again, with a result that is known to be no error and whose content
    differs from that of the call's last result before the alarm. Calls are the same by the rule's identity, without
    results. This needs the steps after the alarm, so no live rule could use it.

    Args:
        runs: A run, or runs; or a table with a row for each step, as `recording_df` makes it, or the path of one
            (`.parquet`, `.jsonl`, or a folder of them), or of a store.
        rules: Stop rules, or functions of `prefix.steps` (see `counterfactual`), a row for each.
        positive: What is to be found, if not failure: the name of a setting that holds it (an entry of `Run.settings`),
            a mapping or Series from run ids, or a callable that takes a run. True, False, or None for unknown; runs
            that a mapping does not name, or that lack the setting, are unknown. Of a table, a column or a mapping.
        by: A column of `runs_df`, or of the table, or several, to separate groups: an agent, a model, a swept setting.
        scope: Where counters start anew: see `counterfactual`.
        converged: Whether an alarm that converged is a false one, whatever the run's label. Not for a table.
        confidence: Of the two-sided intervals.

    Returns:
        A finding whose frame has one row for each group and rule. What is undefined (no alarms, no positives) or not
        known is NA.

        - the columns of `by`, and `rule`.
        - `n_runs` that the rule is judged on, `n_positive` of them, `alarms`, of which `true_alarms` and
          `false_alarms`; `missed` positives without a true alarm.
        - `precision` (true alarms of alarms), `recall` (true alarms of positives) and `false_alarm_rate` (the share of
          all other runs with an alarm), each with `_low` and `_high`: Clopper-Pearson, where several runs share a task
          for whole tasks (`boolab.stats.intervals`).
        - `base_rate`: the share of positives, which is the precision of random alarms; `lift`: the precision over it,
          with a bootstrap interval that is at least as wide as that of the precision over the base rate.
        - `saved_steps` (`_low`, `_high`: of the share of all steps), `saved_tool_calls`, `saved_tokens`,
          `saved_cost_usd`: what the scopes that are stopped would have used after the stop, in total over all alarms
          (tokens and cost: over runs that report them); `saved_steps_on_true_alarms`.
        - `successes`, and how many the rule would have stopped: at most `successes_lost_upper` (all that it stops), at
          least `successes_lost_lower` (calls follow the stop in the last turn). A success is a label; with the proxy it
          is a run that ended by itself.
        - `same_kept_cap`: the smallest plain cap on steps (`max_steps`, 1 at least) that keeps as many successes of the
          same runs as the rule certainly keeps, and `same_kept_cap_saved_steps`, what it saves. NA without a success.
        - what successes cost, where the rule keeps what it certainly keeps: `steps_per_success` on record and
          `steps_per_kept_success` under the rule; `saved_steps_per_lost_success`; `even_trade`, which is that over
          `steps_per_success`: above 1 the steps saved would buy more successes than are lost (docs/terms.md: trade).
          `cost_per_success_usd` and `cost_per_kept_success_usd`, where all runs report their cost.
        - `converged`: how many alarms did; NA for rules that watch no repeats, and from a table, which has no results.
        - `clean_threshold`: for a rule that is one `counter >= n`, the smallest n without a false alarm in these runs:
          one more than the counter's largest value at a boundary of any negative run, in the counter's own units
          (micro-dollars, milliseconds), and at least what the rule accepts. NA where there is no negative run, or the
          counter is unknown in one. `_low` and `_high` are percentiles over resampled clusters. No sample has a larger
          value than the largest observed one, so `_high` is no limit for other runs.
        - `n_unknown`: runs where a counter that the rule needs is unknown. `unit` ("run", or "turn" where turns have
          labels of their own), `positive_is`, `confidence`.

    Raises:
        SettingError: if there are no rules, one of them is none, a label is neither True nor False, or an argument is
            not one of those above.
        TypeError: if something else than a run is among the runs.

    Example:
        >>> import boolab as bl
        >>> from dataclasses import replace
        >>> look = {"tool_calls": [{"name": "ls"}]}
        >>> model = bl.ScriptedModel([{**look, "repeat": 5}, "?"])
        >>> stuck = bl.run_sync(None, "Look", model=model, stop=bl.max_steps(9))
        >>> fine = bl.run_sync(None, "Look", model=bl.ScriptedModel([look, "Done."]))
        >>> found = bl.scorecard([replace(stuck, success=False), replace(fine, success=True)], [bl.doom_loop(3)])
        >>> found[["alarms", "true_alarms", "saved_steps", "clean_threshold"]].values.tolist()
        [[1, 1, 3, 2]]
    """
    check_confidence(confidence)
    check_scope(scope)
    keys = keys_of(by, _COLUMNS)
    rule_list = listed_rules(rules)
    if not rule_list:
        raise SettingError(f"rules={rules!r}: expected stop rules such as [bl.doom_loop(3), bl.error_streak(4)]")
    material = material_of(runs, rule_list, scope=scope, keys=keys, positive=positive)
    if converged and material.runs is None and any(map(watches_repeats, rule_list)):
        msg = "converged=True compares the results of calls, which a table with a row per step does not have: pass runs"
        raise SettingError(msg)
    units = units_in(material, keys)
    material = decide_material(material, units, keys, positive)
    truth = truth_of(material, positive)
    scores = scores_of(material, rule_list, truth, converged_is_false=converged)
    judged_units = units[truth.known]
    groups = [
        GroupScores(values, part, keys, scores, truth, confidence) for values, part in split_groups(judged_units, keys)
    ]
    words = _ScorecardText(truth, scores, confidence)
    rows = list(pairs(groups, lambda group: group.rows))
    frame = attach_set(frame_of(keys, [group.keys for group, _ in rows], _COLUMNS, [row for _, row in rows]), runs)
    return Finding(
        title=f"What {count(len(rule_list), 'stop rule')} would have caught, and at which cost",
        frame=frame,
        sentences=tuple(words.sentences(groups)),
        notes=(
            *words.data(material, judged_units.index.to_numpy()),
            *words.limits(groups, judged_units),
            *material.notes,
        ),
        table=frame[[*keys, *_TABLE]],
    )


class _ScorecardText:
    """The sentences and notes of the scorecard."""

    def __init__(self, truth: Truth, scores: Scores, confidence: float) -> None:
        self.truth = truth
        self.scores = scores
        self.confidence = confidence
        self.level = level(confidence)
        self.noun = scores.unit
        self.named = "" if truth.name == UNNAMED else f" ({shorten(truth.name)})"
        self.which = (
            "in which the agent did not end by itself"
            if truth.proxy
            else f"that are positive{self.named}"
            if truth.user
            else "that failed"
        )

    def count_positive(self, n: int, alarms: int) -> str:
        """How many of some runs are positive: "9 of them failed"."""
        subject = "it" if alarms == 1 else f"{n:,} of them" if n else "none of them"
        if self.truth.proxy:
            if not n:
                return "its agent ended by itself" if alarms == 1 else "in all of them the agent ended by itself"
            return f"in {subject} the agent {NOT_ENDED}"
        if alarms == 1 and not n:
            return f"it is not positive{self.named}" if self.truth.user else "it did not fail"
        if self.truth.user:
            return f"{subject} {'is' if alarms == 1 or n == 1 else 'are'} positive{self.named}"
        return f"{subject} failed"

    def successes(self, n: int) -> str:
        """The number of successes, as they are called here."""
        return (
            f"{count(n, self.noun)} that ended by {'itself' if n == 1 else 'themselves'}"
            if self.truth.proxy
            else f"{n:,} success{'' if n == 1 else 'es'}"
        )

    def interval(self, row: Mapping[str, Any], name: str) -> str:
        return f"{self.level} interval {percent(row[f'{name}_low'])} to {percent(row[f'{name}_high'])}"

    def sentences(self, groups: Sequence[GroupScores]) -> Iterator[str]:
        """What each rule catches, and what it costs."""
        n_written = 0
        total = sum(len(group.rows) for group in groups)
        for group in groups:
            prefix = f"{group.name}: " if group.name else ""
            words = _ScorecardText(group.truth, self.scores, self.confidence)
            for row, score in zip(group.rows, self.scores.rules, strict=True):
                if n_written < _MAX_SENTENCES:
                    n_written += 1
                    yield prefix + " ".join(words.rule(group, row, score))
        if total > n_written:
            yield f"{count(total - n_written, 'further row')} in the table."

    def rule(self, group: GroupScores, row: Mapping[str, Any], score: RuleAlarms) -> Iterator[str]:
        """What one rule catches in a group, and what it costs."""
        rule, n, alarms = row["rule"], row["n_runs"], row["alarms"]
        if not n:
            reason = (
                f"a counter that it needs is unknown in all {self.noun}s"
                if row["n_unknown"]
                else f"there is no {self.noun} to judge"
            )
            yield f"{rule} cannot be judged: {reason}, so it is not known what it finds of {self.noun}s {self.which}."
            return
        if not alarms:
            no_alarm = f"does not alarm in the one {self.noun}" if n == 1 else f"alarms in none of {n:,} {self.noun}s"
            yield f"{rule} {no_alarm}, so its precision is not defined; {self._describe_found(row)}."
        else:
            exception = " without converging later" if self.scores.converged_is_false and row["converged"] else ""
            right = f"{self.count_positive(row['true_alarms'], alarms)}{exception}"
            yield (
                f"{rule} alarms in {alarms:,} of {count(n, self.noun)}; {right} (precision {row['true_alarms']:,} of "
                f"{alarms:,}, {self.interval(row, 'precision')}); it would have {self._cost(row)}."
            )
            yield f"It finds {self._describe_found(row, short=True)}{self._describe_false(row)}."
            yield from self._lift(row)
            yield from self._cap(row, score)
            yield from self._trade(row)
        yield from self._work(row)
        yield from self._clean(group, row, score)

    def _lift(self, row: Mapping[str, Any]) -> Iterator[str]:
        if row["lift"] is None or row["base_rate"] == 1:
            return
        random = f"random alarms, of which {percent(row['base_rate'])} would be in {self.noun}s {self.which}"
        if row["lift_low"] <= 1:
            yield f"The data do not show that its alarms are right more often than {random}."
        else:
            low, high = (f"{row[f'lift_{end}']:.2f}" for end in ("low", "high"))
            interval = f"{self.level} interval {low} to {high}"
            yield f"They are right {row['lift']:.2f} times as often ({interval}) as {random}."

    def _cap(self, row: Mapping[str, Any], score: RuleAlarms) -> Iterator[str]:
        """What a plain cap does that keeps as many successes; nothing of a rule that is one."""
        cap, saved, rule = row["same_kept_cap"], row["same_kept_cap_saved_steps"], score.alarms.rule
        if cap is None or (isinstance(rule, Threshold) and rule.counter == "steps"):
            return
        difference = saved - row["saved_steps"]
        comparison = f"{abs(difference):,} {'more' if difference > 0 else 'fewer'}" if difference else "just as many"
        yield (
            f"A plain cap of {count(cap, 'step')} keeps no fewer successes and would have saved "
            f"{count(saved, 'step')}, {comparison}."
        )

    def _trade(self, row: Mapping[str, Any]) -> Iterator[str]:
        """Whether the steps that are saved are worth the successes that may be lost."""
        if row["even_trade"] is None:
            return
        steps = round(row["steps_per_success"] * row["successes"])
        lost, successes = row["successes_lost_upper"], row["successes"]
        yield Trade(row["saved_steps"], lost, steps, successes, counted=row["unit"]).sentence

    def _cost(self, row: Mapping[str, Any]) -> str:
        saved = f"saved {count(row['saved_steps'], 'step')}"
        low, high, base = row["successes_lost_lower"], row["successes_lost_upper"], row["successes"]
        if high is None:
            return f"{saved}; how many successes it would have stopped is not known: no {self.noun} has a success label"
        if not base:
            return f"{saved}; there is no success to lose"
        if not high:
            return f"{saved} and stopped none of {self.successes(base)}"
        certainty = f"at most {high:,}" if not low else f"{high:,}" if low == high else f"{low:,} to {high:,}"
        return f"{saved} and stopped {certainty} of {self.successes(base)}"

    def _describe_found(self, row: Mapping[str, Any], *, short: bool = False) -> str:
        n, sentence = row["n_positive"], row["true_alarms"]
        if not n:
            return (
                f"no {self.noun}, because there is none {self.which}"
                if short
                else f"there is no {self.noun} {self.which}"
            )
        subject = self.which.replace("that are", "that is") if n == 1 else self.which
        share = f"(recall {sentence:,} of {n:,}, {self.interval(row, 'recall')})"
        if short:
            return f"{sentence:,} of {count(n, self.noun)} {subject} {share}"
        all_alarms = format_all(n, self.noun)
        return f"it misses {all_alarms[0].lower()}{all_alarms[1:]} {subject} {share}"

    def _describe_false(self, row: Mapping[str, Any]) -> str:
        other_runs = row["n_runs"] - row["n_positive"]
        if not other_runs:
            return f"; there are no other {self.noun}s, so the rate of false alarms is not known"
        n = round(row["false_alarm_rate"] * other_runs)
        return f" and alarms in {n:,} of {count(other_runs, 'other')} ({self.interval(row, 'false_alarm_rate')})"

    def _work(self, row: Mapping[str, Any]) -> Iterator[str]:
        n = row["converged"]
        if not n:
            return
        work_text = "1 alarm was" if n == 1 else f"{n:,} alarms were"
        subject_pronoun, object_pronoun = ("it counts", "it") if n == 1 else ("they count", "them")
        counts = (
            f"{subject_pronoun} as false"
            if self.scores.converged_is_false
            else f"converged=True would count {object_pronoun} as false"
        )
        yield f"{work_text} work and not a loop: the same call gave a new result later; {counts}."

    def _clean(self, group: GroupScores, row: Mapping[str, Any], score: RuleAlarms) -> Iterator[str]:
        if row["clean_threshold"] is None or score.false_alarm_peaks is None:
            return
        n = int((score.false_alarm_peaks.false[group.runs] != NOT_REPORTED).sum())
        leaf = next(score.alarms.rule.leaves())
        unit = {"cost": " micro-dollars", "elapsed": " ms"}.get(leaf.counter, "")
        threshold = f"{row['clean_threshold']:,}{unit}"
        if isinstance(leaf, LearnedRule):  # its score is a probability in billionths
            threshold = f"{100 * row['clean_threshold'] / BILLION:.4g}%"
        beginning = f"A threshold of {threshold} is the least without a false alarm in "
        if self.scores.converged_is_false:
            yield f"{beginning}these {self.noun}s."
            return
        not_positive = f"{'is' if n == 1 else 'are'} not positive{self.named}" if self.truth.user else "did not fail"
        negatives = self.successes(n) if self.truth.proxy else f"{count(n, self.noun)} that {not_positive}"
        share = percent(group.upper_bound(score.false_alarm_peaks))
        yield f"{beginning}the {negatives}; with {self.level} confidence at most {share} of such {self.noun}s reach it."

    def data(self, material: Material, judged_indices: Ints) -> Iterator[str]:
        """The quality of the data: labels, and what is left out."""
        total, n = material.ledger.n_runs, len(judged_indices)
        if not total:
            yield f"There are no {self.noun}s."
            return
        yield from self._positive(judged_indices)
        if n < total:
            verb = "is" if total - n == 1 else "are"
            n_of_all = f"{total - n:,} of {count(total, self.noun)}"
            yield f"{n_of_all} {verb} left out: without a label their class is not known."
        yield from self._unknown(judged_indices)
        yield from self._cut_notes(material, judged_indices)
        if material.runs is None and any(watches_repeats(score.alarms.rule) for score in self.scores.rules):
            yield "Whether an alarm converged is not known, because a table with a row per step has no results."

    def _positive(self, judged_indices: Ints) -> Iterator[str]:
        """What is positive, in each kind of groups."""
        if self.truth.by_label is not None:
            by_label = self.truth.by_label[judged_indices]
            for kind, indices in (("with", judged_indices[by_label]), ("without", judged_indices[~by_label])):
                words = _ScorecardText(self.truth.of_group(indices), self.scores, self.confidence)
                yield from (f"Groups {kind} labels: {note}" for note in words._positive(indices))
            return
        share = f"{int(self.truth.positive[judged_indices].sum()):,} of {count(len(judged_indices), self.noun)}"
        if self.truth.proxy:
            yield (
                f"No run has a label. By a proxy, a run is positive if it {NOT_ENDED} ({share}). That is not a "
                "failure: a censored run may have been about to succeed, and one that ended may have failed."
            )
        elif self.truth.user:
            yield f"A {self.noun} is positive by the user's definition{self.named}: {share}."
        else:
            yield f"A {self.noun} is positive if it failed, by its label: {share}."

    def _unknown(self, judged_indices: Ints) -> Iterator[str]:
        hanging = [(s.alarms, int(s.alarms.unknown[judged_indices].sum())) for s in self.scores.rules]
        rules = [f"{alarms.rule} in {count(n, self.noun)}" for alarms, n in hanging if n]
        if rules:
            others_text = f" and {len(rules) - _MAX_NAMED:,} further rules" if len(rules) > _MAX_NAMED else ""
            yield (
                f"Rules that need an unknown counter: {', '.join(rules[:_MAX_NAMED])}{others_text}. These {self.noun}s "
                "are not alarms, and the rule's row leaves them out."
            )
        for name in ("tokens", "cost"):
            pairs = [
                (s.alarms.raised[judged_indices], s.alarms.saved[name][judged_indices] == NOT_REPORTED)
                for s in self.scores.rules
            ]
            raised, unknown = (sum(int(flags.sum()) for flags in column) for column in zip(*pairs, strict=True))
            if unknown:
                total_text = "any alarm" if unknown == raised else f"{unknown:,} of {count(raised, 'alarm')}"
                consequence = "NA" if unknown == raised else "without them"
                yield f"What {total_text} would have saved in {name} is not known: the total is {consequence}."

    def _cut_notes(self, material: Material, judged_indices: Ints) -> Iterator[str]:
        cut_runs = judged_indices[~material.ledger.terminated[judged_indices]]
        reasons = pd.Series(material.ledger.reason[cut_runs], dtype=object).dropna()
        if len(cut_runs):
            verb = "is" if len(cut_runs) == 1 else "are"
            suffix = f" ({_counts(reasons)})" if len(reasons) else ""
            yield (
                f"{len(cut_runs):,} of {count(len(judged_indices), self.noun)} {verb} censored{suffix}: a rule may "
                "have fired later, so there may be more alarms, and more to save."
            )
        detected = reasons[reasons.isin(_DETECTED)]
        if len(detected):
            yield (
                f"{count(len(detected), self.noun)} had been stopped by a detector when recorded "
                f"({_counts(detected)}): an alarm of a similar rule there is no evidence, and the stop may be why the "
                f"{self.noun} is positive."
            )

    def limits(self, groups: Sequence[GroupScores], judged_units: pd.DataFrame) -> Iterator[str]:
        """What limits the answer."""
        rule_indices = judged_units.index.to_numpy()
        early = sum(int(score.alarms.early[rule_indices].sum()) for score in self.scores.rules)
        if early:
            yield (
                f"{count(early, 'alarm')} in a turn that others follow: how the session would have continued is not "
                'known, but a run is judged as a whole. scope="run" counts through the whole run.'
            )
        yield from cluster_notes([(group.word, group.bootstrap.n_clusters) for group in groups], judged_units)
        if len(self.scores.rules) > 1:
            n = len(self.scores.rules)
            yield f"Intervals are for each rule by itself: the best of {n:,} looks better here than on other runs."
        if any(row["clean_threshold"] is not None for _, row in pairs(groups, lambda group: group.rows)):
            yield (
                "The interval of a clean threshold resamples observed values, so it cannot exceed them; other runs can."
            )


def _counts(reasons: pd.Series[Any]) -> str:
    return ", ".join(f"{reason} {n:,}" for reason, n in reasons.value_counts().items())

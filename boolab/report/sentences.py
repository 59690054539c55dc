"""What the page says whatever the data: how sure its answer is, and what its words mean."""

from __future__ import annotations

from typing import Final

PROXY_SAYS: Final = (
    "No run has a label of success. That a {noun} ended by itself is a proxy: it says that the agent thought it was "
    "done, not that it was right. Labels (--labels) make a better answer."
)
SURE: Final = (
    (
        "Nothing was run again. A recording tells exactly where a limit would have stopped it, and what was spent "
        "until then. What the agent would have written with what it had by then, it does not tell: that is why kept "
        "is a range."
    ),
    (
        "{sure} confidence: of many such samples, at most {unsure} would lead to a setting that in truth keeps less "
        "than {keep}."
    ),
    "It holds for runs like these: the same agent, model, tools and kind of task. For others, record others.",
    "It holds for limits that the model does not know of. An agent that is told its limit works differently.",
    "What a limit saves is counted within the recording; a user who asks again spends it again.",
)
SHIP: Final = "The recommended setting, as the front matter of an agent file (AGENTS.md):"
NO_SHIP: Final = (
    "There is no recommendation yet. If you have to set limits today, these lost none on this record; that is a "
    "description of the past, and no promise:"
)
LISTS: Final = (
    "Each list holds what one limit stops, successes first. Needs: the least value of that limit that would have left "
    "the run alone. (kept?): all its tool calls were done when it was stopped, so that it may have succeeded all the "
    "same."
)
WORDS: Final = {
    "Step": "One answer of the model, with the tool calls that it asks for. A step that crosses a limit is completed.",
    "Turn": "All steps from one message of the user to the next.",
    "Run": "One recording: a session of one turn or of several.",
    "Step cap": "The loop stops after so many steps. In other tools: max turns, max iterations, recursion limit.",
    "Tool budget": "The loop stops once so many tools were called.",
    "Doom-loop threshold": "The loop stops when the same call, with the same arguments, comes so many times in a row.",
    "Kept": (
        "A success that the limit leaves as it was. The upper end of a range adds those that were stopped when all "
        "their tool calls were done."
    ),
    "Saved": "Steps (tool calls, tokens, cost) that were recorded after the point where the limit stops.",
    "Censored": (
        "The recording was stopped by the harness's own limit, or broke off, before the agent was done. That limit "
        "stays in force here: a label counts as it was recorded, and a looser limit changes nothing on record."
    ),
    "Proxy": "What stands in for success where no run has a label: that the turn ended by itself.",
    "Effective sample size": (
        "How many independent successes would tell as much. Runs of one task resemble each other, so that ten of them "
        "tell less than ten runs of ten tasks."
    ),
    "Precision, recall": (
        "Of a detector's alarms, the share that was right; of the runs that failed, the share in which it raised one."
    ),
}
"""The glossary."""

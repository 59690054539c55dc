"""InterCode: `data/results/*/*/ic_*.json`; see github.com/princeton-nlp/intercode, `experiments/eval_*.py`.

An object with one entry for each task: `{task_id, query, turn_history: {actions, observations, rewards, ...}, summary:
{max_reward, turns_max, ...}}`. Each action is a step with one call.

- An action is what the harness parsed from the response: SQL up to its first `;`, bash out of a fence and in lower
  case, else the whole text. The rest of the response is not in the log, except the thoughts of ReAct. A text without
  any code was not executed; it is a call that failed.
- `valid_action` is whether the environment executed the action. ReAct repeats an older value of it beside actions
  without code, so these are recognised by the observation; for Python it is null, and whether a call failed is unknown.
- Only a `max_reward` of 1 is a success. But in ReAct, whose agent submits, the environment ends a run there.
- `blocked` as the last action, without an observation, is a failure of the provider, and no response. The `submit` that
  the harness of ReAct adds after the last turn is none either; its thought is `EXCEEDED MAX TURNS: submit`.
- `skip` and `submit` are the agent's own ends. Other runs of `turns_max` actions were stopped by that limit.
- The model, the prompting and the handicap (the tables of the database in the prompt) are in the file's name, or the
  model is the name of the folder. `plan_solve` logs have only what follows the plan.
- There are no times, tokens, cost or finish reasons. Runs of people (`human`) have another form and are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from boolab.core.run import Run
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, flag, items, json_document, json_text, mapping, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, content_text, full_reward, one_line, reward_of, scores_of

NAME: Final = "intercode"
SCOPE: Final = "run"
SUFFIXES: Final = (".json",)
PLACES: Final = ()
LOOKED_FOR: Final = 'an object of objects with a "turn_history" of actions and observations'

_BLOCKED: Final = "blocked"
_SKIP: Final = "skip"
_SUBMIT: Final = "submit"
_ADDED: Final = "EXCEEDED MAX TURNS"
_WITHOUT_CODE: Final = "Error executing query: Your last `execute` action did not contain"
_REACT: Final = "react"
_PROMPTING: Final = re.compile(r"_(multiturn|react|plan_solve_refine|plan_solve)(?=_|$)")
_MODEL: Final = re.compile(r"ic_[a-z]+_(?:multiturn_)?(.+?)[_-]\d+_turns")


class _Setting(NamedTuple):
    """What the name of a file and its folders give about all of its runs."""

    model: str
    prompting: str
    handicap: bool


def sniff(head: Head) -> bool:
    """Whether this is a file of InterCode's results."""
    return len(head.values) == 1 and _is_episode(next(iter(head.first.values()), None))


def _is_episode(value: object) -> bool:
    episode = mapping(value)
    return "task_id" in episode and "actions" in mapping(episode.get("turn_history"))


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file."""
    document = json_document(path, damage)
    episodes = mapping(document)
    if not any(map(_is_episode, episodes.values())):
        raise RunFormatError(f"a file of InterCode's results is {LOOKED_FOR}", path=path, line=1)
    setting = _setting_of(path)
    last = list(episodes)[-1]
    runs = []
    for key, value in episodes.items():
        if _is_episode(value):
            builder = RunBuilder(NAME, damage, truncated=damage.truncated and key == last)
            runs.append(_run(f"{path.stem}/{key}", mapping(value), setting, builder))
        else:
            damage.note(1, f"entry {one_line(key, 20)} has no task_id or no actions")
    return runs


def _setting_of(path: Path) -> _Setting:
    prompt_match = _PROMPTING.search(path.stem)
    prompting = prompt_match[1] if prompt_match else "multiturn"
    model_match = _MODEL.match(path.stem) if prompting == "multiturn" else None
    folders = path.absolute().parent
    environment = path.stem.removeprefix("ic_").partition("_")[0]
    model = model_match[1] if model_match else folders.name if folders.parent.name == environment else ""
    return _Setting(model, prompting, "_handicap" in path.stem)


def _run(run_id: str, episode: Mapping[str, Any], setting: _Setting, builder: RunBuilder) -> Run:
    history, summary = mapping(episode["turn_history"]), mapping(episode.get("summary"))
    environment = text(episode.get("environment")).removeprefix("ic_")
    actions = list(map(content_text, items(history["actions"])))
    observations = items(history.get("observations"))
    thoughts = [text(item) for item in items(history.get("thoughts"))]
    builder.add_message("user", text(episode.get("query")), opens_turn=True)
    blocked = actions[-1:] == [_BLOCKED] and len(observations) < len(actions)
    stopped = len(actions) == len(thoughts) and thoughts[-1:] != [] and thoughts[-1].startswith(_ADDED)
    valid = items(history.get("valid_action"))
    for index, action in enumerate(actions[:-1] if blocked or stopped else actions):
        reply = builder.add_response()
        reply.add_text(thoughts[index] if index < len(thoughts) else "")
        name = _SUBMIT if action.partition(" ")[0] == _SUBMIT else environment
        builder.add_call(reply, "", name, {"action": action})
        if index < len(observations):
            content = content_text(observations[index])
            executed = flag(valid[index]) if index < len(valid) else None
            failed = True if content.startswith(_WITHOUT_CODE) else None if executed is None else not executed
            builder.set_result(reply, 0, content, is_error=failed)
    turns = whole(summary.get("turns_taken"))
    # The turn that was blocked has no response.
    builder.state("summary.turns_taken", responses=None if turns is None else turns - blocked)
    cap = whole(summary.get("turns_max"))
    success = full_reward(summary.get("max_reward"))
    end = actions[-1] if actions else ""
    by_itself = bool(success) or end.lower() == _SKIP or (setting.prompting == _REACT and end == _SUBMIT)
    if blocked:
        stop = builder.stop("error")
    elif by_itself and not stopped:
        stop = builder.stop("finished")
    elif cap is not None and len(builder.steps) >= cap:
        stop = builder.cap_stop(cap, "max_turns")
    else:
        stop = builder.stop("finished" if summary and cap is None else "aborted")
    run = builder.build(
        run_id,
        stop,
        agent=NAME,
        model=setting.model,
        task=_task(episode, environment),
        success=success,
        scores=scores_of({"reward": reward_of(summary.get("max_reward"))}),
        error=_BLOCKED if blocked else None,
        limits={"steps": cap},
    )
    return replace(run, settings={"prompting": setting.prompting, "handicap": setting.handicap})


def _task(episode: Mapping[str, Any], environment: str) -> str:
    """The task's number, with the file that it is in: the bash tasks are in four, each with its own numbers."""
    task_id = episode["task_id"]
    number = str(task_id) if isinstance(task_id, int | str) else json_text(task_id)
    return one_line(f"{Path(text(episode.get('dataset')) or environment).stem}/{number}")

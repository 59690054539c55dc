"""A learned rule as a YAML file: short for a logistic regression, so that one can read what it goes by.

```yaml
boolab_rule: 1
threshold: 965387112  # of a billion
promise: {keep: 0.95, confidence: 0.9, calibration_tasks: 118}
learned_from: {runs: 499, successes: 168, tasks: 499, steps: 16707, sha256: ..., cluster: task}
model:
  kind: logistic
  intercept: -1.25
  features:
    log_steps: {weight: 0.257, unknown: 2.5}
```

`unknown` is what takes the place of a value that is not known. Trees stand under `trees`, each a leaf or a list of a
feature, a bound, and the trees for values up to the bound and above it; their features have no weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

from boolab.core.types import JSON
from boolab.errors import FileError, SettingError
from boolab.io.files import replace_file
from boolab.limits.detector import Detector
from boolab.limits.learned.features import FEATURES, check_features
from boolab.limits.learned.models import BILLION, LinearModel, ScoreModel, Tree, TreeModel
from boolab.limits.learned.rule import LearnedFrom, LearnedRisk, LearnedRule, Promise, learned_rule

VERSION: Final = 1
_MAX_BYTES: Final = 4_000_000
_MAX_DEPTH: Final = 30


def save_rule(rule: LearnedRule, path: str | Path) -> None:
    """Write a learned rule to a YAML file, which `load_rule` reads again as an equal rule.

    Args:
        rule: What `bl.learn_stop` returned. Its report is not written.
        path: The file; one that is there is replaced.

    Raises:
        SettingError: if it is no learned rule.
        OSError: if the file cannot be written.

    Example:
        >>> import tempfile
        >>> model = LinearModel(("calls_streak",), (1.5,), -1.0, (0.8,))
        >>> rule = learned_rule(LearnedRisk(model), 900_000_000, Promise(0.95, 0.9, 60), LearnedFrom(9, 4, 9, 50, "ab"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_rule(rule, Path(folder, "rule.yaml"))
        ...     load_rule(Path(folder, "rule.yaml")) == rule
        True
    """
    import yaml

    value: object = rule
    if not isinstance(value, LearnedRule) or rule.promise is None or rule.learned_from is None:
        msg = f"rule={rule!r:.200}: expected a rule that bl.learn_stop returned"
        raise SettingError(msg)
    promise, source = rule.promise, rule.learned_from
    data = {
        "boolab_rule": VERSION,
        "threshold": rule.threshold,
        "promise": {name: getattr(promise, name) for name in Promise.__dataclass_fields__},
        "learned_from": {name: getattr(source, name) for name in LearnedFrom.__dataclass_fields__},
        "model": _model_data(rule.risk.model),
    }
    estimate = f"{rule.threshold / BILLION:.6%}"
    head = f"# A stop rule of boolab: it stops a run whose estimate of failure reaches {estimate}.\n"
    text = head + f"# {promise}\n" + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
    with replace_file(Path(path)) as file:
        file.write(text.encode())


def load_rule(path: str | Path, detectors: Iterable[Detector] = ()) -> LearnedRule:
    """Read a learned rule from a file of `save_rule`.

    It needs neither numpy nor scikit-learn.

    Args:
        path: The file.
        detectors: The detectors among its features, if it has any of your own.

    Returns:
        The rule, without a report.

    Raises:
        FileError: if the file cannot be read, or holds no such rule; it names what is wrong.

    Example:
        >>> load_rule("no_such_rule.yaml")
        Traceback (most recent call last):
        boolab.errors.FileError: no_such_rule.yaml: cannot be read: No such file or directory
    """
    from boolab.io.yaml_loader import read_document

    file = Path(path)
    document = read_document(file, FileError, _MAX_BYTES)
    try:
        return _rule(document.data, tuple(detectors))
    except _FieldFault as fault:
        raise FileError(str(fault), path=file, line=document.line(fault.keys)) from None
    except SettingError as error:
        raise FileError(str(error), path=file) from error


def _model_data(model: ScoreModel) -> dict[str, Any]:
    if isinstance(model, LinearModel):
        pairs = zip(model.features, model.weights, model.unknown, strict=True)
        features = {name: {"weight": weight, "unknown": unknown} for name, weight, unknown in pairs}
        return {"kind": model.kind, "intercept": model.intercept, "features": features}
    if isinstance(model, TreeModel):
        pairs_of = zip(model.features, model.unknown, strict=True)
        features = {name: {"unknown": unknown} for name, unknown in pairs_of}
        trees = [_tree_data(tree, model.features) for tree in model.trees]
        return {"kind": model.kind, "intercept": model.intercept, "features": features, "trees": trees}
    raise SettingError(f"a model of type {type(model).__name__} cannot be written to a file")


def _tree_data(tree: Tree, names: tuple[str, ...]) -> object:
    if not isinstance(tree, tuple):
        return tree
    index, threshold, low, high = tree
    return [names[index], threshold, _tree_data(low, names), _tree_data(high, names)]


class _FieldFault(Exception):
    """What is wrong at a place of the file."""

    def __init__(self, message: str, keys: tuple[object, ...]) -> None:
        self.keys = keys
        super().__init__(message)


def _rule(data: JSON, detectors: tuple[Detector, ...]) -> LearnedRule:
    document = _mapping(data, ())
    if document.get("boolab_rule") != VERSION:
        version = document.get("boolab_rule")
        raise _FieldFault(
            f"boolab_rule is {version!r:.80}: expected {VERSION}, as bl.stats.save_rule writes", ("boolab_rule",)
        )
    threshold = _integer(document, "threshold", (), BILLION + 1)
    promise = _mapping(document.get("promise"), ("promise",))
    source = _mapping(document.get("learned_from"), ("learned_from",))
    keep, confidence = _share(promise, "keep"), None
    if promise.get("confidence") is not None:
        confidence = _share(promise, "confidence")
    model = _model(_mapping(document.get("model"), ("model",)))
    check_features(model.features, [detector.name for detector in detectors])
    feature_detectors = tuple(item for item in detectors if item.name in model.features and item.name not in FEATURES)
    section = ("learned_from",)
    counts = {name: _integer(source, name, section) for name in ("runs", "successes", "tasks", "steps")}
    return learned_rule(
        LearnedRisk(model, feature_detectors),
        threshold,
        Promise(keep, confidence, _integer(promise, "calibration_tasks", ("promise",))),
        LearnedFrom(**counts, sha256=_text(source, "sha256", section), cluster=_text(source, "cluster", section)),
    )


def _model(data: Mapping[str, JSON]) -> ScoreModel:
    kind = data.get("kind")
    if kind not in (LinearModel.kind, TreeModel.kind):
        msg = f"kind is {kind!r:.80}: expected {LinearModel.kind} or {TreeModel.kind}"
        raise _FieldFault(msg, ("model", "kind"))
    intercept = _number(data, "intercept", ("model",))
    features = _mapping(data.get("features"), ("model", "features"))
    fields_by_name = {name: _mapping(fields, ("model", "features", name)) for name, fields in features.items()}
    unknown = tuple(_number(fields, "unknown", ("model", "features", name)) for name, fields in fields_by_name.items())
    if kind == LinearModel.kind:
        weights = tuple(
            _number(fields, "weight", ("model", "features", name)) for name, fields in fields_by_name.items()
        )
        return LinearModel(tuple(fields_by_name), weights, intercept, unknown)
    trees = data.get("trees")
    if not isinstance(trees, list):
        msg = "trees: expected a list of trees"
        raise _FieldFault(msg, ("model", "trees"))
    indices = {name: index for index, name in enumerate(fields_by_name)}
    tree_tuples = tuple(_tree(tree, indices, ("model", "trees", n), _MAX_DEPTH) for n, tree in enumerate(trees))
    return TreeModel(tuple(fields_by_name), tree_tuples, intercept, unknown)


def _tree(data: JSON, indices: Mapping[str, int], keys: tuple[object, ...], depth: int) -> Tree:
    if _is_number(data):
        return float(data)
    if not isinstance(data, list) or len(data) != 4 or depth == 0:  # noqa: PLR2004 - a feature, a bound, two trees
        msg = f"a tree is {data!r:.80}: expected a number, or a list of a feature, a bound and two trees"
        raise _FieldFault(msg, keys)
    name, threshold, low, high = data
    if name not in indices or not _is_number(threshold):
        msg = f"a tree splits {name!r:.80} at {threshold!r:.80}: expected one of its features, and a number"
        raise _FieldFault(msg, keys)
    return (
        indices[name],
        float(threshold),
        _tree(low, indices, (*keys, 2), depth - 1),
        _tree(high, indices, (*keys, 3), depth - 1),
    )


def _mapping(data: JSON, keys: tuple[object, ...]) -> Mapping[str, JSON]:
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        name = keys[-1] if keys else "the file"
        raise _FieldFault(f"{name}: expected a mapping, as bl.stats.save_rule writes it", keys)
    return data


def _is_number(value: JSON) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number(data: Mapping[str, JSON], name: str, keys: tuple[object, ...]) -> float:
    value: JSON = data.get(name)
    if not _is_number(value):
        raise _FieldFault(f"{name} is {value!r:.80}: expected a number", (*keys, name))
    return float(value)


def _share(promise: Mapping[str, JSON], name: str) -> float:
    value = _number(promise, name, ("promise",))
    if not 0 < value < 1:
        raise _FieldFault(f"{name} is {value!r:.80}: expected a number between 0 and 1", ("promise", name))
    return value


def _integer(data: Mapping[str, JSON], name: str, keys: tuple[object, ...], maximum: int = 2**63 - 1) -> int:
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= maximum:
        raise _FieldFault(f"{name} is {value!r:.80}: expected an integer from 1 to {maximum:,}", (*keys, name))
    return value


def _text(data: Mapping[str, JSON], name: str, keys: tuple[object, ...]) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise _FieldFault(f"{name} is {value!r:.80}: expected a text", (*keys, name))
    return value

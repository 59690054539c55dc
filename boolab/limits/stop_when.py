"""A stop rule on a detector."""

from __future__ import annotations

from boolab.errors import SettingError
from boolab.io.checks import whole
from boolab.limits.detector import Detector, check_detector
from boolab.limits.stop import OnUnknown, StopRule, Threshold


def stop_when(detector: Detector, n: int, on_unknown: OnUnknown = "error", *, label: str | None = None) -> StopRule:
    """Stop when, at a boundary, the count of a detector is n or more.

    Args:
        detector: Any detector, those of `boolab.limits.detectors.wrappers` too.
        n: The threshold.
        on_unknown: What an unknown count means: `error`, or `ignore` (not reached).
        label: The name of the rule in tables; by default it is made from the detector's name.

    Raises:
        SettingError: if n is not an integer, or smaller than makes sense for the detector, or the detector
            lacks an attribute or has a stop reason that does not exist.

    Example:
        >>> import boolab as bl
        >>> from boolab.limits.detectors.wrappers import PerMessage
        >>> str(bl.detectors.stop_when(PerMessage(bl.detectors.RepeatStreak("ordered")), 3))
        'stop_when(per_message(repeat_streak:ordered), 3)'
    """
    check_detector(detector)
    unless = unless_known(on_unknown)
    threshold = whole(n, label.partition("(")[0] if label else detector.name, detector.least)
    name = label or f"stop_when({detector.name}, {n}{unless})"
    return Threshold(detector.reason, detector.name, threshold, name, on_unknown, detector)


def unless_known(on_unknown: OnUnknown) -> str:
    """The part of a rule's label about unknown counters.

    Raises:
        SettingError: if the option is not one of `error` and `ignore`.
    """
    if on_unknown not in ("error", "ignore"):
        raise SettingError(f"on_unknown={on_unknown!r} is not known; accepted: error, ignore")
    return ", on_unknown=ignore" if on_unknown == "ignore" else ""

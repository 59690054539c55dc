"""What CapLab is asked, besides the setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from boolab.errors import SettingError
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy
from boolab.limits.table import AGENT_LIMITS
from boolab.stats.intervals import check_confidence
from boolab.stats.recommend.recommend import OBJECTIVES, Objective
from boolab.whatif.grid import settings_of


@dataclass(frozen=True, slots=True)
class Question:
    """The options of the study, besides the setting.

    `policy`: whose order of precedence and further limits hold; None for none. `success`: what a success is: "label",
    "ended", or None for labels where an agent has any.
    """

    policy: str | Policy | None = None
    keep: float = 0.95
    confidence: float = 0.95
    objective: Objective = "cost"
    success: Literal["label", "ended"] | None = None

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        check_confidence(self.keep, "keep")
        if self.objective not in OBJECTIVES:
            raise SettingError(f"objective={self.objective!r}: expected one of {', '.join(OBJECTIVES)}")
        if self.success not in (None, "label", "ended"):
            msg = (
                f"success={self.success!r}: expected 'label', 'ended' (the proxy), or None (labels where there are any)"
            )
            raise SettingError(msg)
        settings = settings_of({name: [2, None] for name in AGENT_LIMITS}, self.policy)
        if not settings.plain:
            msg = (
                f"policy {get_policy(self.policy or '').name}: it sends messages to the model, or evaluates limits at "
                "the response, so that sums are not enough: expected a policy that evaluates limits only after steps, "
                "or None. bl.counterfactual(runs, policy=...) gives a row for each run"
            )
            raise SettingError(msg)

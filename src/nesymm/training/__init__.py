"""Learning: objectives, the training loop, checkpoints."""

from nesymm.training.fit import Fitted, TrainingError, fit
from nesymm.training.objectives import LogEvidence, QueryLoss

__all__ = ["Fitted", "LogEvidence", "QueryLoss", "TrainingError", "fit"]

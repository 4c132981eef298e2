"""Learning: objectives, the training loop, checkpoints."""

from nesymm.training.checkpoints import CheckpointError
from nesymm.training.fit import fit, fit_many
from nesymm.training.networks import MLP, ConvDecoder, ConvEncoder, Function
from nesymm.training.objectives import ELBO, Accuracy, LogEvidence, QueryLoss
from nesymm.training.results import Fitted, TrainingError

__all__ = [
    "ELBO",
    "MLP",
    "Accuracy",
    "CheckpointError",
    "ConvDecoder",
    "ConvEncoder",
    "Fitted",
    "Function",
    "LogEvidence",
    "QueryLoss",
    "TrainingError",
    "fit",
    "fit_many",
]

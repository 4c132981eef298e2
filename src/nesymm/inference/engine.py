"""The protocol of engines: what runs a program over time, one step after another.

A `Method` holds the settings that a user chooses, as `ExactForward()`. It makes an `Engine` for a
program and the form of the data. `init` gives the state before the first step, and `step` takes a
state and what is given at a step to the next state and an `Info`. The loop over time, `filter`,
`smooth`, `fit` and streams use nothing else of an engine. `docs/extending.md` adds one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from nesymm.inference.data import Sequences
from nesymm.inference.plan import Plan
from nesymm.inference.questions import Question
from nesymm.inference.state import Info, Settings, Stage, State
from nesymm.inference.world import Binding, Moment
from nesymm.ir.passes.phases import Phases
from nesymm.ir.step import StepProgram

if TYPE_CHECKING:
    from nesymm.inference.loop import Run
    from nesymm.inference.sampling import Traced


class Engine(Protocol):
    """An algorithm, prepared for a program over data of one form.

    `phases` are the program at the first step and at later ones, `first` and `later` how each is
    run, `questions` the queries, and `real` the type of real numbers. There are `particles` for
    each sequence (1: none), and `reason` says why the engine was chosen. It is `exact` if its
    numbers are free of sampling error, and `resamples` if its particles are resampled. Where
    `steps_differ`, steps may be compiled one by one, each with tables of its own. `untrainable`
    names parameters that have no gradient.
    """

    phases: Phases
    first: Plan
    later: Plan
    questions: tuple[Question, ...]
    real: Any
    reason: str
    particles: int
    exact: bool
    resamples: bool
    steps_differ: bool
    untrainable: frozenset[str]

    def describe(self) -> str:
        """What results say of the method."""
        ...

    def settings(self, batch: int, estimator: str | None = None, record: bool = False) -> Settings:
        """What does not change from step to step."""
        ...

    def bind(
        self, parameters: Mapping[str, Any], networks: Mapping[str, Any], calls: int
    ) -> Binding:
        """Parameters and networks, those evaluated beforehand that are called so often."""
        ...

    def init(self, settings: Settings) -> State:
        """The state before the first step."""
        ...

    def step(
        self,
        settings: Settings,
        state: State,
        moment: Moment,
        binding: Binding,
        key: Any,
        stage: Stage,
    ) -> tuple[State, Info]:
        """The state after a step, and what is reported of it."""
        ...

    def fixed_shape(self, function: Callable[[State], State], state: State) -> State:
        """A state as compiled loops need it: with the dimensions that `function`, which takes it
        one step further, does not change."""
        ...

    def hoist(self, binding: Binding, settings: Settings, state: State, moment: Moment) -> Binding:
        """The same with calls of networks moved out of the loop that are alike at all steps."""
        ...

    def trajectories(self, run: Run, count: int) -> Traced:
        """Values of everything along so many trajectories of each sequence, given all evidence."""
        ...


@runtime_checkable
class Method(Protocol):
    """How to run a program over time, as a user says it."""

    def engine(self, program: StepProgram, sequences: Sequences, real: Any) -> Engine:
        """The engine for data of the form of these, with real numbers of a type."""
        ...


AS_ASKED = "as asked"

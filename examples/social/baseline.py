"""A network that sees all that is known of a person and of the friends, and has no rules."""

from __future__ import annotations

import numpy as np
import optax

import nesymm

PROGRAM = """
:- const(n, 10).
:- input(person(key), 1..n).
:- input(view(key)@t, 1..n, tensor).
:- network(guess, 1).
smokes(P)@t ~ bernoulli(guess(view(P)@t)) :- person(P).
observe(smokes(P)@t).
query(smokes(P)@t) :- person(P).
"""


def views(data: dict[str, np.ndarray]) -> np.ndarray:
    """What a network sees of each person in each week, [group, week, person, …]: the features, the
    last answers about smoking and stress and how old they are, those about stress this week, the
    numbers of friends who last said that they smoke, that they do not, and nothing yet, and the
    week. Answers about smoking of the same week, which are to be guessed, are left out."""
    groups, weeks, people = data["smokes"].shape
    last = {"smokes": np.zeros((groups, people)), "stress": np.zeros((groups, people))}
    age = {name: np.ones((groups, people)) for name in last}
    out = []
    for week in range(weeks):
        now = np.nan_to_num(2 * data["stress"][:, week] - 1)
        friends = [
            (data["friend"] & (last["smokes"] == answer)[:, None]).sum(-1) / 3
            for answer in (-1, 0, 1)
        ]
        start = np.full((groups, people), week == 0)
        seen = [
            *last.values(),
            *age.values(),
            now,
            *friends,
            start,
            np.full(start.shape, week / weeks),
        ]
        out.append(np.concatenate([data["features"], np.stack(seen, -1)], -1))
        for name in last:
            answer = data[name][:, week]
            known = ~np.isnan(answer)
            last[name] = np.where(known, 2 * np.nan_to_num(answer) - 1, last[name])
            age[name] = np.where(known, 0, np.minimum(1, age[name] + 1 / weeks))
    return np.stack(out, 1)


def fit(
    data: dict[str, np.ndarray], epochs: int, batch: int, key: int, progress: bool
) -> nesymm.Model:
    """The network, trained by the answers of some groups."""
    seen = views(data)
    n = seen.shape[2]
    network = nesymm.MLP(seen.shape[-1], 1, width=32, depth=2, key=key)
    model = nesymm.compile(PROGRAM, networks={"guess": network}, constants={"n": n})
    steps = epochs * (len(seen) // batch)
    given = {"person": data["person"], "view": seen, "smokes": data["smokes"]}
    return model.fit(
        given,
        epochs=epochs,
        batch_size=batch,
        optimizer=optax.adamw(optax.cosine_decay_schedule(0.005, steps), weight_decay=0.01),
        key=key,
        progress=progress,
    ).model


def predict(model: nesymm.Model, data: dict[str, np.ndarray]) -> np.ndarray:
    """The chance that each person smokes, [group, week, person]."""
    people = data["smokes"].shape[2]
    given = {"person": data["person"], "view": views(data)}
    result = model.with_constants(n=people).filter(given)
    return np.stack([result.filtered[f"smokes({p + 1})@t"] for p in range(people)], -1)

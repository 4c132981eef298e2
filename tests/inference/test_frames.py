"""Results as data frames and data sets."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import nesymm

MODEL = nesymm.compile("""
    :- input(at(key, key), [ann, bob], 1..2).
    0.5::ill(P)@0 :- at(P, _).
    ill(P)@t :- ill(P)@(t-1).
    0.2::ill(P)@t :- at(P, R), at(Q, R), ill(Q)@(t-1).
    near(P, R)@t :- ill(P)@t, at(P, R).
    any@t :- ill(_)@t.
    query(ill(P)@t). query(near(P, R)@(1:T)). query(any@T). query(ill(ann)@1).
""")
DATA = [{"at": [("ann", 1), ("bob", 1)]}, {"at": [("bob", 2)]}]


def test_filtered() -> None:
    found = MODEL.filter(DATA, steps=[3, 2], method="exact")
    frame = found.to_dataframe()
    assert list(frame.columns) == [
        "sequence", "time", "atom", "predicate", "argument 1", "argument 2", "probability"
    ]  # fmt: skip
    assert len(frame) == (3 + 2) * 2 + (2 + 1) * 3 + 2 + 2
    for row in frame.itertuples(index=False):
        b, t, name, p = row.sequence, row.time, row.atom, row.probability
        table = found.filtered if name in found.filtered else found.final
        assert p == (table[name][b, t] if table is found.filtered else table[name][b])
    of_bob = frame[(frame.predicate == "near") & (frame["argument 1"] == "bob")]
    assert set(of_bob["argument 2"]) == {1, 2}
    assert frame[frame.atom == "any@T"].time.tolist() == [2, 1]


def test_named_dimensions() -> None:
    found = MODEL.filter(DATA, steps=[3, 2], method="exact")
    data = found.to_xarray()
    assert data["near"].dims == ("sequence", "time", "near 1", "near 2")
    one = data["near"].sel({"near 1": "bob", "near 2": 2})
    np.testing.assert_array_equal(one, found.filtered["near(bob,2)@(1:T)"])
    assert np.isnan(one[0, 0]) and data["near"].sel({"near 1": "ann", "near 2": 2})[0, 1] == 0
    smoothed = MODEL.smooth(DATA, steps=[3, 2], method="exact")
    np.testing.assert_array_equal(
        smoothed.to_xarray()["ill"].sel({"ill 1": "ann"}), smoothed["ill(ann)@t"]
    )
    assert smoothed.to_dataframe().probability.between(0, 1).all()


def test_answers_about_one_step_have_no_time() -> None:
    found = MODEL.filter(DATA, steps=[3, 2], method="exact")
    data = found.to_xarray()
    assert data["any"].dims == ("sequence",)
    np.testing.assert_array_equal(data["any"], found.final["any@T"])
    np.testing.assert_array_equal(data["ill@1"].sel({"ill@1 1": "ann"}), found.final["ill(ann)@1"])


def test_trajectories_have_names() -> None:
    model = nesymm.compile("""
        :- input(at(key), [ann, bob]).
        mood(P, M)@t ~ categorical([0.5, 0.5], [good, bad]) :- at(P).
        was(P, M)@t :- mood(P, M)@(t-1).
        query(was(P, M)@t).
    """)
    drawn = model.trajectories([{"at": ["bob"]}], 2, steps=3, method="exact", key=1)
    last = drawn.to_xarray()["mood"]
    assert last.dims == ("sequence", "trajectory", "time", "mood 1")
    assert set(last.sel({"mood 1": "bob"}).values.ravel()) <= {"good", "bad"}
    assert pandas.isna(last.sel({"mood 1": "ann"})).all()
    for k in range(2):
        for t in range(2):
            word = last.sel({"mood 1": "bob"}).values[0, k, t]
            assert f"mood(bob,{word})@{t}" in drawn.atoms(0, k, t)


def test_trajectories() -> None:
    drawn = MODEL.trajectories(DATA, 2, steps=[3, 2], method="exact", key=1)
    frame = drawn.to_dataframe()
    assert list(frame.columns) == ["sequence", "trajectory", "time", "atom"]
    for (b, k, t), rows in frame.groupby(["sequence", "trajectory", "time"]):
        assert rows.atom.tolist() == list(drawn.atoms(b, k, t))
    data = drawn.to_xarray()
    assert data["ill"].dims == ("sequence", "trajectory", "time", "ill 1")
    np.testing.assert_array_equal(data["ill"], drawn.values["ill"])


def test_histories() -> None:
    model = nesymm.compile("t(0.4)::a@t. observe(a@t).")
    fitted = model.fit({"a": np.ones((3, 4))}, epochs=3, progress=False)
    assert fitted.to_dataframe().loss.tolist() == [row["loss"] for row in fitted.history]
    data = fitted.to_xarray()
    assert data["loss"].dims == ("epoch",) and data.epoch.values.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(data["loss"], [row["loss"] for row in fitted.history])


def test_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(nesymm.NesymmError, match=r"pandas is needed.*(.|\n)*nesymm\[data\]"):
        MODEL.filter(DATA, steps=2).to_dataframe()

"""The public interface: what a new user finds without reading pages."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import nesymm
from nesymm.cli.main import app
from nesymm.errors import NesymmError


def test_everything_public_is_found() -> None:
    assert {*nesymm.__all__} <= {*dir(nesymm)}
    for name in nesymm.__all__:
        assert getattr(nesymm, name) is not None
    told = pydoc.plain(pydoc.render_doc(nesymm))
    assert "class RaoBlackwellised" in told and "compile(source" in told


def test_importing_it_loads_neither_jax_nor_lark() -> None:
    code = "import nesymm, sys; print(sorted({'jax', 'lark', 'matplotlib'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_model_is_shown_in_one_line() -> None:
    model = nesymm.compile("t(0.3)::rain@t. 0.9::wet@t :- rain@t. observe(wet@t). query(rain@t).")
    shown = "Model(time: one step after another; observes: wet; asks: rain@t; parameters: rain=0.3)"
    assert repr(model) == shown
    assert "<td>parameters</td><td>rain=0.3</td>" in model._repr_html_()
    many = nesymm.compile("".join(f"0.5::a{i}. query(a{i}). " for i in range(20)))
    assert repr(many).endswith("a7, … (20))")


def test_a_network_that_is_missing_is_shown() -> None:
    model = nesymm.compile(
        ":- network(net, 2). :- input(image). x(K) ~ categorical(net(image), [p, q]). query(x(K))."
    )
    assert "networks: net (not given)" in repr(model)


def test_a_program_is_compiled_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "coin.nsl"
    path.write_text("0.25::heads. query(heads).", encoding="utf-8")
    found = nesymm.compile(path).infer()
    assert repr(found) == "Posterior(heads: 0.25; enumerate)"
    assert found.probability("heads") == pytest.approx(0.25)
    with pytest.raises(
        nesymm.NesymmError, match=r"expected a text or a path\w*\.Path, received int"
    ):
        nesymm.compile(3)  # type: ignore[arg-type]
    with pytest.raises(nesymm.NesymmError, match=r"missing\.nsl"):
        nesymm.compile(tmp_path / "missing.nsl")
    path.write_text("both :- heads, heads. query(both).", encoding="utf-8")
    extended = nesymm.compile("0.25::heads. query(heads).").extend(path)
    assert extended.infer().probability("both") == pytest.approx(0.25)


def test_other_values_of_parameters() -> None:
    model = nesymm.compile("t(0.3)::a. t(0.4)::b. query(a). query(b).")
    other = model.with_parameters(a=0.75)
    assert other.infer().probability("a") == pytest.approx(0.75)
    assert (other.parameters["b"], model.parameters["a"]) == (0.4, 0.3)
    with pytest.raises(
        nesymm.NesymmError, match=r"the program has no parameter c \(it has: a, b\)"
    ):
        model.with_parameters(c=0.5)


NEURAL = """
    :- input(u(X)@t). :- network(net, 1).
    x@t ~ bernoulli(net(X)) :- u(X)@t.
    t(0.7)::o@t :- x@t.
    t(0.2)::o@t :- not x@t.
    observe(o@t).
"""


@pytest.fixture(scope="module")
def neural() -> nesymm.Model:
    return nesymm.compile(NEURAL, networks={"net": nesymm.MLP(1, 1, 3, 1, key=0)})


def loss(model: nesymm.Model) -> Any:
    return -model.log_evidence({"u": np.array([[0.5, -1.0]]), "o": np.array([[1, 0]])}).sum()


def test_a_model_is_a_pytree_whatever_its_leaves_become(neural: nesymm.Model) -> None:
    leaves, tree = jax.tree.flatten(neural)
    assert len(leaves) == 2 + 4  # two parameters, two layers
    for leaf in (True, object(), (1, 2)):
        mapped = jax.tree.map(lambda _, leaf=leaf: leaf, neural)
        assert repr(mapped).startswith("Model(")
        assert jax.tree.structure(mapped, is_leaf=lambda x, leaf=leaf: x is leaf) == tree
    back = jax.tree.unflatten(tree, leaves)
    assert loss(back) == loss(neural)
    assert back.with_parameters(o=0.5).parameters == {"o": 0.5, "o.2": 0.2}
    other = nesymm.MLP(1, 1, 3, 1, key=1)
    changed = jax.tree.leaves(back.with_networks(net=other))
    np.testing.assert_array_equal(changed[2], jax.tree.leaves(other)[0])


@pytest.mark.compiled
def test_transformations_take_models(neural: nesymm.Model) -> None:
    plain = jax.grad(loss)(neural)
    for compiled in (jax.jit(jax.grad(loss)), eqx.filter_jit(jax.grad(loss))):
        same = jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-5), compiled(neural), plain)
        assert len(jax.tree.leaves(same)) == 6 and all(jax.tree.leaves(same))
    # The gradient of the sum over the worlds of two draws, by hand.
    p, q = neural.parameters["o"], neural.parameters["o.2"]
    net = neural.networks["net"]
    x = [float(jax.nn.sigmoid(net(u)[0])) for u in (0.5, -1.0)]
    seen = [p * x[0] + q * (1 - x[0]), 1 - p * x[1] - q * (1 - x[1])]
    assert plain.parameters["o"] == pytest.approx(-x[0] / seen[0] + x[1] / seen[1], rel=1e-4)
    many = jax.tree.map(lambda leaf: jax.numpy.stack([leaf, leaf]), neural)
    np.testing.assert_allclose(jax.vmap(loss)(many), [loss(neural)] * 2, rtol=1e-5)


def test_results_are_drawn(tmp_path: Path) -> None:
    model = nesymm.compile(
        "0.5::rain@t. rain@t :- rain@(t-1). 0.9::wet@t :- rain@t. observe(wet@t). query(rain@t)."
    )
    days = {"wet": np.array([[1.0, 0.0, np.nan], [0.0, 0.0, 1.0]])}
    found = model.filter(days)
    figure = nesymm.plot(found, tmp_path / "days.png", title="Days")
    assert (tmp_path / "days.png").read_bytes().startswith(b"\x89PNG")
    drawn = [line.get_ydata() for axes in figure.axes for line in axes.get_lines()]
    for row in found.filtered["rain@t"]:
        assert any(len(y) == 3 and np.allclose(y, row) for y in drawn)
    drawn_paths = nesymm.plot(model.trajectories(days, 5), title="Days")
    assert "5 trajectories" in drawn_paths.get_suptitle()
    with pytest.raises(nesymm.NesymmError, match=r"expected what `model\.filter`.* received dict"):
        nesymm.plot({})
    with pytest.raises(nesymm.NesymmError, match=r"the name must end in \.png, \.pdf or \.svg"):
        nesymm.plot(found, tmp_path / "days.gif")


# ---------------------------------------------------------------- files

CORRIDOR = """
    :- const(n, 4).
    :- network(lamp, 2).
    at(1)@0.
    t(0.1)::slips@t.
    at(X)@t :- at(X)@(t-1), slips@t.
    at(Y)@t :- at(X)@(t-1), not slips@t, Y is min(n, X + 1).
    light(L)@t ~ normal(lamp(X)) :- at(X)@t.
    observe(light@t).
    query(at(X)@t).
"""


def test_a_file_needs_no_model(tmp_path: Path) -> None:
    model = nesymm.compile(
        CORRIDOR, constants={"n": 3}, networks={"lamp": nesymm.MLP(1, 2, 5, 1, key=7, scale=0.5)}
    ).with_parameters(slips=0.25)
    nesymm.save(model, tmp_path / "corridor.safetensors")
    loaded = nesymm.load(tmp_path / "corridor.safetensors")
    assert (loaded.text, loaded.constants) == (model.text, {"n": 3})
    assert loaded.parameters == {"slips": 0.25}
    x = np.ones(1, "float32")
    np.testing.assert_array_equal(loaded.networks["lamp"](x), model.networks["lamp"](x))
    assert loaded.networks["lamp"].scale == 0.5
    with pytest.raises(nesymm.CheckpointError, match=r"there is no file .*none"):
        nesymm.load(tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    ("declared", "make"),
    [
        ("[1, 4, 6]", lambda: nesymm.ConvDecoder(2, (1, 4, 6), (3, 5), key=1)),
        ("3", lambda: nesymm.ConvEncoder((1, 4, 6), 3, (3, 5), key=1)),
    ],
)
def test_convolutions_are_built_again(tmp_path: Path, declared: str, make: Any) -> None:
    network = make()
    model = nesymm.compile(f":- network(f, {declared}). 0.5::a.", networks={"f": network})
    nesymm.save(model, tmp_path / "model.safetensors")
    loaded = nesymm.load(tmp_path / "model.safetensors").networks["f"]
    assert jax.tree.structure(loaded) == jax.tree.structure(network)
    for one, other in zip(jax.tree.leaves(loaded), jax.tree.leaves(network), strict=True):
        np.testing.assert_array_equal(one, other)


def test_networks_of_ones_own_are_given_to_load(tmp_path: Path) -> None:
    def apply(params: Any, x: Any) -> Any:
        return jnp.stack([params["w"] * x, params["b"]])

    made = nesymm.Function(apply, {"w": 0.0, "b": 0.0})
    learnt = nesymm.Function(apply, {"w": 2.0, "b": 1.0})
    path = tmp_path / "model.safetensors"
    nesymm.save(nesymm.compile(CORRIDOR, networks={"lamp": learnt}), path)
    with pytest.raises(nesymm.NesymmError, match=r"network lamp.*\n.*networks=\{\"lamp\": …\}\)`"):
        nesymm.load(path)
    loaded = nesymm.load(path, {"lamp": made}).networks["lamp"]
    np.testing.assert_array_equal(loaded(3.0), [6.0, 1.0])


def test_a_checkpoint_of_a_run_is_a_model(tmp_path: Path) -> None:
    model = nesymm.compile("t(0.5)::on@t. observe(on@t).")
    data = {"on": np.array([[1.0, 1, 0, 1]])}
    fitted = model.fit(data, epochs=2, batch_size=1, progress=False, checkpoints=tmp_path)
    loaded = nesymm.load(tmp_path / "epoch-000002.safetensors")
    assert loaded.parameters["on"] == pytest.approx(fitted.model.parameters["on"])


@pytest.mark.parametrize("command", ["check", "show", "query", "filter", "evaluate", "generate"])
def test_every_command_takes_a_model_file(tmp_path: Path, command: str) -> None:
    path = tmp_path / "rain.safetensors"
    text = "t(0.5)::rain@t. 0.9::wet@t :- rain@t. query(rain@t)."
    text += "" if command == "query" else " observe(wet@t)."
    nesymm.save(nesymm.compile(text).with_parameters(rain=0.25), path)
    np.savez(tmp_path / "days.npz", wet=np.array([[1.0, np.nan]]))
    (tmp_path / "more.nsl").write_text("query(rain@T).", encoding="utf-8")
    options = {"query": ["--steps", "2"], "generate": ["--steps", "2"]}
    given = options.get(command, [])
    if command in ("filter", "evaluate"):
        given = ["--data", str(tmp_path / "days.npz")]
    more = ["--extend"] if command in ("evaluate", "generate") else []
    args = [command, str(path), *more, str(tmp_path / "more.nsl"), *given]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    if command == "filter":
        assert re.search(r"\b1 +0\.25\b", result.stdout)
    late = CliRunner().invoke(app, ["check", str(tmp_path / "more.nsl"), str(path)])
    assert late.exit_code == 2
    assert "is a model file, which comes first" in late.stderr


def test_results_are_tables_in_a_notebook() -> None:
    model = nesymm.compile(
        "t(0.4)::rain@t. pos(X)@0 ~ uniform_int(1, 3). pos(X)@t :- pos(X)@(t-1). "
        "0.9::wet@t :- rain@t. observe(wet@t). query(rain@t). query(pos(2)@T)."
    )
    days = {"wet": np.array([[1.0, 0.0, 1.0]] * 12)}
    found = model.filter(days)
    head = "<th>sequence</th><th>steps</th><th>log-evidence</th><th>rain@t</th><th>pos(2)@T</th>"
    shown = found._repr_html_()
    assert head in shown and "<td>9</td><td>3</td>" in shown
    assert "<td>10</td>" not in shown and "<tr><td>…</td></tr>" in shown
    smoothed = model.smooth(days)
    assert repr(smoothed) == "Smoothed(12 sequences, 3 steps; asked: rain@t)"
    assert "<td>0</td><td>rain@t</td><td>1</td><td>0.0625</td><td>1</td>" in smoothed._repr_html_()
    drawn = model.trajectories({"wet": days["wet"][:1]}, 2)
    assert {"rain", "pos"} <= {*drawn}
    shown = drawn._repr_html_()
    assert "<th>step</th><th>sequence 0, trajectory 0</th><th>rain</th>" in shown
    for step in range(3):
        place, rain = drawn["pos"][0, 0, step], bool(drawn["rain"][0, 0, step])
        assert f"<td>{step}</td><td>pos({place})</td><td>{rain}</td>" in shown
    plain = nesymm.compile("0.25::a. query(a).").infer()
    assert "<td>a</td><td>0.25</td>" in plain._repr_html_()
    fitted = nesymm.Fitted(model, [{"epoch": 0.0, "loss": 1.5}])
    assert "<th>loss</th></tr><tr><td>0</td><td>1.5</td>" in fitted._repr_html_()


def test_trajectories_are_shown_in_the_words_of_the_program() -> None:
    """Several values of one fluent stand in its atom, and names are not numbers."""
    model = nesymm.compile(
        "at(2, 3, north)@0. at(X, Y, D)@t :- at(X, Y, D)@(t-1). "
        "wind(W)@t ~ categorical([1.0, 0.0], [weak, strong]). "
        "query(at(X, Y, D)@t). query(wind(weak)@t)."
    )
    shown = model.trajectories(steps=2)._repr_html_()
    assert "<tr><td>1</td><td>at(2,3,north)</td><td>weak</td></tr>" in shown


def test_only_trajectories_are_explained() -> None:
    model = nesymm.compile("0.5::a@t.  query(a@t).")
    with pytest.raises(NesymmError, match=r"explain takes what trajectories .* received Filtered"):
        model.explain(model.filter(steps=1))  # type: ignore[arg-type]

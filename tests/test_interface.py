"""The public interface: what a new user finds without reading pages."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import nesymm


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
    assert "<th>parameters</th><td>rain=0.3</td>" in model._repr_html_()
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
    with pytest.raises(nesymm.NesymmError, match=r"missing\.nsl"):
        nesymm.compile(tmp_path / "missing.nsl")


def test_other_values_of_parameters() -> None:
    model = nesymm.compile("t(0.3)::a. t(0.4)::b. query(a). query(b).")
    other = model.with_parameters(a=0.75)
    assert other.infer().probability("a") == pytest.approx(0.75)
    assert (other.parameters["b"], model.parameters["a"]) == (0.4, 0.3)
    with pytest.raises(
        nesymm.NesymmError, match=r"the program has no parameter c \(it has: a, b\)"
    ):
        model.with_parameters(c=0.5)

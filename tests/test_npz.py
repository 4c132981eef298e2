"""Files of arrays that are not what they seem: a clear error, and no memory is taken."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nesymm
from nesymm.cli.main import app
from nesymm.errors import NesymmError
from nesymm.inference.circuits.circuit import Circuit
from nesymm.inference.npz import read_npz

RAIN = "0.5::rain@t. observe(rain@t). query(rain@t)."


def header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    """The first bytes of an array, and no numbers."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return out.getvalue()


def archive(path: Path, **entries: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(f"{name}.npy", content)
    return path


def good() -> bytes:
    out = io.BytesIO()
    np.save(out, np.ones((1, 2)))
    return out.getvalue()


def written(text: str) -> bytes:
    """An array with this text for its header."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(8)


DAMAGED = "cannot read the array rain: its header is damaged or too long; it should say the type"
FORM = "{'descr': '<f8', 'fortran_order': False, 'shape': "
BROKEN = {
    "a call": (written(f"{FORM}open('x')}}\n"), DAMAGED),
    "a long header": (written(f"{FORM}(1,)}}{' ' * 20_000}\n"), DAMAGED),
    "claims 10^11 numbers": (header((10**11,)), r"it declares the shape \(100000000000,\)"),
    "claims 10^30 numbers": (header((10**15, 10**15)), "and holds only"),
    "negative": (header((-5, 3)), "cannot read the array rain"),
    "objects": (header((2,), "|O"), "it holds Python objects"),
    "cut off": (good()[:-4], "cannot read the array rain|and holds only"),
    "no header": (b"\x93NUMPY\x01\x00", "cannot read the array rain"),
    "another version": (b"\x93NUMPY\x09\x00" + bytes(40), r"version 9\.0 of the format"),
    "no array": (b"text", "cannot read the array rain"),
    "a wild header": (
        b"\x93NUMPY\x01\x00\x10\x00" + b"{'descr': [1,2,\n",
        "cannot read the array rain",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_arrays(tmp_path: Path, kind: str) -> None:
    content, message = BROKEN[kind]
    path = archive(tmp_path / "data.npz", rain=content)
    with pytest.raises(NesymmError, match=message):
        read_npz(path)
    (tmp_path / "rain.nsl").write_text(RAIN, encoding="utf-8")
    result = CliRunner().invoke(app, ["filter", str(tmp_path / "rain.nsl"), "--data", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "data.npz" in result.stderr and "rain" in result.stderr
    assert "ast." not in result.stderr and "pickle" not in result.stderr


def test_what_is_no_archive(tmp_path: Path) -> None:
    for name, content in {"text": b"rain", "empty": b"", "npy": good()}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(NesymmError, match=f"{name}` is not an .npz file"):
            read_npz(tmp_path / name)
    with pytest.raises(NesymmError, match=r"cannot read .*: No such file"):
        read_npz(tmp_path / "none.npz")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as file:
        file.writestr("readme.txt", "rain")
    with pytest.raises(NesymmError, match=r"readme\.txt is not an array"):
        read_npz(tmp_path / "zip.npz")


def test_good_files(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6).reshape(2, 3),
        "b": np.array(["up", "down"]),
        "c": np.zeros((2, 0)),
        "d": np.asfortranarray(np.ones((2, 3))),
    }
    np.savez(tmp_path / "plain.npz", **arrays)
    np.savez_compressed(tmp_path / "small.npz", **arrays)
    for name in ("plain.npz", "small.npz"):
        found = read_npz(tmp_path / name)
        assert list(found) == list(arrays)
        for key, array in arrays.items():
            np.testing.assert_array_equal(found[key], array)


# ---------------------------------------------------------------- states of streams


def test_a_foreign_file_is_not_the_state_of_a_stream(tmp_path: Path) -> None:
    stream = nesymm.compile(RAIN).stream(method="exact")
    stream.update({"rain": np.array([1])})
    path = tmp_path / "state.npz"
    message = "is not the state of a stream, as `stream.save` writes it"
    np.savez(path, rain=np.ones(3))
    with pytest.raises(NesymmError, match=message):
        stream.restore(path)
    for about in ("{}", "[]", "3", "{", '{"program": "x", "time": 1, "leaves": "many"}'):
        np.savez(path, about=np.asarray(about), key=np.zeros(2, np.uint32))
        with pytest.raises(NesymmError, match=message):
            stream.restore(path)
    path.write_bytes(b"no archive")
    with pytest.raises(NesymmError, match=r"is not an \.npz file"):
        stream.restore(path)
    with pytest.raises(NesymmError, match="cannot read"):
        stream.restore(tmp_path / "none.npz")
    assert stream.time == 1  # as it was


def test_states_of_other_streams(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    stream = nesymm.compile(RAIN).stream(method="exact", batch=2)
    for _ in range(2):
        stream.update({"rain": np.array([1, 0])})
    stream.save(path)
    saved = dict(np.load(path))
    with pytest.raises(NesymmError, match="was saved by another program"):
        nesymm.compile(RAIN.replace("0.5", "0.4")).stream(method="exact", batch=2).restore(path)
    other = nesymm.compile(RAIN).stream(method="exact", batch=3)
    with pytest.raises(NesymmError, match="was saved with another method, batch"):
        other.restore(path)
    assert other.time == 0 and other.state is None
    np.savez(path, **{**saved, "key": np.zeros(5)})
    with pytest.raises(NesymmError, match="is damaged: its time or its key"):
        nesymm.compile(RAIN).stream(method="exact", batch=2).restore(path)


def test_a_foreign_file_is_not_a_circuit(tmp_path: Path) -> None:
    np.savez(tmp_path / "circuit.npz", rain=np.ones(3))
    with pytest.raises(NesymmError, match="does not hold a circuit"):
        Circuit.load(tmp_path / "circuit.npz")

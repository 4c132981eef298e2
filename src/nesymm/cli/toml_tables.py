"""Reading TOML key by key, so that every mistake is found, with its line, and all at once."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from nesymm.errors import NesymmError
from nesymm.inference.options import Rule, whole

REQUIRED: Any = object()


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_tables(value: Any) -> bool:
    rows = [value] if isinstance(value, dict) else value
    return isinstance(rows, list) and all(isinstance(row, dict) for row in rows)


TEXT = Rule("a text", lambda v: isinstance(v, str) and bool(v))
NUMBER = Rule("a number", is_number)
POSITIVE = Rule("a number above 0", lambda v: is_number(v) and v > 0)


def whole_numbers(length: int | None = None, least: int = 1) -> Rule:
    """A list of numbers from `least`, of any length but 0 or of this one."""

    def fits(value: Any) -> bool:
        if not isinstance(value, list) or len(value) != (length or max(len(value), 1)):
            return False
        return all(map(whole(least).fits, value))

    return Rule(f"a list of{f' {length}' if length else ''} whole numbers from {least}", fits)


class ConfigError(NesymmError):
    """The mistakes of a configuration file, one per line."""


class TomlFile:
    """A TOML file and the mistakes found in it so far."""

    def __init__(self, path: Path):
        self.path = path
        self.mistakes: list[str] = []
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read `{path}`: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"`{path}` is not UTF-8: {error.reason}") from None
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"`{path}` is not TOML: {error}") from None
        self.lines = _lines(text)
        self.root = Table(self, "", content)

    def mistake(self, section: str, key: str, message: str) -> None:
        line = self.lines.get((section, key), self.lines.get((section, "")))
        place = f"{self.path}:{line}" if line else str(self.path)
        name = " ".join(part for part in (f"[{section}]" if section else "", key) if part)
        self.mistakes.append(f"{place}: {name}: {message}")

    def finish(self) -> None:
        """Raise if something was wrong."""
        if self.mistakes:
            raise ConfigError("\n".join(self.mistakes))


class Table:
    """A table of the file. Keys that nobody asks for are unknown."""

    def __init__(self, file: TomlFile, section: str, content: Mapping[str, Any]):
        self.file = file
        self.section = section
        self.content = content
        self.asked: list[str] = []

    def take(self, key: str, rule: Rule, default: Any = REQUIRED) -> Any:
        """The value of a key; None where it is wrong, and that is noted."""
        self.asked.append(key)
        if key not in self.content:
            if default is REQUIRED:
                self.wrong(key, f"is missing; expected {rule.expected}")
                return None
            return default
        value = self.content[key]
        if not rule.fits(value):
            self.wrong(key, f"expected {rule.expected}, received {shown(value)}")
            return None
        return value

    def number(self, key: str, default: Any = REQUIRED, rule: Rule = NUMBER) -> Any:
        value = self.take(key, rule, default)
        return float(value) if is_number(value) else value

    def integers(self, key: str, rule: Rule, default: Any = REQUIRED) -> tuple[int, ...] | None:
        value = self.take(key, rule, default)
        return None if value is None else tuple(value)

    def choice(self, key: str, options: Sequence[str], default: Any = REQUIRED) -> Any:
        value = self.take(key, TEXT, default)
        if value is not None and value is not default and value not in options:
            self.wrong(key, f"expected {one_of(options)}, received {shown(value)}", value, options)
            return None
        return value

    def path(self, key: str, default: Any = REQUIRED) -> Any:
        """A path, from the folder of the file."""
        value = self.take(key, TEXT, default)
        return self.file.path.parent / value if isinstance(value, str) else value

    def existing(self, key: str, default: Any = REQUIRED) -> Any:
        """The path of a file that is there."""
        path = self.path(key, default)
        if isinstance(path, Path) and not path.is_file():
            why = "is a folder" if path.is_dir() else "does not exist"
            self.wrong(key, f"expected a file, but `{path}` {why}")
            return None
        return path

    def table(self, key: str, required: bool = False) -> Table:
        """A table in this one; empty if it is not there."""
        name = f"{self.section}.{key}" if self.section else key
        default = REQUIRED if required else {}
        value = self.take(key, Rule("a table", lambda v: isinstance(v, dict)), default)
        return Table(self.file, name, value or {})

    def tables(self, key: str) -> list[Table]:
        """A table or a list of tables."""
        value = self.take(key, Rule(f"tables: [[{key}]]", _are_tables), [])
        if isinstance(value, dict):
            return [Table(self.file, key, value)]
        return [Table(self.file, f"{key} {i}", row) for i, row in enumerate(value or [], 1)]

    def wrong(
        self, key: str, message: str, received: str | None = None, known: Sequence[str] = ()
    ) -> None:
        near = get_close_matches(received, known, 1) if received is not None else []
        if near:
            message += f"\n  = help: did you mean {near[0]}?"
        self.file.mistake(self.section, key, message)

    def done(self) -> None:
        """Note the keys that nobody has asked for."""
        for key in self.content:
            if key not in self.asked:
                known = ", ".join(self.asked) or "none"
                self.wrong(key, f"there is no such key (there are: {known})", key, self.asked)


def one_of(options: Sequence[str]) -> str:
    *most, last = options
    return f"{', '.join(most)} or {last}" if most else last


def shown(value: Any) -> str:
    """A value of TOML as one would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "a table"
    return str(value)


_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"""^\s*["']?([\w-]+)["']?\s*=""")


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Where sections and keys stand, as far as one line tells."""
    found: dict[tuple[str, str], int] = {}
    section = ""
    repeated: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            section = header[2]
            if header[1] == "[[":
                repeated[section] += 1
                section = f"{section} {repeated[section]}"
            found.setdefault((section, ""), number)
            continue
        key = _KEY.match(line)
        if key:
            found.setdefault((section, key[1]), number)
    return found

"""Inputs that nobody foresaw: mutated files, texts and options, which must be taken or refused in one sentence.

    python tests/fuzz/fuzz.py --inputs 100000

Each target takes bytes.  Nothing but a `SynthDPError` may be raised, and no input may take longer than `SECONDS`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from click.testing import CliRunner

from synthdp import Boolean, Categorical, Continuous, Datetime, Integer, L1Fit, Schema, SyntheticRelease, load
from synthdp.cli import main as command
from synthdp.errors import SynthDPError
from synthdp.queries.expressions import parse
from synthdp.tables.csv import CsvSource

SECONDS = 10
SCHEMA = Schema(
    {"n": Integer(0, 9, nullable=True), "x": Continuous(0, 1), "c": Categorical(["a", "b"]), "b": Boolean(),
     "t": Datetime("2020-01-01", "2021-01-01")}
)  # fmt: skip
TOKENS = [
    b"", b"0", b"-1", b"1e999", b"NaN", b"null", b"true", b"[]", b"{}", b'"', b",", b"\n", b"\r\n", b"\x00", b"\xff", b"\\",
    b"'", b"(", b")", b"9" * 400, b"[" * 200, b"-Infinity", b"\xef\xbb\xbf", b"=1+1", b"and", b"or", b"not", b"in",
    b"between", b"==", b"<=", b"mean", b"count", b"--", b"\xe2\x80\xae", b'"a0"', b'"shape"', b"18446744073709551616",
]  # fmt: skip


def mutated(seed: bytes, rng: np.random.Generator) -> bytes:
    """A seed with a few bytes or pieces changed, removed, repeated or replaced by a token."""
    data = bytearray(seed)
    for _ in range(int(rng.integers(1, 6))):
        place, end = sorted(int(p) for p in rng.integers(0, len(data) + 1, 2))
        end = min(end, place + int(rng.integers(0, 12)))
        piece = (
            TOKENS[int(rng.integers(len(TOKENS)))],
            bytes(rng.integers(0, 256, int(rng.integers(0, 4)), dtype=np.uint8)),
            bytes(data[place:end]) * 2,
            b"",
        )[int(rng.integers(4))]
        data[place:end] = piece
    return bytes(data)


def schema_json(data: bytes, _: Path) -> None:
    Schema.from_json(data.decode("utf-8", "surrogateescape"), source="fuzz")


def schema_file(data: bytes, folder: Path) -> None:
    (folder / "schema.json").write_bytes(data)
    Schema.read(folder / "schema.json")


def csv_file(data: bytes, folder: Path) -> None:
    (folder / "t.csv").write_bytes(data)
    source = CsvSource(folder / "t.csv")
    columns = {name: SCHEMA[name] for name in SCHEMA if name in source.names}
    for _ in source.blocks(columns, extra=source.names[:2]):
        pass


def expression(data: bytes, _: Path) -> None:
    parse(data.decode("utf-8", "replace"))


def release_json(data: bytes, folder: Path) -> None:
    """The document of a release; its checksum is of the arrays, so that the document is read to its end."""
    (folder / "release" / "release.json").write_bytes(data)
    load(folder / "release").sample(3)


def release_arrays(data: bytes, folder: Path) -> None:
    """The arrays of a release, with the checksum made right, so that they are read."""
    import hashlib

    document = json.loads(SEEDS["release_json"][0])
    document["arrays_sha256"] = hashlib.sha256(data).hexdigest()
    (folder / "release" / "release.json").write_text(json.dumps(document))
    (folder / "release" / "arrays.npz").write_bytes(data)
    load(folder / "release").sample(3)


def options(data: bytes, folder: Path) -> None:
    """Words of a command line; a refusal is exit code 1 or 2 and no traceback."""
    words = data.decode("utf-8", "replace").replace("\x00", "").split()
    with contextlib.chdir(folder):
        ran = CliRunner().invoke(command, words)
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception


TARGETS: dict[str, Callable[[bytes, Path], None]] = {
    "schema_json": schema_json,
    "schema_file": schema_file,
    "csv_file": csv_file,
    "expression": expression,
    "release_json": release_json,
    "release_arrays": release_arrays,
    "options": options,
}


def _seeds() -> dict[str, list[bytes]]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"n": rng.integers(0, 10, 40), "x": rng.random(40), "c": rng.choice(["a", "b"], 40), "b": rng.random(40) < 0.5,
         "t": pd.Timestamp("2020-05-05")}
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        SyntheticRelease(schema=SCHEMA, mechanism=L1Fit(support=20)).fit(table).save(folder / "release")
        document, arrays = ((folder / "release" / part).read_bytes() for part in ("release.json", "arrays.npz"))
    text = SCHEMA.to_json().encode()
    return {
        "schema_json": [text],
        "schema_file": [text],
        "csv_file": [table.head(5).to_csv(index=False).encode(), b'n,x,"c"\r\n1,0.5,"a\nb"\r\n,,""\r\n'],
        "expression": [b"count where n > 3 and c == 'a'", b"mean(x) where not (b or n in [1, 2])", b"x <= 0.5"],
        "release_json": [document],
        "release_arrays": [arrays],
        "options": [
            b"release t.csv --schema s.json --out o.csv --epsilon 1", b"sample r --rows 3 --out o.csv --given c=a",
            b"ledger l.sqlite --dataset d --cap 1", b"schema infer t.csv", b"audit --runs 3", b"--help", b"doctor --what",
        ],
    }  # fmt: skip


SEEDS = _seeds()
NEVER = {b"doctor", b"demo", b"audit"}
"""Commands that take seconds when they are right: they are tried only with something wrong."""


def fuzz(target: str, inputs: int, *, seed: int = 0, failures: int = 5) -> list[tuple[bytes, str]]:
    """Run mutated inputs; return those that raised anything else than a refusal, or took too long."""
    rng = np.random.default_rng(seed)
    run, found = TARGETS[target], []
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        (folder / "release").mkdir()
        (folder / "release" / "arrays.npz").write_bytes(SEEDS["release_arrays"][0])
        signal.signal(signal.SIGALRM, _too_long)
        for _ in range(inputs):
            data = mutated(SEEDS[target][int(rng.integers(len(SEEDS[target])))], rng)
            if target == "options" and NEVER & set(data.split()) and b"--" not in data:
                continue
            signal.alarm(SECONDS)
            try:
                run(data, folder)
            except SynthDPError:
                pass
            except BaseException as error:  # noqa: BLE001 - anything else is what is looked for
                found.append((data, f"{type(error).__name__}: {error}"))
            finally:
                signal.alarm(0)
            if len(found) >= failures:
                break
    return found


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("targets", nargs="*", default=list(TARGETS))
    arguments = parser.parse_args()
    bad = 0
    for target in arguments.targets:
        started = time.monotonic()
        found = fuzz(target, arguments.inputs, seed=arguments.seed)
        sys.stdout.write(
            f"{target}: {arguments.inputs} inputs, {len(found)} failures, {time.monotonic() - started:.0f} s\n"
        )
        for data, why in found:
            sys.stdout.write(f"  {why}\n    {data[:300]!r}\n")
        bad += len(found)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

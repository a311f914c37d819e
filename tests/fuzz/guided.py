"""Fuzzing that follows the branches which inputs take, with atheris (``pip install atheris``).

    python tests/fuzz/guided.py csv_file --runs 100000 --seconds 300

The targets and what they may do are those of ``fuzz.py``.  An input that breaks a rule ends the run and is kept in
``corpus/TARGET``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from pathlib import Path


def main() -> None:
    import atheris  # no dependency of the tests

    sys.path.insert(0, str(Path(__file__).parent))
    with atheris.instrument_imports(include=["synthdp"]):
        import fuzz

        from synthdp.errors import SynthDPError
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=fuzz.TARGETS)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=300)
    arguments = parser.parse_args()
    target = arguments.target
    folder = fuzz.prepared(Path(tempfile.mkdtemp()))
    seeds = folder / "seeds"
    seeds.mkdir()
    for i, data in enumerate(fuzz.seeds()[target]):
        (seeds / str(i)).write_bytes(data)
    warnings.simplefilter("ignore")

    def one(data: bytes) -> None:
        try:
            fuzz.TARGETS[target](data, folder)
        except SynthDPError:
            pass
        except BaseException:
            sys.stderr.write(f"kept as {fuzz.keep(target, data)}\n")
            raise

    limits = [f"-runs={arguments.runs}", f"-max_total_time={arguments.seconds}", f"-timeout={fuzz.SECONDS}"]
    corpora = [str(seeds), *([str(fuzz.CORPUS / target)] if (fuzz.CORPUS / target).is_dir() else [])]
    os.chdir(folder)
    atheris.Setup([sys.argv[0], *limits, "-rss_limit_mb=4096", "-max_len=8192", *corpora], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""The K-marginal score of synthetic tables by NIST's SDNist 2.4, unmodified; runs in SDNist's own environment.

    ENVIRONMENT/bin/python benchmarks/utility/nist_judge.py FOLDER SYNTHETIC.csv ...

FOLDER holds NIST's Diverse Community Excerpts (data_dictionary.json, massachusetts/ma2019.csv and the rest).  Prints a
JSON line for each table: ``score``, which SDNist's report shows without its fraction; ``places``, the score of each
PUMA; and ``dropped``, the columns that it did not judge, as they hold a value that the data dictionary does not have.
"""

import contextlib
import json
import sys
import warnings
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
warnings.simplefilter("ignore")

import sdnist.report  # noqa: E402, F401 first: the package imports itself in a circle
from sdnist.load import TestDatasetName  # noqa: E402
from sdnist.metrics.kmarginal import KMarginal  # noqa: E402
from sdnist.report.dataset import Dataset  # noqa: E402
from sdnist.utils import SimpleLogger  # noqa: E402


def main() -> None:
    """Judge each table."""
    folder, *tables = map(Path, sys.argv[1:])
    for synthetic in tables:
        with contextlib.redirect_stdout(sys.stderr):
            data = Dataset(synthetic, SimpleLogger(), TestDatasetName.ma2019, folder, download=False)
            groups = data.config["k_marginal"]["group_features"]
            judge = KMarginal(data.d_target_data, data.d_synthetic_data, groups)
            score = float(judge.compute_score())
        places = {str(place): float(value) for place, value in getattr(judge, "scores", {}).items()}
        dropped = sorted(data.validation_log["values_out_of_bound"])
        print(json.dumps({"score": score, "places": places, "dropped": dropped, "marginals": len(judge.marginals)}))


if __name__ == "__main__":
    main()

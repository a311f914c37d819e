"""RepU and DiSCO of members and of others at epsilon = 1, over splits of Adult; and what a test of its risk takes.

    python benchmarks/utility/risk.py [--splits 10] [--epsilon 1]

Half of Adult is released, the other half is the control group.  One split tells the difference to about .12 points of
sampling error, so that several are averaged.
"""

import argparse
import time

import numpy as np

import synthdp as sd
from synthdp.data import adult, adult_schema
from synthdp.nonprivate.attacks import disclosive, joint_tables, replicated_uniques

KEYS = ["age", "sex", "race", "education"]
TARGET = "occupation"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=1.0)
    told = parser.parse_args()
    table, found = adult(), []
    for split in range(told.splits):
        order = np.random.default_rng(split).permutation(len(table))
        half = len(table) // 2
        train, holdout = table.iloc[order[:half]], table.iloc[order[half : 2 * half]]
        synthetic = sd.SyntheticRelease(schema=adult_schema(), epsilon=told.epsilon).fit_transform(train)
        joint = joint_tables((train, synthetic, holdout), None)
        keys, target = [joint.names.index(name) for name in KEYS], joint.names.index(TARGET)
        groups = joint.train, joint.holdout
        shares = [100 * replicated_uniques(group, joint.synthetic, keys).mean() for group in groups]
        shares += [100 * disclosive(group, joint.synthetic, keys, target).mean() for group in groups]
        found.append(shares)
        print(
            f"split {split}: RepU {shares[0]:.2f} / {shares[1]:.2f} %, DiSCO {shares[2]:.2f} / {shares[3]:.2f} %",
            flush=True,
        )
    mean = np.mean(found, axis=0)
    gaps = np.array(found)[:, ::2] - np.array(found)[:, 1::2]
    errors = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else [np.nan, np.nan]
    for name, a, gap, error in zip(("RepU", "DiSCO"), mean[::2], gaps.mean(axis=0), errors, strict=True):
        print(f"{name}: members {a:.2f} %, minus others {gap:+.3f} points, standard error {error:.3f}")
    started = time.process_time()
    sd.nonprivate_risk(train, synthetic, holdout, keys=KEYS, target=[TARGET, "income"])
    print(f"the whole test takes {time.process_time() - started:.1f} processor seconds")


if __name__ == "__main__":
    main()

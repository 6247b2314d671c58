"""Print what the verdict rule does: false claims, coverage, pairs needed, cost of a judgement.

    python bench/verdicts.py [--studies 10000] [--seed 1]

Everything is simulated from the seed; docs/explanation/statistics.md explains the tables.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

# This file is called as the standard library's module is, and the interpreter puts its folder first on the path.
sys.path.pop(0)

import numpy as np
from scipy.special import nctdtr, stdtrit

from noise_models import NOISE_MODELS, NoiseModel, normal, paired_log_ratios
from pgdyno.model.verdict import Metric
from pgdyno.stats.boundary import critical_values
from pgdyno.stats.sequential import STRICT, Design, judge
from pgdyno.stats.steady import find_steady
from pgdyno.studies.tune.options import TuneOptions
from simulation import Studies, run_studies

DESIGNS = {"default": Design(), "strict": STRICT}
EFFECTS = (0.02, 0.05, 0.10, 0.20, 2.00)


def simulate(design: Design, model: NoiseModel, args: argparse.Namespace, *, cv: float, effect: float = 0.0) -> Studies:
    """Return the ends of `--studies` simulated studies."""
    rng = np.random.default_rng(args.seed)
    ratios = paired_log_ratios(model, rng=rng, studies=args.studies, pairs=design.max_pairs, cv=cv, effect=effect)
    return run_studies(ratios, design)


def fixed_pairs(effect: float, pair_sd: float, power: float, confidence: float) -> float:
    """Return the pairs, interpolated, that a paired t test of this confidence and power needs when looked at once."""

    def power_of(n: int) -> float:
        critical, centre = -stdtrit(n - 1, (1 - confidence) / 2), effect / pair_sd * math.sqrt(n)
        return float(1 - nctdtr(n - 1, centre, critical) + nctdtr(n - 1, centre, -critical))

    n = 2
    while power_of(n) < power:
        n += 1
    if n == 2:
        return 2.0
    below, above = power_of(n - 1), power_of(n)
    return n - 1 + (power - below) / (above - below)


def print_false_claims(name: str, design: Design, args: argparse.Namespace) -> None:
    """Print how often equal arms are called different, and what the interval at the stop covers."""
    cvs = (0.01, 0.03, 0.06, 0.12)
    print(f"\nEqual arms, {name} design: studies that claim a difference (allowed {1 - design.confidence:.2%}), ")
    print("coverage of the interval at the stop, mean pairs until final")
    print(f"{'noise':16}" + "".join(f"{f'CV {cv:.0%}':>24}" for cv in cvs))
    for model_name, model in NOISE_MODELS.items():
        cells = []
        for cv in cvs:
            found = simulate(design, model, args, cv=cv)
            cells.append(f"{found.claims:8.2%} {found.coverage(0.0):7.1%} {found.mean_pairs:6.1f}")
        print(f"{model_name:16}" + "".join(f"{cell:>24}" for cell in cells))


def print_proofs(args: argparse.Namespace) -> None:
    """Print how often a tune whose winners do nothing, or a little harm, calls one better: by one proof, and by all."""
    options, cvs = TuneOptions(), (0.01, 0.03, 0.06, 0.12)
    print("\nTunes whose winners have this effect: how many call one better, by the first proof and by all")
    print(f"{'noise':16}{'effect':>8}" + "".join(f"{f'CV {cv:.0%}':>17}" for cv in cvs))
    for model_name, model in NOISE_MODELS.items():
        for effect in (0.0, -0.01):
            cells = []
            for cv in cvs:
                rng, found = np.random.default_rng(args.seed), []
                for before in range(options.MOST_PROOFS):
                    design = options.of_proof(before).design(min_pairs=options.confirm_min)
                    pairs = design.max_pairs
                    ratios = paired_log_ratios(model, rng=rng, studies=args.studies, pairs=pairs, cv=cv, effect=effect)
                    found.append(run_studies(ratios, design).higher)
                cells.append(f"{found[0].mean():8.2%} {np.any(found, axis=0).mean():8.2%}")
            print(f"{model_name:16}{effect:8.0%}" + "".join(f"{cell:>17}" for cell in cells))


def print_pairs_needed(name: str, design: Design, args: argparse.Namespace) -> None:
    """Print power and mean pairs beside the fixed design of the same error and the same power."""
    print(f"\nTrue effects under normal noise, {name} design: power reached, mean pairs, pairs of the fixed design")
    print("(the paired t test of the same confidence and of the power in the same row), share of it, coverage")
    print(f"{'effect':>7} {'CV':>5} {'power':>7} {'pairs':>6} {'fixed':>6} {'share':>6} {'coverage':>9}")
    for effect in EFFECTS:
        for cv in (0.02, 0.05, 0.10):
            found = simulate(design, normal, args, cv=cv, effect=effect)
            power = found.claims
            # A power of 1 within the simulation has no fixed design; such effects resolve in a handful of pairs.
            known = 0.02 < power < 1 - 5 / args.studies
            fixed = fixed_pairs(math.log1p(effect), cv * math.sqrt(2), power, design.confidence) if known else None
            shown = f"{fixed:6.1f} {found.mean_pairs / fixed:6.0%}" if fixed else f"{'-':>6} {'-':>6}"
            coverage = found.coverage(math.log1p(effect))
            print(f"{effect:7.0%} {cv:5.0%} {power:7.1%} {found.mean_pairs:6.1f} {shown} {coverage:9.1%}")


def print_required_case(args: argparse.Namespace) -> None:
    """Print the case that the project promises: 5 % at CV 5 %, for several caps, at equal and at 90 % power."""
    print("\nA true 5 % effect at CV 5 % a run, confidence 95 %, by max_pairs")
    print(f"{'max_pairs':>9} {'power':>7} {'pairs':>6} {'fixed, same power':>18} {'share':>6}")
    for max_pairs in (24, 32, 40, 48, 60):
        found = simulate(Design(max_pairs=max_pairs), normal, args, cv=0.05, effect=0.05)
        fixed = fixed_pairs(math.log(1.05), 0.05 * math.sqrt(2), found.claims, 0.95)
        share = f"{found.mean_pairs / fixed:6.0%}"
        print(f"{max_pairs:9} {found.claims:7.1%} {found.mean_pairs:6.1f} {fixed:18.1f} {share}")
    fixed_90 = fixed_pairs(math.log(1.05), 0.05 * math.sqrt(2), 0.9, 0.95)
    print(f"the fixed design of 90 % power needs {fixed_90:.1f}; no design here reaches 60 % of it at that power:")
    print("known variance and Wald's bound would allow 57 %, unknown variance and whole pairs cost the rest")


def print_costs(args: argparse.Namespace) -> None:
    """Print what the rules cost in time."""
    rng = np.random.default_rng(args.seed)
    a, b = np.exp(rng.standard_normal((2, 24)) * 0.05)
    design = Design()
    critical_values.cache_clear()
    begun = time.perf_counter()
    judge(a, b, metric=Metric.THROUGHPUT, design=design)
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    for _ in range(1000):
        judge(a, b, metric=Metric.THROUGHPUT, design=design)
    each = (time.perf_counter() - begun) / 1000
    ratios = paired_log_ratios(normal, rng=rng, studies=10_000, pairs=design.max_pairs, cv=0.05)
    begun = time.perf_counter()
    run_studies(ratios, design)
    studies = time.perf_counter() - begun
    counts = rng.poisson(5000 * (1 - 0.3 * np.arange(240) / 240))
    begun = time.perf_counter()
    find_steady(counts, bin_s=1, min_window_s=60)
    steady = time.perf_counter() - begun
    print(f"\njudge, 24 pairs: {each * 1e3:.3f} ms (the first of a design {first * 1e3:.0f} ms)")
    print(
        f"10,000 studies of {design.max_pairs} pairs: {studies:.2f} s; steady state of 240 bins: {steady * 1e3:.1f} ms"
    )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for name, design in DESIGNS.items():
        print(f"{name}: {design}")
    for name, design in DESIGNS.items():
        print_false_claims(name, design, args)
        print_pairs_needed(name, design, args)
    print_required_case(args)
    print_proofs(args)
    print_costs(args)


if __name__ == "__main__":
    main()

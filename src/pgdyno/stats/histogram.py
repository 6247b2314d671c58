"""Latency histograms that add: HdrHistogram from 1 us to 1 h with three significant digits.

Percentiles are never averaged: histograms of seconds, scripts and load generators are added, and a percentile is
read off the sum. The one module that imports the HdrHistogram library, for its layout and its V2 encoding; counts go
into its array by NumPy, because a call for each of a million values would take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self
from weakref import proxy

import numpy as np
from hdrh.histogram import HdrHistogram

from pgdyno.errors import UsageError
from pgdyno.stats.arrays import Ints

LOWEST_US = 1
HIGHEST_US = 3_600_000_000
SIGNIFICANT_DIGITS = 3
RELATIVE_ERROR = 1 / 1024
"""How far at most the greatest value of a bucket lies above another in it; below 2,048 us a bucket is one value."""
_HALF_BITS = 10
"""A power of two is divided into 2^10 buckets, the first that do for three significant digits."""


def bucket_of(micros: Ints) -> Ints:
    """Return the bucket of each latency from 0 us up: below 2^11 us its value, then 2^10 for each power of two.

    The layout of HdrHistogram. Above one hour a value is in the bucket of one hour.
    """
    buckets: Ints = np.minimum(micros, HIGHEST_US)
    large = np.flatnonzero(buckets >= 1 << (_HALF_BITS + 1))  # few, where a server answers within two milliseconds
    values = buckets[large]
    shift = np.frexp(values.astype(np.float64))[1].astype(np.int64) - (_HALF_BITS + 1)
    buckets[large] = (shift << _HALF_BITS) + (values >> shift)
    return buckets


def lowest_of(index: Ints | np.intp) -> Ints:
    """Return the least value of a bucket in microseconds."""
    half = 1 << _HALF_BITS
    shift = np.maximum(np.asarray(index, dtype=np.int64) // half - 1, 0)
    return np.asarray((index - shift * half) << shift, dtype=np.int64)


def highest_of(index: Ints | np.intp) -> Ints:
    """Return the greatest value of a bucket in microseconds."""
    return np.asarray(lowest_of(index + 1) - 1, dtype=np.int64)


BUCKETS = int(bucket_of(np.array([HIGHEST_US]))[0]) + 1


class LatencyHistogram:
    """Counts of latencies in microseconds. Mutable, and equal in content after `decode(encode())`."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Ints = np.zeros(BUCKETS, np.int64)

    def __len__(self) -> int:
        return int(self._counts.sum())

    def record(self, micros: Ints) -> None:
        """Count latencies in microseconds; those above one hour count as one hour.

        A million values take some 50 ms. Raises UsageError on negative values.
        """
        values = np.asarray(micros, dtype=np.int64).ravel()
        if values.size == 0:
            return
        if values.min() < 0:
            raise UsageError(f"latency {values.min()} us is negative", hint="Check the clock of the load generator.")
        self.record_buckets(np.bincount(bucket_of(values)))

    def record_buckets(self, counts: Ints) -> None:
        """Add counts by bucket, from bucket 0 on."""
        self._counts[: counts.size] += counts

    def add(self, other: LatencyHistogram) -> None:
        """Add the counts of another histogram to this one."""
        self._counts += other._counts

    @classmethod
    def merged(cls, blobs: Iterable[bytes]) -> Self:
        """Return the sum of encoded histograms. Raises UsageError on a blob that is not one of ours."""
        total = cls()
        for blob in blobs:
            total.add(cls.decode(blob))
        return total

    def quantile_ms(self, q: float) -> float:
        """Return the latency in ms below or at which a share `q` (0 to 1) of the values lies, within 0.1 %.

        As every HdrHistogram implementation: the highest value that the bucket of that rank holds.
        Raises UsageError for an empty histogram or a `q` outside 0 to 1.
        """
        if not 0 <= q <= 1:
            raise UsageError(f"quantile {q} is not in 0 to 1", hint="Write the 95th percentile as 0.95.")
        cumulative = np.cumsum(self._counts)
        total = int(cumulative[-1])
        if total == 0:
            raise UsageError("an empty histogram has no quantile", hint="Measure for longer.")
        rank = max(int(np.ceil(q * total - 1e-9)), 1)
        return float(highest_of(np.searchsorted(cumulative, rank))) / 1000.0

    def share_within(self, ms: float) -> float:
        """Return the share of the values that are at most so many ms, within 0.1 % of it; 0 of an empty one."""
        counts = self._counts
        total, last = int(counts.sum()), int(bucket_of(np.array([round(ms * 1000)]))[0])
        return float(counts[: last + 1].sum()) / total if total else 0.0

    def encode(self) -> bytes:
        """Return the V2 compressed encoding, which every HdrHistogram implementation reads."""
        hdr = _let_go(HdrHistogram(LOWEST_US, HIGHEST_US, SIGNIFICANT_DIGITS, b64_wrap=False))
        used = np.flatnonzero(self._counts)
        if used.size:
            np.ctypeslib.as_array(hdr.counts)[:BUCKETS] = self._counts
            hdr.set_internal_tacking_values(int(used[0]), int(used[-1]), len(self))
        return bytes(hdr.encode())

    @classmethod
    def decode(cls, blob: bytes) -> Self:
        """Return the histogram that `encode` wrote. Raises UsageError on bytes that are not one of ours."""
        histogram = cls()
        try:
            decoded = _let_go(HdrHistogram.decode(blob, b64_wrap=False))
        except Exception as error:  # the library raises bare, zlib and ctypes errors alike on damaged bytes
            raise UsageError("the bytes are not an encoded histogram", detail=str(error)) from error
        shape = (decoded.lowest_trackable_value, decoded.highest_trackable_value, decoded.significant_figures)
        if shape != (LOWEST_US, HIGHEST_US, SIGNIFICANT_DIGITS):
            raise UsageError(f"a histogram of {shape[0]} to {shape[1]} us and {shape[2]} digits is not one of ours")
        counts = np.ctypeslib.as_array(decoded.counts)
        if counts[BUCKETS:].any():
            raise UsageError("a histogram with latencies above one hour is not one of ours")
        histogram._counts[:] = counts[:BUCKETS]
        return histogram


def _let_go(hdr: HdrHistogram) -> HdrHistogram:
    """Return the histogram, free of the cycle with its encoder: it would hold 190 KB until garbage is looked for.

    That is seldom (`NEW_OBJECTS` of the command line): two hours of seconds came to 1.4 GB.
    """
    hdr.encoder.histogram = proxy(hdr)
    return hdr

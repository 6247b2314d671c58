"""Write-back of changed pages: the thresholds of the kernel, and bursts of writing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import Fires, InOrder, Judgement
from pgdyno.model import linux
from pgdyno.model.evidence import HostActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution
from pgdyno.units import binary_text, percent_text

MIB = 1 << 20
BACKGROUND, FOREGROUND = 64 * MIB, 512 * MIB
"""What the guides of 2017 and 2023 propose."""
BACKGROUND_ALIKE = 128 * MIB
"""From 32 to 128 MiB made no difference in 2017; 512 MiB was too much."""
FOREGROUND_FINE = 1 << 30
"""A threshold that was set in bytes by hand and is not above it is left alone."""
BURST_VARIATION, BURST_PEAK = 0.8, 2.0
"""A square wave that writes half of the time has a variation of 1 and a peak of twice the mean; a flat load 0 and 1."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold in force: bytes at most, the setting that counts, and its text."""

    name: str
    text: str
    bytes: float
    ratio: bool

    def sentence(self, ram: int) -> str:
        """Say what it amounts to on this machine."""
        if not self.ratio:
            return f"{self.name} = {self.text} is {binary_text(self.bytes)}."
        return (
            f"{self.name} = {self.text} comes to at most {binary_text(self.bytes)} of {binary_text(ram)}; the kernel "
            "takes the share of the memory that can hold changed pages, which is less."
        )


def dirty_bytes(case: Case) -> Judgement:
    """Propose thresholds in bytes where those in force let much more pile up."""
    ram = known(case.host.memory.ram_bytes, "RAM")
    background = threshold(case, linux.BACKGROUND_BYTES, ram)
    foreground = threshold(case, linux.DIRTY_BYTES, ram)
    lower_background = background.bytes > BACKGROUND_ALIKE
    lower_foreground = foreground.bytes > (FOREGROUND if foreground.ratio else FOREGROUND_FINE)
    sentences = (background.sentence(ram), foreground.sentence(ram))
    if not (lower_background or lower_foreground):
        return InOrder(f"{' '.join(sentences)} The exact value matters little here.")
    changes = []
    if lower_background:
        changes.append(_change(linux.BACKGROUND_BYTES, BACKGROUND, case))
    if lower_foreground or foreground.bytes <= BACKGROUND:
        changes.append(_change(linux.DIRTY_BYTES, FOREGROUND, case))
    too_much: tuple[str, ...] = ()
    if not background.ratio and lower_background:
        too_much = ("32, 64 and 128 MiB were alike in the source's restore, and 512 MiB was too much in background.",)
    doubts: tuple[str, ...] = ()
    if isinstance(case.host.virtualization.container, str):
        doubts = ("the thresholds hold for the whole host, and the server runs in a container",)
    return Fires(
        changes=tuple(changes),
        current=", ".join(f"{one.name} = {one.text}" for one in (background, foreground)),
        evidence=(*sentences, *too_much, *burst_sentences(case)),
        doubts=doubts,
    )


def at_once(case: Case) -> Iterator[Resolution]:
    """Decide CON-07: what a write of these sysctls needs does not depend on the target, a pool's size does."""
    text = "Write-back's sysctls take effect when they are written; the file in /etc/sysctl.d keeps them. No reboot."
    total = case.host.memory.huge_pages_total
    pool = "" if isinstance(total, Unknown) else f" A pool of huge pages is another matter: HugePages_Total is {total}."
    yield Resolution("CON-07", text + pool)


def write_bursts(case: Case) -> Judgement:
    """Say whether the host writes in bursts, from the kB written per second."""
    host = known(case.evidence.host, "what the host wrote")
    peak = known(host.write_peak_to_mean, "the peak of the write rate")
    variation = known(host.write_variation, "the variation of the write rate")
    figures = burst_sentences(case)
    if not is_burst(peak, variation):
        return InOrder(" ".join(figures), of_load=True)
    ram = case.host.memory.ram_bytes
    causes = []
    if not isinstance(ram, Unknown) and not isinstance(case.host.kernel.sysctls, Unknown):
        background = threshold(case, linux.BACKGROUND_BYTES, ram)
        causes.append(f"Write-back begins at {binary_text(background.bytes)} ({background.name} = {background.text}).")
    if case.has("checkpoint_completion_target"):
        causes.append(f"checkpoint_completion_target is {case.text('checkpoint_completion_target')}.")
    return Fires(
        current=f"peak {peak:.3g} times the mean",
        proposed="an even write rate: see dirty-bytes and the rules on checkpoints",
        evidence=(*figures, *causes),
    )


def is_burst(peak_to_mean: float, variation: float) -> bool:
    """Return True for a write rate that comes in waves."""
    return variation >= BURST_VARIATION and peak_to_mean >= BURST_PEAK


def burst_sentences(case: Case) -> tuple[str, ...]:
    """Return what is known of the write rate, one sentence; none when nothing was sampled."""
    host = case.evidence.host
    if not isinstance(host, HostActivity):
        return ()
    peak, variation, idle = host.write_peak_to_mean, host.write_variation, host.write_idle_share
    if isinstance(peak, Unknown) or isinstance(variation, Unknown):
        return ()
    word = "in bursts" if is_burst(peak, variation) else "evenly"
    nothing = "" if isinstance(idle, Unknown) else f", and nothing was written in {percent_text(idle)} of the seconds"
    return (
        f"The host wrote {word} in {host.window.seconds:.0f} s: the busiest second had {peak:.3g} times the mean, the "
        f"coefficient of variation was {variation:.2g}{nothing}.",
    )


def threshold(case: Case, bytes_name: str, ram: int) -> Threshold:
    """Return the variant of a threshold that is in force. Raises Missing."""
    size = case.sysctl_number(bytes_name)
    if size > 0:
        return Threshold(bytes_name, str(size), float(size), ratio=False)
    ratio_name = linux.COUNTERPARTS[bytes_name]
    percent = case.sysctl_number(ratio_name)
    return Threshold(ratio_name, str(percent), percent / 100 * ram, ratio=True)


def dirty_variants(case: Case) -> Judgement:
    """Find files that set both variants of one threshold: the one that is written last makes the other 0."""
    files = known(case.host.kernel.sysctl_files, "what the files of sysctl set")
    found = list(_doubles({path: dict(names) for path, names in files.items()}))
    if not found:
        return InOrder("No threshold is set in bytes and in percent at once.")
    return Fires(
        current="; ".join(pair for pair, _ in found),
        proposed="the variant in bytes alone",
        evidence=tuple(sentence for _, sentence in found),
    )


def _doubles(files: dict[str, dict[str, str]]) -> Iterator[tuple[str, str]]:
    for one in (linux.DIRTY_BYTES, linux.BACKGROUND_BYTES):
        other = linux.COUNTERPARTS[one]
        places = {name: [path for path, names in files.items() if name in names] for name in (one, other)}
        if all(places.values()):
            where = f"{one} in {', '.join(places[one])} and {other} in {', '.join(places[other])}"
            yield where, f"Set are {where}: only one of the two can be in force, and the last one read wins."


def _change(name: str, value: int, case: Case) -> Change:
    return Change(ChangeKind.LINUX, name, str(value), case.sysctl(name))

# SPDX-License-Identifier: Apache-2.0
"""How far a run is, and showing it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Callable, Optional, Union


@dataclass(frozen=True)
class Progress:
    """How far a run is: an object of `disco-run run --progress json`, which docs/running.md describes.

    Each field is None while it isn't known.
    """

    share: Optional[float] = None
    simulated_s: Optional[float] = None
    horizon_s: Optional[float] = None
    replications: Optional[int] = None
    replications_done: Optional[int] = None
    events: Optional[int] = None
    events_per_s: Optional[float] = None
    simulated_per_s: Optional[float] = None
    elapsed_s: Optional[float] = None
    left_s: Optional[float] = None
    workers: Optional[int] = None
    waiting_for_peers: Optional[int] = None
    waiting_for_room: Optional[int] = None
    waiting_for_outside: Optional[int] = None
    waits_for_worker: Optional[int] = None
    checkpoints: Optional[int] = None
    point: Optional[str] = None  # of a sweep, such as "point 1 of 6"

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Progress:
        """Make one of a JSON object; fields of later versions are left out."""
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in found.items() if name in known})

    def __str__(self) -> str:
        parts = [self.point] if self.point else []
        if self.share is not None:
            parts.append(f"{100 * self.share:.0f} %")
        if self.simulated_s is not None and self.horizon_s is not None:
            parts.append(f"{self.simulated_s:.4g} of {self.horizon_s:.4g} s")
        if self.replications is not None and self.replications > 1:
            parts.append(f"{self.replications_done} of {self.replications} replications")
        if self.events_per_s is not None:
            parts.append(f"{_short(self.events_per_s)} events/s")
        if self.left_s is not None:
            parts.append(f"{self.left_s:.0f} s left")
        return ", ".join(parts)


def _short(x: float) -> str:
    for power, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= power:
            return f"{x / power:.3g} {unit}"
    return f"{x:.0f}"


class Shower:
    """Shows nothing, or hands what is known to a function."""

    def __init__(self, to: Optional[Callable[[Progress], Any]] = None) -> None:
        self._to = to

    def show(self, progress: Progress) -> None:
        """Show how far a run is."""
        if self._to is not None:
            self._to(progress)

    def close(self) -> None:
        """End the showing."""


class _Line(Shower):
    """One line of a terminal, which is written anew."""

    def show(self, progress: Progress) -> None:
        sys.stderr.write(f"\r{progress}\x1b[K")
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class _Bar(Shower):
    """A bar of tqdm, also in notebooks."""

    def __init__(self, tqdm: Any) -> None:
        super().__init__()
        form = "{l_bar}{bar}| {elapsed}{postfix}"
        self._bar = tqdm(total=1.0, leave=False, bar_format=form)

    def show(self, progress: Progress) -> None:
        self._bar.n = min(1.0, progress.share or 0.0)
        self._bar.set_postfix_str(str(progress), refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return found is not None and "IPKernelApp" in getattr(found, "config", {})


def shower(wanted: Union[bool, Callable[[Progress], Any]]) -> Shower:
    """What shows progress: a function of the caller's, or a bar where somebody can see it."""
    if callable(wanted):
        return Shower(wanted)
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if not wanted or not (terminal or _in_notebook()):
        return Shower()
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Line() if terminal else Shower()
    return _Bar(tqdm)

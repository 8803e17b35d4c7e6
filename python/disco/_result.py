# SPDX-License-Identifier: Apache-2.0
"""Results: the folder that `disco-run run --out` writes, as data frames."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
import weakref
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from ._errors import Error

if TYPE_CHECKING:
    import pandas as pd

# Columns that are text whatever is in them: the CSV doesn't say so.
_TEXT = {
    *("figure", "of", "unit", "id", "kind", "group", "name", "node", "link", "from", "to", "target", "targets"),
    *("location", "product", "stage", "statistic", "trace_hash", "generator.id"),
}


class Folder:
    """A temporary folder, which goes with the last object that needs it, and with Python."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="disco-")
        self._end = weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


class Result:
    """What a run has found out.

    Files are read when they are asked for. docs/outputs.md has every table and column with its unit.
    """

    def __init__(self, directory: Union[str, os.PathLike[str]], keep: Optional[Folder] = None) -> None:
        self.directory = Path(directory)
        self._keep = keep  # the folder goes with the last Result that needs it
        try:
            text = (self.directory / "result.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise Error(
                f"{self.directory} has no result.json, want a folder that `disco-run run FILE --out DIR` has written"
            ) from None
        self.document: dict[str, Any] = json.loads(text)
        """All of result.json."""

    def __repr__(self) -> str:
        d = self.document
        if self.is_sweep:
            return f"<disco.Result of {d.get('file')}: a sweep of {len(d.get('rows') or [])} points>"
        ended = ", interrupted" if self.interrupted else ""
        told = f"{self.events} events, trace hash {self.trace_hash or 'none'}{ended}"
        return f"<disco.Result of {d.get('scenario')}: {told}>"

    def _repr_html_(self) -> str:
        try:
            table = self.summary
        except Error:
            return f"<code>{self!r}</code>".replace("<disco", "&lt;disco")
        return str((table if self.is_sweep else table.T)._repr_html_())  # type: ignore[operator]

    @property
    def is_sweep(self) -> bool:
        """Whether these are the points of a sweep."""
        return "sweep" in self.document

    @property
    def interrupted(self) -> bool:
        """Whether the run was ended early: the results are about what was simulated up to there."""
        return bool(self.document.get("interrupted"))

    @property
    def trace_hash(self) -> str:
        """The hash of all that was handled: the same one is the same run. Empty of a sweep or an interrupted run."""
        return str(self.document.get("trace_hash") or "")

    @property
    def events(self) -> int:
        """How many events were handled."""
        rows = self.document.get("rows") or [] if self.is_sweep else [self.document]
        return sum(int(row.get("events", 0)) for row in rows)

    @property
    def tables(self) -> list[str]:
        """The names of the tables that there are."""
        return sorted(p.stem for p in self.directory.glob("*.csv"))

    @property
    def summary(self) -> pd.DataFrame:
        """The figures of the whole, a column each: one row, of a sweep one for each point."""
        return self.table("sweep" if self.is_sweep else "summary" if "summary" in self.tables else "figures")

    @property
    def sweep(self) -> pd.DataFrame:
        """One row for each point of a sweep: its values, then what came of them."""
        if not self.is_sweep:
            raise Error("these are the results of one run, want those of a sweep: run(…, sweep={…})")
        return self.table("sweep")

    @cached_property
    def figures(self) -> pd.DataFrame:
        """One row for each figure of the whole: `figure`, `value`, and `low` and `high` where it has an interval.

        Where the kind has a table of that name (supply networks and models of package sim) it is that one. Of a sweep
        it has the rows of each point, with its number in front (`point`).
        """
        if "figures" in self.tables:
            return self.table("figures")
        pandas = _pandas()
        rows: list[dict[str, Any]] = []
        for point, row in enumerate(self.summary.to_dict("records"), 1):
            head = {"point": point} if self.is_sweep else {}
            for name, value in row.items():
                if not isinstance(value, (int, float)) or isinstance(value, bool):
                    continue
                stem, _, last = str(name).rpartition(".")
                if not str(name).startswith("confidence_95."):
                    rows.append({**head, "figure": name, "value": float(value), "low": None, "high": None})
                elif last == "mean":
                    ends = (row.get(f"{stem}.low"), row.get(f"{stem}.high"))
                    rows.append({**head, "figure": stem, "value": float(value), "low": ends[0], "high": ends[1]})
        columns = [*(["point"] if self.is_sweep else []), "figure", "value", "low", "high"]
        frame: pd.DataFrame = pandas.DataFrame(rows, columns=columns)
        return frame.astype({"low": float, "high": float})

    def series(
        self, figure: Optional[str] = None, of: Optional[str] = None, point: Optional[int] = None
    ) -> pd.DataFrame:
        """How figures develop over simulated time: `figure`, `of`, `unit`, `from_s`, `to_s`, `value`.

        `figure` and `of` choose some by their names; `point` one of a sweep, from 1 on.
        """
        frame = self.table("series")
        if point is not None and "point" not in frame:
            raise Error("these are the results of one run, want those of a sweep for a point")
        for column, wanted in (("figure", figure), ("of", of), ("point", point)):
            if wanted is None:
                continue
            there = frame[column] == wanted if column in frame else frame["value"] != frame["value"]
            if not there.any():
                names = sorted(map(str, frame[column].dropna().unique())) if column in frame else []
                raise Error(f"found no series with {column} {wanted!r}, want one of {', '.join(names) or 'none'}")
            frame = frame[there]
        return frame.reset_index(drop=True)

    def table(self, name: str) -> pd.DataFrame:
        """One of `tables`, as a new data frame: of the Parquet file where pyarrow is installed, else of the CSV."""
        path = self._path(name)
        pandas = _pandas()
        parquet = path.with_suffix(".parquet")
        if parquet.exists() and _has_pyarrow():
            frame: pd.DataFrame = pandas.read_parquet(parquet, engine="pyarrow")
            return frame
        with path.open(encoding="utf-8", newline="") as f:
            head = next(csv.reader(f), [])
        types: dict[Any, Any] = {c: str for c in head if c in _TEXT}
        frame = pandas.read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
        return frame

    def rows(self, name: str) -> list[dict[str, str]]:
        """One of `tables` without pandas: its rows, as text."""
        with self._path(name).open(encoding="utf-8", newline="") as f:
            return list(csv.DictReader(f))

    def _path(self, name: str) -> Path:
        if name not in self.tables:
            there = ", ".join(self.tables) or "none: the run has written none"
            raise Error(f"found no table {name!r}, want one of {there}")
        return self.directory / f"{name}.csv"


def load(directory: Union[str, os.PathLike[str]]) -> Result:
    """Read the folder of an earlier run, which `disco-run run FILE --out DIR` has written."""
    return Result(directory)


def _has_pyarrow() -> bool:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return False
    return True


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise Error("data frames need pandas: pip install pandas; Result.rows and .document do without") from None
    return pandas

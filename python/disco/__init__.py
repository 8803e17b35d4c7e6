# SPDX-License-Identifier: Apache-2.0
"""Starts simulations of disco, and gives their results as data frames.

>>> import disco
>>> r = disco.run("mini.yml", workers=2, replications=10, set={"rqs_input.avg_active_users.mean": 60})
>>> r.summary            # one row; of a sweep one for each point
>>> r.series("latency_p95")
>>> r.table("servers")

`start` does the same in the background, and `load` reads the folder of an earlier run (`disco-run run --out`).
"""

from ._errors import Error, NotFound, RequirementError, RunError, UsageError
from ._progress import Progress
from ._result import Result, load
from ._run import Run, run, start

__all__ = [
    "Error",
    "NotFound",
    "Progress",
    "RequirementError",
    "Result",
    "Run",
    "RunError",
    "UsageError",
    "load",
    "run",
    "start",
]

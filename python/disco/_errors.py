# SPDX-License-Identifier: Apache-2.0
"""What can go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._result import Result


class Error(Exception):
    """The base of this package's errors."""


class NotFound(Error):
    """There is no disco-run in PATH, and DISCO_RUN names none."""


class RunError(Error):
    """A run has failed. The text is what disco-run says.

    `status` is its exit status, negative where a signal has ended it.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class UsageError(RunError):
    """The scenario, or what was asked for, has a mistake (exit status 2): nothing was started."""


class RequirementError(RunError):
    """All was done, and the results don't meet `require`, or aren't as exact as `until` wants them (exit status 3).

    `result` has them.
    """

    def __init__(self, message: str, status: int, result: Optional[Result]) -> None:
        super().__init__(message, status)
        self.result = result

# SPDX-License-Identifier: Apache-2.0
"""Starting runs."""

from __future__ import annotations

import atexit
import collections
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, Optional, Union

from ._errors import Error, NotFound, RequirementError, RunError, UsageError
from ._progress import Progress, Shower, shower
from ._result import Folder, Result

Value = Union[str, int, float, bool]
Flag = Union[Value, Sequence[str], None]

_STATUS_USAGE, _STATUS_REQUIREMENT, _STATUS_INTERRUPTED = 2, 3, 130
_TEXT_MOST = 1 << 16  # characters of an error that are kept
_MESSAGES_MOST = 1000
_OURS = {"out", "progress", "json", "csv", "set", "sweep", "help"}


def _program() -> str:
    named = os.environ.get("DISCO_RUN")
    found = shutil.which(named or "disco-run")
    if found is None:
        if named:
            raise NotFound(f"DISCO_RUN is {named}, which can't be run: want the path of the program disco-run")
        raise NotFound("found no disco-run in PATH: put its folder there, or name the program in DISCO_RUN")
    return found


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value)) if isinstance(value, float) else str(value)


def _arguments(
    file: Union[str, os.PathLike[str]],
    settings: Optional[Mapping[str, Value]],
    sweep: Optional[Mapping[str, Iterable[Value]]],
    flags: Mapping[str, Flag],
) -> list[str]:
    path = os.fspath(file)
    if path == "-":
        raise Error("found - for the scenario, want the name of a file")
    arguments = ["run", path if not path.startswith("-") else "./" + path]
    for key, value in (settings or {}).items():
        arguments.append(f"--set={key}={_text(value)}")
    for key, values in (sweep or {}).items():
        arguments.append(f"--sweep={key}={','.join(map(_text, values))}")
    for name, flag in flags.items():
        dashed = name.replace("_", "-")
        if dashed in _OURS:
            raise TypeError(f"{name} isn't passed on: results come as a Result")
        if flag is None or flag is False:
            continue
        if flag is True:
            arguments.append(f"--{dashed}")
        elif isinstance(flag, (str, int, float)):
            arguments.append(f"--{dashed}={_text(flag)}")
        else:
            arguments.extend(f"--{dashed}={item}" for item in flag)
    return arguments


class Run:
    """A run that goes on in the background. `start` makes it."""

    def __init__(self, command: list[str], directory: str, keep: Optional[Folder], to: Shower) -> None:
        self._directory, self._keep, self._to = directory, keep, to
        self._lock = threading.Lock()
        self._progress: Optional[Progress] = None
        self._doing = ""
        self._messages: collections.deque[str] = collections.deque(maxlen=_MESSAGES_MOST)
        self._error: collections.deque[str] = collections.deque()
        self._error_size = 0
        self._stopped = False
        # In a session of its own: Ctrl-C on the terminal comes to us alone, and we pass it on once.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        _under_way.add(self)
        self._reader = threading.Thread(target=self._read, name="disco-run", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            try:
                found = json.loads(line) if line.startswith("{") else None
            except ValueError:
                found = None
            if isinstance(found, dict) and "event" in found:
                self._take(found)
                continue
            with self._lock:
                self._error.append(line)
                self._error_size += len(line)
                while self._error_size > _TEXT_MOST and len(self._error) > 1:
                    self._error_size -= len(self._error.popleft())

    def _take(self, found: dict[str, Any]) -> None:
        event = found["event"]
        if event == "progress":
            progress = Progress.of(found)
            with self._lock:
                self._progress = progress
                self._doing = ""
            self._to.show(progress)
            return
        with self._lock:
            if event == "doing":
                self._doing = str(found.get("text", ""))
            elif event in ("message", "recovery"):
                self._messages.append(str(found.get("text", "")))

    @property
    def progress(self) -> Optional[Progress]:
        """How far it is; None until that is known."""
        with self._lock:
            return self._progress

    @property
    def doing(self) -> str:
        """What it does beside handling events, such as reading the scenario."""
        with self._lock:
            return self._doing

    @property
    def messages(self) -> list[str]:
        """Remarks, and what workers have printed: the last thousand lines."""
        with self._lock:
            return list(self._messages)

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process, which `disco-run top` takes."""
        return self._process.pid

    def stop(self) -> None:
        """End it at the simulated time that it has come to: `wait` gives the results up to there.

        A second call ends it at once, without results.
        """
        self._stopped = True
        if self.running:
            self._process.send_signal(signal.SIGINT)

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Wait until it has ended, and give its results.

        A run that has failed raises a RunError with what disco-run says, one that still goes on after `timeout` seconds
        a TimeoutError: it goes on.
        """
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the run goes on after {timeout} s") from None
        self._reader.join()
        self._end()
        return self._outcome(status)

    def _end(self) -> None:
        _under_way.discard(self)
        self._to.close()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _outcome(self, status: int) -> Result:
        there = os.path.exists(os.path.join(self._directory, "result.json"))
        if status == 0 or (status == _STATUS_INTERRUPTED and self._stopped and there):
            return Result(self._directory, self._keep)
        with self._lock:
            message = "".join(self._error).strip()
        for prefix in ("disco-run: ", "run: "):
            message = message[len(prefix) :] if message.startswith(prefix) else message
        message = message or f"disco-run has ended with status {status} and said nothing"
        if status == _STATUS_USAGE:
            raise UsageError(message, status)
        if status == _STATUS_REQUIREMENT:
            raise RequirementError(message, status, Result(self._directory, self._keep) if there else None)
        raise RunError(message, status)


_under_way: weakref.WeakSet[Run] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """End what is under way when Python ends, or it would go on without anybody to read it."""
    runs = [r for r in _under_way if r.running]
    for r in runs:
        r.stop()
    until = time.monotonic() + 5
    for r in runs:
        try:
            r._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            r._process.kill()


def start(
    file: Union[str, os.PathLike[str]],
    *,
    set: Optional[Mapping[str, Value]] = None,
    sweep: Optional[Mapping[str, Iterable[Value]]] = None,
    out: Union[str, os.PathLike[str], None] = None,
    progress: Union[bool, Callable[[Progress], Any]] = False,
    workers: Optional[int] = None,
    replications: Optional[int] = None,
    seed: Optional[int] = None,
    horizon: Optional[float] = None,
    warmup: Union[float, str, None] = None,
    until: Optional[str] = None,
    require: Union[str, Sequence[str], None] = None,
    **flags: Flag,
) -> Run:
    """Start a run of a scenario's file in the background.

    set: values put into the scenario, by key. sweep: one run for each value of a key, or each pair of values of two.
    out: the folder for the results; else they are in one that goes with the Result. progress: show it, or a function
    that gets it. All others are flags of `disco-run run`, with _ for -: `ring_bytes="1M"`, `pin=True`; lists are given
    one by one. `disco-run run --help` has them.
    """
    named: dict[str, Flag] = {
        "workers": workers,
        "replications": replications,
        "seed": seed,
        "horizon": horizon,
        "warmup": warmup,
        "until": until,
        "require": require,
    }
    command = [_program(), *_arguments(file, set, sweep, {**named, **flags}), "--progress=json"]
    keep = Folder() if out is None else None
    directory = keep.name if keep is not None else os.fspath(out or "")
    return Run([*command, f"--out={directory}"], directory, keep, shower(progress))


def run(
    file: Union[str, os.PathLike[str]],
    *,
    set: Optional[Mapping[str, Value]] = None,
    sweep: Optional[Mapping[str, Iterable[Value]]] = None,
    out: Union[str, os.PathLike[str], None] = None,
    progress: Union[bool, Callable[[Progress], Any]] = True,
    workers: Optional[int] = None,
    replications: Optional[int] = None,
    seed: Optional[int] = None,
    horizon: Optional[float] = None,
    warmup: Union[float, str, None] = None,
    until: Optional[str] = None,
    require: Union[str, Sequence[str], None] = None,
    **flags: Flag,
) -> Result:
    """Run a scenario's file, and give its results. The arguments are those of `start`.

    Ctrl-C, or the stop button of a notebook, ends the run before the KeyboardInterrupt goes on; a second one at once.
    """
    under_way = start(
        file,
        set=set,
        sweep=sweep,
        out=out,
        progress=progress,
        workers=workers,
        replications=replications,
        seed=seed,
        horizon=horizon,
        warmup=warmup,
        until=until,
        require=require,
        **flags,
    )
    try:
        return under_way.wait()
    except BaseException:
        _end_early(under_way)
        raise


def _end_early(run: Run) -> None:
    """Have a run end that nobody waits for any more."""
    while run.running:
        try:
            run.stop()
            run._process.wait()
        except KeyboardInterrupt:
            continue
    run._reader.join()
    run._end()

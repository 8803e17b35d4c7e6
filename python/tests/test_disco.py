# SPDX-License-Identifier: Apache-2.0
"""Tests of package disco with the real program, which DISCO_RUN names."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import disco
from disco import _progress, _result

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MINI = EXAMPLES / "mini.yml"
PHOLD = EXAMPLES / "phold.yml"
CORES = "topology_graph.nodes.servers.server.server_resources.cpu_cores"


class Results(unittest.TestCase):
    """What a run gives."""

    result: disco.Result

    @classmethod
    def setUpClass(cls) -> None:
        cls.result = disco.run(MINI, replications=3, horizon=60, workers=2, progress=False)

    def test_document(self) -> None:
        self.assertEqual(self.result.document["scenario"], "mini")
        self.assertEqual(self.result.document["workers"], 2)
        self.assertGreater(self.result.events, 1000)
        self.assertEqual(len(self.result.trace_hash), 32)
        self.assertFalse(self.result.interrupted)
        self.assertIn(self.result.trace_hash, repr(self.result))

    def test_summary(self) -> None:
        summary = self.result.summary
        self.assertEqual(len(summary), 1)
        self.assertEqual(summary["requests_generated"][0], self.result.document["results"]["requests_generated"])
        self.assertIn("requests_generated", self.result._repr_html_())

    def test_figures(self) -> None:
        figures = self.result.figures.set_index("figure")
        want = self.result.document["results"]
        self.assertEqual(figures.loc["latency_s.p95", "value"], want["latency_s"]["p95"])
        interval = want["confidence_95"]["throughput_rps"]
        row = figures.loc["confidence_95.throughput_rps"]
        self.assertEqual((row["value"], row["low"], row["high"]), (interval["mean"], interval["low"], interval["high"]))

    def test_series(self) -> None:
        every = self.result.series()
        one = self.result.series("requests")
        self.assertEqual(list(every.columns), ["figure", "of", "unit", "from_s", "to_s", "value"])
        self.assertEqual(set(one["figure"]), {"requests"})
        self.assertTrue((one["to_s"] > one["from_s"]).all())
        self.assertLess(len(self.result.series(of="server")), len(every))
        with self.assertRaisesRegex(disco.Error, "no series with figure 'x', want one of .*requests"):
            self.result.series("x")
        with self.assertRaisesRegex(disco.Error, "sweep for a point"):
            self.result.series(point=1)

    def test_tables(self) -> None:
        self.assertIn("servers", self.result.tables)
        self.assertEqual(list(self.result.table("servers")["id"]), ["server"])
        self.assertEqual(len(self.result.table("replications")), 3)
        self.assertEqual(self.result.rows("servers")[0]["id"], "server")
        with self.assertRaisesRegex(disco.Error, "found no table 'x', want one of edges,"):
            self.result.table("x")
        with self.assertRaisesRegex(disco.Error, "results of one run"):
            _ = self.result.sweep

    def test_csv_as_parquet(self) -> None:
        if not _result._has_pyarrow():
            self.skipTest("pyarrow isn't installed: only CSV was read")
        for name in self.result.tables:
            parquet = self.result.table(name)
            with mock.patch.object(_result, "_has_pyarrow", return_value=False):
                text = self.result.table(name)
            self.assertEqual(list(parquet.columns), list(text.columns), name)
            for column in parquet:
                a, b = parquet[column], text[column]
                self.assertTrue(((a == b) | (a.isna() & b.isna())).all(), f"{name}: {column}")

    def test_without_pandas(self) -> None:
        with mock.patch.dict("sys.modules", pandas=None), self.assertRaisesRegex(disco.Error, "pip install pandas"):
            self.result.table("servers")

    def test_kept(self) -> None:
        with tempfile.TemporaryDirectory() as d:
            disco.run(MINI, horizon=10, out=d, progress=False)
            gc.collect()
            self.assertEqual(disco.load(d).document["scenario"], "mini")
            with self.assertRaisesRegex(disco.Error, r"no result\.json"):
                disco.load(Path(d) / "no")

    def test_not_kept(self) -> None:
        r = disco.run(MINI, horizon=10, progress=False)
        directory = r.directory
        self.assertTrue(directory.exists())
        del r
        gc.collect()
        self.assertFalse(directory.exists())


class Sweeps(unittest.TestCase):
    """Many points."""

    def test_sweep(self) -> None:
        seen: list[disco.Progress] = []
        r = disco.run(
            MINI, horizon=20, sweep={CORES: [1, 2]}, progress=seen.append, set={"rqs_input.avg_active_users.mean": 20}
        )
        self.assertTrue(r.is_sweep)
        self.assertEqual(list(r.sweep[CORES]), [1, 2])
        self.assertEqual(len(r.summary), 2)
        self.assertEqual(set(r.figures["point"]), {1, 2})
        self.assertEqual(set(r.series("requests", point=2)["point"]), {2})
        self.assertEqual(r.events, r.sweep["events"].sum())
        self.assertEqual(set(r.table("sweep")["trace_hash"].str.len()), {32})
        self.assertIn("2 points", repr(r))


class Errors(unittest.TestCase):
    """What goes wrong."""

    def test_usage(self) -> None:
        with self.assertRaisesRegex(disco.UsageError, r"^--workers: found 99999, want") as caught:
            disco.run(MINI, workers=99999, progress=False)
        self.assertEqual(caught.exception.status, 2)
        with self.assertRaisesRegex(disco.UsageError, "no-such"):
            disco.run("no-such.yml", progress=False)
        with self.assertRaises(disco.UsageError):
            disco.run("-x.yml", progress=False)
        with self.assertRaisesRegex(disco.Error, "found -"):
            disco.run("-", progress=False)
        with self.assertRaisesRegex(TypeError, "json isn't passed on"):
            disco.run(MINI, json="x", progress=False)

    def test_requirement(self) -> None:
        with self.assertRaisesRegex(disco.RequirementError, "requests_generated") as caught:
            disco.run(MINI, horizon=10, require=["requests_generated < 1", "requests_generated > 1"], progress=False)
        assert caught.exception.result is not None
        self.assertEqual(caught.exception.result.document["scenario"], "mini")

    def test_program(self) -> None:
        with mock.patch.dict(os.environ, DISCO_RUN="/no/such"), self.assertRaisesRegex(disco.NotFound, "/no/such"):
            disco.run(MINI)
        with mock.patch.dict(os.environ, {"PATH": ""}):
            os.environ.pop("DISCO_RUN", None)
            with self.assertRaisesRegex(disco.NotFound, "in PATH"):
                disco.run(MINI)

    def test_failed(self) -> None:
        run = disco.start(PHOLD, horizon=1e9)
        _until(self, lambda: run.progress is not None)
        os.kill(run.pid, signal.SIGKILL)
        with self.assertRaises(disco.RunError) as caught:
            run.wait()
        self.assertEqual(caught.exception.status, -signal.SIGKILL)


class Background(unittest.TestCase):
    """Runs that go on."""

    def test_stop(self) -> None:
        run = disco.start(PHOLD, horizon=1e9)
        with self.assertRaises(TimeoutError):
            run.wait(0.01)
        _until(self, lambda: run.progress is not None and (run.progress.events or 0) > 0)
        self.assertTrue(run.running)
        run.stop()
        r = run.wait(60)
        self.assertTrue(r.interrupted)
        self.assertGreater(r.events, 0)
        self.assertFalse(run.running)
        self.assertEqual(r.document["trace_hash"] or "", r.trace_hash)

    def test_interrupt(self) -> None:
        seen = threading.Event()
        runs: list[disco.Run] = []
        start = disco._run.start

        def note(*args: object, **named: object) -> disco.Run:
            runs.append(start(*args, **named))  # type: ignore[arg-type]
            return runs[0]

        def interrupt() -> None:
            seen.wait(60)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with mock.patch.object(disco._run, "start", note), self.assertRaises(KeyboardInterrupt):
            disco.run(PHOLD, horizon=1e9, progress=lambda _: seen.set())
        thread.join()
        self.assertFalse(runs[0].running)

    def test_exit(self) -> None:
        run = disco.start(PHOLD, horizon=1e9)
        _until(self, lambda: run.progress is not None)
        disco._run._stop_all()
        self.assertFalse(run.running)
        with contextlib.suppress(disco.RunError):
            run.wait()


class Terminal(io.StringIO):
    """What a person would see."""

    def isatty(self) -> bool:
        return True


class Showing(unittest.TestCase):
    """What is shown of a run under way."""

    def test_text(self) -> None:
        p = disco.Progress.of(
            {"event": "progress", "share": 0.25, "simulated_s": 10, "horizon_s": 40, "replications": 4, "new": 1}
            | {"replications_done": 1, "events_per_s": 2_500_000, "left_s": 30, "point": "point 1 of 2"}
        )
        want = "point 1 of 2, 25 %, 10 of 40 s, 1 of 4 replications, 2.5 M events/s, 30 s left"
        self.assertEqual(str(p), want)
        self.assertEqual(str(disco.Progress()), "")

    def test_shower(self) -> None:
        with mock.patch("sys.stderr", Terminal()) as err, mock.patch.dict("sys.modules", {"tqdm.auto": None}):
            s = _progress.shower(True)
            s.show(disco.Progress(share=0.5))
            s.close()
            self.assertIn("50 %", err.getvalue())
        with mock.patch("sys.stderr", io.StringIO()) as none:
            s = _progress.shower(True)
            s.show(disco.Progress(share=0.5))
            s.close()
            self.assertEqual(none.getvalue(), "")

    def test_bar(self) -> None:
        try:
            import tqdm  # noqa: F401
        except ImportError:
            self.skipTest("tqdm isn't installed")

        with mock.patch("sys.stderr", Terminal()) as err:
            s = _progress.shower(True)
            s.show(disco.Progress(share=0.5, left_s=3))
            s.close()
            self.assertIn("3 s left", err.getvalue())


def _until(test: unittest.TestCase, done: object) -> None:
    assert callable(done)
    end = time.monotonic() + 60
    while not done():
        test.assertLess(time.monotonic(), end, "a minute is over")
        time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()

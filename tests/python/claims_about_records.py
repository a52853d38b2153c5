"""Claims about records as data frames: they are what `ecmv report` says of the same files."""

import json
import math
import os
import pathlib
import subprocess
import tempfile
import unittest
import warnings

import numpy as np
import pandas

import ecmv

PUBLISHED = pathlib.Path(os.environ["ECMV_TEST_SOURCE"], "reports", "published")


def run_command(*arguments):
    return subprocess.run([os.environ["ECMV_COMMAND"], *arguments], capture_output=True, text=True, check=True).stdout


def results_csv(*files):
    with tempfile.TemporaryDirectory() as folder:
        run_command("report", *map(str, files), "-o", folder, "--gnuplot", "/nonexistent")
        return pandas.read_csv(pathlib.Path(folder, "results.csv"), dtype=str, keep_default_na=False)


def case(**changes):
    """A record of nine samples of a second, with `changes` like time__median_s=2."""
    record = {
        "schema": 1, "kind": "case", "status": "ok", "reason": "", "case": "k", "run": "r", "experiment": "e",
        "data": {"source": "gaussian", "rows": 10, "cols": 10, "type": "i8", "sigma": 4.0, "layers": 1, "seed": 1,
                 "hash": "h", "parameters": {"sigma": 4.0}},
        "codec": {"id": "coder", "format_version": 1, "settings": {}, "non_default": []},
        "size": {"stored_bytes": 50, "by_role": {"payload": 40, "table": 10, "index": 0, "scale": 0}, "padding_bits": 8,
                 "bits_per_element": 4.0, "entropy_bits_per_element": 3.2},
        "kernel": {"backend": "simd", "op": "matvec", "variant": "v", "tuning": "default", "simd_target": "X",
                   "threads": 2, "device": "CPU", "unfused": False},
        "time": {"samples_s": [1.0] * 9, "median_s": 1.0, "p10_s": 1.0, "p90_s": 1.0, "elements": 100,
                 "cache": "streamed", "device_clock": "host", "iterations_per_sample": 1, "disturbed_samples": []},
        "check": {"decode": "exact", "outputs": "exact", "guards": "intact"},
    }
    for name, value in changes.items():
        *path, last = name.split("__")
        place = record
        for step in path:
            place = place.setdefault(step, {})
        place[last] = value
    return record


class Records(unittest.TestCase):
    def read(self, *records, **options):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "records.jsonl")
            file.write_text("".join(r if isinstance(r, str) else json.dumps(r) + "\n" for r in records))
            return ecmv.read_records(file, **options)

    def assert_same(self, files):
        table = results_csv(*files)
        frame = ecmv.read_records(*files)
        self.assertEqual(set(table.columns) - {"key"}, set(frame.columns) - {"samples_s"} & set(table.columns))
        self.assertEqual(len(table), len(frame))
        rows = {(row["run"], row["case"]): row for row in frame.to_dict("records")}
        self.assertEqual(len(rows), len(frame))
        compared = 0
        for expected in table.to_dict("records"):
            row = rows[expected["run"], expected["case"]]
            for name, text in expected.items():
                if name == "key":
                    continue
                value, where = row[name], f"{name} of case {expected['case']}"
                if isinstance(value, (bool, np.bool_)):
                    self.assertEqual(text, str(value).lower(), where)
                elif isinstance(value, str):
                    self.assertEqual(text, value, where)
                elif value is None or math.isnan(value):
                    self.assertEqual(text, "", where)
                else:
                    close = math.isclose(float(text or "nan"), value, rel_tol=1e-9)
                    self.assertTrue(close, f"{where}: {text}, {value}")
                    compared += 1
        self.assertGreater(compared, 10 * len(table))

    def test_published_records_of_a_gpu_give_the_numbers_of_the_csv(self):
        self.assert_same([PUBLISHED / "2026-11-27-h200/headline/records.jsonl"])

    def test_published_records_of_a_cpu_give_the_numbers_of_the_csv(self):
        self.assert_same([PUBLISHED / "2026-11-20-xeon-16-cores/records.jsonl"])

    def test_published_records_of_batches_and_of_several_files_give_the_numbers_of_the_csv(self):
        self.assert_same([PUBLISHED / "2026-11-20-h200/batch/records.jsonl",
                          PUBLISHED / "2026-11-20-xeon-16-cores/records.jsonl"])

    def test_published_sizes_of_quantised_real_weights_give_the_numbers_of_the_csv(self):
        self.assert_same([PUBLISHED / "2026-11-22-real-weights/records.jsonl"])

    def test_the_metrics_are_those_that_the_command_lists_with_their_units_and_formulas(self):
        listed = json.loads(run_command("list", "metrics", "--json"))["metrics"]
        self.assertEqual([(m["metric"], m["unit"], m["better"], m["formula"]) for m in listed],
                         [(name, m.unit, m.better, m.formula) for name, m in ecmv.METRICS.items()])

    def test_metrics_have_the_values_that_are_worked_out_by_hand(self):
        raw = case(case="raw", codec__id="raw_int8", size__stored_bytes=100, time__median_s=2.0,
                   time__samples_s=[2.0] * 9)
        bandwidth = {"schema": 1, "kind": "bandwidth", "run": "r", "backend": "simd", "device": "CPU", "threads": 2,
                     "bytes": 1, "samples_s": [1], "read_bytes_per_s": 200.0, "cache": "streamed"}
        row = self.read(raw, case(), bandwidth).set_index("case").loc["k"]
        for name, value in {"elements_per_s": 100, "bits_per_element": 4, "table_bits_per_element": 0.8,
                            "padding_bits_per_element": 0.08, "excess_over_entropy_percent": 25, "speedup_vs_raw": 2,
                            "speedup_vs_raw_low": 2, "speedup_vs_raw_high": 2, "compression_ratio": 2,
                            "bandwidth_fraction": 0.25, "predicted_s": 0.25, "measured_over_predicted": 4,
                            "roof_elements_per_s": 400, "break_even_bandwidth_bytes_per_s": 100}.items():
            self.assertAlmostEqual(row[name], value, msg=name)

    def test_samples_that_other_programs_or_unsteady_cores_disturbed_mark_a_case(self):
        for changes in ({"time__disturbed_samples": [3]}, {"time__unsteady_samples": [3]}, {"host__other_cores": 0.5}):
            self.assertTrue(self.read(case(**changes)).disturbed[0], changes)
        self.assertFalse(self.read(case()).disturbed[0])

    def test_disturbance_is_graded_as_in_the_command(self):
        slight, ruined = {"host__other_cores": 0.5}, {"host__other_cores": 0.5, "time__p90_s": 1.3}
        for changes, grade in (({}, "none"), (slight, "slight"), (ruined, "ruined"),
                               ({**slight, "host__waiting_share": 0.3}, "ruined"),
                               ({**slight, "host__clock_share": 0.7}, "ruined")):
            self.assertEqual(self.read(case(**changes)).disturbance[0], grade, changes)

    def test_a_row_has_its_seed_and_how_much_of_its_codec_ran(self):
        row = self.read(case(entrants__kernels=3, entrants__known_kernels=13, entrants__settings=2)).iloc[0]
        self.assertEqual((row.seed, row.kernels, row.known_kernels, row.settings), (1, 3, 13, 2))

    def test_a_broken_line_costs_that_line_with_a_warning_that_names_it(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frame = self.read(case(), '{"kind": "case", "stat\n', case(case="other"))
        self.assertEqual(list(frame.case), ["k", "other"])
        self.assertIn(":2: this line is no record", str(caught[0].message))

    def test_a_file_without_a_record_and_a_newer_one_are_errors_with_a_sentence(self):
        with self.assertRaisesRegex(ecmv.Failed, "there is no record in this file"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.read("no json\n")
        with self.assertRaisesRegex(ecmv.Failed, "of a newer ecmv"):
            self.read(case(schema=2))

    def test_a_case_that_a_later_record_shows_as_ok_counts_once_unless_every_one_is_asked_for(self):
        failed = case(status="error", reason="It was not to be.")
        self.assertEqual(list(self.read(failed, case()).status), ["ok"])
        self.assertEqual(list(self.read(failed, case(), every=True).status), ["error", "ok"])

    def test_a_run_and_a_bandwidth_are_rows_with_their_machine(self):
        file = PUBLISHED / "2026-11-20-xeon-16-cores/records.jsonl"
        self.assertIn("machine.cpu_model", ecmv.read_runs(file))
        self.assertTrue((ecmv.read_bandwidths(file).read_bytes_per_s > 0).all())

    def test_the_example_runs_and_finds_in_published_records_what_the_command_reports(self):
        example = pathlib.Path(os.environ["ECMV_TEST_SOURCE"], "experiments", "python", "example.py")
        names = {"__file__": str(example)}
        with tempfile.TemporaryDirectory() as folder:
            old = os.getcwd()
            os.chdir(folder)
            try:
                exec(compile(example.read_text(), str(example), "exec"), names)
            finally:
                os.chdir(old)
        fastest = names["best"].iloc[0]
        table = results_csv(example.parent / names["H200"])
        table = table[(table.rows == "16384") & (table.sigma == "4") & (table.op == "matvec") & (table.status == "ok")]
        self.assertTrue(math.isclose(fastest.elements_per_s, table.elements_per_s.astype(float).max(), rel_tol=1e-9))

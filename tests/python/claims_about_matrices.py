"""Claims about compressed matrices of NumPy arrays."""

import gc
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import ecmv

CODECS = ecmv.codecs()


def gaussian(rows=60, cols=90, dtype=np.int8, sigma=4):
    values = np.random.default_rng(1).normal(0, sigma, (rows, cols))
    return np.rint(values).astype(dtype) if np.issubdtype(dtype, np.integer) else values.astype(dtype)


def bfloat16_bits(array):
    return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def needs(codec):
    return unittest.skipUnless(codec in CODECS, f"this build has no codec {codec}")


class Matrices(unittest.TestCase):
    def test_every_codec_gives_back_every_type_or_refuses_it_with_a_sentence(self):
        kinds = {"i8": gaussian(), "u8": gaussian(sigma=0) + np.uint8(7), "f32": gaussian(dtype=np.float32),
                 "bf16": bfloat16_bits(gaussian(dtype=np.float32)), "f64": gaussian(dtype=np.float64),
                 "f16": gaussian(dtype=np.float16), "i32": gaussian(dtype=np.int32)}
        stored = 0
        for codec in CODECS:
            for kind, array in kinds.items():
                with self.subTest(codec=codec, type=kind):
                    array = array.astype(np.uint8) if kind == "u8" else array
                    try:
                        matrix = ecmv.encode(array, codec, type=kind)
                    except ecmv.Refused as refusal:
                        self.assertRegex(str(refusal), r"\w .*\.$")
                        continue
                    stored += 1
                    decoded = matrix.decode()
                    self.assertEqual((decoded.dtype, decoded.shape), (array.dtype, array.shape))
                    self.assertTrue(np.array_equal(matrix.decode("best"), decoded))
                    if kind == "i8":
                        self.assertTrue(np.array_equal(decoded, array))
                    sizes = matrix.sizes
                    self.assertEqual(sizes.payload + sizes.table + sizes.index + sizes.scale, sizes.stored)
                    self.assertAlmostEqual(sizes.bits_per_element, 8 * sizes.stored / array.size)
        self.assertGreaterEqual(stored, len(CODECS))

    @needs("rans")
    def test_settings_are_keywords_and_change_what_is_stored(self):
        few, many = (ecmv.encode(gaussian(), "rans", lanes=lanes).sizes for lanes in (2, 64))
        self.assertLess(few.stored, many.stored)

    @needs("rans")
    def test_int8_products_are_exact_for_a_vector_and_for_several(self):
        w, x = gaussian(), gaussian(90, 3, sigma=30)
        matrix = ecmv.encode(w, "rans")
        exact = w.astype(np.int64) @ x
        self.assertTrue(np.array_equal(matrix @ x[:, 0], exact[:, 0]))
        self.assertTrue(np.array_equal(matrix @ x, exact))
        self.assertEqual((matrix @ x).dtype, np.int32)
        self.assertTrue(np.array_equal(matrix.multiply(x[:, 1], backend="scalar", threads=1), exact[:, 1]))
        self.assertIn("/matvec/", matrix.kernel("matvec"))

    @needs("raw_bf16")
    def test_float_products_of_more_tokens_than_a_pass_takes_are_near_those_of_numpy(self):
        w, x = gaussian(dtype=np.float32), gaussian(90, 70, dtype=np.float32)
        bits = bfloat16_bits(w)
        exact = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64) @ x
        y = ecmv.encode(bits, "raw_bf16", type="bf16") @ x
        self.assertEqual((y.dtype, y.shape), (np.float32, (60, 70)))
        np.testing.assert_allclose(y, exact, rtol=0, atol=1e-3)

    @needs("raw_bf16")
    def test_arrays_of_ml_dtypes_are_bfloat16_and_float8(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("there is no ml_dtypes")
        w = gaussian().astype(ml_dtypes.bfloat16)
        matrix = ecmv.encode(w, "raw_bf16")
        self.assertEqual((matrix.type, matrix.decode().dtype), ("bf16", w.dtype))
        self.assertTrue(np.array_equal(matrix.decode(), w))
        x = gaussian(90, 1, sigma=1).astype(ml_dtypes.bfloat16)  # small integers: sums are exact
        self.assertTrue(np.array_equal(matrix @ x, gaussian().astype(np.float32) @ x.astype(np.float32)))
        if "zstd" in CODECS:
            self.assertEqual(ecmv.encode(w.astype(ml_dtypes.float8_e4m3fn), "zstd").type, "f8_e4m3")

    @needs("raw_int8")
    def test_arrays_that_are_not_contiguous_or_of_another_byte_order_are_what_they_say(self):
        wide = gaussian(60, 180)
        for array in (wide[:, ::2], wide.T, np.asfortranarray(wide)):
            self.assertTrue(np.array_equal(ecmv.encode(array, "raw_int8").decode(), array))
        if "zstd" in CODECS:
            big_endian = gaussian(dtype=np.float32).astype(">f4")
            self.assertTrue(np.array_equal(ecmv.encode(big_endian, "zstd").decode(), big_endian))

    @needs("raw_int8")
    def test_a_matrix_without_elements_is_one(self):
        matrix = ecmv.encode(np.zeros((0, 5), np.int8), "raw_int8")
        self.assertEqual(matrix.decode().shape, (0, 5))

    @needs("rans")
    def test_what_is_wrong_is_an_exception_of_its_kind_with_the_sentence_of_the_library(self):
        w, matrix = gaussian(), ecmv.encode(gaussian(), "rans")
        x = gaussian(90, 1)[:, 0]
        for error, sentence, what in (
                (ecmv.InvalidArgument, "There is no codec 'rnas'. Did you mean 'rans'?",
                 lambda: ecmv.encode(w, "rnas")),
                (ecmv.InvalidArgument, "lnaes", lambda: ecmv.encode(w, "rans", lnaes=2)),
                (ecmv.Refused, "int8 elements only", lambda: ecmv.encode(gaussian(dtype=np.float32), "rans")),
                (ecmv.InvalidArgument, "There is no element type 'int3'", lambda: ecmv.encode(w, "rans", type="int3")),
                (ecmv.InvalidArgument, "do not have the 1 bytes of int8", lambda: ecmv.encode(w, "rans", type="bf16")),
                (ecmv.InvalidArgument, "2 dimensions, not 1", lambda: ecmv.encode(x, "rans")),
                (ecmv.InvalidArgument, "no matrices of the type complex128", lambda: ecmv.encode(w * 1j, "rans")),
                (ecmv.InvalidArgument, "90 columns", lambda: matrix @ x[1:]),
                (ecmv.InvalidArgument, "not float64", lambda: matrix @ x.astype(float)),
                (ecmv.InvalidArgument, "There is no backend 'smid'", lambda: matrix.multiply(x, backend="smid")),
                (ecmv.InvalidArgument, "There is no op 'product'", lambda: matrix.kernel("product")),
                (ecmv.Unavailable, "nowhere.so", lambda: ecmv.load_codec_library("/nowhere.so"))):
            with self.subTest(sentence), self.assertRaises(error) as raised:
                what()
            self.assertIn(sentence, str(raised.exception))
            self.assertIsInstance(raised.exception, ecmv.Error)

    @needs("rans")
    def test_threads_may_multiply_with_one_matrix_at_once(self):
        w, xs = gaussian(300, 400), gaussian(400, 8, sigma=30)
        matrix, wrong = ecmv.encode(w, "rans"), []

        def work(i):
            for _ in range(20):
                if not np.array_equal(matrix @ xs[:, i], w.astype(np.int64) @ xs[:, i]):
                    wrong.append(i)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    @needs("raw_int8")
    def test_matrices_that_nobody_holds_give_their_memory_back(self):
        def resident_bytes():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        w, x = gaussian(1000, 4000), gaussian(4000, 1)[:, 0]
        for _ in range(5):
            ecmv.encode(w, "raw_int8") @ x
        before = resident_bytes()
        for _ in range(60):
            ecmv.encode(w, "raw_int8") @ x
        gc.collect()
        self.assertLess(resident_bytes() - before, 20 * w.nbytes)

    @needs("rans")
    def test_the_programs_of_the_readme_run(self):
        source = pathlib.Path(os.environ["ECMV_TEST_SOURCE"])
        programs = re.findall(r"```python\n(.*?)```", (source / "experiments/python/README.md").read_text(), re.DOTALL)
        records = source / "reports/published/2026-11-20-xeon-16-cores/records.jsonl"
        names = {}
        for program in programs:
            exec(program.replace("out/quick/records.jsonl", str(records)), names)
        self.assertEqual(len(programs), 2)
        self.assertFalse(names["fast"].disturbed.any())
        self.assertTrue(np.array_equal(names["y"], names["weights"].sum(axis=1)))

    def test_package_and_library_are_of_one_version(self):
        self.assertEqual(importlib.metadata.version("ecmv"), ecmv.version())

    def test_the_library_of_an_installation_is_found_by_the_command_on_the_path(self):
        with tempfile.TemporaryDirectory() as prefix:
            for folder in ("bin", "lib"):
                os.mkdir(pathlib.Path(prefix, folder))
            program = pathlib.Path(prefix, "bin", "ecmv")
            program.write_text("#!/bin/sh\nexit 0\n")
            program.chmod(0o755)
            os.symlink(os.environ["ECMV_LIBRARY"], pathlib.Path(prefix, "lib", "libecmv.so.0"))
            environment = {name: value for name, value in os.environ.items() if not name.startswith("ECMV_")}
            environment["PATH"] = str(program.parent) + ":" + environment["PATH"]
            said = subprocess.run([sys.executable, "-c", "import ecmv; print(ecmv.version())"], env=environment,
                                  capture_output=True, text=True, check=True).stdout
            self.assertEqual(said.strip(), ecmv.version())

    def test_without_a_library_a_sentence_says_what_to_do_and_records_are_read_all_the_same(self):
        environment = dict(os.environ, ECMV_LIBRARY="/nowhere/libecmv.so")
        said = subprocess.run([sys.executable, "-c", "import ecmv\nprint(len(ecmv.METRICS) > 9)\ntry: ecmv.version()\n"
                               "except ecmv.Unavailable as error: print(error)"], env=environment, capture_output=True,
                              text=True, check=True).stdout
        self.assertTrue(said.startswith("True\nThe library /nowhere/libecmv.so cannot be used:"), said)

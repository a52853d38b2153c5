"""Claims about what the command is asked."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import ecmv


class Advice(unittest.TestCase):
    def advise(self, script, *arguments):
        """Asks a command of ours: a shell script."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "ecmv")
            program.write_text("#!/bin/sh\n" + script)
            program.chmod(0o755)
            with mock.patch.dict(os.environ, ECMV_COMMAND=str(program)):
                return ecmv.advise(*arguments)

    def test_advice_is_what_the_command_says_in_json_of_the_path_and_with_the_arguments_that_are_given(self):
        said = self.advise("""printf '["%s","%s","%s","%s","%s"]' "$@" """, "a model", "--records", "old.jsonl")
        self.assertEqual(said, ["advise", "a model", "--records", "old.jsonl", "--json"])

    def test_a_command_that_is_too_old_to_advise_is_told_so(self):
        with self.assertRaisesRegex(ecmv.Unavailable, "has no verb 'advise': it is older than this package"):
            self.advise("""echo "ecmv: There is no verb 'advise'." >&2; exit 2""", "model")

    def test_what_the_command_objects_to_is_said_in_its_own_words(self):
        with self.assertRaisesRegex(ecmv.InvalidArgument, "There is no file 'model'"):
            self.advise("""echo "ecmv: There is no file 'model'." >&2; exit 2""", "model")
        with self.assertRaisesRegex(ecmv.Failed, "A device was lost"):
            self.advise("echo 'A device was lost.' >&2; exit 1", "model")
        with self.assertRaisesRegex(ecmv.Failed, "did not answer in JSON: 'nothing"):
            self.advise("echo nothing", "model")

    def test_a_command_that_is_not_there_is_a_sentence(self):
        with mock.patch.dict(os.environ, ECMV_COMMAND="/nowhere/ecmv"):
            with self.assertRaisesRegex(ecmv.Unavailable, "/nowhere/ecmv cannot be started: No such file"):
                ecmv.advise("model")

    def test_the_command_of_this_build_advises_or_says_that_it_cannot(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(ecmv.Error) as raised:
            ecmv.advise(pathlib.Path(folder, "no_model"))
        self.assertRegex(str(raised.exception), "no_model|has no verb 'advise'")


class Wheel(unittest.TestCase):
    """What a wheel brings, with a shell script in place of the command."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.installed = pathlib.Path(folder.name, "installed")
        (self.installed / "bin").mkdir(parents=True)

    def python(self, code, **environment):
        ours = {name: value for name, value in os.environ.items() if not name.startswith("ECMV_")}
        head = f"import pathlib\nfrom ecmv import places\nplaces.INSTALLED = pathlib.Path({str(self.installed)!r})\n"
        return subprocess.run([sys.executable, "-c", head + code, "list", "a codec"], env={**ours, **environment},
                              capture_output=True, text=True, check=False)

    def put_command(self):
        program = self.installed / "bin" / "ecmv"
        program.write_text("""#!/bin/sh
printf '%s\n' "$LD_LIBRARY_PATH" "$@"; exit 5
""")
        program.chmod(0o755)

    def test_the_console_script_becomes_the_command_with_its_words_and_status(self):
        self.put_command()
        ended = self.python("from ecmv.command import main; main()", LD_LIBRARY_PATH="/mine")
        self.assertEqual(ended.returncode, 5)
        folders, *words = ended.stdout.splitlines()
        self.assertEqual(words, ["list", "a codec"])
        self.assertEqual(folders.split(":")[0], "/mine")

    def test_a_command_that_was_lost_is_a_sentence(self):
        ended = self.python("from ecmv.command import main; main()")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("bin/ecmv cannot be started: No such file", ended.stderr)

    def test_its_command_and_library_come_before_those_of_the_path(self):
        self.put_command()
        (self.installed / "lib").mkdir()
        (self.installed / "lib" / "libecmv.so.0").touch()
        ended = self.python("print(places.command()); print(places.library())")
        self.assertEqual(ended.stdout.splitlines(), [str(self.installed / "bin" / "ecmv"),
                                                     str(self.installed / "lib" / "libecmv.so.0")])

    def test_without_pandas_only_records_are_missing_and_say_so(self):
        ended = self.python("import sys; sys.modules['pandas'] = None\nimport ecmv\necmv.METRICS\n"
                            "try: ecmv.read_records\nexcept ecmv.Unavailable as error: print(error)")
        self.assertIn("data frames of pandas, which is not installed: pip install 'ecmv[records]'.", ended.stdout)

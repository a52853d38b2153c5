"""Claims about what the command is asked."""

import os
import pathlib
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

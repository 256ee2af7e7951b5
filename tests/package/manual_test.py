#!/usr/bin/env python3
"""Man pages and the completion for bash have what the programs' own --help says."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["BATON_SOURCE_DIR"])
BIN = pathlib.Path(os.environ["BATON_BUILD_DIR"]) / "bin"
PROGRAMS = [str(BIN / name) for name in ("baton", "baton-controller", "baton-relay")]


def make(*arguments):
    subprocess.run([sys.executable, str(SOURCE / "deploy/manual.py"), *map(str, arguments)],
                   check=True, timeout=100)


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="baton-manual-")
        cls.root = pathlib.Path(cls.folder.name)
        make("man", cls.root / "man", *PROGRAMS)
        make("completion", cls.root / "baton", *PROGRAMS)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def complete(self, *words):
        """What bash offers for the last of `words`."""
        script = (f'source "{self.root}/baton"\nCOMP_WORDS=("$@")\n'
                  'COMP_CWORD=$(($# - 1))\n_baton\nprintf "%s\\n" "${COMPREPLY[@]}"')
        out = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True,
                             text=True, check=True, timeout=20)
        self.assertEqual(out.stderr, "")
        return out.stdout.split()

    def test_completes_commands(self):
        self.assertEqual(self.complete("baton", "su"), ["submit"])
        self.assertEqual(self.complete("baton", "token", ""), ["--help", "create", "list", "revoke"])
        self.assertEqual(self.complete("baton", "--project", "p", "token", "rev"), ["revoke"])

    def test_completes_options_of_the_command_and_of_all(self):
        self.assertEqual(self.complete("baton", "submit", "--dry"), ["--dry-run"])
        self.assertEqual(self.complete("baton", "submit", "job.yaml", "--contr"), ["--controller"])
        self.assertEqual(self.complete("baton", "jobs", "--dry"), [])
        self.assertEqual(self.complete("/usr/bin/baton-controller", "--data-r"), ["--data-root"])

    def test_completes_values_that_are_one_of_a_few(self):
        self.assertEqual(self.complete("baton", "jobs", "-o", ""), ["text", "json"])
        self.assertEqual(self.complete("baton", "up", "--command-sandbox", "b"), ["bubblewrap"])
        self.assertEqual(self.complete("baton", "submit", "--name", ""), [])

    def test_a_man_page_has_every_command_and_option(self):
        page = (self.root / "man/baton.1").read_text()
        self.assertIn('.TH BATON 1 "" "Baton 0.1.0"', page)
        for text in ('.SS "baton submit"', '.SS "baton token create"', "\\-\\-dry\\-run",
                     "$BATON_CONTROLLER", "Check it and print the effective spec"):
            self.assertIn(text, page)
        self.assertIn("\\-\\-survive\\-power\\-cut",
                      (self.root / "man/baton-controller.1").read_text())

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_reads_the_pages_without_a_warning(self):
        for page in (self.root / "man").iterdir():
            done = subprocess.run(["groff", "-k", "-man", "-Tutf8", "-ww", str(page)],
                                  capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)


if __name__ == "__main__":
    unittest.main(verbosity=2)

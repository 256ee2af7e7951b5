"""deploy/demo with a few steps: it ends with the figures, and leaves nothing behind."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["BATON_SOURCE_DIR"]
BIN = os.path.join(os.environ["BATON_BUILD_DIR"], "bin")
SHORT = ["--set-sft", "trainer.total_training_steps=30", "--set-rl",
         "trainer.total_training_steps=2", "--set-rl", "actor.lr_warmup_steps=0", "--set-rl",
         "data.val_max_samples=50"]


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.json = os.path.join(self.folder.name, "figures.json")
        # The demo's own folder comes here, so that what is left behind can be seen.
        self.environment = dict(os.environ, TMPDIR=self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def start(self, *arguments):
        command = [sys.executable, os.path.join(SOURCE, "deploy", "demo"), "--bin", BIN,
                   "--json", self.json, *arguments]
        return subprocess.Popen(command, env=self.environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def left_behind(self):
        return [name for name in os.listdir(self.folder.name) if name.startswith("baton-demo-")]

    def running(self):
        """Processes that were started with this test's folder on their command line."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    line = file.read().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if self.folder.name in line and "baton" in line and int(pid) != os.getpid():
                found.append(line)
        return found

    def test_a_short_run_writes_its_figures(self):
        demo = self.start(*SHORT)
        output, _ = demo.communicate(timeout=240)
        self.assertEqual(demo.returncode, 0, output)
        with open(self.json, encoding="utf-8") as file:
            figures = json.load(file)
        self.assertEqual(set(figures), {
            "accuracy_sft", "accuracy_rl", "steps", "seconds_total", "seconds_sft", "seconds_rl",
            "generated_tokens_per_second", "trained_tokens_per_second"})
        self.assertEqual(figures["steps"], 2)
        for name in ("accuracy_sft", "accuracy_rl"):
            self.assertTrue(0 <= figures[name] <= 1)
        for name in ("generated_tokens_per_second", "trained_tokens_per_second"):
            self.assertGreater(figures[name], 0)
        self.assertGreater(figures["seconds_total"], figures["seconds_sft"] + figures["seconds_rl"])
        self.assertEqual(output.count("$ baton generate"), 3)
        self.assertEqual(self.left_behind(), [])
        self.assertEqual(self.running(), [])

    def test_an_interrupted_run_leaves_nothing_running(self):
        demo = self.start()
        seen = ""
        for line in demo.stdout:
            seen += line
            if "step 1/" in line or "is submitted" in line:
                break
        demo.send_signal(signal.SIGTERM)
        rest, _ = demo.communicate(timeout=120)
        self.assertEqual(demo.returncode, 130, seen + rest)
        self.assertIn("interrupted", rest)
        self.assertFalse(os.path.exists(self.json))
        self.assertEqual(self.left_behind(), [])
        self.assertEqual(self.running(), [])

    def test_a_run_that_fails_says_where_and_stops_the_cluster(self):
        demo = self.start("--set-sft", "trainer.total_training_steps=-1")
        output, _ = demo.communicate(timeout=120)
        self.assertEqual(demo.returncode, 1, output)
        self.assertIn("total_training_steps", output)
        self.assertEqual(len(self.left_behind()), 1, "the logs are kept")
        self.assertEqual(self.running(), [])


if __name__ == "__main__":
    unittest.main()

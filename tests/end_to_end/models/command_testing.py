"""What tests of the commands share: a folder with a state of its own, and `baton` in it."""
import os
import subprocess
import tempfile
import time
import unittest

BATON = os.path.join(os.environ["BATON_BUILD_DIR"], "bin", "baton")


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.environment = {k: v for k, v in os.environ.items() if k != "BATON_CONTROLLER"}
        self.environment.update(BATON_STATE_DIR=self.path("state"), OMP_NUM_THREADS="1")

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def run_baton(self, *arguments):
        return subprocess.run([BATON, *arguments], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)

    def baton(self, *arguments):
        done = self.run_baton(*arguments)
        self.assertEqual(done.returncode, 0, f"baton {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def up(self, *options, rollouts=1):
        """A cluster that ends with the test. Its reward commands run without a sandbox, which needs
        what a container may not have."""
        ports = [f for name in ("port", "http-port", "relay-port") for f in ("--" + name, "0")]
        self.addCleanup(self.run_baton, "down")
        self.baton("up", "--detach", "--trainers", "1", "--rollouts", str(rollouts), "--rewards", "1",
                   "--command-sandbox", "none", *ports, *options)

    def wait_for(self, what):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = what()
            if found:
                return found
            time.sleep(0.1)
        self.fail("nothing of the kind within two minutes")

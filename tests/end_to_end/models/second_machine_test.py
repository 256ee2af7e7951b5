"""The commands of README.md's "A second machine", as they are printed: a controller with TLS and
tokens, then a relay and workers as processes of their own that reach it by its name.

What is printed is changed in this alone: `host` is localhost, ports are free ones, and /srv/baton is a
folder of the test."""
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

SOURCE = os.environ["BATON_SOURCE_DIR"]
BIN = os.path.join(os.environ["BATON_BUILD_DIR"], "bin")
SECTION = "## A second machine"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def printed_commands():
    """The lines of each block of the section."""
    with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
        section = file.read().split(SECTION)[1].split("\n## ")[0]
    return [block.strip().splitlines() for block in re.findall(r"```\n(.*?)```", section, re.S)]


class SecondMachineTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="second_machine_")
        self.processes = []
        self.changes = [("host:7077", "localhost:%d" % free_port()),
                        ("127.0.0.1:7079", "127.0.0.1:%d" % free_port()),
                        ("/srv/baton", os.path.join(self.folder, "srv"))]
        port = self.changes[0][1].split(":")[1]
        self.changes.append(("0.0.0.0:7077", "0.0.0.0:" + port))
        self.environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"],
                                BATON_STATE_DIR=os.path.join(self.folder, "state"))
        self.make_certificates()

    def tearDown(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            process.wait(30)
        shutil.rmtree(self.folder)

    def shell(self, line):
        for printed, actual in self.changes:
            line = line.replace(printed, actual)
        done = subprocess.run(["bash", "-c", line], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, "`%s`:\n%s%s%s" % (line, done.stdout, done.stderr,
                                                                self.logs()))
        return done.stdout

    def start(self, line):
        for printed, actual in self.changes:
            line = line.replace(printed, actual)
        line = line.rstrip("& ")
        if line.startswith("baton-controller"):
            line += " --http 127.0.0.1:0"  # its default port may be in use on this machine
        log = open(os.path.join(self.folder, "process-%d.log" % len(self.processes)), "w",
                   encoding="utf-8")
        with log:
            self.processes.append(subprocess.Popen(
                ["bash", "-c", "exec " + line], cwd=self.folder, env=self.environment, stdout=log,
                stderr=subprocess.STDOUT))

    def logs(self):
        text = ""
        for i in range(len(self.processes)):
            with open(os.path.join(self.folder, "process-%d.log" % i), encoding="utf-8") as file:
                text += "\n--- process %d\n%s" % (i, file.read()[-2000:])
        return text

    def wait_for(self, line, what, count):
        deadline = time.monotonic() + 90
        while True:
            try:
                if self.shell(line).count(what) >= count:
                    return
            except AssertionError:
                self.assertLess(time.monotonic(), deadline, self.logs())
            self.assertLess(time.monotonic(), deadline, self.logs())
            time.sleep(0.2)

    def make_certificates(self):
        for line in (
                "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem",
                "openssl req -newkey rsa:2048 -nodes -subj /CN=host -keyout server.key -out server.csr",
                "printf subjectAltName=DNS:localhost > names",
                "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
                " -extfile names -out server.pem",
                "chmod 600 server.key"):
            self.shell(line)

    def copy_first_job(self):
        """The job that README submits, with few steps."""
        copy = os.path.join(self.folder, "examples", "first_job")
        shutil.copytree(os.path.join(SOURCE, "examples", "first_job"), copy)
        path = os.path.join(copy, "job.yaml")
        with open(path, encoding="utf-8") as file:
            spec = re.sub(r"total_training_steps: \d+", "total_training_steps: 3", file.read())
        with open(path, "w", encoding="utf-8") as file:
            file.write(spec)

    def test_the_printed_commands_train(self):
        on_the_first, on_the_second, of_the_user, _ = printed_commands()
        make_tokens, controller = on_the_first
        self.shell(make_tokens)
        self.shell("(umask 077; head -1 tokens > token)")
        self.start(controller)
        workers, submit = of_the_user
        self.wait_for(workers, "no worker is attached", 1)
        for line in on_the_second:
            self.start(line)
        self.wait_for(workers, "READY", sum("baton-worker" in line for line in on_the_second))
        self.copy_first_job()
        self.assertIn("SUCCEEDED", self.shell(submit))

    def make_relay_certificates(self):
        for line in (
                "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=relays -keyout relays.key"
                " -out relays.pem",
                "openssl req -newkey rsa:2048 -nodes -subj /CN=relay -keyout relay.key.pem -out relay.csr",
                "printf subjectAltName=IP:127.0.0.1 > relay.names",
                "openssl x509 -req -in relay.csr -CA relays.pem -CAkey relays.key -CAcreateserial -days 2"
                " -extfile relay.names -out relay.pem",
                "chmod 600 relay.key.pem"):
            self.shell(line)

    def test_the_printed_relays_join_two_machines(self):
        """A machine is a folder for shared memory, on a file system of its own."""
        memory = tempfile.mkdtemp(prefix="second_machine_", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, memory)
        if os.stat(memory).st_dev == os.stat(self.folder).st_dev:
            self.skipTest("the temporary folder and /dev/shm are one file system")
        on_the_first, on_the_second, of_the_user, over_both = printed_commands()
        make_tokens, controller = on_the_first
        make_key, controller_too, relay = over_both
        self.shell(make_tokens)
        self.shell("(umask 077; head -1 tokens > token)")
        self.shell(make_key.split("#")[0])
        self.make_relay_certificates()
        self.assertTrue(controller_too.startswith("baton-controller \u2026 "), controller_too)
        self.start(controller + controller_too.split("\u2026")[1])
        workers, submit = of_the_user
        self.wait_for(workers, "no worker is attached", 1)
        self.changes.append(("0.0.0.0:7080", "0.0.0.0:0"))
        relay = relay.rstrip("& ") + " --listen 127.0.0.1:0 --shm-dir %s"
        self.start(relay % self.folder)
        self.start(relay % memory)
        for line in on_the_second:
            if "baton-worker" in line:
                at = memory if "rollout" in line else self.folder
                self.start(line.rstrip("& ") + " --shm-dir " + at)
        self.wait_for(workers, "READY", 2 + sum("baton-worker" in line for line in on_the_second))
        self.copy_first_job()
        self.assertIn("SUCCEEDED", self.shell(submit))

    def test_rollouts_of_a_relay_that_is_not_attached_fail_with_the_reason(self):
        on_the_first, on_the_second, of_the_user, _ = printed_commands()
        make_tokens, controller = on_the_first
        self.shell(make_tokens)
        self.shell("(umask 077; head -1 tokens > token)")
        self.start(controller)
        workers, submit = of_the_user
        mine, other = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        for address in (mine, other):
            self.start("baton-relay --listen %s" % address)
        for line in on_the_second:
            if "baton-worker" in line:
                self.start(line.rstrip("& ") + " --relay " + (other if "rollout" in line else mine))
        self.wait_for(workers, "READY", sum("baton-worker" in line for line in on_the_second))
        self.copy_first_job()
        failed = self.shell(submit + " 2>&1 || true")
        self.assertIn("start baton-relay with --controller on each machine", failed)


if __name__ == "__main__":
    unittest.main()

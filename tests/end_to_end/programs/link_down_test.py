"""The network goes away without a word and comes back: two network namespaces, a controller in one,
`baton` in the other, and the link between them set down. Every command that follows a job says so
while it lasts, and goes on afterwards with nothing left out.

Needs `unshare`, `ip` (iproute2) and the right to make namespaces: root, or user namespaces. Without
that right it is skipped (exit code 77), and says why; with BATON_REQUIRE_NAMESPACES=1 it fails."""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.path.join(os.environ["BATON_BUILD_DIR"], "bin")
INSIDE = "BATON_LINK_DOWN_TEST_INSIDE"
NAMESPACES = ["unshare", "--map-root-user", "--net", "--mount", "--"]
FAR, LINK, ADDRESS = "far", "near0", "10.213.77.2"
SKIPPED = 77
# An outage is noticed after 20 seconds at most; the rest is for a slow machine.
LIMIT = 60
BROKE, BACK = "no connection to the controller", "answers again after"


def shell(*words, **more):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, timeout=60, **more)


class LinkDownTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="link_down_")
        self.addCleanup(self.folder.cleanup)
        self.processes = []
        self.addCleanup(self.stop)
        token = self.write("token", "0123456789abcdef0123456789abcdef\n")
        os.chmod(token, 0o600)
        self.there = ["ip", "netns", "exec", FAR]
        self.start("controller", *self.there, os.path.join(BIN, "baton-controller"), "--listen",
                   ADDRESS + ":7077", "--http", "127.0.0.1:0", "--data-root", self.path("data"),
                   "--checker", "none", "--token-file", token, "--insecure",
                   "--allow-path", self.folder.name)
        self.baton = [os.path.join(BIN, "baton"), "--controller", ADDRESS + ":7077",
                      "--token-file", token, "--insecure"]
        self.wait_for("the controller", lambda: "controller ready" in self.read("controller.err"))

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def start(self, name, *words):
        with open(self.path(name + ".out"), "w", encoding="utf-8") as out, \
                open(self.path(name + ".err"), "w", encoding="utf-8") as err:
            self.processes.append(subprocess.Popen(words, stdout=out, stderr=err))
        return self.processes[-1]

    def wait_for(self, what, done):
        end = time.monotonic() + LIMIT
        while not done():
            said = {n: self.read(n) for n in os.listdir(self.folder.name) if n.endswith((".out", ".err"))}
            self.assertLess(time.monotonic(), end, "%s: not within %d s; %s" % (what, LIMIT, said))
            time.sleep(0.05)

    def test_a_link_that_is_down(self):
        data = self.write("train.jsonl", '{"prompt": "1+1=", "answer": "2"}\n' * 8)
        spec = self.write("job.yaml", """\
kind: rl
model: {init: {characters: "0123456789+="}}
data: {train_files: [%s], train_batch_size: 4}
rollout: {n: 2}
reward: {rules: [{type: exact_match}]}
trainer: {total_training_steps: 4}
""" % data)
        # No worker is there: the job is queued, and nothing is due on any stream.
        shell(*self.baton, "submit", spec, "--name", "add")
        followers = {
            "json": self.start("json", *self.baton, "watch", "add", "-o", "json", "--from-start"),
            "text": self.start("text", *self.baton, "watch", "add"),
            "logs": self.start("logs", *self.baton, "logs", "-f", "add"),
        }
        said = {"json": "json.err", "text": "text.out", "logs": "logs.err"}
        self.wait_for("the first event", lambda: "QUEUED" in self.read("json.out")
                      and "QUEUED" in self.read("text.out"))
        # Nothing tells that the stream of logs is open: its connection, and a moment for the call.
        self.wait_for("three connections", lambda: shell(
            "ss", "-tnH", "state", "established", "dport", "=", ":7077").stdout.count("\n") >= 3)
        time.sleep(2)
        started = time.monotonic()
        shell("ip", "link", "set", LINK, "down")
        for name, file in said.items():
            self.wait_for("%s says that the link is down" % name, lambda f=file: BROKE in self.read(f))
        noticed = time.monotonic() - started
        shell(*self.there, *self.baton, "cancel", "add")  # the job ends meanwhile
        shell("ip", "link", "set", LINK, "up")
        for name, process in followers.items():
            self.wait_for("%s ends" % name, lambda p=process: p.poll() is not None)
            self.assertIn(BACK, self.read(said[name]))
        self.assertEqual({n: p.returncode for n, p in followers.items()},
                         {"json": 1, "text": 1, "logs": 0})  # the job was cancelled
        whole = subprocess.run([*self.baton, "watch", "add", "-o", "json", "--from-start"],
                               text=True, stdout=subprocess.PIPE, timeout=60).stdout
        events = [json.loads(line) for line in whole.splitlines()]
        self.assertEqual([json.loads(line) for line in self.read("json.out").splitlines()], events)
        self.assertEqual(events[-1]["state"], "STATE_CANCELLED")
        print("noticed after %.1f s" % noticed, file=sys.stderr)


def inside():
    """In namespaces of its own: a second network, and a link to it."""
    shell("mount", "-t", "tmpfs", "tmpfs", "/run")  # `ip netns` keeps names there
    shell("ip", "netns", "add", FAR)
    shell("ip", "link", "add", LINK, "type", "veth", "peer", "name", "far0", "netns", FAR)
    shell("ip", "address", "add", "10.213.77.1/24", "dev", LINK)
    shell("ip", "link", "set", LINK, "up")
    for words in (["address", "add", ADDRESS + "/24", "dev", "far0"], ["link", "set", "far0", "up"],
                  ["link", "set", "lo", "up"]):
        shell("ip", "netns", "exec", FAR, "ip", *words)
    unittest.main()


def main():
    if os.environ.get(INSIDE):
        return inside()
    probe = subprocess.run(
        [*NAMESPACES, "sh", "-c", "mount -t tmpfs tmpfs /run && ip netns add far && "
         "ip link add near0 type veth peer name far0 netns far && ip netns exec far true"],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if probe.returncode != 0:
        print("SKIPPED: THE TEST OF A LINK THAT GOES DOWN DID NOT RUN. This machine makes no network "
              "namespaces (%s); run it as root, with iproute2 installed." % probe.stdout.strip(),
              file=sys.stderr)
        sys.exit(1 if os.environ.get("BATON_REQUIRE_NAMESPACES") else SKIPPED)
    os.environ[INSIDE] = "1"
    os.execvp(NAMESPACES[0], [*NAMESPACES, sys.executable, os.path.abspath(__file__), *sys.argv[1:]])


if __name__ == "__main__":
    main()

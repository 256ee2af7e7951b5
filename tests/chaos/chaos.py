#!/usr/bin/env python3
"""Kills and stops the processes of a cluster while a job runs, and compares with a quiet run.

    ./dev chaos [--minutes M] [--seed S] [--engine fake|real] [--mode sync|async] [--faults N]
                [--hosts N]

One job runs twice on `baton up`: undisturbed, and under a schedule of faults drawn from the seed.
A fault is SIGKILL (the supervisor starts the process again) or SIGSTOP, and SIGCONT after a while,
of the controller, the relay, the trainer, a rollout or the reward worker. With --hosts N, which
needs root and the real engine, the trainer and the rollouts are on N hosts: each has a relay, and a
file system of its own for shared memory, by which hosts are told apart. Checked:

  - the weights at the end are the same bytes; of mode async, where the batches depend on what
    happens when, a replay of the recorded batches ends with these bytes;
  - a watch of the job that outlives every fault saw each revision once, in order;
  - whenever nothing moved for longer than two seconds, `baton why` named what was waited for;
  - afterwards no process and nothing in shared memory is left.

Ends with 0 when all of it holds, with 77 where --hosts is not permitted. Needs nothing beyond
Python 3.
"""
import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Random weights, a rule that half of all texts obey, no group dropped: every step makes new weights.
SPEC = """
kind: rl
model:
  init: {characters: "0123456789", hidden_size: 32, max_position_embeddings: 128}
data:
  train_files: [prompts.jsonl]
  train_batch_size: 8
  max_prompt_length: 16
  max_response_length: 48
  seed: 7
rollout: {n: 8, deterministic: true}
reward:
  rules: [{type: regex, pattern: '[0-4]$'}]
algorithm: {filter_groups: false, mode: MODE}
actor: {lr: 1e-3}
trainer: {total_training_steps: STEPS, save_freq: 5, max_checkpoints: 2, keep_experience: KEEP}
resources: {rollout_workers: ROLLOUTS, reward_workers: 1}
"""

# Only low bits of the weights change in a step, so that versions travel as deltas.
ON_HOSTS = SPEC.replace("lr: 1e-3", "lr: 1e-6") + "weights: {encoding: delta}\n"


class Cluster:
    """`baton up` in a folder of its own."""

    spec = SPEC
    rollouts = 2

    def __init__(self, binaries, work, engine, mode):
        self.baton = os.path.join(binaries, "baton")
        self.work = work
        self.engine = engine
        self.mode = mode
        self.state = os.path.join(work, "state")
        self.environment = {k: v for k, v in os.environ.items() if k != "BATON_CONTROLLER"}
        self.environment["BATON_STATE_DIR"] = self.state

    def run(self, *arguments, check=True, timeout=120):
        done = subprocess.run([self.baton, *arguments], env=self.environment, text=True,
                              capture_output=True, timeout=timeout)
        if check and done.returncode != 0:
            raise Failure("`baton %s` ended with %d: %s" % (" ".join(arguments), done.returncode,
                                                            done.stderr.strip()))
        return done.stdout

    def start(self):
        ports = [f for name in ("port", "http-port", "relay-port") for f in ("--" + name, "0")]
        # The numbers are the same on every machine, so that a seed strikes the same processes.
        numbers = ["--trainers", "1", "--rollouts", "2", "--rewards", "1", "--scorers", "2"]
        self.run("up", "--detach", *ports, *numbers, *(["--fake"] if self.engine == "fake" else []))

    def processes(self):
        """Name -> pid, of those that run just now."""
        with open(os.path.join(self.state, "state.json"), encoding="utf-8") as file:
            state = json.load(file)
        return {p["name"]: p["pid"] for p in state["processes"] if p["pid"] > 0}

    def submit(self, steps):
        with open(os.path.join(self.work, "prompts.jsonl"), "w", encoding="utf-8") as file:
            for i in range(200):
                file.write(json.dumps({"prompt": str(1000 + 7 * i), "answer": ""}) + "\n")
        with open(os.path.join(self.work, "job.yaml"), "w", encoding="utf-8") as file:
            keep = "all" if self.mode == "async" else "needed"
            file.write(self.spec.replace("STEPS", str(steps)).replace("MODE", self.mode)
                       .replace("KEEP", keep).replace("ROLLOUTS", str(self.rollouts)))
        self.run("submit", os.path.join(self.work, "job.yaml"), "--name", "chaos")

    def job(self):
        """The job, or nothing while the controller is away."""
        out = self.run("show", "chaos", "-o", "json", check=False)
        try:
            job = json.loads(out)
        except ValueError:
            return None
        return job if "state" in job else None

    def replay(self):
        """Trains again on what was recorded; the weights must have the same bytes."""
        said = json.loads(self.run("replay", "chaos", "-o", "json", timeout=900))
        if said.get("verdict") != "VERDICT_EQUAL":
            raise Failure("the replay of the job ended with %s" % said)
        return said

    def weights(self, steps):
        folder = os.path.join(self.state, "data", "jobs", "default", "chaos", "checkpoints",
                              "step-%d" % steps, "actor")
        total = hashlib.sha256()
        for name in sorted(os.listdir(folder)):
            if name == "weights.json":  # The fake engine's: the version differs after a recovery.
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    total.update(json.load(file)["weights"].encode())
            elif name.endswith(".safetensors"):
                with open(os.path.join(folder, name), "rb") as file:
                    total.update(file.read())
        return total.hexdigest()

    def check_travel(self):
        """On one host nothing travels."""

    def rewards(self, steps):
        """Mean reward of each step: where two runs part can be told from it."""
        out = self.run("metrics", "chaos", "-n", str(steps), "--prefix", "critic/score/mean",
                       "-o", "json")
        return {int(row["step"]): row["metrics"].get("critic/score/mean")
                for row in json.loads(out)["steps"]}

    def down(self):
        self.run("down", check=False)

    def left_in_memory(self):
        info = os.stat(self.state)
        prefix = "baton-%d-%d" % (info.st_dev, info.st_ino)
        return ["/dev/shm/" + f for f in os.listdir("/dev/shm") if f.startswith(prefix)]


class Hosts(Cluster):
    """The same on several hosts: the trainer on the first one, rollouts on the others. The processes
    of this class are started again when they end, as a supervisor would do."""

    spec = ON_HOSTS

    def __init__(self, binaries, work, mode, hosts):
        super().__init__(binaries, work, "real", mode)
        self.binaries = binaries
        self.hosts = hosts
        self.rollouts = max(2, hosts - 1)
        self.commands = {}  # by name
        self.children = {}  # by name, while they run
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.supervisor = threading.Thread(target=self.supervise, daemon=True)
        self.memories = []

    def start(self):
        os.makedirs(self.state)
        controller, *ports = free_ports(1 + 2 * self.hosts)
        address = "127.0.0.1:%d" % controller
        self.environment["BATON_CONTROLLER"] = address
        key = os.path.join(self.work, "relay.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("a key that all relays of this test share\n")
        self.commands["controller"] = [
            "baton-controller", "--listen", address, "--http", "127.0.0.1:0", "--data-root",
            os.path.join(self.state, "data"), "--relay-capability-key-file", key]
        for host in range(self.hosts):
            memory = os.path.join(self.work, "memory-%d" % host)
            os.makedirs(memory)
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", memory], check=True)
            self.memories.append(memory)
            name = "relay-%d" % host
            self.commands[name] = [
                "baton-relay", "--listen", "127.0.0.1:%d" % ports[2 * host], "--shm-dir", memory,
                "--id", name, "--controller", address, "--capability-key-file", key,
                "--chain-listen", "127.0.0.1:%d" % ports[2 * host + 1]]
        roles = [("actor", 0), ("reward", 0)]
        roles += [("rollout", 1 + i % (self.hosts - 1)) for i in range(self.rollouts)]
        for i, (role, host) in enumerate(roles):
            name = "%s-%d" % (role, i)
            self.commands[name] = ["baton-worker", "--controller", address, "--roles", role,
                                   "--id", name, "--shm-dir", self.memories[host]]
        for name in self.commands:
            self.launch(name)
        self.supervisor.start()
        until = time.monotonic() + 60
        while self.run("workers", check=False).count("\n") <= len(roles) + self.hosts:
            if time.monotonic() > until:
                raise Failure("the workers have not attached; files: %s" % self.work)
            time.sleep(0.1)

    def launch(self, name):
        program, *arguments = self.commands[name]
        with open(os.path.join(self.work, name + ".log"), "a", encoding="utf-8") as log:
            self.children[name] = subprocess.Popen(
                [os.path.join(self.binaries, program), *arguments], stdout=log, stderr=log,
                env=self.environment)

    def supervise(self):
        while not self.stopping.wait(0.1):
            with self.lock:
                for name, child in list(self.children.items()):
                    if child.poll() is not None:
                        self.launch(name)

    def processes(self):
        with self.lock:
            return {name: child.pid for name, child in self.children.items()
                    if child.poll() is None}

    def check_travel(self):
        """Versions have travelled as deltas."""
        out = self.run("metrics", "chaos", "-n", "1000", "--prefix", "weights/sent_over_size",
                       "-o", "json")
        shares = [row["metrics"]["weights/sent_over_size"] for row in json.loads(out)["steps"]
                  if row["metrics"].get("weights/sent_over_size") is not None]
        deltas = sum(share < 0.6 for share in shares)
        if 2 * deltas < len(shares) or not shares:
            raise Failure("%d of %d versions travelled as deltas" % (deltas, len(shares)))
        say("  %d of %d versions travelled as deltas, the median with %.2f of the bytes" %
            (deltas, len(shares), sorted(shares)[len(shares) // 2]))

    def down(self):
        self.stopping.set()
        if self.supervisor.is_alive():
            self.supervisor.join()
        for child in self.children.values():
            child.terminate()
        self.left = []
        for name, child in self.children.items():
            try:
                child.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.left.append("process %d (%s), which did not end" % (child.pid, name))
                child.kill()
                child.wait()
        for memory in self.memories:
            self.left += [os.path.join(memory, file) for file in os.listdir(memory)]
            subprocess.run(["umount", memory], check=True)

    def left_in_memory(self):
        return self.left


def may_mount():
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=False,
                                 capture_output=True).returncode == 0
        if mounted:
            subprocess.run(["umount", folder], check=True)
        return mounted


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Watch(threading.Thread):
    """Follows the job as a user's program would, resuming from the last revision it saw."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.revisions = []
        self.stop = threading.Event()

    def run(self):
        while not self.stop.is_set():
            after = self.revisions[-1] if self.revisions else 0
            command = [self.cluster.baton, "watch", "chaos", "-o", "json", "--after", str(after)]
            with subprocess.Popen(command, env=self.cluster.environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
                for line in child.stdout:
                    try:
                        event = json.loads(line)
                    except ValueError:
                        continue
                    if int(event.get("revision", 0)) > 0:
                        self.revisions.append(int(event["revision"]))
                if child.wait() == 0:
                    return
            self.stop.wait(0.2)

    def check(self):
        self.join(timeout=30)
        self.stop.set()
        expected = list(range(1, len(self.revisions) + 1))
        if self.revisions != expected:
            wrong = next((i for i, (a, b) in enumerate(zip(self.revisions, expected)) if a != b),
                         len(expected))
            raise Failure("the watch saw revision %s where %d was due" %
                          (self.revisions[wrong:wrong + 1], wrong + 1))


class Faults:
    """The schedule: what happens to whom, and after how long."""

    def __init__(self, cluster, seed, count):
        self.cluster = cluster
        self.random = random.Random(seed)
        self.left = count
        self.done = []
        self.stopped = []  # A timer each.
        self.began = time.monotonic()

    def strike(self):
        running = self.cluster.processes()
        if not running or self.left == 0:
            return
        name = self.random.choice(sorted(running))
        kill = self.random.random() < 0.6
        length = 0 if kill else self.random.choice([0.3, 1.0, 2.5, 4.0])
        try:
            os.kill(running[name], signal.SIGKILL if kill else signal.SIGSTOP)
        except ProcessLookupError:
            return  # The process has just ended by itself, or was struck a moment ago.
        if not kill:
            timer = threading.Timer(length, self.go_on, [running[name]])
            timer.start()
            self.stopped.append(timer)
        self.left -= 1
        self.done.append("%s %s" % ("kill" if kill else "stop for %.1f s" % length, name))
        say("  %6.1f s  fault %d: %s" % (time.monotonic() - self.began, len(self.done), self.done[-1]))

    @staticmethod
    def go_on(pid):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def wait(self):
        """Until all that were stopped go on."""
        for timer in self.stopped:
            timer.join()


def say(text):
    print(text, flush=True)


def follow(cluster, faults, limit):
    """Until the job has ended; returns the stalls that `why` did not explain."""
    began = moved = time.monotonic()
    struck = began
    last, unexplained, stalls = None, [], 0
    while True:
        now = time.monotonic()
        if now - struck > faults.random.uniform(0.3, 1.2):
            faults.strike()
            struck = now
        job = cluster.job()
        now = time.monotonic()
        if job is not None:
            if job.get("state") in ("STATE_SUCCEEDED", "STATE_FAILED", "STATE_CANCELLED"):
                return job, unexplained, stalls
            at = (job.get("step"), job.get("phase"), job.get("state"))
            if at != last:
                last, moved = at, now
            elif now - moved > 2:
                stalls += 1
                why = cluster.run("why", "chaos", check=False)
                if not why.strip() and cluster.job() is not None:
                    unexplained.append("%s for %.1f s" % (at, now - moved))
        if now - began > limit:
            raise Failure("the job has not ended within %d s: %s\n%s" %
                          (limit, job, cluster.run("why", "chaos", check=False)))
        time.sleep(0.1)


def left_behind(cluster, pids):
    alive = []
    for name, pid in pids.items():
        try:
            with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                    alive.append("process %d (%s)" % (pid, name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return alive + cluster.left_in_memory()


def run(arguments, work, steps, seed, count):
    """One job; returns the hash of its weights, its rewards by step and the number of faults."""
    os.makedirs(work)
    if arguments.hosts > 1:
        cluster = Hosts(arguments.bin, work, arguments.mode, arguments.hosts)
    else:
        cluster = Cluster(arguments.bin, work, arguments.engine, arguments.mode)
    faults = Faults(cluster, seed, count)
    pids = {}
    try:
        cluster.start()
        pids = cluster.processes()
        cluster.submit(steps)
        watch = Watch(cluster)
        watch.start()
        began = time.monotonic()
        job, unexplained, stalls = follow(cluster, faults, arguments.limit)
        seconds = time.monotonic() - began
        if job["state"] != "STATE_SUCCEEDED":
            raise Failure("the job is %s: %s" % (job["state"], job.get("error")))
        faults.wait()
        watch.check()
        if unexplained:
            raise Failure("nothing moved, and `baton why` had nothing to say: %s" % unexplained)
        pids.update(cluster.processes())
        if count == 0:
            cluster.check_travel()
        weights, rewards = cluster.weights(steps), cluster.rewards(steps)
        if arguments.mode == "async":
            cluster.replay()
            say("  a replay of the recorded batches ends with the same bytes")
        say("  %d steps in %.1f s under %d faults; %d revisions watched; %d looks at a stall, all "
            "explained; weights %s" % (steps, seconds, len(faults.done), len(watch.revisions),
                                       stalls, weights[:16]))
        return weights, rewards, len(faults.done)
    finally:
        faults.wait()
        cluster.down()
        left = left_behind(cluster, pids) if pids else []
        if left:
            raise Failure("left behind: " + ", ".join(left))


def main():
    parser = argparse.ArgumentParser(description="Kill and stop the processes of a running job")
    parser.add_argument("--engine", choices=["fake", "real"], default="real")
    parser.add_argument("--mode", choices=["sync", "async"], default="sync")
    parser.add_argument("--faults", type=int, default=30, help="at least so many in a run")
    parser.add_argument("--hosts", type=int, default=1, help="that the processes are spread over")
    parser.add_argument("--minutes", type=float, default=0, help="repeat for so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="of the job; default: enough")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one run")
    parser.add_argument("--bin", default=os.path.join(
        os.environ.get("BATON_BUILD_DIR", os.path.join(ROOT, "build", "release")), "bin"))
    arguments = parser.parse_args()
    if arguments.hosts > 1 and arguments.engine != "real":
        parser.error("--hosts needs --engine real")
    if arguments.hosts > 1 and not may_mount():
        print("--hosts needs root: each host mounts its shared memory", file=sys.stderr)
        sys.exit(SKIPPED)
    steps = arguments.steps or {"fake": 2000, "real": 800}[arguments.engine]
    work = tempfile.mkdtemp(prefix="baton-chaos-")
    until = time.monotonic() + 60 * arguments.minutes
    failed = False
    try:
        say("undisturbed, %s engine" % arguments.engine)
        quiet, rewards, _ = run(arguments, os.path.join(work, "quiet"), steps, 0, 0)
        seed, total = arguments.seed, 0
        while True:
            say("seed %d" % seed)
            weights, seen, struck = run(arguments, os.path.join(work, "seed-%d" % seed), steps,
                                        seed, (5 if arguments.minutes else 1) * arguments.faults)
            total += struck
            if weights != quiet and arguments.mode == "sync":
                parted = [step for step in sorted(rewards) if rewards[step] != seen.get(step)]
                raise Failure("seed %d: the weights are %s, undisturbed %s; the first step with "
                              "another reward: %s" % (seed, weights, quiet, parted[:1] or "none"))
            if not arguments.minutes and struck < arguments.faults:
                steps *= 2  # A fast machine: the job must last longer.
                say("only %d faults had time to strike; again, with %d steps" % (struck, steps))
                shutil.rmtree(work)
                quiet, rewards, _ = run(arguments, os.path.join(work, "quiet"), steps, 0, 0)
                continue
            if time.monotonic() >= until:
                break
            seed += 1
        same = "the same bytes" if arguments.mode == "sync" else "replays with the same bytes"
        say("%s after %d faults" % (same, total))
    except Failure as failure:
        failed = True
        say("FAILED: %s\nfiles: %s" % (failure, work))
    finally:
        if not failed:
            shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

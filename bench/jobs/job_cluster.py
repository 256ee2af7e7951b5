"""A cluster of real processes on this machine for benches that train whole jobs of examples/addition."""
import json
import os
import platform
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = os.path.join(ROOT, "examples", "addition")
BIN = os.path.join(ROOT, "build", "release", "bin")


def report(bench, rows, path):
    """Prints rows {name, value, unit} and their `note` if they have one; writes them to `path` if
    there is one."""
    for row in rows:
        print(f"{row['name']:45} {row['value']:12.4g} {row['unit']:8} {row.get('note', '')}".rstrip())
    if not path:
        return
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"bench": bench, "machine": machine, "rows": rows}, file, indent=2)
        file.write("\n")


class JobCluster:
    """`binaries`: the folder with baton; `work`: an empty folder for state and data."""

    def __init__(self, binaries, work):
        self.work = work
        self.baton = os.path.join(binaries, "baton")
        self.environment = {k: v for k, v in os.environ.items() if k != "BATON_CONTROLLER"}
        self.environment["BATON_STATE_DIR"] = os.path.join(work, "state")

    def run(self, *command):
        done = subprocess.run([self.baton, *command], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit(f"`baton {' '.join(command)}` ended with {done.returncode}:\n"
                     f"{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, rollouts=1, scorers=0):
        ports = [f for name in ("port", "http-port", "relay-port") for f in ("--" + name, "0")]
        self.run("up", "--detach", "--trainers", "1", "--rollouts", str(rollouts), "--rewards", "1",
                 "--scorers", str(scorers), *ports)

    def make_data(self, seed, digits):
        subprocess.run([sys.executable, os.path.join(EXAMPLE, "make_data.py"), "--out",
                        os.path.join(self.work, "data"), "--seed", str(seed), "--digits",
                        str(digits)], check=True, stdout=subprocess.DEVNULL)

    def pids(self):
        with open(os.path.join(self.work, "state", "state.json"), encoding="utf-8") as file:
            return {p["name"]: p["pid"] for p in json.load(file)["processes"]
}

    def submit(self, name, spec, sets):
        options = [o for s in sets for o in ("--set", s)]
        self.run("submit", os.path.join(EXAMPLE, spec), "--name", name, *options)

    def train(self, name, spec, sets):
        """Runs a job of examples/addition to its end; exits unless it succeeds."""
        self.submit(name, spec, sets)
        self.wait_for_workers(name)
        self.run("watch", name)
        job = json.loads(self.run("show", name, "-o", "json"))
        if job["state"] != "STATE_SUCCEEDED":
            sys.exit(f"job {name} is {job['state']}: {job.get('error')}")

    def wait_for_workers(self, name):
        """Exits if a job is still queued after half a minute: this cluster lacks a role it needs."""
        deadline = time.monotonic() + 30
        while json.loads(self.run("show", name, "-o", "json"))["state"] == "STATE_QUEUED":
            if time.monotonic() > deadline:
                sys.exit(self.run("why", name))
            time.sleep(0.2)

    def teach(self, name, steps, seed, sets=()):
        """The supervised job that the others start from. `sets`: of its spec, e.g. another model."""
        self.train(name, "sft.yaml", [f"data.train_files=[{self.work}/data/sft.jsonl]",
                                      f"trainer.total_training_steps={steps}", f"data.seed={seed}", *sets])

    def metrics(self, name, steps):
        """By step; of the steps that were trained."""
        rows = json.loads(self.run("metrics", name, "-n", str(steps + 1), "-o", "json"))["steps"]
        return {int(r["step"]): r["metrics"] for r in rows if "timing_s/step" in r["metrics"]
    }

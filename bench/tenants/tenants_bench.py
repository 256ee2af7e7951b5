#!/usr/bin/env python3
"""What a project notices of a neighbour that does its worst: `./dev bench tenants [--json F]`.

Real processes on this machine. For each attack (tenants_attacks.py) a controller starts anew, with two
projects. The victim runs a steady job of workers without a model, times heartbeats, and submits and
deletes a small job once a second (tenants_victim.py): first alone, then beside the attack. The
attacker's own processes run at nice 19, so that what the controller pays is what shows.

    only_computes      none: a process at nice 19 that leaves the controller alone. What the victim
                       notices of it, it owes to the machine; with a ratio far above 1 here (other
                       work runs), the others say little
    held_uploads       uploads that are begun and never ended
    uploads            uploads at full speed
    deletes            deletes of jobs that have many files
    templates          chat templates that compare and sort lists which share items
    error_texts        a worker fails each reward with a text of 4 MiB
    log_lines          a worker writes log lines of 16 MiB
    ended_jobs         jobs that are created and cancelled, as fast as possible
    idle_connections   TCP connections that say nothing
    huge_specs         specs of the largest size, and larger ones

Rows of an attack A:
    A/victim_step_time_over_alone   aim: at most 1.5. Over that of the same controller before the attack
    A/heartbeat_p99_ms              aim: at most 50
    A/errors_of_victim              aim: 0. Calls that failed or took longer than 10 s, streams of
                                    workers that broke, and a job that does not run
    A/controller_rss_mb             peak; aim: at most 320 more than alone
    A/fds                           peak of the controller's open descriptors
    A/victim_call_max_ms            the slowest of the victim's calls
    A/controller_cores              processor time that the controller itself used, over time
    A/checkers_mb                   peak of the processes that check submissions for the controller
    A/attempts                      what the attacker began: calls, pieces of uploads, connections, texts
    A/let_in                        what of it was accepted, or is still open in the end
Rows alone/...: the same of the victim alone, the median over all attacks; step_time_ms.

A missed aim does not fail the run; a controller that ends does, an attack that tried nothing, and errors
of the victim alone. With --check its errors beside an attack fail the run too. When controller and checkers hold more than --max-mb, the
attack is ended early, so that the machine lives; the run says so.
"""
import argparse
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from tenants_api import ROOT, Protocol
from tenants_attacks import ATTACKS
from tenants_cluster import Cluster, start, stop
from tenants_victim import Victim

sys.path.append(os.path.join(ROOT, "bench", "jobs"))
from job_cluster import BIN, report  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
NICE = 19
STEP_TIME, HEARTBEAT_MS, MORE_MB = 1.5, 50, 320  # aims
PREPARED_WITHIN = 120  # seconds


class Attacker:
    """The process of one attack."""

    def __init__(self, cluster, name, quick):
        self.name = name
        config = {"address": cluster.address, "http": cluster.http, "data_root": cluster.data_root,
                  "models": cluster.models, "protocol": cluster.protocol.folder, "quick": quick,
                  "write": cluster.token_file("attacker", "write"),
                  "worker": cluster.token_file("attacker", "worker")}
        path = os.path.join(cluster.work, "attack.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        cluster.start_workers("attacker", ATTACKS[name].roles, NICE)
        self.process = start([sys.executable, os.path.join(HERE, "tenants_attacks.py"), name, path],
                             os.path.join(cluster.work, "attack.log"), NICE, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        cluster.processes.append(self.process)
        if self.line(PREPARED_WITHIN) != "ready\n":
            with open(os.path.join(cluster.work, "attack.log"), encoding="utf-8") as file:
                raise RuntimeError("the attack %s was not prepared: %s" % (name, file.read()[-2000:]))

    def line(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return self.process.stdout.readline() if ready else ""

    def begin(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        """How often it tried, what came of it, and the first text of each refusal."""
        self.process.terminate()
        said = self.line(30)
        stop(self.process)
        return json.loads(said) if said else {"tried": 0, "counts": {}, "reasons": {}}


def run_attack(name, arguments, protocol, failures):
    """(alone, attacked): figures by name."""
    with tempfile.TemporaryDirectory(prefix="baton-tenants-bench-") as work, \
            Cluster(protocol, arguments.bin, work, arguments.max_mb) as cluster:
        victim = Victim(cluster)
        victim.start()
        attacker = Attacker(cluster, name, arguments.quick)
        cluster.peaks.begin()
        alone = victim.measure(arguments.alone_seconds)
        before = figures(alone, cluster)
        cluster.peaks.begin(too_much=attacker.process.terminate)
        attacker.begin()
        attacked = victim.measure(arguments.seconds)
        said = attacker.end()
        after = figures(attacked, cluster)
        alive = cluster.alive()
        victim.end(alone, attacked)
        for out, of in ((before, alone), (after, attacked)):
            out["heartbeat_p99_ms"] = of.heartbeat_p99_ms()
            out["errors_of_victim"] = len(of.errors)
        tell(name, attacked, said, cluster)
        if not alive:
            failures.append("%s: the controller ended with %s; the end of its log:\n%s" %
                            (name, cluster.controller.returncode, end_of(cluster.log)))
        after["let_in"] = said["counts"].get("done", 0) + said["counts"].get("held", 0)
        after["attempts"] = said["tried"]
        if after["attempts"] == 0:
            failures.append("%s: the attack tried nothing: %s" %
                            (name, end_of(os.path.join(work, "attack.log"))))
        if alone.errors:
            failures.append("%s: %d errors before the attack, the first: %s" %
                            (name, len(alone.errors), alone.errors[0]))
        if arguments.check and attacked.errors:
            failures.append("%s: %d errors of the victim, the first: %s" %
                            (name, len(attacked.errors), attacked.errors[0]))
        if arguments.keep:
            os.makedirs(arguments.keep, exist_ok=True)
            os.replace(cluster.log, os.path.join(arguments.keep, name + ".log"))
        return before, after


def figures(measured, cluster):
    return {"step_seconds": measured.step_seconds, "rss_mb": cluster.peaks.rss_mb,
            "fds": cluster.peaks.fds, "checkers_mb": cluster.peaks.checkers_mb, "cores": cluster.peaks.cores(),
            "call_max_ms": measured.slowest_call()[1]}


def end_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()[-3000:]


def tell(name, attacked, said, cluster):
    print("  the attacker tried %d: %s" % (said["tried"], ", ".join("%s %d" % item for item
                                                                    in sorted(said["counts"].items()))))
    for code, reason in said["reasons"].items():
        print("    %s: %s" % (code, reason))
    if cluster.peaks.excess:
        print("  ended early: controller and checkers held more than %d MB" % cluster.limit_mb)
    print("  the victim: the slowest call was %s, %.0f ms" % attacked.slowest_call())
    for error in sorted(set(attacked.errors))[:5]:
        print("    %d x %s" % (attacked.errors.count(error), error))
    sys.stdout.flush()


def rows_of(name, before, after):
    more = after["rss_mb"] - before["rss_mb"]
    return [row("%s/victim_step_time_over_alone" % name, after["step_seconds"] / before["step_seconds"],
                "x", STEP_TIME),
            row("%s/heartbeat_p99_ms" % name, after["heartbeat_p99_ms"], "ms", HEARTBEAT_MS),
            row("%s/errors_of_victim" % name, after["errors_of_victim"], "errors", 0),
            row("%s/controller_rss_mb" % name, after["rss_mb"], "MB", before["rss_mb"] + MORE_MB,
                "%.0f more than alone" % more),
            row("%s/fds" % name, after["fds"], "files"),
            row("%s/victim_call_max_ms" % name, after["call_max_ms"], "ms"),
            row("%s/controller_cores" % name, after["cores"], "cores"),
            row("%s/checkers_mb" % name, after["checkers_mb"], "MB"),
            row("%s/attempts" % name, after["attempts"], "tries"),
            row("%s/let_in" % name, after["let_in"], "tries")]


def row(name, value, unit, aim=None, more=""):
    note = [] if aim is None else ["aim <= %.4g%s" % (aim, "" if value <= aim else ", MISSED")]
    return {"name": name, "value": value, "unit": unit, "note": "; ".join(note + [more] * bool(more))}


def alone_rows(all_before):
    def median(name):
        return statistics.median(before[name] for before in all_before)
    return [row("alone/step_time_ms", 1000 * median("step_seconds"), "ms"),
            row("alone/heartbeat_p99_ms", median("heartbeat_p99_ms"), "ms", HEARTBEAT_MS),
            row("alone/errors_of_victim", sum(b["errors_of_victim"] for b in all_before), "errors", 0,
                "the sum"),
            row("alone/controller_rss_mb", median("rss_mb"), "MB"),
            row("alone/fds", median("fds"), "files"),
            row("alone/victim_call_max_ms", median("call_max_ms"), "ms"),
            row("alone/controller_cores", median("cores"), "cores"),
            row("alone/checkers_mb", median("checkers_mb"), "MB")]


def parse():
    parser = argparse.ArgumentParser(description="One project attacks, the other must not notice")
    parser.add_argument("--json", metavar="FILE", help="write the rows here")
    parser.add_argument("--quick", action="store_true", help="a short and small form, for a first look")
    parser.add_argument("--seconds", type=float, help="of each attack (30; quick: 3)")
    parser.add_argument("--alone-seconds", type=float, help="of the victim alone (10; quick: 2)")
    parser.add_argument("--attack", choices=ATTACKS, action="append", help="only these")
    parser.add_argument("--check", action="store_true", help="errors of the victim fail the run")
    parser.add_argument("--max-mb", type=int, default=6000,
                        help="memory of controller and checkers at which an attack ends early")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the controllers' logs there")
    parser.add_argument("--bin", default=os.path.join(os.environ["BATON_BUILD_DIR"], "bin")
                        if "BATON_BUILD_DIR" in os.environ else BIN)
    arguments = parser.parse_args()
    arguments.seconds = arguments.seconds or (3 if arguments.quick else 30)
    arguments.alone_seconds = arguments.alone_seconds or (2 if arguments.quick else 10)
    return arguments


def main():
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit("stopped"))  # its folders go, too
    rows, all_before, failures = [], [], []
    with tempfile.TemporaryDirectory(prefix="baton-tenants-proto-") as folder:
        protocol = Protocol(os.path.join(folder, "proto"))
        for name in arguments.attack or ATTACKS:
            begin = time.monotonic()
            if name == "templates" and not os.path.exists(os.path.join(arguments.bin, "baton-worker")):
                print("templates: left out, for this build has no baton-worker that would render them")
                continue
            print(name, flush=True)
            before, after = run_attack(name, arguments, protocol, failures)
            all_before.append(before)
            rows += rows_of(name, before, after)
            print("  %.0f s" % (time.monotonic() - begin), flush=True)
    report("tenants", (alone_rows(all_before) if all_before else []) + rows, arguments.json)
    if failures:
        sys.exit("\n".join("tenants_bench: " + failure for failure in failures))


if __name__ == "__main__":
    main()

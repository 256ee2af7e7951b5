"""A controller with two projects, each with tokens of its own, and what /proc says of it."""
import ctypes
import os
import re
import resource
import signal
import subprocess
import threading
import time

import grpc

from tenants_api import channel_options, metadata

PATIENCE = 60  # seconds, with what should be there in one or two
SOFT_FILES = 1024  # what services usually start with: systemd's soft limit
PRCTL = ctypes.CDLL(None).prctl
PR_SET_PDEATHSIG = 1


def stop(process):
    """Asks a process that this bench started to end, and then kills it."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        kill(process)


def kill(process):
    process.kill()
    process.wait()


def start(arguments, log, nice=0, files=None, **options):
    """A process that ends with this one. `files`: its soft limit of open files. It stays in this
    session: Linux shares the cores fairly among sessions, and `nice` counts only within each of them
    (sched_autogroup)."""
    def before():
        PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.nice(nice)
        if files:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))

    with open(log, "ab") as file:
        options.setdefault("stdout", file)
        return subprocess.Popen(arguments, stderr=file, preexec_fn=before, **options)


def wait_for(what, found, process=None, patience=PATIENCE):
    """The first value of `found()` that is true."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        if process is not None and process.poll() is not None:
            raise RuntimeError("%s: the process ended with %d" % (what, process.returncode))
        time.sleep(0.02)
    raise RuntimeError("%s: not within %d seconds" % (what, patience))


def memory_mb(pid, field="VmRSS"):
    """A field of /proc/PID/status; 0 if the process is gone."""
    try:
        with open("/proc/%d/status" % pid, encoding="ascii") as file:
            found = re.search(r"^%s:\s+(\d+) kB" % field, file.read(), re.MULTILINE)
    except OSError:
        return 0
    return int(found.group(1)) / 1024 if found else 0


def read_secret(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def cpu_seconds(pid):
    """Of the process without its children; 0 if it is gone."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_of(pid):
    out = []
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, thread), encoding="ascii") as file:
                out += [int(child) for child in file.read().split()]
    except OSError:
        pass
    return out


class Peaks:
    """What the controller held at most since the last `begin`, looked at five times a second. Calls
    `too_much` once when controller and its checking processes hold more than `limit_mb`."""

    def __init__(self, process, limit_mb):
        self.process = process
        self.limit_mb = limit_mb
        self.too_much = None
        self.stopped = threading.Event()
        self.begin()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def begin(self, too_much=None):
        self.rss_mb = self.checkers_mb = self.fds = 0
        self.since = time.monotonic()
        self.cpu = cpu_seconds(self.process.pid)
        self.too_much = too_much
        self.excess = False

    def look(self):
        while not self.stopped.wait(0.2):
            pid = self.process.pid
            self.rss_mb = max(self.rss_mb, memory_mb(pid))
            checkers = sum(memory_mb(child) for child in children_of(pid))
            self.checkers_mb = max(self.checkers_mb, checkers)
            try:
                self.fds = max(self.fds, len(os.listdir("/proc/%d/fd" % pid)))
            except OSError:
                continue
            if self.rss_mb + checkers > self.limit_mb and self.too_much:
                self.excess = True
                self.too_much()
                self.too_much = None

    def cores(self):
        """That the controller used, on average since `begin`; not those of its checking processes."""
        return (cpu_seconds(self.process.pid) - self.cpu) / (time.monotonic() - self.since)

    def end(self):
        self.stopped.set()
        self.thread.join()


class Cluster:
    """Use it in a `with`. `work`: an empty folder. After the start, `tokens` has one of
    each (project, scope), and `models` is a folder that specs of both projects may name."""
    PROJECTS = ("victim", "attacker")

    def __init__(self, protocol, binaries, work, limit_mb):
        self.protocol = protocol
        self.binaries = binaries
        self.work = work
        self.limit_mb = limit_mb
        self.data_root = os.path.join(work, "data")
        self.models = os.path.join(work, "models")
        self.log = os.path.join(work, "controller.log")
        self.processes = []
        self.tokens = {}

    def __enter__(self):
        try:
            self.start_controller()
            self.make_tokens()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        if hasattr(self, "peaks"):
            self.peaks.end()
        for process in reversed(self.processes):
            kill(process)

    def program(self, name):
        return os.path.join(self.binaries, name)

    def start_controller(self):
        admin = self.secret_file("admin", "admin-of-the-bench-%s" % os.urandom(16).hex())
        os.mkdir(self.models)

        self.controller = start(
            [self.program("baton-controller"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
             "--data-root", self.data_root, "--token-file", admin, "--allow-path", self.models],
            self.log, files=SOFT_FILES)
        self.processes.append(self.controller)
        ready = wait_for("the controller", self.ready, self.controller)
        self.address = "127.0.0.1:" + ready["grpc_port"]
        self.http = "127.0.0.1:" + ready["http_port"]
        self.peaks = Peaks(self.controller, self.limit_mb)

    def ready(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            for line in file:
                if "controller ready" in line:
                    return dict(re.findall(r"(\w+)=(\d+)", line))
        return None

    def alive(self):
        return self.controller.poll() is None

    def secret_file(self, name, secret):
        path = os.path.join(self.work, "token-" + name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(secret + "\n")
        return path

    def make_tokens(self):
        admin = read_secret(os.path.join(self.work, "token-admin"))
        with grpc.insecure_channel(self.address, channel_options()) as channel:
            create = self.protocol.stub(channel, "CreateToken")
            for project in self.PROJECTS:
                for scope in ("write", "worker"):
                    request = self.protocol.request("CreateToken",
                                                    {"project": project, "scopes": [scope]})
                    made = create(request, metadata=metadata(admin), timeout=PATIENCE)
                    self.tokens[project, scope] = made.secret
                    self.secret_file("%s-%s" % (project, scope), made.secret)

    def token_file(self, project, scope):
        return os.path.join(self.work, "token-%s-%s" % (project, scope))

    def start_workers(self, project, roles, nice=0, **options):
        """One worker without a model for each of `roles`. `options`: token_ms=2 for --token-ms 2."""
        more = [word for name, value in options.items()
                for word in ("--" + name.replace("_", "-"), str(value))]
        for number, role in enumerate(roles):
            self.processes.append(start(
                [self.program("baton-fake-worker"), "--controller", self.address, "--roles", role,
                 "--id", "%s-%d" % (project, number), "--token-file", self.token_file(project, "worker"),
                 "--log-level", "warn", "--weights-dir", os.path.join(self.work, "weights-" + project), *more],
                os.path.join(self.work, "workers-%s.log" % project), nice))

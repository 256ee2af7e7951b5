"""The project that must not notice its neighbour: a steady job, heartbeats, and a user who submits.

As a program (a process of its own, so that nothing else delays what it measures): bare workers whose
heartbeats are timed, until SIGTERM; then it writes its samples.
"""
import asyncio
import json
import math
import os
import signal
import sys
import threading
import time
import urllib.request

import grpc

from tenants_api import PIECE, Protocol, channel_options, metadata, prompts, small_job
from tenants_cluster import read_secret, start, stop, wait_for

STEADY = "projects/victim/jobs/steady"
TOKEN_MS = 4  # of 12 tokens: a step takes some 60 ms, nearly all of it waiting
BARE_WORKERS = 8
BEAT_EVERY = 0.1  # seconds, of each bare worker
DEADLINE = 10  # seconds, of each call; a later answer is an error


def percentile(values, fraction):
    """By the nearest rank, as in bench/support/report.h; 0 of nothing."""
    values = sorted(values)
    return values[max(0, math.ceil(fraction * len(values)) - 1)] if values else 0


class Measured:
    """What the victim saw in a while. Lists may be appended to from several threads."""

    def __init__(self):
        self.step_seconds = 0
        self.heartbeats_ms = []
        self.calls_ms = []  # (what, milliseconds)
        self.errors = []

    def heartbeat_p99_ms(self):
        return percentile(self.heartbeats_ms, 0.99)

    def slowest_call(self):
        return max(self.calls_ms, key=lambda call: call[1], default=("no call", 0))


class StepClock:
    """Seconds of a step, from looks at a job's step counter. Times are of one monotonic clock."""

    def __init__(self, now):
        self.begin = now
        self.first = self.last = None  # (when, step) of the first and the newest change seen
        self.step = None

    def look(self, step, now):
        if self.step is not None and step != self.step:
            self.first = self.first or (now, step)
            self.last = (now, step)
        self.step = step

    def seconds(self, now):
        """A step that has not ended counts as soon as it takes longer than the others did."""
        if self.first is None:
            return now - self.begin
        steps = self.last[1] - self.first[1]
        mean = (self.last[0] - self.first[0]) / steps if steps else 0
        return max(mean, (now - self.first[0]) / (steps + 1))


class Victim:
    def __init__(self, cluster):
        self.cluster = cluster
        self.protocol = cluster.protocol
        self.metadata = metadata(cluster.tokens["victim", "write"])
        self.channel = grpc.insecure_channel(cluster.address, channel_options())
        self.samples = os.path.join(cluster.work, "heartbeats.json")
        self.visits = 0

    def start(self):
        self.cluster.start_workers("victim", ["actor", "rollout", "rollout", "reward"],
                                   token_ms=TOKEN_MS)
        self.path = self.upload(self.channel, prompts())
        self.call(self.channel, "CreateJob", {"project": "victim", "job_id": "steady",
                                              "spec": small_job([self.path])}, timeout=60)
        wait_for("the victim's job", lambda: self.steady().step >= 5)
        ready = self.samples + ".ready"
        self.beats = start([sys.executable, os.path.abspath(__file__), self.cluster.address,
                            self.cluster.token_file("victim", "worker"), self.protocol.folder,
                            self.samples], os.path.join(self.cluster.work, "heartbeats.log"))
        self.cluster.processes.append(self.beats)
        wait_for("the bare workers", lambda: os.path.exists(ready), self.beats)

    def call(self, channel, method, fields, timeout=DEADLINE):
        return self.protocol.stub(channel, method)(self.protocol.request(method, fields),
                                                   metadata=self.metadata, timeout=timeout)

    def upload(self, channel, data):
        message = self.protocol.methods["UploadFile"].input_type._concrete_class
        pieces = [message(filename="prompts.jsonl" if at == 0 else "", data=data[at:at + PIECE],
                          project="victim") for at in range(0, len(data), PIECE)]
        return self.protocol.stub(channel, "UploadFile")(
            iter(pieces), metadata=self.metadata, timeout=DEADLINE).path

    def steady(self):
        return self.call(self.channel, "GetJob", {"name": STEADY})

    def measure(self, seconds):
        """Blocks for so long, or a call's deadline longer. The heartbeats come from `end`."""
        out = Measured()
        out.begin = time.time()
        end = time.monotonic() + seconds
        visitor = threading.Thread(target=self.visit_until, args=(end, out))
        visitor.start()
        clock = StepClock(time.monotonic())
        state = "STATE_RUNNING"
        while time.monotonic() < end and self.cluster.alive():
            job = self.timed(out, "GetJob", self.steady)
            if job is not None:
                clock.look(job.step, time.monotonic())
                if self.state(job) != state:
                    state = self.state(job)
                    out.errors.append("the job is %s: %s" % (state, job.error.message))
            time.sleep(0.03)
        out.step_seconds = clock.seconds(time.monotonic())
        out.end = time.time()
        visitor.join()
        return out

    def end(self, *measured):
        """Ends the heartbeats and deals them out to what was measured."""
        stop(self.beats)
        with open(self.samples, encoding="ascii") as file:
            samples = json.load(file)
        for out in measured:
            out.heartbeats_ms = [ms for when, ms in samples["beats"] if out.begin <= when < out.end]
            out.errors += [what for when, what in samples["errors"] if out.begin <= when < out.end]

    def state(self, job):
        return self.protocol.messages["Job"].State.Name(job.state)

    def timed(self, out, what, call):
        """The call's answer; None, and an error is noted, if there is none."""
        begin = time.monotonic()
        try:
            return call()
        except grpc.RpcError as error:
            out.errors.append("%s: %s %s" % (what, error.code().name, error.details()))
        except OSError as error:
            out.errors.append("%s: %s" % (what, error))
        finally:
            out.calls_ms.append((what, (time.monotonic() - begin) * 1000))
        return None

    def visit_until(self, end, out):
        """What users do, once a second."""
        while time.monotonic() < end and self.cluster.alive():
            begin = time.monotonic()
            self.visit(out)
            time.sleep(max(0.0, min(end, begin + 1) - time.monotonic()))

    def visit(self, out):
        """Over new connections, as a command of `baton` does; the job waits for workers, and goes."""
        self.visits += 1
        job_id = "visit-%d" % self.visits
        name = {"name": "projects/victim/jobs/" + job_id}
        with grpc.insecure_channel(self.cluster.address, channel_options()) as channel:
            data = prompts() + b'{"prompt": "%d", "answer": "1"}\n' % self.visits
            path = self.timed(out, "UploadFile", lambda: self.upload(channel, data))
            request = {"project": "victim", "job_id": job_id, "spec": small_job([path or self.path])}
            made = self.timed(out, "CreateJob", lambda: self.call(channel, "CreateJob", request))
            if made is not None:
                self.timed(out, "CancelJob", lambda: self.call(channel, "CancelJob", name))
                self.timed(out, "DeleteJob", lambda: self.call(channel, "DeleteJob", name))
        self.timed(out, "/healthz", self.healthz)

    def healthz(self):
        with urllib.request.urlopen("http://%s/healthz" % self.cluster.http, timeout=DEADLINE) as got:
            return got.read()


class Heartbeats:
    """Bare workers, whose heartbeats are timed."""

    def __init__(self, address, token, protocol):
        self.address = address
        self.metadata = metadata(token)
        self.protocol = protocol
        self.message = protocol.messages["WorkerMessage"]
        self.attached = 0
        self.beats = []  # (when it was sent, milliseconds until its answer)
        self.errors = []  # (when, what)

    async def run(self, ready):
        tasks = [asyncio.create_task(self.work(i)) for i in range(BARE_WORKERS)]
        while self.attached < BARE_WORKERS:
            await asyncio.sleep(0.01)
        ready()
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
        await asked.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def work(self, number):
        """One worker; a stream that ends is an error, and it attaches again."""
        while True:
            async with grpc.aio.insecure_channel(self.address, channel_options()) as channel:
                try:
                    await self.attach(channel, number)
                except grpc.aio.AioRpcError as error:
                    self.errors.append((time.time(), "heartbeats: %s %s" % (error.code().name,
                                                                             error.details())))
            await asyncio.sleep(0.2)

    async def attach(self, channel, number):
        stream = self.protocol.stub(channel, "Attach")(metadata=self.metadata)
        hello = self.message()
        hello.hello.worker_id = "bare-%d" % number
        hello.hello.instance_id = "1"
        hello.hello.protocol_min = hello.hello.protocol_max = 1
        await stream.write(hello)
        await stream.read()
        self.attached += 1
        sent = {}
        beating = asyncio.create_task(self.beat(stream, sent))
        try:
            while True:
                message = await stream.read()
                if message is grpc.aio.EOF:
                    self.errors.append((time.time(), "heartbeats: the stream ended"))
                    return
                when = sent.pop(message.heartbeat_ack.sequence, None)
                if when is not None:
                    self.beats.append((when, (time.time() - when) * 1000))
        finally:
            beating.cancel()
            # Without an answer so far: it took at least so long.
            self.beats += [(when, (time.time() - when) * 1000) for when in sent.values()]

    async def beat(self, stream, sent):
        number = 0
        while True:
            number += 1
            message = self.message()
            message.heartbeat.sequence = number
            sent[number] = time.time()
            await stream.write(message)
            await asyncio.sleep(BEAT_EVERY)


def main():
    address, token_file, folder, samples = sys.argv[1:]
    heartbeats = Heartbeats(address, read_secret(token_file), Protocol(folder))

    def ready():
        with open(samples + ".ready", "w", encoding="ascii"):
            pass

    asyncio.run(heartbeats.run(ready))
    with open(samples, "w", encoding="ascii") as file:
        json.dump({"beats": heartbeats.beats, "errors": heartbeats.errors}, file)


if __name__ == "__main__":
    main()

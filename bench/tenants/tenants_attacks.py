"""What one project does to hurt the others, each at full speed: `ATTACKS`, by name.

As a program: tenants_attacks.py NAME CONFIG prepares the attack NAME, prints "ready", waits for a line
on standard input, attacks until SIGTERM, and prints as JSON what it tried and what came of it. Run it at nice 19, so that what it makes the controller do is measured, and not its own work.
"""
import asyncio
import collections
import json
import os
import resource
import signal
import socket
import sys

import grpc

from tenants_api import PIECE, Protocol, channel_options, metadata, prompts, small_job
from tenants_cluster import read_secret
from tenants_models import TEMPLATES, write_model

CONNECTIONS = 8
ADDRESS = "127.0.0.2"  # of the attacker, where a connection can choose it


class Attack:
    """`config`: {address, http, data_root, models, protocol, write, worker, quick}."""
    roles = []  # of the workers that the bench starts for it

    def __init__(self, config):
        self.config = config
        self.quick = config["quick"]
        self.protocol = Protocol(config["protocol"])
        self.metadata = metadata(read_secret(config["write"]))
        self.tried = 0  # calls that it began, pieces of uploads, connections, texts
        self.counts = collections.Counter()  # of what came of them
        self.reasons = {}  # the first text of each code
        self.channels = []
        self.number = 0

    async def open(self):
        self.channels = [grpc.aio.insecure_channel(self.config["address"], channel_options())
                         for _ in range(CONNECTIONS)]
        self.path = await self.upload([prompts()], "prompts.jsonl")
        await self.prepare()

    async def prepare(self):
        """While the victim is alone."""

    async def run(self):
        raise NotImplementedError

    def channel(self):
        self.number += 1
        return self.channels[self.number % CONNECTIONS]

    def name(self, kind):
        self.number += 1
        return "%s-%d" % (kind, self.number)

    def piece(self, data, filename=""):
        fields = {"project": "attacker", "filename": filename} if filename else {}
        return self.protocol.methods["UploadFile"].input_type._concrete_class(data=data, **fields)

    def refused(self, error):
        self.counts[error.code().name] += 1
        self.reasons.setdefault(error.code().name, (error.details() or "")[:300])

    async def upload(self, pieces, filename):
        """The path of the file, or None."""
        async def messages():
            for i, data in enumerate(pieces):
                self.tried += 1
                yield self.piece(data, filename if i == 0 else "")
        try:
            stub = self.protocol.stub(self.channel(), "UploadFile")
            answer = await stub(messages(), metadata=self.metadata, timeout=120)
        except grpc.aio.AioRpcError as error:
            return self.refused(error)
        self.counts["done"] += len(pieces)
        return answer.path

    async def call(self, method, fields):
        """The answer, or None. `fields`: as in JSON, or a request."""
        request = fields if not isinstance(fields, dict) else self.protocol.request(method, fields)
        self.tried += 1
        try:
            stub = self.protocol.stub(self.channel(), method)
            answer = await stub(request, metadata=self.metadata, timeout=600)
        except grpc.aio.AioRpcError as error:
            return self.refused(error)
        self.counts["done"] += 1
        return answer

    def create(self, spec, job_id):
        return self.call("CreateJob", {"project": "attacker", "job_id": job_id, "spec": spec})

    async def create_and_cancel(self, spec, kind):
        job = await self.create(spec, self.name(kind))
        if job is not None:
            await self.call("CancelJob", {"name": job.name})
        return job

    async def together(self, count, once):
        """`count` tasks that call `once()` again and again."""
        async def loop():
            while True:
                await once()
                await asyncio.sleep(0)  # an attempt that failed at once waited for nothing
        await asyncio.gather(*(loop() for _ in range(count)))


class OnlyComputes(Attack):
    """No attack: it computes at nice 19, and leaves the controller alone. What the victim notices of
    this one it owes to the machine."""

    async def run(self):
        while True:
            self.tried += 1
            sum(range(100_000))
            await asyncio.sleep(0)


class HeldUploads(Attack):
    """Begins uploads and never ends them; what was refused is tried again at once."""

    async def run(self):
        await self.together(1500 if self.quick else 4000, self.hold)

    async def hold(self):
        self.tried += 1
        call = self.protocol.stub(self.channel(), "UploadFile")(metadata=self.metadata)
        held = 0  # a refusal takes a moment
        try:
            await call.write(self.piece(os.urandom(1024), self.name("held")))
            ended = asyncio.ensure_future(call.code())
            held = 0 if (await asyncio.wait([ended], timeout=1))[0] else 1
            self.counts["held"] += held  # in the end: those that are still open
            await call
        except grpc.aio.AioRpcError as error:
            self.refused(error)
        except asyncio.InvalidStateError:  # the stream ended before the write
            self.counts["ended"] += 1
        self.counts["held"] -= held


class Uploads(Attack):
    """Sends files as fast as they are taken: few different ones, so that the disk does not fill."""

    async def run(self):
        loops = 4 if self.quick else 8
        contents = iter([os.urandom(PIECE) for _ in range(loops)])

        async def one():
            data = next(contents)
            while True:
                await self.upload([data] * 16, "large")
        await asyncio.gather(*(one() for _ in range(loops)))


class Deletes(Attack):
    """Deletes jobs whose folders have many files."""

    async def prepare(self):
        self.jobs = [await self.job(2_000 if self.quick else 40_000)
                     for _ in range(3 if self.quick else 6)]

    async def job(self, files):
        job = await self.create_and_cancel(small_job([self.path]), "deleted")
        if job is None:
            return None
        folder = os.path.join(self.config["data_root"], "jobs", "attacker", job.name.split("/")[-1])
        await asyncio.get_running_loop().run_in_executor(None, self.fill, folder, files)
        return job

    def fill(self, folder, files):
        for i in range(files):
            if i % 1000 == 0:
                part = os.path.join(folder, "many", str(i // 1000))
                os.makedirs(part, exist_ok=True)
            with open(os.path.join(part, str(i)), "wb"):
                pass

    async def delete(self, job):
        if job is not None and await self.call("DeleteJob", {"name": job.name}) is not None:
            self.counts["deleted"] += 1

    async def run(self):
        await asyncio.gather(*(self.delete(job) for job in self.jobs))

        async def again():
            await self.delete(await self.job(1_000))
        await self.together(4, again)


class Templates(Attack):
    """Chat templates whose cost grows faster than what they hold: each in a model of its own."""

    async def prepare(self):
        self.lines = await self.upload([prompts(messages=True)], "messages.jsonl")
        self.paths = []
        for name, template in TEMPLATES.items():
            self.paths.append(os.path.join(self.config["models"], name))
            write_model(self.paths[-1], template)

    async def run(self):
        async def once():
            self.number += 1
            path = self.paths[self.number % len(self.paths)]
            await self.create_and_cancel(small_job([self.lines], model={"path": path}), "template")
        await self.together(16, once)


def labels_of(size):
    """Labels of so many bytes together; each is nearly as long as one may be, 64 are allowed."""
    longest = 8000
    return {f"note-{i}": "x" * min(longest, size - i) for i in range(0, size, longest)}


class EndedJobs(Attack):
    """Creates jobs and cancels them; none is deleted."""

    async def run(self):
        specs = [small_job([self.path]), small_job([self.path], labels=labels_of(400_000))]
        await self.together(32, lambda: self.create_and_cancel(specs[self.number % 2], "ended"))


class HugeSpecs(Attack):
    """Specs of nearly the largest size, and of more than that. What was accepted is deleted again."""

    async def prepare(self):
        self.requests = []
        for method, size in (("CreateJob", 500_000), ("CreateJob", 3_900_000), ("ValidateJob", 500_000)):
            spec = small_job([self.path], labels=labels_of(size))
            self.requests.append((method, self.protocol.request(method, {"project": "attacker",
                                                                         "spec": spec})))

    async def run(self):
        await self.together(32, self.once)

    async def once(self):
        self.number += 1
        method, request = self.requests[self.number % len(self.requests)]
        answer = await self.call(method, request)
        if method == "CreateJob" and answer is not None:
            await self.call("CancelJob", {"name": answer.name})
            await self.call("DeleteJob", {"name": answer.name})


class IdleConnections(Attack):
    """Opens TCP connections to both ports, and sends nothing; one that was closed is opened again."""

    async def run(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        count = min(3000 if self.quick else 16_000, hard - 200)
        self.connecting = asyncio.Semaphore(256)  # more at once only wait for the kernel
        await asyncio.gather(*(self.hold(self.config["http" if i % 2 else "address"])
                               for i in range(count)))

    async def hold(self, address):
        host, port = address.rsplit(":", 1)
        loop = asyncio.get_running_loop()
        while True:
            with socket.socket() as connection:
                connection.setblocking(False)
                try:
                    async with self.connecting:
                        self.tried += 1
                        connection.bind((ADDRESS, 0))
                        await loop.sock_connect(connection, (host, int(port)))
                except OSError as error:
                    self.counts[type(error).__name__] += 1
                    await asyncio.sleep(0.01)
                    continue
                self.counts["held"] += 1  # in the end: those that are still open
                try:
                    while await loop.sock_recv(connection, 4096):  # what a server says first
                        pass
                except OSError:  # it was reset
                    pass
                self.counts["held"] -= 1
                self.counts["closed"] += 1


class WorkerAttack(Attack):
    """The attacker's job runs, and one of its workers is bad: its reward worker, played here. The
    others are those that the bench starts (`roles`)."""
    roles = ["actor", "rollout", "rollout"]
    METHOD = "attack"
    JOB = "projects/attacker/jobs/noisy"

    async def prepare(self):
        self.attached = asyncio.Event()
        self.begun = asyncio.Event()
        self.serving = asyncio.gather(*(self.serve(i) for i in range(2)))
        await asyncio.wait_for(self.attached.wait(), 30)

    async def run(self):
        spec = small_job([self.path], reward={"method": self.METHOD, "max_error_rate": 1})
        if await self.create(spec, self.JOB.split("/")[-1]) is None:
            sys.exit("the attacker's job was refused: %s" % self.reasons)
        self.begun.set()
        await self.serving

    async def serve(self, number):
        while True:
            options = [*channel_options(), ("grpc.max_send_message_length", -1)]
            async with grpc.aio.insecure_channel(self.config["address"], options) as channel:
                try:
                    await self.attach(channel, number)
                except grpc.aio.AioRpcError as error:
                    self.refused(error)
                except asyncio.InvalidStateError:
                    self.counts["ended"] += 1
            await asyncio.sleep(0.1)

    def to_controller(self):
        return self.protocol.messages["WorkerMessage"]()

    async def attach(self, channel, number):
        token = metadata(read_secret(self.config["worker"]))
        stream = self.protocol.stub(channel, "Attach")(metadata=token)
        message = self.to_controller()
        hello = message.hello
        hello.worker_id = "bad-%d" % number
        hello.instance_id = str(os.getpid())
        hello.protocol_min = hello.protocol_max = 1
        for method, credits in (("assign_role", 1), ("release_role", 1), (self.METHOD, 64)):
            hello.methods.add(role="reward", method=method, credits=credits)
        await stream.write(message)
        beside = [asyncio.create_task(self.beat(stream)), asyncio.create_task(self.say(stream))]
        try:
            await stream.read()  # Welcome
            self.attached.set()
            while True:
                message = await stream.read()
                if message is grpc.aio.EOF:
                    self.counts["ended"] += 1
                    return
                if message.WhichOneof("message") == "task":
                    await stream.write(self.result(message.task))
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def beat(self, stream):
        message = self.to_controller()
        while True:
            message.heartbeat.sequence += 1
            await stream.write(message)
            await asyncio.sleep(1)

    async def say(self, stream):
        await self.begun.wait()
        await self.beside(stream)

    async def beside(self, stream):
        """What the worker says besides results."""

    def result(self, task):
        message = self.to_controller()
        message.result.task_token = task.task_token
        if task.method == self.METHOD:
            self.score(message.result)
        return message

    def score(self, result):
        result.metrics["reward"] = 0


class ErrorTexts(WorkerAttack):
    """Each response's reward fails, with a text of 4 MiB."""
    TEXT = "e" * (4 << 20)

    def score(self, result):
        result.metrics["reward"] = 0
        result.error = self.TEXT
        self.tried += 1
        self.counts["done"] += 1


class LogLines(WorkerAttack):
    """A worker writes lines of 16 MiB into the job's log, and into its own."""

    async def beside(self, stream):
        while True:
            for of in (self.JOB, ""):
                message = self.to_controller()
                message.log.job = of
                message.log.level = "WARN"
                message.log.message = "l" * (16 << 20)
                self.tried += 1
                await stream.write(message)
                self.counts["done"] += 1


ATTACKS = {"only_computes": OnlyComputes, "held_uploads": HeldUploads, "uploads": Uploads,
           "deletes": Deletes, "templates": Templates, "error_texts": ErrorTexts,
           "log_lines": LogLines, "ended_jobs": EndedJobs, "idle_connections": IdleConnections,
           "huge_specs": HugeSpecs}


async def attack_until_signal(attack):
    await attack.open()
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    attack.tried = 0
    attack.counts.clear()
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    ends = [asyncio.create_task(asked.wait()), asyncio.create_task(attack.run())]
    ended, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if ends[1] in ended:
        ends[1].result()  # raises what it ended with
    print(json.dumps({"tried": attack.tried, "counts": attack.counts, "reasons": attack.reasons}),
          flush=True)
    os._exit(0)  # thousands of open streams would take their time to close


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        config = json.load(file)
    asyncio.run(attack_until_signal(ATTACKS[sys.argv[1]](config)))


if __name__ == "__main__":
    main()

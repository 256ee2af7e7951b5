#!/usr/bin/env python3
"""A reward worker in Python, on nothing but grpcio and protobuf: no Baton library.

    reward_worker.py CONTROLLER [--token-file FILE] [--protos DIR]

It offers role "reward", method "compute_suffix". docs/worker-protocol.md tells the rules that it
keeps; the numbers in comments are its sections. `reward` below is the place for your own idea.
"""
import argparse
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import grpc

METHOD = "compute_suffix"
# A controller that is away, without a word, ends the stream within 20 seconds (docs/embed.md).
KEEPALIVE = [("grpc.keepalive_time_ms", 10000), ("grpc.keepalive_timeout_ms", 10000),
             ("grpc.http2.max_pings_without_data", 0), ("grpc.http2.ping_timeout_ms", 10000)]
CREDITS = 64  # The most tasks the controller may have outstanding here.


def reward(trajectory):
    """What a response is worth, with any other numbers worth watching."""
    hit = trajectory.answer != "" and trajectory.response_text.strip().endswith(trajectory.answer)
    return {"reward": 1.0 if hit else 0.0, "accuracy": 1.0 if hit else 0.0}


def load_messages(protos):
    """Compiles the .proto files and imports the one that matters here."""
    names = ["error", "experience", "job_spec", "setting", "worker_service"]
    files = [os.path.join(protos, "baton", "v1", name + ".proto") for name in names]
    with tempfile.TemporaryDirectory(prefix="baton_protos") as folder:
        subprocess.run(["protoc", "-I", protos, "--python_out", folder] + files, check=True)
        sys.path.insert(0, folder)
        from baton.v1 import worker_service_pb2
    return worker_service_pb2


# The first Hello refused so: nothing will change by trying again (1).
FOR_GOOD = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED,
            grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)


class Worker:
    """One worker; `run` serves for ever. One thread reads, one sends heartbeats, and one works, so
    that a slow `reward` keeps nobody from hearing that the worker lives. `lock` guards the state."""

    def __init__(self, messages, controller, token):
        self.messages = messages
        self.controller = controller
        self.metadata = [("authorization", "Bearer " + token)] if token else []
        self.worker_id = "python-reward-%s-%d" % (socket.gethostname().lower(), os.getpid())
        self.instance_id = uuid.uuid4().hex
        self.tasks = queue.Queue()
        self.lock = threading.Lock()
        self.epoch = 0
        self.job = ""  # The job whose role is held; empty: none.
        self.running = {}  # Token -> task: accepted, without a result yet.
        self.results = {}  # Token -> message: not acknowledged yet (4).
        self.outbox = queue.Queue()  # Messages for the open stream.
        self.lease_ends = None  # On the monotonic clock (3).
        self.lease = 0.0
        self.heartbeats = {}  # Number -> when it was sent.

    def run(self):
        threading.Thread(target=self.work, daemon=True).start()
        delay = 0.1
        while True:
            try:
                if self.serve():
                    delay = 0.1
            except grpc.RpcError as error:
                if self.epoch == 0 and error.code() in FOR_GOOD:
                    sys.exit("refused: %s" % error.details())
                print("no connection: %s" % error.details(), file=sys.stderr, flush=True)
            time.sleep(delay)
            delay = min(2 * delay, 1.0)

    def serve(self):
        """One connection. True if the controller accepted it."""
        hello = self.hello()  # (2)
        hello_sent = time.monotonic()
        with grpc.insecure_channel(self.controller, options=KEEPALIVE) as channel:
            attach = channel.stream_stream(
                "/baton.v1.WorkerService/Attach",
                request_serializer=self.messages.WorkerMessage.SerializeToString,
                response_deserializer=self.messages.ControllerMessage.FromString)
            stream = attach(iter(self.outbox.get, None), metadata=self.metadata)
            self.outbox.put(hello)
            first = next(stream, None)
            if first is None or first.welcome.epoch < self.epoch or first.welcome.protocol != 1:
                stream.cancel()
                return False
            self.accept(first.welcome, hello_sent)
            stop = threading.Event()
            threading.Thread(target=self.beat, daemon=True,
                             args=(first.welcome, stream, stop)).start()
            try:
                for message in stream:
                    self.handle(message)
            finally:
                stop.set()
                self.outbox.put(None)
        return True

    def hello(self):
        message = self.messages.WorkerMessage()
        hello = message.hello
        hello.worker_id = self.worker_id
        hello.instance_id = self.instance_id
        hello.protocol_min = hello.protocol_max = 1
        hello.host = socket.gethostname()
        hello.pid = os.getpid()
        hello.device = "cpu"
        hello.epoch_seen = self.epoch
        for method, credits in (("assign_role", 1), ("release_role", 1), (METHOD, CREDITS)):
            hello.methods.add(role="reward", method=method, credits=credits)
        with self.lock:
            if self.lease_ends is not None and time.monotonic() >= self.lease_ends:
                self.fence()
            self.outbox = queue.Queue()
            if self.job:
                hello.roles_held.add(job=self.job, role="reward")
            for token in self.running:
                hello.running.add(task_token=token)
            hello.unacknowledged.extend(self.results)
        return message

    def fence(self):
        """The lease ran out (3). What is being worked on ends, and nobody hears of it."""
        self.job = ""
        self.running.clear()

    def accept(self, welcome, hello_sent):
        with self.lock:
            self.epoch = welcome.epoch
            self.lease = welcome.lease.ToTimedelta().total_seconds()
            self.lease_ends = hello_sent + self.lease
            self.heartbeats.clear()
            if any(role.job == self.job for role in welcome.release):
                self.job = ""
            for result in self.results.values():  # (4)
                self.outbox.put(result)
        print("attached as %s" % self.worker_id, flush=True)

    def beat(self, welcome, stream, stop):
        """Signs of life; ends the connection when the lease ran out (3)."""
        number = 0
        while not stop.wait(welcome.heartbeat_interval.ToTimedelta().total_seconds()):
            with self.lock:
                if time.monotonic() >= self.lease_ends:
                    self.fence()
                    stream.cancel()
                    return
                number += 1
                message = self.messages.WorkerMessage()
                message.heartbeat.sequence = number
                self.heartbeats[number] = time.monotonic()
                self.outbox.put(message)

    def handle(self, message):
        kind = message.WhichOneof("message")
        with self.lock:
            if kind == "heartbeat_ack" and message.heartbeat_ack.epoch >= self.epoch:
                sent = self.heartbeats.pop(message.heartbeat_ack.sequence, None)
                if sent is not None:
                    self.lease_ends = max(self.lease_ends, sent + self.lease)
            elif kind == "result_ack":
                self.results.pop(message.result_ack.task_token, None)
            elif kind == "cancel" and message.cancel.task_token in self.running:
                self.running[message.cancel.task_token] = None  # Ends without being worked on.
            elif kind == "task" and message.task.epoch >= self.epoch:
                token = message.task.task_token
                if token in self.results:  # A repeated task gets the same answer (4).
                    self.outbox.put(self.results[token])
                elif token not in self.running:
                    self.running[token] = message.task
                    self.tasks.put(token)

    def work(self):
        """The working thread: one task after the other, in the order in which they came."""
        while True:
            token = self.tasks.get()
            with self.lock:
                if token not in self.running:  # Abandoned, or fenced.
                    continue
                task = self.running[token]
            message = self.do(token, task)
            with self.lock:
                if self.running.pop(token, message) is message:
                    continue  # Abandoned meanwhile.
                self.results[token] = message
                self.outbox.put(message)

    def do(self, token, task):
        message = self.messages.WorkerMessage()
        result = message.result
        result.task_token = token

        def fail(code, text):
            result.status.code = code.value[0]
            result.status.message = text

        if task is None:
            fail(grpc.StatusCode.CANCELLED, "cancelled")
        elif task.method in ("assign_role", "release_role"):
            with self.lock:
                self.job = task.job if task.method == "assign_role" else ""
        elif task.method != METHOD:
            fail(grpc.StatusCode.UNIMPLEMENTED, "this worker has no method %s" % task.method)
        elif task.job != self.job:
            fail(grpc.StatusCode.FAILED_PRECONDITION, "%s for %s, but this worker plays reward for "
                 "%s" % (task.method, task.job, self.job or "nobody"))
        else:
            try:
                for name, value in reward(task.score.trajectory).items():
                    result.metrics[name] = value
            except Exception as error:  # The response is to blame, not the worker.
                result.metrics["reward"] = 0.0
                result.error = "%s: %s" % (type(error).__name__, error)
        return message


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description="A reward worker in Python")
    parser.add_argument("controller", help="host:port")
    parser.add_argument("--token-file", help="file with the bearer token")
    parser.add_argument("--insecure", action="store_true",
                        help="the token may leave this machine in clear text")
    parser.add_argument("--protos", default=os.path.join(here, "..", "..", "proto"),
                        help="folder that holds baton/v1/*.proto")
    arguments = parser.parse_args()
    token = open(arguments.token_file).readline().strip() if arguments.token_file else ""
    host = arguments.controller.rpartition(":")[0]
    if token and host not in ("localhost", "127.0.0.1", "[::1]") and not arguments.insecure:
        parser.error("the token would travel to %s in clear text; give --insecure where the "
                     "network is trusted" % host)
    try:
        Worker(load_messages(arguments.protos), arguments.controller, token).run()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A reward worker in Python, on nothing but grpcio and protobuf: no Baton library.

    reward_worker.py CONTROLLER [--token-file FILE] [--protos DIR]

It offers role "reward", method "compute_reward". docs/worker-protocol.md tells the rules that it
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

METHOD = "compute_reward"
CREDITS = 64  # The most tasks the controller may have outstanding here.


def reward(trajectory):
    """What a response is worth, with any other numbers worth watching."""
    hit = trajectory.answer != "" and trajectory.response_text.strip().endswith(trajectory.answer)
    return {"reward": 1.0 if hit else 0.0, "accuracy": 1.0 if hit else 0.0}


def load_messages(protos):
    """Compiles the .proto files into a temporary folder and imports the one that matters here."""
    folder = tempfile.mkdtemp(prefix="baton_protos")
    names = ["error", "experience", "job_spec", "worker_service"]
    files = [os.path.join(protos, "baton", "v1", name + ".proto") for name in names]
    subprocess.run(["protoc", "-I", protos, "--python_out", folder] + files, check=True)
    sys.path.insert(0, folder)
    from baton.v1 import worker_service_pb2
    return worker_service_pb2


class Worker:
    """One worker; `run` serves for ever. Only the reading thread touches the state."""

    def __init__(self, messages, controller, token):
        self.messages = messages
        self.controller = controller
        self.metadata = [("authorization", "Bearer " + token)] if token else []
        self.worker_id = "python-reward-%s-%d" % (socket.gethostname().lower(), os.getpid())
        self.instance_id = uuid.uuid4().hex
        self.epoch = 0
        self.job = ""  # Of the role that is held; empty: none.
        self.results = {}  # Sent, not acknowledged yet (4).
        self.lease_ends = None  # On the monotonic clock (3).
        self.lease = 0.0
        self.heartbeats = {}  # Number -> when it was sent.

    def run(self):
        delay = 0.1
        while True:
            try:
                if self.serve():
                    delay = 0.1
            except grpc.RpcError as error:
                print("no connection: %s" % error.details(), file=sys.stderr, flush=True)
            time.sleep(delay)
            delay = min(2 * delay, 1.0)

    def serve(self):
        """One connection. True if the controller accepted it."""
        outbox = queue.Queue()
        hello = self.hello()  # (2)
        outbox.put(hello)
        hello_sent = time.monotonic()
        with grpc.insecure_channel(self.controller) as channel:
            attach = channel.stream_stream(
                "/baton.v1.WorkerService/Attach",
                request_serializer=self.messages.WorkerMessage.SerializeToString,
                response_deserializer=self.messages.ControllerMessage.FromString)
            stream = attach(iter(outbox.get, None), metadata=self.metadata)
            welcome = next(stream).welcome
            if welcome.epoch < self.epoch or welcome.protocol != 1:
                stream.cancel()
                return False
            self.accept(welcome, hello_sent, outbox)
            stop = threading.Event()
            threading.Thread(target=self.beat, daemon=True,
                             args=(welcome, outbox, stream, stop)).start()
            try:
                for message in stream:
                    self.handle(message, outbox)
            finally:
                stop.set()
                outbox.put(None)
        return True

    def hello(self):
        if self.lease_ends is not None and time.monotonic() >= self.lease_ends:
            self.job = ""  # Fenced while there was no connection (3).
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
        if self.job:
            hello.roles_held.add(job=self.job, role="reward")
        hello.unacknowledged.extend(self.results)
        return message

    def accept(self, welcome, hello_sent, outbox):
        self.epoch = welcome.epoch
        self.lease = welcome.lease.ToTimedelta().total_seconds()
        self.lease_ends = hello_sent + self.lease
        self.heartbeats.clear()
        if any(role.job == self.job for role in welcome.release):
            self.job = ""
        for result in self.results.values():  # (4)
            outbox.put(result)
        print("attached as %s" % self.worker_id, flush=True)

    def beat(self, welcome, outbox, stream, stop):
        """Signs of life; ends the connection when the lease ran out (3)."""
        number = 0
        while not stop.wait(welcome.heartbeat_interval.ToTimedelta().total_seconds()):
            if time.monotonic() >= self.lease_ends:
                stream.cancel()
                return
            number += 1
            message = self.messages.WorkerMessage()
            message.heartbeat.sequence = number
            self.heartbeats[number] = time.monotonic()
            outbox.put(message)

    def handle(self, message, outbox):
        kind = message.WhichOneof("message")
        if kind == "heartbeat_ack":
            sent = self.heartbeats.pop(message.heartbeat_ack.sequence, None)
            if sent is not None:
                self.lease_ends = max(self.lease_ends, sent + self.lease)
        elif kind == "result_ack":
            self.results.pop(message.result_ack.task_token, None)
        elif kind == "task" and message.task.epoch >= self.epoch:
            token = message.task.task_token
            if token not in self.results:  # Else: the same task again, the same answer (4).
                self.results[token] = self.work(message.task)
            outbox.put(self.results[token])

    def work(self, task):
        message = self.messages.WorkerMessage()
        result = message.result
        result.task_token = task.task_token
        if task.method == "assign_role":
            self.job = task.job
        elif task.method == "release_role":
            self.job = ""
        elif task.method != METHOD or task.job != self.job:
            result.status.code = grpc.StatusCode.FAILED_PRECONDITION.value[0]
            result.status.message = "%s for %s, but this worker plays reward for %s" % (
                task.method, task.job, self.job or "nobody")
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
    parser.add_argument("--protos", default=os.path.join(here, "..", "..", "proto"),
                        help="folder that holds baton/v1/*.proto")
    arguments = parser.parse_args()
    token = open(arguments.token_file).readline().strip() if arguments.token_file else ""
    try:
        Worker(load_messages(arguments.protos), arguments.controller, token).run()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()

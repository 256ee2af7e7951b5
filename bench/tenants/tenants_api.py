"""The API of Baton in Python, by the names of its methods: on nothing but grpcio and protobuf."""
import glob
import importlib
import itertools
import os
import subprocess
import sys

from google.protobuf import json_format

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROTO = os.path.join(ROOT, "proto")
KINDS = {"UploadFile": "stream_unary", "Attach": "stream_stream"}  # the others: unary_unary
PIECE = 1 << 20  # of an upload


class Protocol:
    """Messages and methods of baton.v1. `folder`: where the compiled .proto files lie, or shall lie."""

    def __init__(self, folder):
        if not os.path.isdir(os.path.join(folder, "baton")):
            os.makedirs(folder, exist_ok=True)
            files = glob.glob(os.path.join(PROTO, "baton", "v1", "*.proto"))
            subprocess.run(["protoc", "-I", PROTO, "--python_out", folder, *files], check=True)
        sys.path.insert(0, folder)
        self.folder = folder
        self.methods = {}
        self.messages = {}
        for path in glob.glob(os.path.join(folder, "baton", "v1", "*_pb2.py")):
            module = importlib.import_module("baton.v1." + os.path.basename(path)[:-len(".py")])
            for service in module.DESCRIPTOR.services_by_name.values():
                for method in service.methods:
                    self.methods[method.name] = method
            for name, message in module.DESCRIPTOR.message_types_by_name.items():
                self.messages[name] = message._concrete_class

    def message(self, name, fields=None):
        """A message of baton.v1, from fields as in JSON."""
        return json_format.ParseDict(fields or {}, self.messages[name]())

    def request(self, method, fields):
        return json_format.ParseDict(fields, self.methods[method].input_type._concrete_class())

    def stub(self, channel, method):
        """Works on channels of grpc and of grpc.aio."""
        made = self.methods[method]
        return getattr(channel, KINDS.get(method, "unary_unary"))(
            "/%s/%s" % (made.containing_service.full_name, method),
            request_serializer=made.input_type._concrete_class.SerializeToString,
            response_deserializer=made.output_type._concrete_class.FromString)


def channel_options():
    """No two channels share a connection."""
    return [("bench.number", next(channel_options.numbers)), ("grpc.max_receive_message_length", -1)]


channel_options.numbers = itertools.count(1)


def metadata(token):
    return [("authorization", "Bearer " + token)]


def small_job(files, **more):
    """A spec, as in JSON, of a small job that learns from uploaded prompts. `more`: parts to put in."""
    return {"kind": "JOB_KIND_RL",
            "model": {"init": {"characters": "0123456789+="}},
            "data": {"train_files": files, "train_batch_size": 4, "max_response_length": 12},
            "rollout": {"n": 4},
            "reward": {"rules": [{"type": "exact_match"}], "max_error_rate": 1},
            "algorithm": {"filter_groups": False},
            "trainer": {"total_training_steps": 1_000_000, "save_freq": 20, "max_checkpoints": 2,
                        "val_before_train": False},
            "resources": {"rollout_workers": 2}, **more}


def prompts(messages=False):
    """The bytes of a data file."""
    lines = []
    for i in range(50):
        text = "%d+1=" % i
        prompt = '[{"role": "user", "content": "%s"}]' % text if messages else '"%s"' % text
        lines.append('{"prompt": %s, "answer": "%d"}\n' % (prompt, i + 1))
    return "".join(lines).encode()

#!/usr/bin/env python3
"""Reads the include graph and fails on an edge that the layers of ARCHITECTURE.md do not allow, on a
folder nobody placed, and on any cycle. Run: python3 tests/architecture/include_graph_test.py"""

import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Folder -> what it may include directly. "proto" are the messages of baton.v1, "grpc" its services
# and gRPC itself, "rows" the messages of baton.store.v1. A folder may always include itself. A name
# of several rooms, such as "workers/engine", stands for all of them. A test may include the rooms
# beside its own, and tests/support.
ALLOWED = {
    "sdk/common/base": "",
    "sdk/common/process": "sdk/common/base",
    "sdk/common/contracts": "sdk/common/base",
    "sdk/common/schema": "sdk/common/base",
    "sdk/common/parallel": "sdk/common/base",
    "sdk/common/messages": "sdk/common/base sdk/common/contracts proto",
    "sdk/common/schema_spec": "sdk/common/base sdk/common/schema sdk/common/messages proto",
    "sdk/common/data_set": "sdk/common/base sdk/common/schema proto",
    "sdk/common/rpc": "sdk/common/base proto grpc",
    "sdk/planner/placement": "sdk/common/base sdk/common/schema sdk/common/parallel",
    "sdk/planner/placement_spec": "sdk/common/base sdk/common/schema sdk/common/messages sdk/common/schema_spec"
                                  " sdk/planner/placement proto",
    "sdk/client": "sdk/common/base sdk/common/schema sdk/common/rpc proto grpc",
    "sdk/worker": "sdk/common/base sdk/common/contracts sdk/common/messages sdk/common/rpc proto grpc",
    "sdk/include/baton": "sdk/common/contracts sdk/common/messages sdk/common/rpc sdk/client sdk/worker proto",
    "sdk/cli/shared": "sdk/common/base sdk/common/messages sdk/common/rpc sdk/client proto grpc",
    "sdk/cli/watch": "sdk/common/base sdk/common/messages sdk/client sdk/cli/shared proto",
    "sdk/cli/spec": "sdk/common/base sdk/common/messages sdk/common/schema sdk/client sdk/cli/shared proto",
    "sdk/cli/plan": "sdk/common/base sdk/planner/placement sdk/planner/placement_spec sdk/client sdk/cli/shared"
                    " proto",
    "sdk/cli/cluster": "sdk/common/base sdk/common/process sdk/common/contracts sdk/common/messages sdk/cli/shared",
    "sdk/cli/jobs": "sdk/common/base sdk/common/messages sdk/common/rpc sdk/client sdk/cli/shared sdk/cli/watch"
                    " sdk/cli/spec proto",
    "sdk/cli": "sdk/common/base sdk/common/process sdk/common/rpc sdk/client sdk/cli/shared sdk/cli/watch"
               " sdk/cli/spec sdk/cli/plan sdk/cli/cluster sdk/cli/jobs",
    "relay/weights": "sdk/common/base",
    "relay/segment": "sdk/common/base relay/weights proto",
    "relay/transport": "sdk/common/base sdk/common/rpc",
    "relay/chain": "sdk/common/base",
    "relay/delta": "sdk/common/base relay/weights",
    "relay/client": "sdk/common/base sdk/common/contracts sdk/common/messages sdk/common/rpc relay/weights"
                    " relay/segment proto grpc",
    "relay/server": "sdk/common/base sdk/common/process sdk/common/contracts sdk/common/messages sdk/common/rpc"
                    " relay/weights relay/delta relay/segment relay/transport relay/chain proto grpc",
    "relay/main": "sdk/common/base sdk/common/process sdk/common/contracts sdk/common/rpc sdk/worker"
                  " relay/segment relay/server relay/transport proto",
    "controller/algorithms": "sdk/common/base sdk/common/schema",
    "controller/spec/dataflow": "sdk/common/base sdk/common/contracts sdk/common/messages sdk/common/schema_spec"
                                " controller/algorithms proto rows",
    "controller/spec/settings": "sdk/common/base sdk/common/contracts sdk/common/parallel sdk/common/messages"
                                " sdk/common/schema_spec sdk/planner/placement controller/algorithms"
                                " controller/spec/dataflow proto",
    "controller/spec/job_spec": "sdk/common/base sdk/common/schema sdk/common/messages sdk/common/schema_spec"
                                " controller/spec/dataflow controller/spec/settings proto",
    "controller/cluster": "sdk/common/base sdk/common/contracts sdk/common/messages controller/spec proto rows",
    "controller/core/job": "sdk/common/base sdk/common/contracts sdk/common/messages controller/spec"
                           " controller/cluster proto rows",
    "controller/core/prompts": "sdk/common/base controller/spec controller/core/job proto rows",
    "controller/core/dispatch": "sdk/common/base controller/spec controller/cluster controller/core/job",
    "controller/core/weights": "sdk/common/base controller/spec controller/cluster controller/core/job controller/core/dispatch proto"
                               " rows",
    "controller/core/trajectories": "sdk/common/base controller/spec controller/core/job controller/core/prompts"
                                    " controller/core/dispatch controller/core/weights proto rows",
    "controller/core/workers": "sdk/common/base controller/spec controller/cluster controller/core/job"
                               " controller/core/dispatch controller/core/weights controller/core/trajectories proto"
                               " rows",
    "controller/core/steps": "sdk/common/base controller/spec controller/core/job controller/core/prompts"
                             " controller/core/dispatch controller/core/weights controller/core/trajectories"
                             " controller/core/workers proto rows",
    "controller/core/views": "sdk/common/base controller/spec controller/core/job controller/core/prompts"
                             " controller/core/weights controller/core/trajectories controller/core/workers"
                             " controller/core/steps proto rows",
    "controller/core/loop": "sdk/common/base controller/algorithms controller/spec controller/core/job"
                            " controller/core/trajectories controller/core/workers controller/core/steps"
                            " controller/core/views proto rows",
    "controller/store": "sdk/common/base",
    "controller/experience": "sdk/common/base",
    "controller/access": "sdk/common/base sdk/common/messages sdk/common/rpc controller/store proto rows",
    "controller/ports": "sdk/common/base sdk/common/data_set controller/spec controller/cluster controller/core"
                        " controller/experience proto rows",
    "controller/runtime/calls": "sdk/common/base sdk/common/process controller/ports proto",
    "controller/runtime/rows": "sdk/common/base sdk/common/contracts sdk/common/rpc controller/spec controller/core"
                               " controller/store proto rows",
    "controller/runtime/files": "sdk/common/base sdk/common/process sdk/common/contracts sdk/common/schema"
                                " sdk/common/rpc controller/spec controller/store controller/access"
                                " controller/runtime/rows proto rows",
    "controller/runtime/job_files": "sdk/common/base sdk/common/messages sdk/common/data_set sdk/common/rpc"
                                    " controller/spec controller/core controller/store controller/experience"
                                    " controller/access controller/ports controller/runtime/calls"
                                    " controller/runtime/rows controller/runtime/files proto rows",
    "controller/runtime/payloads": "sdk/common/base sdk/common/contracts sdk/common/schema sdk/common/messages"
                                   " sdk/common/schema_spec sdk/common/data_set sdk/common/rpc controller/algorithms"
                                   " controller/spec controller/core controller/store controller/runtime/rows proto"
                                   " rows",
    "controller/runtime/job": "sdk/common/base sdk/common/contracts sdk/common/messages sdk/common/data_set"
                              " sdk/common/rpc controller/spec controller/core controller/store"
                              " controller/experience controller/ports controller/runtime/calls"
                              " controller/runtime/rows controller/runtime/payloads proto rows",
    "controller/runtime/cluster": "sdk/common/base sdk/common/contracts sdk/common/messages sdk/common/rpc"
                                  " controller/spec controller/cluster controller/core controller/store"
                                  " controller/access controller/ports controller/runtime/calls"
                                  " controller/runtime/rows controller/runtime/job proto rows",
    "controller/runtime/submit": "sdk/common/base sdk/common/process sdk/common/contracts sdk/common/schema"
                                 " sdk/common/messages sdk/common/data_set sdk/common/rpc sdk/planner/placement"
                                 " sdk/planner/placement_spec controller/spec controller/cluster controller/core"
                                 " controller/store controller/access controller/runtime/calls"
                                 " controller/runtime/rows controller/runtime/files controller/runtime/job_files"
                                 " controller/runtime/payloads controller/runtime/job controller/runtime/cluster"
                                 " proto rows",
    "controller/runtime/controller": "sdk/common/base sdk/common/process sdk/common/messages sdk/common/rpc"
                                     " controller/spec controller/core controller/store controller/access"
                                     " controller/runtime/calls controller/runtime/rows controller/runtime/files"
                                     " controller/runtime/job_files controller/runtime/payloads"
                                     " controller/runtime/job controller/runtime/cluster controller/runtime/submit"
                                     " proto rows",
    "controller/api": "sdk/common/base sdk/common/process sdk/common/rpc controller/access controller/runtime proto"
                      " grpc",
    "controller/status": "sdk/common/base sdk/common/rpc controller/access controller/runtime proto",
    "controller/server": "sdk/common/base sdk/common/process sdk/common/contracts controller/store controller/access"
                         " controller/runtime controller/api controller/status",
    "workers/tokenizer/jinja": "sdk/common/base",
    "workers/tokenizer/templates": "sdk/common/base workers/tokenizer/jinja",
    "workers/tokenizer/steps": "sdk/common/base sdk/common/schema workers/tokenizer/jinja",
    "workers/tokenizer/tokens": "sdk/common/base sdk/common/schema relay/weights workers/tokenizer/jinja"
                                " workers/tokenizer/steps",
    "workers/tokenizer/chat": "sdk/common/base sdk/common/schema workers/tokenizer/jinja workers/tokenizer/templates"
                              " workers/tokenizer/tokens",
    "workers/engine/kernels": "sdk/common/base sdk/common/schema",
    "workers/engine/model": "sdk/common/base sdk/common/schema sdk/common/parallel relay/weights workers/tokenizer"
                            " workers/engine/kernels",
    "workers/engine/loss": "sdk/common/base sdk/common/schema sdk/common/parallel workers/engine/kernels"
                           " workers/engine/model",
    "workers/engine/generation": "sdk/common/base relay/weights workers/engine/kernels workers/engine/model",
    "workers/engine/training": "sdk/common/base sdk/common/schema sdk/common/parallel relay/weights"
                               " workers/engine/kernels workers/engine/model workers/engine/loss",
    "workers/engine/scalar": "sdk/common/base sdk/common/parallel relay/weights workers/engine/model"
                             " workers/engine/loss workers/engine/training",
    "workers/parallel": "sdk/common/base sdk/common/process sdk/common/schema sdk/common/parallel relay/weights"
                        " workers/engine",
    "workers/hybrid": "sdk/common/base sdk/common/schema sdk/common/parallel relay/weights workers/engine"
                      " workers/parallel",
    "workers/reward/numbers": "sdk/common/base",
    "workers/reward": "sdk/common/base sdk/common/process sdk/common/rpc sdk/worker workers/reward/numbers proto",
    "workers/policy": "sdk/common/base sdk/common/contracts sdk/common/schema sdk/common/messages"
                      " sdk/common/schema_spec sdk/common/rpc relay/weights relay/segment relay/client"
                      " workers/tokenizer workers/engine proto",
    "workers/rollout/tree_cache": "sdk/common/base workers/engine",
    "workers/rollout/speculation": "sdk/common/base workers/engine workers/rollout/tree_cache",
    "workers/rollout": "sdk/common/base sdk/common/messages sdk/common/rpc sdk/worker relay/weights relay/client"
                       " workers/engine workers/parallel workers/hybrid workers/policy workers/rollout/tree_cache"
                       " workers/rollout/speculation proto",
    "workers/ranks": "sdk/common/base sdk/common/process sdk/common/schema sdk/common/parallel sdk/common/messages"
                     " sdk/common/rpc sdk/worker workers/tokenizer workers/engine workers/parallel workers/hybrid"
                     " workers/policy proto",
    "workers/trainer": "sdk/common/base sdk/common/schema sdk/common/messages sdk/common/schema_spec sdk/common/rpc"
                       " sdk/worker relay/weights workers/engine workers/hybrid workers/policy workers/ranks proto",
    "workers/scoring": "sdk/common/base sdk/common/schema sdk/common/messages sdk/common/rpc sdk/worker"
                       " workers/tokenizer workers/engine workers/reward workers/policy workers/rollout"
                       " workers/ranks proto",
    "workers/main": "sdk/common/base sdk/common/process sdk/common/contracts sdk/common/messages sdk/common/data_set"
                    " sdk/common/rpc sdk/common/schema sdk/worker relay/weights workers/tokenizer workers/engine"
                    " workers/hybrid"
                    " workers/reward workers/policy workers/rollout workers/ranks workers/trainer workers/scoring"
                    " proto",
    "examples/client": "sdk/include/baton proto",
    "examples/custom_algorithm": "sdk/include/baton proto",
    "examples/custom_reward": "sdk/common/process sdk/worker sdk/include/baton proto",
    "examples/python_reward": "sdk/common/process sdk/worker proto",
}
# Use anything that stands above.
OPEN = ("tests", "bench")

# Headers that bring threads, clocks, files, sockets or randomness: not in the pure folders.
PURE = ("controller/core", "controller/cluster", "controller/spec", "controller/algorithms", "sdk/common/messages", "sdk/planner/placement", "sdk/common/schema", "relay/chain", "relay/delta")
IMPURE = re.compile(
    r"^(thread|mutex|condition_variable|future|atomic|chrono|ctime|random|fstream|filesystem|"
    r"unistd\.h|sys/.*|netinet/.*|absl/synchronization/.*|absl/time/clock\.h|absl/random/.*|"
    r"grpcpp/.*|boost/.*|spdlog/.*|sqlite3\.h|torch/.*|sdk/common/base/log\.h)$")
# Folders that a GPU machine builds without the service.
ENGINE = ("sdk/common/schema", "workers/tokenizer", "workers/engine", "workers/parallel", "workers/hybrid", "workers/rollout/tree_cache", "workers/rollout/speculation", "sdk/common/parallel", "relay/weights")
NOT_IN_ENGINE = re.compile(r"^(grpcpp/.*|google/protobuf/.*|boost/.*|spdlog/.*|sdk/common/base/log\.h)$")
TORCH = re.compile(r"^(torch|ATen|c10)/")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
UMBRELLA = re.compile(r"^(baton/\w+\.h)$")  # <baton/worker.h> is a file of sdk/include
TOPS = ("sdk", "relay", "controller", "workers", "examples", "tests", "bench")


def read_sources(root):
    """[(path relative to root, [included names])] of every C++ file."""
    found = []
    for top in TOPS:
        for folder, _, names in os.walk(root / top):
            for name in sorted(names):
                if name.endswith((".h", ".cc", ".cc.in", ".cu", ".cuh")):
                    path = pathlib.Path(folder) / name
                    text = path.read_text(encoding="utf-8")
                    includes = [UMBRELLA.sub(r"sdk/include/\1", i) for i in INCLUDE.findall(text)]
                    found.append((path.relative_to(root).as_posix(), includes))
    return found


def target_of(include):
    """The folder (or "proto", "grpc", "rows") that an include leads to; None: not ours."""
    if include.startswith("grpcpp/") or include.endswith(".grpc.pb.h"):
        return "grpc"
    if include.startswith("baton/store/"):
        return "rows"
    if include.startswith("baton/"):
        return "proto"
    if include.split("/")[0] in TOPS and "/" in include:
        return include.rsplit("/", 1)[0]
    return None


def is_open(folder):
    return folder.split("/")[0] in OPEN


def is_below(folder, names):
    """One of the names is the folder, or a folder above it."""
    return any(folder == name or folder.startswith(name + "/") for name in names)


def is_test(path):
    return path.endswith("_test.cc")


def may_include(path, target, allowed):
    folder = path.rsplit("/", 1)[0]
    if target in (None, folder) or is_open(folder) or target in allowed[folder].split():
        return True
    rooms = [name for name in allowed[folder].split() if name not in allowed]
    if target in allowed and is_below(target, rooms):
        return True
    beside = folder.rsplit("/", 1)[0]
    return is_test(path) and (is_below(target, ["tests/support"]) or
                              (beside not in TOPS and target.rsplit("/", 1)[0] == beside))


def problems_of(sources, allowed):
    problems = []
    for path, includes in sources:
        folder = path.rsplit("/", 1)[0]
        if folder not in allowed and not is_open(folder):
            problems.append(f"{path}: no rule says what {folder} may include; give it a place in "
                            "ARCHITECTURE.md (Layers) and in this test")
            continue
        for include in includes:
            target = target_of(include)
            if not may_include(path, target, allowed):
                problems.append(f"{path}: {folder} may not include {include} ({target})")
            if not path.endswith("_test.cc") and is_below(folder, PURE) and IMPURE.match(include):
                problems.append(f"{path}: {folder} is pure and may not include {include}")
            if is_below(folder, ENGINE) and NOT_IN_ENGINE.match(include):
                problems.append(f"{path}: {folder} builds without the service and may not "
                                f"include {include}")
            if TORCH.match(include) and not folder.startswith("workers/") and not is_open(folder):
                problems.append(f"{path}: only workers/ may include libtorch ({include})")
    return problems


def edges_of(sources, key):
    edges = {}
    for path, includes in sources:
        node = key(path)
        for include in includes:
            if target_of(include) not in (None, "proto", "grpc", "rows"):
                target = key(include)
                if target != node:
                    edges.setdefault(node, set()).add(target)
    return edges


def find_cycle(edges):
    """The nodes of one cycle, first = last; None: there is none."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for target in sorted(edges.get(node, ())):
            cycle = visit(target)
            if cycle:
                return cycle
        path.pop()
        done.add(node)
        return None

    for node in sorted(edges):
        cycle = visit(node)
        if cycle:
            return cycle
    return None


FORWARD = re.compile(r"^(?:class|struct) (\w+);", re.MULTILINE)
DEFINED = re.compile(r"^(?:class|struct) (\w+)(?: final)?(?: :[^;{]*)? \{", re.MULTILINE)


def component_of(path):
    """A .h with its .cc."""
    return path.rsplit(".", 1)[0]


def component_edges(root, sources):
    """Includes, and forward declarations of what another component of the same folder defines."""
    edges = edges_of(sources, component_of)
    homes, forward = {}, []
    for path, _ in sources:
        text = (root / path).read_text(encoding="utf-8")
        for name in DEFINED.findall(text) if path.endswith(".h") else ():
            homes[folder_of(path), name] = component_of(path)
        forward += [(path, name) for name in FORWARD.findall(text)]
    for path, name in forward:
        home = homes.get((folder_of(path), name))
        if home and home != component_of(path):
            edges.setdefault(component_of(path), set()).add(home)
    return edges


def circles(edges):
    """Sets of nodes that reach each other, each of two or more (Tarjan, 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(edges.get(node, ())):
            if target not in index:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == index[node]:
            circle = set()
            while node not in circle:
                circle.add(stack.pop())
            if len(circle) > 1:
                found.append(circle)

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def folder_of(path):
    return path.rsplit("/", 1)[0]


class IncludeGraph(unittest.TestCase):
    def setUp(self):
        self.sources = read_sources(ROOT)

    def test_every_edge_points_down(self):
        self.assertGreater(len(self.sources), 100)
        problems = problems_of(self.sources, ALLOWED)
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def test_folders_have_no_cycle(self):
        shipped = [source for source in self.sources if not is_test(source[0])]
        cycle = find_cycle(edges_of(shipped, folder_of))
        self.assertIsNone(cycle, "folders include each other: " + " -> ".join(cycle or []))

    def test_circles_of_components_are_small(self):
        shipped = [source for source in self.sources
                   if not is_test(source[0]) and not is_open(folder_of(source[0]))]
        for circle in circles(component_edges(ROOT, shipped)):
            self.assertLessEqual(len(circle), 3, "components include each other: " + " ".join(sorted(circle)))

    def test_headers_have_no_cycle(self):
        cycle = find_cycle(edges_of(self.sources, lambda path: path))
        self.assertIsNone(cycle, "files include each other: " + " -> ".join(cycle or []))

    def test_rules_themselves_have_no_cycle(self):
        rules = {folder: {f for t in targets.split() if "/" in t
                          for f in ([t] if t in ALLOWED else [f for f in ALLOWED if is_below(f, [t])] or [t])}
                 for folder, targets in ALLOWED.items()}
        for folder, targets in rules.items():
            self.assertLessEqual(targets, set(rules), folder)
        self.assertIsNone(find_cycle(rules))

    def test_included_files_exist(self):
        missing = [f"{path}: {include}" for path, includes in self.sources for include in includes
                   if target_of(include) not in (None, "proto", "grpc", "rows")
                   and not (ROOT / include).is_file()]
        self.assertFalse(missing, "\n" + "\n".join(missing))


class TheTestItself(unittest.TestCase):
    RULES = {"sdk/common/base": "", "controller/core": "sdk/common/base proto", "workers/engine/low": "sdk/common/base",
             "workers/engine/high": "workers/engine/low", "workers/main": "workers/engine"}

    def problems(self, path, *includes):
        return problems_of([(path, list(includes))], self.RULES)

    def test_finds_forbidden_includes(self):
        self.assertFalse(self.problems("controller/core/a.cc", "sdk/common/base/b.h", "baton/v1/j.pb.h",
                                       "controller/core/a.h", "vector", "absl/time/time.h"))
        self.assertTrue(self.problems("sdk/common/base/a.h", "controller/core/a.h"))
        self.assertTrue(self.problems("controller/core/a.cc", "baton/v1/j.grpc.pb.h"))
        self.assertTrue(self.problems("controller/core/a.cc", "grpcpp/grpcpp.h"))
        self.assertTrue(self.problems("controller/core/a.cc", "absl/time/clock.h"))
        self.assertTrue(self.problems("controller/core/a.cc", "torch/torch.h"))
        self.assertTrue(self.problems("workers/engine/low/a.cc", "sdk/common/base/log.h"))
        self.assertTrue(self.problems("workers/unheard_of/a.cc"))
        self.assertFalse(self.problems("tests/anything/a.cc", "controller/core/a.h"))

    def test_finds_includes_across_forbidden_folders(self):
        self.assertFalse(self.problems("workers/main/a.cc", "workers/engine/low/a.h",
                                       "workers/engine/high/a.h"))
        self.assertFalse(self.problems("workers/engine/high/a.cc", "workers/engine/low/a.h"))
        self.assertTrue(self.problems("workers/engine/low/a.cc", "workers/engine/high/a.h"))
        self.assertFalse(self.problems("workers/engine/low/a_test.cc", "workers/engine/high/a.h"))
        self.assertTrue(self.problems("workers/engine/low/a_test.cc", "workers/main/a.h"))
        self.assertTrue(self.problems("controller/core/a.cc", "workers/engine/low/a.h"))
        self.assertTrue(self.problems("sdk/common/base/a_test.cc", "sdk/worker/a.h"))
        self.assertFalse(self.problems("sdk/common/base/a_test.cc", "tests/support/sdk/a.h"))
        self.assertTrue(self.problems("sdk/common/base/a.cc", "tests/support/sdk/a.h"))

    def test_finds_cycles(self):
        self.assertEqual(find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])
        self.assertIsNone(find_cycle({"a": {"b", "c"}, "b": {"c"}}))

    def test_reads_includes(self):
        self.assertEqual(INCLUDE.findall('#include <a>\n  # include "b/c.h"\n// #include "d"\n'),
                         ["a", "b/c.h"])


if __name__ == "__main__":
    unittest.main()

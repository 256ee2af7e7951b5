#!/usr/bin/env python3
"""Installs into an empty prefix, and builds and runs there what docs/embed.md describes: a reward
worker and a client in a CMake project of their own."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ["BATON_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["BATON_BUILD_DIR"])
CMAKE = os.environ.get("BATON_CMAKE", "cmake")

PROGRAMS = {"baton", "baton-controller", "baton-relay", "baton-worker"}


def run(*command, timeout=200, **options):
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=timeout, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def code_block(markdown, language):
    found = re.search(rf"```{language}\n(.*?)```", markdown, re.DOTALL)
    assert found, f"docs/embed.md has no block of {language}"
    return found.group(1)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="baton-install-")
        cls.root = pathlib.Path(cls.folder.name)
        cls.prefix = cls.root / "prefix"
        run(CMAKE, "--install", BUILD, "--prefix", cls.prefix)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_programs_and_public_headers_alone(self):
        self.assertEqual({p.name for p in (self.prefix / "bin").iterdir()}, PROGRAMS)
        include = self.prefix / "include"
        installed = {str(p.relative_to(include)) for p in include.rglob("*") if p.is_file()}
        lines = (SOURCE / "sdk/public_headers.txt").read_text().splitlines()
        public = {f"baton/{line.removeprefix('sdk/include/baton/')}"
                  for line in lines if line and not line.startswith("#")}
        made = {f"baton/v1/{proto.stem}{suffix}"
                for proto in (SOURCE / "proto/baton/v1").glob("*.proto")
                for suffix in [".pb.h"] + [".grpc.pb.h"] * proto.stem.endswith("_service")}
        self.assertEqual(installed, public | made)

    def test_installed_files_name_no_folder_of_the_build(self):
        for path in (self.prefix / "lib").rglob("*.cmake"):
            text = path.read_text()
            self.assertNotIn(str(SOURCE), text, path)
            self.assertNotIn(str(BUILD), text, path)

    def test_every_program_says_its_version(self):
        lines = {run(self.prefix / "bin" / program, "--version").strip() for program in PROGRAMS}
        versions = {line.split(" ", 1)[1] for line in lines}
        self.assertEqual({line.split(" ")[0] for line in lines}, PROGRAMS)
        self.assertEqual(len(versions), 1, lines)
        self.assertRegex(versions.pop(), r"^\d+\.\d+\.\d+( \(commit [0-9a-f]{12}\))?$")

    def test_each_umbrella_header_compiles_alone(self):
        project = self.root / "headers"
        project.mkdir()
        lists = ["cmake_minimum_required(VERSION 3.25)", "project(headers LANGUAGES CXX)",
                 "find_package(Baton REQUIRED)"]
        for header, library in (("worker", "worker"), ("client", "client"), ("experience", "worker")):
            (project / f"{header}.cc").write_text(f"#include <baton/{header}.h>\n")
            lists += [f"add_library({header} OBJECT {header}.cc)",
                      f"target_link_libraries({header} PRIVATE Baton::{library})"]
        (project / "CMakeLists.txt").write_text("\n".join(lists) + "\n")
        run(CMAKE, "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run(CMAKE, "--build", project / "build", "--parallel", "2")

    def test_builds_a_project_against_the_installation(self):
        project = self.root / "project"
        project.mkdir()
        text = (SOURCE / "docs/embed.md").read_text()
        (project / "CMakeLists.txt").write_text(code_block(text, "cmake"))
        for example, name in (("custom_reward", "custom_reward.cc"), ("client", "client.cc")):
            (project / name).write_text((SOURCE / f"examples/{example}/main.cc").read_text())
        run(CMAKE, "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run(CMAKE, "--build", project / "build", "--parallel", "2")
        self.run_job(project / "build")

    def wait_for_worker(self, baton, environment):
        """Until the worker of role reward has attached: a job is refused before."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            workers = json.loads(run(baton, "workers", "-o", "json", env=environment))["workers"]
            if any("reward" in worker["roles"] for worker in workers):
                return
        self.fail("the reward worker did not attach within 60 s")

    def run_job(self, build):
        """The installed cluster, with the project's worker and client."""
        baton = self.prefix / "bin/baton"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BATON_")}
        environment["BATON_STATE_DIR"] = str(self.root / "state")
        data = self.root / "prompts.jsonl"
        data.write_text('{"prompt": "2+2=", "answer": "4"}\n')
        spec = self.root / "job.yaml"
        spec.write_text(f"""
kind: rl
model: {{init: {{characters: "0123456789+=", hidden_size: 32, max_position_embeddings: 64}}}}
data: {{train_files: [{data}], train_batch_size: 1, max_prompt_length: 16, max_response_length: 8}}
rollout: {{n: 2}}
reward: {{method: compute_brevity}}
trainer: {{total_training_steps: 2}}
""")
        run(baton, "up", "--detach", "--rewards", "0", "--scorers", "0", "--port", "0",
            "--http-port", "0", "--relay-port", "0", env=environment)
        worker = None
        try:
            state = json.loads(run(baton, "status", "-o", "json", env=environment))
            worker = subprocess.Popen([str(build / "custom_reward"), state["controller"]])
            self.wait_for_worker(baton, environment)
            out = run(build / "client", state["controller"], spec, timeout=60, env=environment)
        finally:
            if worker is not None:
                worker.terminate()
                worker.wait(timeout=30)
            run(baton, "down", env=environment)
        self.assertIn("STATE_SUCCEEDED", out)
        metrics = dict(line.split(" ") for line in out.split("STATE_SUCCEEDED\n")[1].splitlines())
        # examples/custom_reward: 1 / (1 + length / 100), of responses of at most 8 tokens.
        score = float(metrics["critic/score/mean"])
        self.assertGreater(score, 0.1)
        self.assertLessEqual(score, 1)
        self.assertEqual(worker.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)

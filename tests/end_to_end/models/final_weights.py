"""Final weights of jobs that tests run, as they were recorded: a change of the inside must not
change what a user's job learns. final_weights.json has a digest for each job and role.

Equal bytes need equal arithmetic, so the workers of such a test run with PINNED kernels, which every
x86-64 processor with AVX2 has. A change that is meant to change them is recorded by running the test
with BATON_UPDATE_GOLDEN=1; say in the commit why they changed."""
import hashlib
import json
import os

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "final_weights.json")
PINNED = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Haswell",
          "OMP_NUM_THREADS": "1"}


def can_compare():
    """False on a processor whose C library would choose other kernels."""
    with open("/proc/cpuinfo", encoding="ascii") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    return {"avx2", "fma"} <= set(flags)


def digests_of(checkpoint):
    """Role -> one digest of its model's files in a checkpoint; optimizer states are left out."""
    digests = {}
    for role in sorted(os.listdir(checkpoint)):
        names = [os.path.join(root, name)
                 for root, _, files in os.walk(os.path.join(checkpoint, role)) for name in files
                 if name.endswith(".safetensors") and "optim" not in name]
        digest = hashlib.sha256()
        for name in sorted(names):
            with open(name, "rb") as file:
                digest.update(file.read())
        if names:
            digests[role] = digest.hexdigest()
    return digests


def assert_as_recorded(test, job, checkpoint):
    """Fails `test` when the weights of `job` in that checkpoint are not those that were recorded."""
    found = digests_of(checkpoint)
    test.assertTrue(found, f"no weights in {checkpoint}")
    if not can_compare():
        return
    with open(RECORDED, encoding="utf-8") as file:
        recorded = json.load(file)
    if os.environ.get("BATON_UPDATE_GOLDEN"):
        recorded[job] = found
        with open(RECORDED, "w", encoding="utf-8") as file:
            json.dump(recorded, file, indent=1, sort_keys=True)
            file.write("\n")
        return
    test.assertEqual(found, recorded.get(job), f"the final weights of {job} are not those of {RECORDED}")

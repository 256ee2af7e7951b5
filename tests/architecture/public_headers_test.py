#!/usr/bin/env python3
"""A public header (sdk/public_headers.txt) includes public headers alone: of this project those of
the list and those of baton.v1, of gRPC nothing below grpcpp/impl. Fails on a header that is listed
and is not there, and on one that programs of other projects could not compile.
Run: python3 tests/architecture/public_headers_test.py"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
OURS = ("sdk/", "relay/", "controller/", "workers/", "examples/", "tests/", "bench/", "baton/")
FOREIGN_PRIVATE = re.compile(r"^(grpcpp/impl/|google/protobuf/.*internal|absl/.*/internal/)")


def public_headers(root):
    lines = (root / "sdk/public_headers.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def api_headers(root):
    """What the build makes of the protos of baton.v1."""
    names = set()
    for proto in (root / "proto/baton/v1").glob("*.proto"):
        names.add(f"baton/v1/{proto.stem}.pb.h")
        if proto.stem.endswith("_service"):
            names.add(f"baton/v1/{proto.stem}.grpc.pb.h")
    return names


def problems(headers, generated, text_of):
    """`text_of(name)`: the header's text, or None where there is none."""
    found = []
    for name in headers:
        text = text_of(name)
        if text is None:
            found.append(f"{name} is listed and is not there")
            continue
        for included in INCLUDE.findall(text):
            private = included.startswith(OURS) and included not in headers and included not in generated
            if private or FOREIGN_PRIVATE.match(included):
                found.append(f"{name} includes {included}, which is private")
    return found


class PublicHeaders(unittest.TestCase):
    def test_include_only_public_headers(self):
        def text_of(name):
            path = ROOT / name
            return path.read_text() if path.is_file() else None

        self.assertEqual(problems(public_headers(ROOT), api_headers(ROOT), text_of), [])

    def test_are_sorted_without_duplicates(self):
        headers = public_headers(ROOT)
        self.assertEqual(headers, sorted(set(headers)))
        for door in ("worker", "client", "experience"):
            self.assertIn(f"sdk/include/baton/{door}.h", headers)

    def test_finds_private_includes(self):
        texts = {"sdk/a.h": '#include <string>\n#include "sdk/b.h"\n#include "baton/v1/x.pb.h"\n'
                            '#include "baton/store/v1/rows.pb.h"\n'}
        self.assertEqual(problems(["sdk/a.h", "sdk/gone.h"], {"baton/v1/x.pb.h"}, texts.get),
                         ["sdk/a.h includes sdk/b.h, which is private",
                          "sdk/a.h includes baton/store/v1/rows.pb.h, which is private",
                          "sdk/gone.h is listed and is not there"])


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Writes ../nfc_table.inc from Python's unicodedata (3.11 has Unicode 14.0)."""
import os
import sys
import unicodedata

HANGUL = range(0xAC00, 0xAC00 + 11172)


def main():
    decompositions, classes = [], []
    for cp in range(0x110000):
        c = chr(cp)
        if cp in HANGUL or 0xD800 <= cp < 0xE000:
            continue
        d = unicodedata.decomposition(c)
        if d and not d.startswith("<"):
            parts = [int(x, 16) for x in d.split()]
            composes = len(parts) == 2 and unicodedata.normalize("NFC", c) == c
            decompositions.append((cp, parts[0], parts[1] if len(parts) == 2 else 0, composes))
        ccc = unicodedata.combining(c)
        if ccc:
            if classes and classes[-1][1] + 1 == cp and classes[-1][2] == ccc:
                classes[-1][1] = cp
            else:
                classes.append([cp, cp, ccc])

    def rows(items):
        lines, line = [], ""
        for item in items:
            if len(line) + len(item) + 1 > 98:
                lines.append(line)
                line = ""
            line += (" " if line else "") + item
        return "\n".join(lines + [line]) + "\n"

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "nfc_table.inc")
    with open(path, "w") as f:
        f.write("// Made by testdata/make_nfc_table.py from Unicode %s.\n" % unicodedata.unidata_version)
        f.write("// clang-format off\n")
        f.write("// {character, its canonical decomposition (second 0: a single one), 1: composes back}\n")
        f.write("constexpr Decomposition kDecompositions[] = {\n")
        f.write(rows(["{0x%X,0x%X,0x%X,%d}," % (a, b, c, d) for a, b, c, d in decompositions]))
        f.write("};\n// {first, last, canonical combining class}, those of class 0 left out\n")
        f.write("constexpr CombiningRange kCombiningRanges[] = {\n")
        f.write(rows(["{0x%X,0x%X,%d}," % (a, b, c) for a, b, c in classes]))
        f.write("};\n// clang-format on\n")
    print(len(decompositions), len(classes), os.path.getsize(path), file=sys.stderr)


main()

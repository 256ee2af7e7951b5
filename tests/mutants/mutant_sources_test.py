#!/usr/bin/env python3
"""mutant_sources.py on small trees. Run: python3 tests/mutants/mutant_sources_test.py"""

import pathlib
import subprocess
import tempfile
import unittest

import mutant_sources
import table

SOURCE = "".join(f"void F{i}() {{\n  Do({i});\n}}\n\n" for i in range(10))
PLANTED = SOURCE.replace("  Do(2);", '  if (!Mutant("does-nothing")) Do(2);').replace(
    "  Do(8);", '  Do(Mutant("does-more") ? 9 : 8);')


class OnASmallTree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "tree"
        self.patches = self.root / "tests/mutants/patches"
        self.patches.mkdir(parents=True)
        self.put("sdk/a/x.cc", SOURCE)
        self.put("sdk/a/other.cc", "int other;\n")
        self.put("README.md", "A tree.\n")
        self.put(".gitignore", "/build/\n")
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        subprocess.run(["git", "add", "-A"], cwd=self.root, check=True)
        self.copy_of("sdk/a/x.cc").parent.mkdir(parents=True)
        self.update()
        self.copy_of("sdk/a/x.cc").write_text(PLANTED)

    def put(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def copy(self):
        return mutant_sources.Copy(self.root)

    def copy_of(self, path):
        return self.root / "build/mutants/source" / path

    def sections(self):
        return mutant_sources.sections(self.patches)

    def update(self, keep_rejects=False):
        return self.copy().update(self.sections(), keep_rejects)

    def check(self):
        return mutant_sources.check(self.root, self.patches)

    def save(self):
        copy = self.copy()
        copy.check_saveable(mutant_sources.changed_sources(self.root, copy.where))
        told = mutant_sources.save(self.root, copy.where, self.patches)
        copy.note_saved()
        return told

    def apply(self):
        contents, rejects = mutant_sources.apply(self.root, self.sections())
        return {path: content.decode() for path, content in contents.items()}, rejects

    def test_what_is_saved_applies(self):
        self.assertEqual(self.save(), ["sdk/a.patch"])
        self.assertEqual(self.apply(), ({"sdk/a/x.cc": PLANTED}, []))
        self.assertEqual(self.check(), [])
        self.assertEqual(table.planted(self.patches),
                         {"does-nothing": {"sdk/a/x.cc"}, "does-more": {"sdk/a/x.cc"}})
        self.assertEqual(self.save(), [])  # nothing to rewrite
        self.assertNotIn("index", (self.patches / "sdk/a.patch").read_text())

    def test_changes_around_a_mutant_are_tolerated(self):
        self.save()
        changed = lambda text: "int first;\n\n" + text.replace("void F2() {", "void Second() {") \
            .replace("}\n\nvoid F9", "}\n\n// The last.\nvoid F9")
        self.put("sdk/a/x.cc", changed(SOURCE).replace("F8() {\n", "F8(int) {\n"))
        self.assertEqual(self.check()[0].split(": ")[1], "mutant does-nothing no longer applies to "
                         "sdk/a/x.cc:8")
        self.put("sdk/a/x.cc", changed(SOURCE).replace("void Second", "void F2"))
        self.assertEqual(self.check(), [])
        self.assertEqual(self.apply()[0]["sdk/a/x.cc"],
                         changed(PLANTED).replace("void Second", "void F2"))

    def test_a_changed_line_is_named_with_its_mutant(self):
        self.save()
        self.put("sdk/a/x.cc", SOURCE.replace("Do(8)", "Do(88)"))
        found = self.check()
        self.assertIn("tests/mutants/patches/sdk/a.patch: mutant does-more no longer applies to sdk/a/x.cc:", found[0])
        self.assertIn("./dev mutants --edit", found[1])
        self.assertEqual(len(found), 2)

    def test_a_file_that_is_gone(self):
        self.save()
        (self.root / "sdk/a/x.cc").rename(self.root / "sdk/a/y.cc")
        self.assertIn("was it moved?", self.check()[0])
        patch = self.patches / "sdk/a.patch"
        patch.write_text(patch.read_text().replace("x.cc", "y.cc"))
        self.assertEqual(self.check(), [])

    def test_the_tree_itself_has_no_mutants(self):
        self.put("sdk/a/x.cc", PLANTED)
        self.assertIn("sdk/a/x.cc:10 plants a mutant", self.check()[0])

    def test_the_copy_is_the_tree_with_its_mutants(self):
        self.save()
        before = self.copy_of("sdk/a/other.cc").stat().st_mtime_ns
        self.put("README.md", "The same tree.\n")
        self.put("sdk/a/new.cc", "int fresh;\n")
        self.assertEqual(self.update(), [])
        self.assertEqual(self.copy_of("sdk/a/x.cc").read_text(), PLANTED)
        self.assertEqual(self.copy_of("README.md").read_text(), "The same tree.\n")
        self.assertTrue(self.copy_of("sdk/a/new.cc").is_file())
        self.assertEqual(self.copy_of("sdk/a/other.cc").stat().st_mtime_ns, before)
        (self.root / "sdk/a/new.cc").unlink()
        self.update()
        self.assertFalse(self.copy_of("sdk/a/new.cc").exists())

    def test_edits_stay_until_they_are_saved(self):
        self.assertEqual(self.copy().edited(), ["sdk/a/x.cc"])
        self.update()
        self.assertEqual(self.copy_of("sdk/a/x.cc").read_text(), PLANTED)
        self.put("sdk/a/x.cc", "int x;\n" + SOURCE)
        for attempt in (self.save, self.update):
            with self.assertRaisesRegex(mutant_sources.MutantsError, "changed in the tree"):
                attempt()
        self.put("sdk/a/x.cc", SOURCE)
        self.save()
        self.assertEqual(self.copy().edited(), [])
        self.put("sdk/a/x.cc", "int x;\n" + SOURCE)
        self.assertEqual(self.update(), [])
        self.assertEqual(self.copy_of("sdk/a/x.cc").read_text(), "int x;\n" + PLANTED)

    def test_mending(self):
        self.save()
        self.put("sdk/a/x.cc", SOURCE.replace("Do(8)", "Do(88)"))
        self.assertEqual([r.names for r in self.update()], [("does-more",)])
        self.assertEqual(self.copy_of("sdk/a/x.cc").read_text(), PLANTED)  # nothing was written
        self.update(keep_rejects=True)
        self.assertIn("does-more", self.copy_of("sdk/a/x.cc.rej").read_text())
        mended = PLANTED.replace('"does-more") ? 9 : 8', '"does-more") ? 9 : 88')
        self.copy_of("sdk/a/x.cc").write_text(mended)
        with self.assertRaisesRegex(mutant_sources.MutantsError, "x.cc.rej"):
            self.save()
        self.copy_of("sdk/a/x.cc.rej").unlink()
        self.assertEqual(self.save(), ["sdk/a.patch"])
        self.assertEqual(self.apply(), ({"sdk/a/x.cc": mended}, []))

    def test_a_patch_without_mutants_goes(self):
        self.save()
        self.copy_of("sdk/a/x.cc").write_text(SOURCE)
        self.assertEqual(self.save(), ["sdk/a.patch"])
        self.assertEqual(self.sections(), [])

    def test_without_a_copy_nothing_is_saved(self):
        self.save()
        self.copy().record.unlink()
        with self.assertRaisesRegex(mutant_sources.MutantsError, "there is no"):
            self.save()


if __name__ == "__main__":
    unittest.main()

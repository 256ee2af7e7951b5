#!/usr/bin/env python3
"""The sources with their mutants. The patches (patches/FOLDER.patch for each folder of sources that
has some) plant the mutants in a copy of the tree; the shipped sources have none.

  mutant_sources.py check             names the mutants whose lines no longer apply to the tree
  mutant_sources.py copy              makes or updates the copy, build/mutants/source
  mutant_sources.py edit              the same; leaves each hunk that does not apply in FILE.rej
  mutant_sources.py save [--from DIR] rewrites the patches from what the copy (or DIR) has changed
  mutant_sources.py overlay DIR       writes the sources that have mutants into DIR, and no others;
                                      leaves out what does not apply

The copy keeps what was edited in it and is not saved yet. Files that do not change keep their time,
so that a build of the copy compiles again only what changed. `./dev mutants` calls this program."""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import table

CONTEXT = 2  # lines that a patch has around a change
FEWEST = 1   # of these must still be there on each side

# What one patch changes in one file. `text` is that part of the patch.
Section = collections.namedtuple("Section", "patch path text")
# A hunk that does not apply. `line` is where the patch expects it.
Reject = collections.namedtuple("Reject", "patch path line names text")


class MutantsError(Exception):
    """What the developer must do first."""


def sections(folder=table.FOLDER):
    """[Section] of the patches in the folder."""
    found = []
    for patch in sorted(folder.rglob("*.patch")):
        for text in re.split(r"^(?=diff --git )", patch.read_text(encoding="utf-8"), flags=re.M):
            path = re.search(r"^\+\+\+ b/(.+)$", text, re.M)
            if path:
                found.append(Section(patch.relative_to(folder).as_posix(), path.group(1), text))
    return found


def rejected(section, hunks):
    """[Reject] for the text of hunks that do not apply."""
    found = []
    for hunk in re.split(r"^(?=@@ )", hunks, flags=re.M):
        at = re.match(r"@@ -(\d+)", hunk)
        if at:
            added = "\n".join(line for line in hunk.splitlines() if line.startswith("+"))
            names = tuple(dict.fromkeys(table.PLANTED.findall(added)))
            found.append(Reject(section.patch, section.path, int(at.group(1)), names, hunk))
    return found


def apply(root, parts):
    """(path -> content with mutants, [Reject]) of the tree at `root`, which stays as it is."""
    contents, rejects = {}, []
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        here = [part for part in parts if (root / part.path).is_file()]
        for part in here:
            (scratch / part.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / part.path, scratch / part.path)
        if here:
            # Outside of a repository paths count from the working directory.
            done = subprocess.run(
                ["git", "apply", "--reject", f"-C{FEWEST}", "--whitespace=nowarn", "-"],
                cwd=scratch, input="".join(part.text for part in here), text=True,
                env=dict(os.environ, GIT_CEILING_DIRECTORIES=str(scratch.parent)),
                capture_output=True, check=False)
            if done.returncode not in (0, 1):
                raise MutantsError(f"git cannot read the patches: {done.stderr}")
        for part in parts:
            left = scratch / (part.path + ".rej")
            if part not in here:
                rejects += rejected(part, part.text)
                continue
            contents[part.path] = (scratch / part.path).read_bytes()
            if left.is_file():
                rejects += rejected(part, left.read_text(encoding="utf-8"))
    return contents, rejects


def sentences(rejects, root):
    """What the developer reads about the hunks that do not apply."""
    found = []
    for reject in rejects:
        what = f"mutant {', '.join(reject.names)}" if reject.names else "a hunk without a name"
        why = "" if (root / reject.path).is_file() else "; there is no such file: was it moved?"
        found.append(f"tests/mutants/patches/{reject.patch}: {what} no longer applies to "
                     f"{reject.path}:{reject.line}{why}")
    return found


def planted_in_tree(root):
    """Sentences about sources of the tree that have mutants themselves."""
    done = subprocess.run(["git", "grep", "-nE", r"\bMutant\(\"", "--",
                           *[f"{top}/*.{end}" for top in table.TOPS for end in ("cc", "h")]],
                          cwd=root, capture_output=True, text=True, check=False)
    return [f"{':'.join(line.split(':', 2)[:2])} plants a mutant; a patch shall do it: "
            "`./dev mutants --edit`" for line in done.stdout.splitlines()]


HOW = ("To mend them: `./dev mutants --edit` leaves each of these hunks in FILE.rej beside its\n"
       "file in build/mutants/source. Put it in there by hand, delete FILE.rej, and run\n"
       "`./dev mutants --save`. If a file was moved, change its path in the patch instead.")


def check(root, folder=table.FOLDER):
    """Sentences, none if every mutant applies."""
    _, rejects = apply(root, sections(folder))
    found = sentences(rejects, root)
    return found + ([HOW] if found else []) + planted_in_tree(root)


def tree_files(root):
    """The files of the tree: those that git tracks, and new ones that it does not ignore."""
    done = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                          cwd=root, capture_output=True, text=True, check=True)
    return sorted({path for path in done.stdout.split("\0") if path and (root / path).is_file()})


def write(path, content):
    """Writes the file unless it has this content."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def digest(content):
    return hashlib.sha256(content).hexdigest()


class Copy:
    """The copy of a tree. Beside it a file says what it was made of: path -> [digest of the tree's
    file, digest of what was written]."""

    def __init__(self, root, where=None):
        self.root = root
        self.where = where or root / "build/mutants/source"
        self.record = self.where.with_name(self.where.name + ".json")
        self.made = json.loads(self.record.read_text()) if self.record.is_file() else {}

    def edited(self):
        """The paths of the files that differ from what was written."""
        return [path for path, (_, written) in self.made.items()
                if (self.where / path).is_file()
                and digest((self.where / path).read_bytes()) != written]

    def left_rejects(self):
        return sorted(path.relative_to(self.where).as_posix() for path in self.where.rglob("*.rej"))

    def update(self, parts, keep_rejects=False):
        """Makes the copy what the tree is with its mutants. [Reject]: what does not apply; unless
        it is to be kept beside the files, nothing is written then."""
        edited = set(self.edited())
        contents, rejects = apply(self.root, [part for part in parts if part.path not in edited])
        if rejects and not keep_rejects:
            return rejects
        made = {}
        files = {path: (self.root / path).read_bytes() for path in tree_files(self.root)}
        stale = [path for path in edited if digest(files.get(path, b"")) != self.made[path][0]]
        if stale:
            raise MutantsError(f"edited in {self.where} and changed in the tree: "
                               f"{', '.join(stale)}; delete these files of the copy, and make the "
                               "edits again")
        for path, content in files.items():
            if path in edited:
                made[path] = self.made[path]
                continue
            planted = contents.get(path, content)
            write(self.where / path, planted)
            shutil.copymode(self.root / path, self.where / path)
            made[path] = [digest(content), digest(planted)]
        for path in set(self.made) - set(made):
            (self.where / path).unlink(missing_ok=True)
        texts = collections.defaultdict(str)
        for reject in rejects:
            texts[reject.path + ".rej"] += reject.text
        for path, text in texts.items():
            write(self.where / path, text.encode())
        self.made = made
        self.record.write_text(json.dumps(made))
        return rejects

    def note_saved(self):
        """What was edited is in the patches now."""
        for path in self.edited():
            self.made[path][1] = digest((self.where / path).read_bytes())
        self.record.write_text(json.dumps(self.made))

    def check_saveable(self, changed):
        """Raises if the difference to the tree would not be the mutants alone."""
        if not self.made:
            raise MutantsError(f"there is no {self.where}; `./dev mutants --edit` makes it")
        if self.left_rejects():
            raise MutantsError("put these hunks in, and delete the files: "
                               + ", ".join(self.left_rejects()))
        stale = [path for path in changed
                 if self.made.get(path, [""])[0] != digest((self.root / path).read_bytes())]
        if stale:
            raise MutantsError(f"changed in the tree since the copy was made: {', '.join(stale)}; "
                               "`./dev mutants --edit` updates the copy")


def changed_sources(root, where):
    """The sources of the tree that are others in the folder `where`."""
    tops = tuple(f"{top}/" for top in table.TOPS)
    return [path for path in tree_files(root)
            if path.startswith(tops) and path.endswith((".cc", ".h")) and (where / path).is_file()
            and (where / path).read_bytes() != (root / path).read_bytes()]


def make_patches(root, where, paths):
    """Path below patches/ -> text of the patches that lead from the tree to the folder `where`."""
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        for side, source in (("a", root), ("b", where)):
            for path in paths:
                (scratch / side / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / path, scratch / side / path)
        done = subprocess.run(
            ["git", "diff", "--no-index", "--no-prefix", "--no-color", "--no-ext-diff",
             f"-U{CONTEXT}", "--diff-algorithm=histogram", "--inter-hunk-context=0", "a", "b"],
            cwd=scratch, capture_output=True, text=True, check=False,
            env=dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1",
                     GIT_CEILING_DIRECTORIES=str(scratch.parent)))
    if done.returncode not in (0, 1):
        raise MutantsError(done.stderr)
    patches = collections.defaultdict(str)
    for text in re.split(r"^(?=diff --git )", done.stdout, flags=re.M):
        path = re.search(r"^\+\+\+ b/(.+)$", text, re.M)
        if path:
            text = re.sub(r"^(index|old mode|new mode) .*\n", "", text, flags=re.M)
            patches[os.path.dirname(path.group(1)) + ".patch"] += text
    return patches


def save(root, where, folder=table.FOLDER):
    """Rewrites the patches. Returns the names of the patch files that are new, others or gone."""
    patches = make_patches(root, where, changed_sources(root, where))
    before = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
              for path in folder.rglob("*.patch")}
    for name, text in patches.items():
        write(folder / name, text.encode())
    for name in before.keys() - patches.keys():
        (folder / name).unlink()
    return sorted(name for name in before.keys() | patches.keys()
                  if before.get(name) != patches.get(name))


def run(given, root):
    """The exit code."""
    if given.action == "check":
        found = check(root)
        print("\n".join(found), end="\n" if found else "")
        return 1 if found else 0
    if given.action == "overlay":
        contents, rejects = apply(root, sections())
        for path, content in contents.items():
            write(given.folder / path, content)
        for sentence in sentences(rejects, root):  # the mutant's test will say that it survives
            print(sentence, file=sys.stderr)
        return 0
    copy = Copy(root)
    if given.action == "save":
        if given.source is None:
            copy.check_saveable(changed_sources(root, copy.where))
        rewritten = save(root, given.source or copy.where)
        if given.source is None:
            copy.note_saved()
        print(f"rewrote {', '.join(rewritten)}" if rewritten else "the patches are up to date")
        return 0
    rejects = copy.update(sections(), keep_rejects=given.action == "edit")
    if copy.edited():
        print(f"edited in {copy.where}, and not saved: {', '.join(copy.edited())}")
    if rejects:
        print("\n".join(sentences(rejects, root) + [HOW]), file=sys.stderr)
    return 1 if rejects and given.action == "copy" else 0


def main(arguments):
    parser = argparse.ArgumentParser(prog="mutant_sources")
    actions = parser.add_subparsers(dest="action", required=True)
    for action in ("check", "copy", "edit"):
        actions.add_parser(action)
    actions.add_parser("save").add_argument("--from", dest="source", type=pathlib.Path)
    actions.add_parser("overlay").add_argument("folder", type=pathlib.Path)
    try:
        return run(parser.parse_args(arguments), table.ROOT)
    except MutantsError as error:
        print(f"mutant_sources: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

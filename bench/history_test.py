#!/usr/bin/env python3
"""Every page has the figures of the newest runs that are kept, and of nothing else. `./dev docs`
writes them. Run: python3 bench/history_test.py"""

import re
import unittest

import history

RUN_KEYS = {"date", "commit", "source", "arguments", "machine", "rows"}
ROW_KEYS = {"name", "value", "unit", "note"}


def problems_of_run(run):
    """What a run has that no run should have."""
    found = []
    if not RUN_KEYS - {"source"} <= set(run) <= RUN_KEYS:
        found.append(f"its fields are {sorted(run)}")
        return found
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"]) or not re.fullmatch(r"[0-9a-f]{8,40}", run["commit"]):
        found.append(f"no date and commit: {run['date']}, {run['commit']}")
    if not set(run["machine"]) <= set(history.MACHINE):
        found.append(f"of the machine it says {sorted(run['machine'])}")
    if "--quick" in run["arguments"]:
        found.append("it was a quick run")
    for row in run["rows"]:
        if not {"name", "value", "unit"} <= set(row) <= ROW_KEYS or not isinstance(row["value"], (int, float)):
            found.append(f"this is no row: {row}")
    if len({row["name"] for row in run["rows"]}) < len(run["rows"]):
        found.append("two rows have one name")
    return found


class PagesAndHistory(unittest.TestCase):
    def test_pages_have_the_figures_of_the_newest_runs(self):
        for page in history.pages():
            text = page.read_text(encoding="utf-8")
            self.assertEqual(history.with_figures(text), text, f"{page} is old: run `./dev docs`")

    def test_each_table_stands_on_one_page(self):
        blocks = [match.group(2, 3) for page in history.pages()
                  for match in history.BLOCK.finditer(page.read_text(encoding="utf-8"))]
        tables = [(path.parent.name, path.stem) for path in history.TABLES.rglob("*.md")]
        self.assertGreater(len(tables), 5)
        self.assertEqual(sorted(blocks), sorted(tables))

    def test_each_mark_has_its_end(self):
        for page in history.pages():
            text = page.read_text(encoding="utf-8")
            for match in history.BLOCK.finditer(text):
                self.assertNotIn("<!-- figures", match.group(4), page)
            self.assertEqual(len(history.BLOCK.findall(text)), text.count("<!-- figures of "), page)

    def test_runs_have_what_a_run_has(self):
        for path in sorted(history.HISTORY.glob("*.json")):
            kept = history.read_history(path)
            self.assertEqual(kept["bench"], path.stem)
            benches = [*(history.ROOT / "bench").glob(f"*/{path.stem}_bench.*")]
            self.assertEqual(len(benches), 1, f"{path}: there is no such bench")
            for run in kept["runs"]:
                self.assertEqual(problems_of_run(run), [], f"{path}, the run of {run.get('date')}")
            self.assertEqual(history.history_text(kept), path.read_text(encoding="utf-8"), path)


class TheTestItself(unittest.TestCase):
    RUN = {"date": "2026-01-31", "commit": "01234567", "arguments": [], "machine": {"cores": 2},
           "rows": [{"name": "a/x", "value": 1234.5, "unit": "s"},
                    {"name": "b/x", "value": -0.25, "unit": "s", "note": "p | q"}]}

    def line(self, text):
        return history.line_with_figures(text, {row["name"]: row for row in self.RUN["rows"]})

    def test_figures(self):
        self.assertEqual(self.line("| {a/x; .1f} | {b/x; +.2f} |"), "| 1234.5 | −0.25 |")
        self.assertEqual(self.line("{a/x; ,.0f} {a/x; 1e-3 .2f} {b/x; 100 .0f}%"), "1,234 1.23 −25%")
        self.assertEqual(self.line("{b/x; note}, {c/x; .1f; optional}, {none}"), "p \\| q, –, {none}")
        self.assertEqual(self.line("{a/x; .0f; best} {b/x; .2f; best}"), "**1234** −0.25")
        self.assertEqual(self.line("{b/x; .2f; best} {c/x; .2f; best; optional} {a/x; .0f}"), "**−0.25** – 1234")
        for wrong in ("{a/x; .1f; bold}", "{a/x; 1 2 .1f}"):
            with self.assertRaises(history.HistoryError, msg=wrong):
                self.line(wrong)

    def test_the_newest_run_with_all_rows_counts(self):
        newer = {**self.RUN, "date": "2026-02-01", "rows": [{"name": "a/x", "value": 2, "unit": "s"}]}
        runs = [self.RUN, newer]
        self.assertIs(history.newest_with(runs, {"a/x"}), newer)
        self.assertIs(history.newest_with(runs, {"a/x", "b/x"}), self.RUN)
        self.assertIsNone(history.newest_with(runs, {"c/x"}))
        self.assertIn("2026-02-01", history.block("a", "t", "{a/x; .1f} {b/x; .1f; optional}\n", runs))
        with self.assertRaisesRegex(history.HistoryError, "all rows of a/t"):
            history.block("a", "t", "{c/x; .1f}\n", runs)

    def test_captions(self):
        self.assertEqual(history.caption("a", {**self.RUN, "arguments": ["--n", "1"]}),
                         "*`./dev bench a --n 1`, 2026-01-31 (commit `01234567`), on 2 cores.*\n")
        self.assertIn("as of 2026-01-31 (commit `01234567`), on 2 cores (X). No other record",
                      history.caption("a", {**self.RUN, "source": "docs/a.md",
                                            "machine": {"cores": 2, "cpu": "X"}}))

    def test_reports_lose_what_tells_the_machine(self):
        report = {"bench": "a", "machine": {"cores": 2, "host": "h"}, "rows": self.RUN["rows"]}
        self.assertEqual(history.run_of(report, "2026-01-31", "01234567", []), self.RUN)

    def test_finds_bad_runs(self):
        self.assertEqual(problems_of_run(self.RUN), [])
        for change in ({"machine": {"host": "h"}}, {"date": "today"}, {"commit": ""}, {"more": 1},
                       {"arguments": ["--quick"]}, {"rows": self.RUN["rows"] * 2},
                       {"rows": [{"name": "a", "value": "fast", "unit": ""}]}):
            self.assertNotEqual(problems_of_run({**self.RUN, **change}), [], change)


if __name__ == "__main__":
    unittest.main()

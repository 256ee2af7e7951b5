#!/usr/bin/env python3
"""Runs of benches that are kept, and the figures of docs/ that are made from them.

  history.py commit                         prints the commit that a run would be of
  history.py keep NAME FILE COMMIT [ARG...] adds the report of a bench, FILE, to its history; ARG...
                                            are the arguments of the bench
  history.py docs                           writes the figures of all pages anew

`./dev bench NAME --keep` and `./dev docs` call it. bench/history/NAME.json has the runs of bench
NAME, the newest last: date, commit, arguments, machine, and the rows that the bench printed. Runs
with a `source` are older than this folder. Their figures stood on the page that `source` names, in
the version of that commit, rounded, and are all that is left of them.

A page has a block of figures wherever it has these two lines:

    <!-- figures of NAME/TABLE: made by ./dev docs -->
    <!-- end -->

What stands between them is made from bench/tables/NAME/TABLE.md. There, a row's name in braces
stands for its value, in the newest run that has all rows of the block:

    {tokens_per_second; ,.0f}    Python's format of the number; a minus is a minus sign
    {bytes; 1e-6 .1f}            the number times 1e-6
    {speed/a; .1f; best}         bold if it is the largest number of its line that may be bold
    {speed/b; .1f; optional}     a dash if the run has no such row
    {speed/b; note}              the note that the bench printed beside the value
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HISTORY, TABLES = ROOT / "bench/history", ROOT / "bench/tables"
BLOCK = re.compile(r"(<!-- figures of (\S+)/(\S+): made by \./dev docs -->\n)(.*?)(<!-- end -->\n)", re.S)
FIGURE = re.compile(r"\{([^{};]+);([^{}]*)\}")
MACHINE = ("cpu", "cores")  # nothing that tells whose machine it was


class HistoryError(Exception):
    """What is wrong, for the reader."""


# ---- Histories -----------------------------------------------------------------------------------


def history_text(history):
    """As JSON, a row a line."""
    runs = []
    for run in history["runs"]:
        head = [f'   {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)},\n'
                for key, value in run.items() if key != "rows"]
        rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in run["rows"])
        runs.append("  {\n" + "".join(head) + f'   "rows": [\n{rows}\n   ]\n  }}')
    return f'{{\n "bench": {json.dumps(history["bench"])},\n "runs": [\n' + ",\n".join(runs) + "\n ]\n}\n"


def read_history(path):
    return json.loads(path.read_text(encoding="utf-8"))


def run_of(report, date, commit, arguments):
    """The run of a bench that wrote `report` with --json."""
    machine = {key: report["machine"][key] for key in MACHINE if key in report["machine"]}
    return {"date": date, "commit": commit, "arguments": arguments, "machine": machine,
            "rows": report["rows"]}


def current_commit():
    """Fails if a source differs from it: nobody could repeat the run then."""
    def git(*arguments):
        return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()
    changed = git("status", "--porcelain", "--", ".", ":!bench/history", ":!docs")
    if changed:
        raise HistoryError(f"a run that is kept is of a commit; commit these first:\n{changed}")
    return git("rev-parse", "--short=8", "HEAD")


def keep(name, report_path, commit, arguments):
    path = HISTORY / f"{name}.json"
    history = read_history(path) if path.is_file() else {"bench": name, "runs": []}
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    history["runs"].append(run_of(read_history(pathlib.Path(report_path)), date, commit, arguments))
    HISTORY.mkdir(exist_ok=True)
    path.write_text(history_text(history), encoding="utf-8")


# ---- Figures -------------------------------------------------------------------------------------


def parse_figure(options):
    """Of `1e-6 .1f; best`: the factor, Python's format, and the other words."""
    how, *words = [word.strip() for word in options.split(";")]
    *factor, spec = how.split() or [""]
    if len(factor) > 1 or set(words) - {"best", "optional"}:
        raise HistoryError(f"no figure is written so: {options.strip()}")
    return float(factor[0]) if factor else 1.0, spec, words


def newest_with(runs, names):
    """The newest run that has all rows of these names; None: there is none."""
    for run in reversed(runs):
        if names <= {row["name"] for row in run["rows"]}:
            return run
    return None


def line_with_figures(line, rows):
    """A line of a template with the values of `rows`, by name."""
    best = [rows[name]["value"] for name, options in FIGURE.findall(line)
            if name in rows and "best" in parse_figure(options)[2]]

    def text_of(match):
        factor, spec, words = parse_figure(match.group(2))
        row = rows.get(match.group(1))
        if row is None:
            return "–"
        if spec == "note":
            return row.get("note", "").replace("|", "\\|")
        text = format(row["value"] * factor, spec).replace("-", "−")
        return f"**{text}**" if "best" in words and row["value"] == max(best) else text

    return FIGURE.sub(text_of, line)


def caption(bench, run):
    """Says which run the figures above are of."""
    on = f", on {run['machine']['cores']} cores" if "cores" in run["machine"] else ""
    on += f" ({run['machine']['cpu']})" if "cpu" in run["machine"] else ""
    of = f"{run['date']} (commit `{run['commit']}`)"
    if "source" in run:
        return f"*Figures of `{run['source']}` as of {of}{on}. No other record of that run is left.*\n"
    return f"*`{' '.join(['./dev bench', bench, *run['arguments']])}`, {of}{on}.*\n"


def block(bench, table, template, runs):
    """What stands between the marks of a page."""
    figures = [(name, parse_figure(options)) for name, options in FIGURE.findall(template)]
    names = {name for name, (_, _, words) in figures if "optional" not in words}
    run = newest_with(runs, names)
    if run is None:
        raise HistoryError(f"no run in bench/history/{bench}.json has all rows of {bench}/{table}; "
                           f"run `./dev bench {bench} --keep`")
    rows = {row["name"]: row for row in run["rows"]}
    lines = [line_with_figures(line, rows) for line in template.splitlines(keepends=True)]
    return "".join(lines) + "\n" + caption(bench, run)


def with_figures(page):
    """The text of a page, its blocks made anew."""
    def made(match):
        begin, bench, table, _, end = match.groups()
        template, history = TABLES / bench / f"{table}.md", HISTORY / f"{bench}.json"
        for path in (template, history):
            if not path.is_file():
                raise HistoryError(f"there is no {path.relative_to(ROOT)}")
        text = block(bench, table, template.read_text(encoding="utf-8"), read_history(history)["runs"])
        return begin + text + end

    return BLOCK.sub(made, page)


def pages():
    """Every page that may have figures."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"),
                   *(ROOT / "examples").rglob("*.md")])


def write_docs():
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = with_figures(before)
        if after != before:
            page.write_text(after, encoding="utf-8")


def main(command="", *arguments):
    if command == "commit" and not arguments:
        print(current_commit())
    elif command == "keep" and len(arguments) >= 3:
        keep(*arguments[:3], list(arguments[3:]))
    elif command == "docs" and not arguments:
        write_docs()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except HistoryError as error:
        sys.exit(f"history: {error}")

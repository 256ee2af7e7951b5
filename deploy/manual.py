#!/usr/bin/env python3
"""Man pages and the completion for bash, made from what the programs' own --help says.

    manual.py man FOLDER PROGRAM...      FOLDER/NAME.1 for each program
    manual.py completion FILE PROGRAM... one script for all of them
"""

import os
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"^  (?P<term>\S.*?)(?:\s{2,}(?P<text>\S.*))?$")
CHOICES = re.compile(r"\{([^}]*)\}")


class Entry:
    """An option, a positional argument or a command, as a help lists it."""

    def __init__(self, term, text):
        self.term = term
        self.text = text

    @property
    def names(self):
        return re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", self.term.split(" ")[0])

    @property
    def takes_value(self):
        rest = self.term[len(self.term.split(" ")[0]):].strip()
        return bool(rest) and not rest.startswith("(Env:")

    @property
    def choices(self):
        found = CHOICES.search(self.term)
        return found.group(1).split(",") if found else []


class Help:
    """`words` is a program's path and the names of its commands."""

    def __init__(self, words):
        self.words = words
        text = subprocess.run([*words, "--help"], capture_output=True, text=True, check=True,
                              timeout=60).stdout
        self.parse(text)
        self.commands = [Help([*words, entry.term]) for entry in self.sections["Subcommands"]]

    def parse(self, text):
        self.sections = {"Positionals": [], "Options": [], "Subcommands": []}
        about, self.usage, section = [], "", None
        for line in text.splitlines():
            if line.startswith("Usage: "):
                self.usage = line[len("Usage: "):].replace(self.words[0], self.name.split(" ")[0])
            elif line.endswith(":") and line[:-1] in self.sections:
                section = self.sections[line[:-1]]
            elif section is None:
                if not self.usage:
                    about.append(line)
            elif entry := ENTRY.match(line):
                section.append(Entry(entry["term"], entry["text"] or ""))
            elif line.strip() and section:
                section[-1].text = (section[-1].text + "\n" + line.strip()).strip()
        self.about = "\n".join(about).strip()

    @property
    def name(self):
        return " ".join([os.path.basename(self.words[0]), *self.words[1:]])

    def tree(self):
        yield self
        for command in self.commands:
            yield from command.tree()


def roff(text):
    """Text as roff prints it, line by line."""
    lines = []
    for line in text.replace("\\", "\\e").replace("-", "\\-").splitlines():
        lines.append("\\&" + line if line.startswith((".", "'")) else line)
    return "\n.br\n".join(lines)


def roff_entries(entries):
    return "".join(f".TP\n\\fB{roff(entry.term)}\\fR\n{roff(entry.text) or chr(92) + '&'}\n"
                   for entry in entries)


def man_page(page, version):
    first, _, rest = page.about.partition("\n")
    out = [f'.TH {page.name.upper()} 1 "" "Baton {version}" "Baton"\n',
           f".SH NAME\n{roff(page.name)} \\- {roff(first.rstrip('.'))}\n",
           f".SH SYNOPSIS\n\\fB{roff(page.usage)}\\fR\n",
           f".SH DESCRIPTION\n{roff(page.about)}\n"]
    for title in ("Positionals", "Options"):
        if page.sections[title]:
            name = "ARGUMENTS" if title == "Positionals" else "OPTIONS"
            out.append(f".SH {name}\n{roff_entries(page.sections[title])}")
    commands = list(page.tree())[1:]
    if commands:
        out.append(".SH COMMANDS\n")
    for command in commands:
        out.append(f'.SS "{roff(command.name)}"\n{roff(command.about)}\n.PP\n'
                   f"\\fB{roff(command.usage)}\\fR\n")
        entries = [entry for title in ("Positionals", "Options")
                   for entry in command.sections[title] if "--help" not in entry.names]
        out.append(roff_entries(entries))
    out.append(".SH SEE ALSO\n/usr/share/doc/baton\n")
    return "".join(out)


COMPLETION = r"""# Completion for bash, made from the programs' own --help by deploy/manual.py.
declare -gA _baton_words _baton_values _baton_choices
@TABLES@
_baton() {
  local current=${COMP_WORDS[COMP_CWORD]} path=${COMP_WORDS[0]##*/} word choices i
  local -a before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  COMPREPLY=()
  # The command that the words before name, past options and their values.
  for ((i = 0; i < ${#before[@]}; ++i)); do
    word=${before[i]}
    if [[ $word == -* ]]; then
      [[ " ${_baton_values[$path]} ${_baton_values[${path%% *}]} " == *" $word "* ]] && ((++i))
    elif [[ -n ${_baton_words[$path $word]+set} ]]; then
      path+=" $word"
    fi
  done
  word=${COMP_WORDS[COMP_CWORD-1]}
  if ((i > ${#before[@]})); then  # the value of an option
    choices=${_baton_choices[$path $word]-${_baton_choices[${path%% *} $word]-}}
    [[ -n $choices ]] && COMPREPLY=($(compgen -W "$choices" -- "$current"))
    return 0
  fi
  choices=${_baton_words[$path]}
  [[ $current == -* ]] && choices+=" ${_baton_words[${path%% *}]}"
  COMPREPLY=($(compgen -W "$choices" -- "$current" | sort -u))
  return 0
}
complete -o default -F _baton @PROGRAMS@
"""


def completion(pages):
    tables = []
    for page in pages:
        for command in page.tree():
            options = command.sections["Options"]
            words = [entry.term for entry in command.sections["Subcommands"]]
            words += [name for entry in options for name in entry.names if name.startswith("--")]
            values = [name for entry in options if entry.takes_value for name in entry.names]
            tables.append(f"_baton_words['{command.name}']='{' '.join(words)}'")
            tables.append(f"_baton_values['{command.name}']='{' '.join(values)}'")
            for entry in options:
                for name in entry.names if entry.choices else []:
                    tables.append(f"_baton_choices['{command.name} {name}']="
                                  f"'{' '.join(entry.choices)}'")
    return (COMPLETION.replace("@TABLES@", "\n".join(tables))
            .replace("@PROGRAMS@", " ".join(page.name for page in pages)))


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("man", "completion"):
        print(__doc__, file=sys.stderr)
        return 2
    target = pathlib.Path(sys.argv[2])
    pages = [Help([program]) for program in sys.argv[3:]]
    if sys.argv[1] == "completion":
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(completion(pages))
        return 0
    target.mkdir(parents=True, exist_ok=True)
    version = next((p for p in pages if p.name == "baton"), None)
    text = "" if version is None else subprocess.run(
        [version.words[0], "--version"], capture_output=True, text=True, check=True).stdout
    for page in pages:
        (target / f"{page.name}.1").write_text(man_page(page, "".join(text.split()[1:2])))
    return 0


if __name__ == "__main__":
    sys.exit(main())

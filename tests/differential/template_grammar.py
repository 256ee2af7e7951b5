"""Random templates for compare_jinja.py: a grammar of what chat templates are written in, with null
and undefined everywhere, and the variables that they read."""

NAMES = ["messages", "tools", "add_generation_prompt", "bos_token", "x", "y", "z", "n", "f", "s", "u",
         "none_value", "items", "d", "empty", "nested", "ints", "words", "unknown"]
TEXTS = ["", "a", "b", "upper", "defined", "user", "assistant", "Hello World", " pad ", "a-b-c", "x\\ny\\n", "\\t", "<b>", "é", "straße",
         "ΑΣ σς", "日本", "😀", "%s", "%d%%", "{}", "{0} {1}", "{a}", "12", "-7", " 3.5 ", "1e3", "0x1f", "nan",
         "it\\'s", '"q"', "one two  three", "aXbXc", "ǅ", "ﬁ", "²", "½", "\\u200b", "\\x7f", "a\\rb\\u2028c", "A1 b2", "{{", "__x"]
KEYS = ["role", "content", "name", "tool_calls", "function", "arguments", "a", "b", "c", "items", "missing", "type"]
ROOT = {
    "messages": [
        {"role": "system", "content": " Be brief.\n"},
        {"role": "user", "content": "What is 2+2? <|im_end|> é日本😀"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function",
             "function": {"name": "f", "arguments": {"x": 1, "y": None, "z": [1, "a", 2.5]}}}]},
        {"role": "tool", "name": "f", "content": "3"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nIt's \"4\".", "reasoning_content": "hm"},
        {"role": "user", "content": [{"type": "text", "text": "and?"}, {"type": "image"}]},
    ],
    "tools": [{"type": "function", "function": {
        "name": "add", "description": "Adds.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "city": None},
                       "required": ["a"]}}}],
    "add_generation_prompt": True, "bos_token": "<s>", "x": 3, "y": -2, "z": True, "n": 7, "f": 2.5, "s": " Ab c ",
    "none_value": None, "items": [1, "a", None, 2.5, [1, 2], {"a": 1}], "d": {"b": 1, "a": "x", "C": [], "n": None},
    "empty": [], "nested": {"a": {"b": [1, {"c": 2}]}, "items": 5, "get": "g"}, "ints": [3, 1, 2, 2],
    "words": ["b", "A", "c", "a", "É"],
}


def variable_sets():
    second = dict(ROOT, messages=[{"role": "user", "content": "hi"}], tools=None, add_generation_prompt=False,
                  x=0, y=1.0, z=False, n=-7, f=-0.0, s="", d={}, items=[], ints=[], words=["x"], nested={})
    third = dict(ROOT, messages=[], tools=[], x=None, y="2", z=[], n=10, f=1e16, s="straße ΑΣ\n\n b",
                 d={"x": None, "y": [None, "q"]}, items=[[1, "b"], [2, "a"], [1, "c"]], ints=[5],
                 words=["one", "two", "Three", "two"],
                 nested={"a": {"b": [{"a": 2, "b": "z"}, {"a": 1, "b": "y"}, {"a": 1, "b": None}, {"b": "w"}]}})
    return [ROOT, second, third]


class Grammar:
    def __init__(self, random):
        self.random = random
        self.scope = list(NAMES)
        self.macros = []
        self.namespaces = []
        self.loops = 0
        self.called = 0  # bodies of macros and call blocks around
        self.budget = 60

    # --- Helpers ---

    def pick(self, *choices):
        return self.random.choice(choices)

    def chance(self, p):
        return self.random.random() < p

    def spend(self):
        self.budget -= 1
        return self.budget > 0

    # --- Expressions: `e` any, with a bias by kind so that much of it renders ---

    def string(self):
        text = self.random.choice(TEXTS)
        if '"' in text:
            return "'" + text + "'"
        return self.pick("'%s'", '"%s"') % text if "'" not in text else '"' + text.replace("\\'", "'") + '"'

    def number(self):
        return self.pick("0", "1", "2", "3", "7", "10", "-1", "100", "1.5", "2.0", "0.1", "1e3", "1_000", "-2.5", "0x10", "1e20",
                         "123456.789")

    def literal(self):
        return self.pick(self.string(), self.string(), self.number(), self.number(), "none", "true", "false", "[]", "{}", "()")

    def name(self):
        return self.random.choice(self.scope)

    def sequence(self):
        r = self.random.random()
        if r < .3:
            return self.pick("items", "ints", "words", "messages", "empty", "nested.a.b", "tools", "d", "s", "unknown")
        if r < .5:
            return "[" + ", ".join(self.e(1) for _ in range(self.random.randrange(4))) + "]"
        if r < .58:
            return "(" + "".join(self.e(1) + ", " for _ in range(self.random.randrange(4))) + ")"
        if r < .66:
            return "range(" + ", ".join(self.pick("0", "1", "2", "3", "5", "-1", "x") for _ in range(self.random.randrange(1, 3))) + ")"
        if r < .72:
            return self.dict_of(1)
        if r < .78:
            return self.pick("d.items()", "d.keys()", "d.values()", "nested.items()", "d|items", "d|dictsort")
        if r < .9:
            return self.lazy()
        return self.e(1)

    def lazy(self):
        base = self.pick("items", "ints", "words", "messages", "nested.a.b", "'abc'", "d", "[1, 2, 3]", "unknown", "range(4)")
        return base + self.pick("|map('upper')", "|map(attribute='a')", "|map(attribute='role', default='?')", "|select", "|reject",
                                "|select('string')", "|select('odd')", "|reject('none')", "|selectattr('a')", "|selectattr('role', 'equalto', 'user')",
                                "|rejectattr('content', 'none')", "|unique", "|batch(2)", "|batch(2, 'f')", "|slice(2)", "|reverse", "|sort",
                                "|map('string')|unique", "|map('int')", "|map('default', 'q')", "|select('in', [1, 'a'])", "|select('gt', 1)",
                                "|selectattr('a', 'defined')", "|map(attribute=0)", "|map('replace', 'a', 'b')", "|map('tojson')",
                                "|slice(3, 'f')", "|map('length')", "|map('first')", "|unique(true)", "|unique(attribute='a')", "|groupby('a')",
                                "|groupby('role')", "|groupby(0)", "|sort(attribute='a')", "|map('nofilter')", "|select('notest')", "|map",
                                "|map(attribute='a.b')", "|sort(reverse=true)", "|list", "|sort(attribute='a,b')")

    def dict_of(self, depth):
        def key():
            return self.pick("'a'", "'b'", "'role'", "'items'", "0", "1", "512", "true", "none", "1.5", "x", "'c'", "(1, 2)")
        return "{" + ", ".join(f"{key()}: {self.e(depth)}" for _ in range(self.random.randrange(4))) + "}"

    def e(self, depth=2):
        if depth <= 0 or not self.spend():
            return self.pick(self.literal(), self.name())
        return self.random.choice(self.RULES)(self, depth)

    def e_literal(self, depth):
        return self.literal()

    def e_name(self, depth):
        return self.name()

    def e_binary(self, depth):
        op = self.pick("+", "-", "*", "/", "//", "%", "**", "~", "+", "~", "%")
        if op == "**":
            return f"{self.pick('x', '2', 'n', 'f', '-1')} ** {self.pick('2', '3', '-1', '0', 'x', '0.5')}"
        if op == "*":
            return self.group(f"{self.e(depth - 1)} * {self.pick('2', '3', '0', '-1', 'x', '1.5', self.string())}")
        return self.group(f"{self.e(depth - 1)} {op} {self.e(depth - 1)}")

    def group(self, text):
        return f"({text})" if self.chance(.6) else text

    def e_compare(self, depth):
        ops = ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "==", "in"]
        text = self.e(depth - 1)
        for _ in range(self.pick(1, 1, 1, 2)):
            text += f" {self.random.choice(ops)} {self.pick(self.e(depth - 1), self.sequence())}"
        return self.group(text)

    def e_logic(self, depth):
        return self.group(self.pick(f"{self.e(depth - 1)} and {self.e(depth - 1)}", f"{self.e(depth - 1)} or {self.e(depth - 1)}",
                                    f"not {self.e(depth - 1)}"))

    def e_conditional(self, depth):
        text = f"{self.e(depth - 1)} if {self.e(depth - 1)}"
        return f"({text} else {self.e(depth - 1)})" if self.chance(.7) else f"({text})"

    def e_unary(self, depth):
        return self.pick("-", "+") + self.pick("x", "n", "f", "z", self.number().lstrip("-"), self.name(), f"({self.e(depth - 1)})")

    def e_attribute(self, depth):
        base = self.pick("messages[0]", "messages[-1]", "messages[2]", "d", "nested", "nested.a", "items", self.name(), "tools[0].function",
                         f"({self.e(depth - 1)})")
        return base + self.pick(f".{self.random.choice(KEYS)}", f"['{self.random.choice(KEYS)}']", ".0", "[0]", "[-1]", f"[{self.e(depth - 1)}]",
                                f".{self.random.choice(KEYS)}.{self.random.choice(KEYS)}", "[1].c", "[true]", "['upper']", ".items", "|attr('a')",
                                "|attr('upper')", ".get")

    def e_slice(self, depth):
        def part():
            return self.pick("", "", "0", "1", "2", "-1", "-2", "5", "none", "x", "true")
        base = self.pick("s", "'hello'", "messages", "ints", "range(6)", "[1, 2, 3]", "(1, 2)", "nested.a.b", "words", self.name(), "d.items()", "ints|map('int')")
        text = f"{part()}:{part()}"
        if self.chance(.4):
            text += f":{self.pick('', '1', '2', '-1', '-2', '0')}"
        return f"({base})[{text}]"

    def e_list(self, depth):
        return self.pick(self.sequence(), self.dict_of(depth - 1))

    def e_test(self, depth):
        test = self.pick("defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence", "boolean", "true", "false",
                         "integer", "float", "odd", "even", "lower", "upper", "callable", "escaped",
                         f"divisibleby({self.pick('2', '3', '0')})", f"divisibleby {self.pick('2', '3')}", f"eq({self.e(depth - 1)})",
                         f"sameas {self.pick('none', 'true', 'false')}", f"in({self.sequence()})", f"in {self.pick('ints', 'words', 's', 'd')}",
                         f"equalto({self.e(depth - 1)})", f"gt {self.pick('1', 'x')}", f"le({self.e(depth - 1)})", f"ne({self.e(depth - 1)})",
                         f"lessthan({self.e(depth - 1)})", "defined", "defined", "string", "mapping", "filter", "test")
        return self.group(f"{self.pick(self.e(depth - 1), self.name())} is {self.pick('', '', 'not ')}{test}")

    TEXT_METHODS = ["upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "strip()", "lstrip()", "rstrip()",
                    "strip('a ')", "lstrip(' b')", "rstrip('\\n')", "split()", "split('-')", "split(none, 1)", "split(' ', 1)",
                    "rsplit('-', 1)", "rsplit(none, 1)", "rsplit()", "splitlines()", "splitlines(true)", "partition('-')", "rpartition('b')",
                    "replace('a', 'b')", "replace('', '-')", "replace('b', '', 1)", "find('b')", "rfind('a')", "index('a')", "count('a')",
                    "count('')", "startswith('a')", "endswith(('c', 'd'))", "startswith(('a', 1))", "startswith('b', 1)", "find('a', 1, 3)",
                    "removeprefix('a')", "removesuffix('c')", "isalpha()", "isdigit()", "isdecimal()", "isnumeric()", "isalnum()", "isspace()",
                    "islower()", "isupper()", "istitle()", "isascii()", "isprintable()", "isidentifier()", "center(9)", "ljust(7, '*')", "rjust(7)",
                    "zfill(5)", "expandtabs()", "expandtabs(3)", "join(words)", "join(['a', 'b'])", "join(ints)", "join(s)", "format(1, 'a')",
                    "format(a=1)", "nomethod()", "strip(1)", "split('')", "encode()", "rindex('b')", "split(sep='-', maxsplit=1)", "replace('a')"]
    LIST_METHODS = ["index(1)", "count(2)", "copy()", "append(1)", "pop()", "index('a')", "count()", "sort()"]
    DICT_METHODS = ["get('a')", "get('q')", "get('q', 1)", "items()", "keys()", "values()", "copy()", "update({})", "pop('a')", "get()",
                    "get(1)", "get([])", "items()|list", "keys()|list", "values()|list", "get('a').b"]

    def e_method(self, depth):
        r = self.random.random()
        if r < .65:
            return self.pick("s", "'a-b-c'", self.string(), self.string(), "messages[1].content", self.name()) + "." + self.random.choice(self.TEXT_METHODS)
        if r < .8:
            return self.pick("ints", "items", "[1, 2, 2]", "(1, 'a')", "range(5)") + "." + self.random.choice(self.LIST_METHODS)
        if r < .97:
            return self.pick("d", "nested", self.dict_of(1), "messages[0]", self.name()) + "." + self.random.choice(self.DICT_METHODS)
        return self.pick("x.bit_length()", "n.real", "f.is_integer()", "x.conjugate()", "f.imag", "x.numerator")

    FILTERS = ["upper", "lower", "title", "capitalize", "trim", "trim('a')", "length", "count", "first", "last", "list", "string", "int", "float", "abs", "round",
               "round(1)", "round(2, 'floor')", "round(0, 'ceil')", "round(-1)", "int(5)", "int(default=none)", "int(0, 16)", "float(1.5)", "join", "join(', ')",
               "join('-', attribute='a')", "join(1)", "default('q')", "default('q', true)", "d", "default", "sort", "sort(reverse=true)",
               "sort(case_sensitive=true)", "sort(attribute='a')", "unique|list", "reverse|list", "reverse", "sum", "sum(start=1)", "sum(attribute='a')", "sum(start=[])",
               "min", "max", "min(attribute='a')", "max(case_sensitive=true)", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)",
               "tojson(separators=(',', ':'))", "tojson(indent='\\t')", "tojson(indent=0)", "tojson(true, 1)", "replace('a', 'b')", "replace('a', 1)", "replace('', '.', 2)", "replace(1, 2)",
               "indent", "indent(2)", "indent(2, true)", "indent(2, true, true)", "indent('> ')", "indent(first=true)", "dictsort", "dictsort(by='value')",
               "dictsort(reverse=true)", "dictsort(true)", "items|list", "items", "select|list", "reject('none')|list", "map('upper')|list", "map(attribute='a')|list",
               "map('default', 0)|list", "selectattr('a')|list", "selectattr('a', 'eq', 1)|list", "batch(2)|list", "batch(3, 'x')|list", "slice(2)|list", "slice(3, 0)|list",
               "groupby('a')", "groupby('a', default=0)|map(attribute='grouper')|list", "groupby('a')|list", "center(11)", "truncate(5)", "truncate(6, true)", "truncate(5, false, '.', 0)",
               "truncate(9, leeway=0)", "wordcount", "format(1)", "format('a', 2)", "format(a=1)", "urlencode", "filesizeformat", "filesizeformat(true)", "attr('a')", "attr('upper')",
               "map('int')|sum", "map('string')|join", "select('number')|list", "select('eq', 1)|list", "rejectattr('a', 'defined')|list", "first|upper", "last|default('q')",
               "tojson|upper", "tojson|length", "upper|lower", "join(',')|length", "round|int", "int|string", "list|length", "xmlattr", "length(1)", "join(d='+')", "sort|first", "max|string",
               "map|list", "map('nofilter')|list", "select('notest')|list", "indent(width=1)", "default(boolean=true)", "replace(old='a', new='b')", "unique|join", "reverse|join", "e"]

    def e_filter(self, depth):
        base = self.pick(self.name(), self.e(depth - 1), self.sequence(), self.string(), f"({self.e(depth - 1)})")
        return base + "|" + "|".join(self.random.choice(self.FILTERS) for _ in range(self.pick(1, 1, 1, 2)))

    PERCENT = ["%s", "%d", "%5s|", "%-5s|", "%05d", "%+d", "%x", "%#X", "%o", "%e", "%.2f", "%g", "%r", "%%", "%c", "%(a)s", "%(b)d", "%.3s", "%*d", "% d", "%10.3f",
               "%i", "%a", "%-8.2e|", "%#o", "%.0f", "%G", "%5%", "%", "%y", "%.*f", "%(a)", "%ld", "%05s", "%+.1f", "%.3d", "%06.2f", "%F"]
    BRACES = ["{}", "{0}", "{1}", "{a}", "{:>8}", "{:<5}|", "{:^7}|", "{:05d}", "{:,}", "{:.2f}", "{:x}", "{:#b}", "{!r}", "{!s:>4}", "{:e}", "{:%}", "{0[0]}", "{a.b}", "{{", "}}",
              "{0.a}", "{:*^9}", "{:+}", "{:{}}", "{:{}.{}}", "{:_}", "{:g}", "{:.3}", "{:d}", "{:s}", "{:c}", "{", "}", "{0!x}", "{:n}", "{:010,}", "{a[b]}", "{!a}", "{:=+6d}", "{:<08}",
              "{:.1%}", "{:G}", "{:.0f}", "{:#x}", "{:06}", "{:,.2f}", "{:_x}", "{0} {}", "{:.10g}", "{:10.4}", "{:#.3g}", "{:E}", "{:z.1f}", "{:+z.0f}", "{:z}", "{:,d}", "{:012,.1f}", "{:+,}"]

    def e_format(self, depth):
        if self.chance(.5):
            pattern = self.pick("", "a ", "é") + self.random.choice(self.PERCENT) + self.pick("", "", " " + self.random.choice(self.PERCENT))
            values = self.pick(self.e(1), f"({self.e(1)},)", f"({self.e(1)}, {self.e(1)})", "{'a': 1, 'b': 2}", self.number(), self.string(), self.name())
            if self.chance(.3):
                return f"'{pattern}'|format({self.e(1)}{self.pick('', ', ' + self.e(1))})"
            return f"('{pattern}' % {values})"
        pattern = self.pick("", "<", "é ") + self.random.choice(self.BRACES) + self.pick("", ">", " " + self.random.choice(self.BRACES))
        arguments = [self.pick(self.e(1), self.number(), self.string(), self.name()) for _ in range(self.pick(1, 1, 2, 2, 3))]
        if self.chance(.25):
            arguments.append("a=" + self.pick("d", "1", "nested.a", self.e(1)))
        return f"'{pattern}'.format({', '.join(arguments)})"

    def e_call(self, depth):
        if self.macros and self.chance(.7):
            return self.macro_call()
        return self.pick("range(3)", "range(1, 4)|list", "dict(a=1, b=x)", "dict(d, q=2)", "dict([('a', 1)])", "namespace(a=1)", "namespace(a=1).a", "range(0, 10, 3)", "range(-2)", "range(3)|list",
                         "range('a')", "dict(1)", "joiner()", "range(5, 0, -2)|list", "dict.fromkeys('ab', 1)", "raise_exception('no')", "x()", "unknown()", "d.a()", "range(1.5)", "namespace(d)",
                         "cycler('a', 'b').next()", "dict(**d)", "range(*[1, 4])|list", "dict(d, **{'z': 1})", "range(100001)")

    def macro_call(self):
        name, parameters = self.random.choice(self.macros)
        arguments = [self.e(1) for _ in range(self.random.randrange(len(parameters) + 2))]
        if parameters and self.chance(.3):
            arguments = arguments[:-1] + [f"{self.random.choice(parameters)}={self.e(1)}"]
        if self.chance(.1):
            arguments.append(self.pick("*ints", "*[1]", "**{'a': 1}", "**d", "q=1", "*words, **{'b': 2}"))
        return f"{name}({', '.join(arguments)})"

    def e_special(self, depth):
        if self.loops and self.chance(.7):
            return "loop" + self.pick(".index", ".index0", ".first", ".last", ".length", ".revindex", ".revindex0", ".previtem", ".nextitem", ".depth", ".depth0", ".cycle('a', 'b')",
                                      ".changed(x)", ".missing", "['index']", ".changed(loop.index0 // 2)", "|string", " is defined", "([1])", "|length", ".cycle()")
        if self.namespaces:
            ns = self.random.choice(self.namespaces)
            return ns + self.pick(".a", ".b", ".missing", "['a']", "", "|string", ".a|default(1)", " is mapping", "[0]", "|length")
        if self.called:
            return self.pick("varargs", "kwargs", "caller()", "varargs|length", "caller is defined", "kwargs.a", "caller(1)")
        return self.name()

    RULES = ([e_literal] * 4 + [e_name] * 4 + [e_binary] * 3 + [e_compare] * 2 + [e_logic] * 2 + [e_conditional] * 2 + [e_unary] + [e_attribute] * 4 +
             [e_slice] * 2 + [e_list] * 2 + [e_test] * 3 + [e_method] * 4 + [e_filter] * 7 + [e_format] * 3 + [e_call] * 2 + [e_special] * 2)

    # --- Statements ---

    def tag(self, text):
        return "{%" + self.pick("", "", "", "-", "+") + " " + text + " " + self.pick("", "", "", "-", "+") + "%}"

    def output(self):
        return "{{" + self.pick("", "", "-") + " " + self.e(self.pick(1, 2, 2, 3)) + " " + self.pick("", "", "-") + "}}"

    def text(self):
        return self.pick("a", "\n", "  ", " b\n", "\n  ", "<|x|>", "\n\n", "é ", "} ", "# ", "\t", "t\r\n", "a\n", "x", " { ")

    def body(self, size=3):
        out = ""
        outer = list(self.scope), list(self.macros), list(self.namespaces)
        for _ in range(self.random.randrange(1, size + 1)):
            out += self.statement()
        self.scope, self.macros, self.namespaces = outer
        return out

    def statement(self):
        if not self.spend():
            return self.text()
        return self.random.choice(self.STATEMENTS)(self)

    def s_if(self):
        out = self.tag(f"if {self.e()}") + self.body()
        while self.chance(.3):
            out += self.tag(f"elif {self.e()}") + self.body()
        if self.chance(.4):
            out += self.tag("else") + self.body()
        return out + self.tag("endif")

    def s_for(self):
        if self.chance(.3):
            target, names = self.pick(("k, v", ["k", "v"]), ("(k, v)", ["k", "v"]), ("k, (v, w)", ["k", "v", "w"]), ("k, v, w", ["k", "v", "w"]))
            iterable = self.pick("d.items()", "nested.items()", "d|dictsort", "items", "[(1, 2), (3, 4)]", "['ab', 'cd']", "d|items", "items|groupby(0)", self.sequence())
        else:
            target, names = "i", ["i"]
            iterable = self.pick("messages", "items", "ints", "words", self.sequence(), self.sequence())
        outer = list(self.scope)
        self.scope += names * 2
        condition = f" if {self.e()}" if self.chance(.25) else ""
        recursive = self.chance(.08)
        self.loops += 1
        body = self.body()
        if recursive:
            body += "{{ loop(" + self.pick("i", "[1]", "i.a", "ints[1:]") + ") if loop.depth < 3" + self.pick("", " and i is iterable and i is not string") + " }}"
        self.loops -= 1
        self.scope = outer
        other = self.tag("else") + self.body(1) if self.chance(.25) else ""
        return self.tag(f"for {target} in {iterable}{condition}{' recursive' if recursive else ''}") + body + other + self.tag("endfor")

    def s_control(self):
        if not self.loops:
            return self.output()
        return self.tag(f"if {self.e(1)}") + self.tag(self.pick("break", "continue")) + self.tag("endif")

    def s_set(self):
        r = self.random.random()
        name = self.pick("x", "y", "q", "w", "t")
        if r < .55:
            out = self.tag(f"set {name} = {self.e(3)}")
        elif r < .65:
            out = self.tag(f"set {name}, q = {self.pick(self.e(1) + ', ' + self.e(1), self.sequence())}")
        elif r < .8:
            body = self.body()
            out = self.tag(f"set {name}" + self.pick("", "", " | upper", " | trim | length", " | replace('a', 'b')")) + body + self.tag("endset")
        elif r < .8 + .15 * bool(self.namespaces):
            return self.tag(f"set {self.random.choice(self.namespaces)}.{self.pick('a', 'b')} = {self.e()}")
        elif self.chance(.8):
            out = self.tag(f"set {name} = {self.name()}")
        else:
            return self.tag(f"set {self.pick('x.a', 'd.a', 'unknown.b')} = 1")
        self.scope.append(name)
        return out

    def s_namespace(self):
        name = self.pick("ns", "state")
        out = self.tag(f"set {name} = namespace({self.pick('', 'a=1', 'a=[], b=x', 'd', 'a=none')})")
        if name not in self.namespaces:
            self.namespaces.append(name)
        return out

    def s_macro(self):
        name = self.pick("m", "show", "item")
        parameters = self.random.sample(["a", "b", "c"], self.random.randrange(4))
        shown, defaults = [], False
        for parameter in parameters:
            defaults = defaults or self.chance(.3)
            shown.append(f"{parameter}={self.pick(self.e(1), 'a', '1')}" if defaults else parameter)
        outer = list(self.scope), self.loops
        self.scope += parameters * 2
        self.loops = 0
        self.called += 1
        body = self.body()
        self.called -= 1
        self.scope, self.loops = outer
        self.macros.append((name, parameters))
        return self.tag(f"macro {name}({', '.join(shown)})") + body + self.tag("endmacro")

    def s_call(self):
        if not self.macros:
            return self.s_macro()
        loops, self.loops = self.loops, 0
        outer = list(self.scope)
        parameters = self.pick("", "", "(k)", "(k, v=1)", "()")
        self.scope += ["k"] if "k" in parameters else []
        self.called += 1
        body = self.body(2)
        self.called -= 1
        self.scope, self.loops = outer, loops
        return self.tag(f"call{parameters} {self.macro_call()}") + body + self.tag("endcall")

    def s_filter(self):
        return self.tag("filter " + self.pick("upper", "trim", "indent(2)", "replace('a', 'b')", "title|trim", "length", "string|lower", "default('q')", "list|join('.')")) + \
            self.body(2) + self.tag("endfilter")

    def s_with(self):
        outer = list(self.scope)
        head = self.pick(f"with q = {self.e(1)}", f"with q = {self.e(1)}, w = {self.e(1)}", "with")
        self.scope += ["q", "w"]
        body = self.body(2)
        self.scope = outer
        return self.tag(head) + body + self.tag("endwith")

    def s_generation(self):
        loops, self.loops = self.loops, 0
        body = self.body(2)
        self.loops = loops
        return self.tag("generation") + body + self.tag("endgeneration")

    def s_raw(self):
        return self.pick("{% raw %}", "{%- raw -%}", "{% raw -%}") + self.pick("{{ x }}", " {% if %} \n", "\n a {# b", "") + \
            self.pick("{% endraw %}", "{%- endraw -%}", "{%- endraw +%}", "{% endraw -%}")

    def s_comment(self):
        return self.pick("{# c #}", "{#- c -#}", "{# {{ x }} #}\n", "{#- c #}", "{# c +#}\n", "{#+ c #}", "{#-#}")

    def s_unknown(self):
        return self.pick("{% if false %}{{ x|nofilter }}{% endif %}", "{{ (x|from_json) if x is string and false else '.' }}", "{% if x is notest %}a{% endif %}", "{{ x|nofilter }}",
                         "{% if none %}{% for i in ints %}{{ i|nofilter }}{% endfor %}{% endif %}", "{{ 'a' if true or x is notest else 'b' }}", "{% set q = x|nofilter if false else 1 %}{{ q }}")

    def s_broken(self):
        return self.pick("{% endif %}", "{{ }}", "{{ 1 + }}", "{% for %}{% endfor %}", "{% if x %}", "{{ x ! }}", "{% set 1 = 2 %}", "{{ 'a }}", "{% else %}", "{{ [1, }}", "{{ f(a=1, 2) }}",
                         "{{ f(a=1, a=2) }}", "{% macro m(a, a) %}{% endmacro %}", "{% break %}", "{{ x is defined is defined }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% do x %}",
                         "{{ x if }}", "{% set true = 1 %}", "{{ 01 }}", "{{ 1__0 }}", "{% call x %}{% endcall %}", "{% unknown %}", "{{ x.y.z }}", "{{ x is defined if y }}", "{{ (1, 2 }}")

    STATEMENTS = ([text] * 5 + [output] * 14 + [s_if] * 4 + [s_for] * 5 + [s_control] * 2 + [s_set] * 5 + [s_namespace] * 2 + [s_macro] * 2 + [s_call] * 2 + [s_filter] +
                  [s_with] + [s_generation] + [s_raw] + [s_comment] * 2)

    def template(self):
        out = ""
        for _ in range(self.random.randrange(1, 5)):
            out += self.statement()
        if self.chance(.04):
            out += self.s_unknown()
        if self.chance(.02):
            out += self.s_broken()
        return out

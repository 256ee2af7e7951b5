// Tests of the limits of a rendering: each operation on values that share their parts, and each
// copy, ends with an error that says which bound it passed.
#include "workers/tokenizer/jinja/jinja_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "workers/tokenizer/jinja/jinja_text.h"
#include "workers/tokenizer/templates/jinja_template.h"

namespace baton::tokenizer::jinja {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr char kSteps[] = "more than two million steps";
constexpr char kMemory[] = "values take more than 256 MiB";
constexpr char kText[] = "more than 16 MiB of text";

/// The error's message; "" without one.
std::string RefusalOf(absl::string_view source) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) return std::string(parsed.status().message());
  const absl::Status status = parsed->Render({}).status();
  if (!status.ok()) EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  return std::string(status.message());
}

/// Under a sanitizer a rendering that spends all takes seconds, so a part of them must do.
bool Chosen() {
#ifdef BATON_SANITIZED
  static int asked = 0;
  return asked++ % 8 == 0;
#else
  return true;
#endif
}

std::string Times(int count, absl::string_view body) {
  return absl::StrCat("{% for i in range(", count, ") %}", body, "{% endfor %}");
}

/// `n.v` and `n.w`: equal, and neither shares a part with the other. Each holds one value twice,
/// which holds one twice, 2^60 in all.
std::string Doubled(absl::string_view v_of_v, absl::string_view w_of_w) {
  return absl::StrCat(
      "{% set n = namespace(v=1, w=1) %}",
      Times(60, absl::StrCat("{% set n.v = ", v_of_v, " %}{% set n.w = ", w_of_w, " %}")));
}

/// Spends most of the steps in no time: each reading of so long a text spends 15,625.
std::string MostIsSpent() {
  return "{% set spent = 'a' * 16000000 %}" + Times(95, "{% set z = spent.startswith('b') %}");
}

TEST(JinjaBudget, BoundsEveryWalkOverSharedLists) {
  const std::string lists = Doubled("[n.v, n.v]", "[n.w, n.w]");
  const std::string tuples = Doubled("(n.v, n.v)", "(n.w, n.w)");
  for (const char* made : {"n.v == n.w",
                           "n.v != n.w",
                           "n.v < n.w",
                           "n.v <= n.w",
                           "n.v > n.w",
                           "n.v >= n.w",
                           "n.v in [n.w]",
                           "n.v not in [n.w]",
                           "n.v is eq n.w",
                           "n.v is ne n.w",
                           "n.v is lt n.w",
                           "n.v is ge n.w",
                           "n.v is in [n.w]",
                           "n.v",
                           "n.v | string",
                           "n.v ~ n.w",
                           "n.v | tojson",
                           "n.v | tojson(indent=4)",
                           "[n.v, n.w] | sort",
                           "[n.v, n.w] | unique",
                           "[n.v, n.w] | min",
                           "[n.v, n.w] | max",
                           "{'a': n.v, 'b': n.w} | dictsort(by='value')",
                           "[{'a': n.v}, {'a': n.w}] | sort(attribute='a')",
                           "[{'a': n.v}, {'a': n.w}] | unique(attribute='a')",
                           "[n.v, n.w] | join",
                           "[n.v] | select('eq', n.w) | list",
                           "[n.v] | reject('in', [n.w]) | list",
                           "[{'a': n.v}] | selectattr('a', 'eq', n.w) | list",
                           "[n.v] | map('string') | list",
                           "[n.v] | map('tojson') | list",
                           "n.v | replace('1', '2')",
                           "n.v | trim",
                           "n.v | upper",
                           "n.v | title",
                           "n.v | indent",
                           "n.v is upper",
                           "raise_exception(n.v)"}) {
    for (const std::string& values : {lists, tuples}) {
      if (!Chosen()) continue;
      EXPECT_THAT(RefusalOf(MostIsSpent() + values + "{{ " + made + " }}"),
                  AnyOf(HasSubstr(kSteps), HasSubstr(kText)))
          << made;
    }
  }
  const std::string dicts = Doubled("{'a': n.v, 'b': n.v}", "{'a': n.w, 'b': n.w}");
  for (const char* made : {"n.v == n.w", "n.v", "n.v | tojson", "n.v | tojson(sort_keys=true)",
                           "[n.v] | unique == [n.w]", "n.v.values() == n.w.values()",
                           "n.v.items() | list == n.w.items() | list", "dict(n.v) == dict(n.w)",
                           "n.v | dictsort == n.w | dictsort"}) {
    if (!Chosen()) continue;
    EXPECT_THAT(RefusalOf(MostIsSpent() + dicts + "{{ " + made + " }}"),
                AnyOf(HasSubstr(kSteps), HasSubstr(kText)))
        << made;
  }
}

// A million times something that costs its size each time.
TEST(JinjaBudget, EveryWalkOverALongValueSpends) {
  const std::string text = "{% set x = 'a' * 16000000 %}{% set y = 'a' * 15999999 ~ 'b' %}";
  for (const char* made : {"x | length",
                           "x | upper",
                           "x is upper",
                           "x.isalpha()",
                           "x.strip('b')",
                           "x.strip('a')",
                           "x.split()",
                           "x.split('b')",
                           "x.rsplit('b')",
                           "x.splitlines()",
                           "x.replace('b', 'c')",
                           "x.count('b')",
                           "x.find('b')",
                           "x.rfind('b')",
                           "'b' in x",
                           "y in x",
                           "x.find(y[1:])",
                           "x.rfind('b' ~ x[1:])",
                           "x.startswith(x)",
                           "x.endswith(x)",
                           "x.removeprefix('b')",
                           "x == y",
                           "x < y",
                           "x[1:]",
                           "x[-1]",
                           "x[15999999]",
                           "x ~ ''",
                           "x + ''",
                           "x | int",
                           "x | float",
                           "x | tojson",
                           "[x] | string",
                           "x | trim",
                           "x | string",
                           "x | list",
                           "x | first ~ x[5000000]",
                           "x | reverse",
                           "x[::-1]",
                           "x[::2]",
                           "[x] | join",
                           "''.join([x])",
                           "x | indent",
                           "x.swapcase()",
                           "x.casefold()",
                           "x.title()",
                           "x | title",
                           "x.istitle()",
                           "x.partition('b')",
                           "x.rpartition('b')",
                           "x.rsplit(none, 1)",
                           "x.expandtabs()",
                           "x.index('a', 5)",
                           "x.zfill(9)",
                           "x | wordcount",
                           "x | urlencode",
                           "x | truncate(9, true)",
                           "'%s' % x",
                           "x % ()",
                           "'{}'.format(x)",
                           "x.format()",
                           "'{:>5}'.format(x)",
                           "{x: 1}[x]",
                           "{}[x] is defined",
                           "[x, y] | sort",
                           "[x, y] | unique"}) {
    if (!Chosen()) continue;
    EXPECT_THAT(
        RefusalOf(MostIsSpent() + text + Times(100000, absl::StrCat("{% set z = ", made, " %}"))),
        AnyOf(HasSubstr(kSteps), HasSubstr(kMemory)))
        << made;
  }
  const std::string list = "{% set x = [1] * 200000 %}";
  for (const char* made : {"x | list",
                           "x[1:]",
                           "x[::-1]",
                           "x + [1]",
                           "x | reverse",
                           "x | sum",
                           "x | min",
                           "2 in x",
                           "x == x",
                           "x < x",
                           "x | map('abs') | list",
                           "x | select | list",
                           "x | join",
                           "x | string",
                           "x | tojson",
                           "[1] * 200000",
                           "range(100000)",
                           "x | unique",
                           "x | sort",
                           "x | batch(9) | list",
                           "x | slice(9) | list",
                           "x | groupby(0, default=1)",
                           "x.index(2) if 2 in x",
                           "x.count(2)",
                           "x | map('default') | join",
                           "range(100000) | join",
                           "range(100000) | sum",
                           "x | reverse | first",
                           "'%s' % (x,)",
                           "dict.fromkeys(x)",
                           "dict(a=x).items() | list + x"}) {
    if (!Chosen()) continue;
    EXPECT_THAT(
        RefusalOf(MostIsSpent() + list + Times(100000, absl::StrCat("{% set z = ", made, " %}"))),
        AnyOf(HasSubstr(kSteps), HasSubstr(kMemory)))
        << made;
  }
  // A short subscript costs nothing of the list.
  EXPECT_EQ(RefusalOf(list + Times(50000, "{% set z = x[i] %}")), "");
}

TEST(JinjaBudget, NamesAndParametersSpend) {
  std::string names, given, tags, ends;
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&names, i == 0 ? "a" : ",a", i);
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&given, i == 0 ? "a" : ",a", i, "=1");
  for (int i = 0; i < 190; ++i)
    absl::StrAppend(&tags, "{% for a in [1] %}"), ends += "{% endfor %}";
  const std::string macro = absl::StrCat("{% macro m(", names, ") %}{% endmacro %}");
  const std::string dict = absl::StrCat("{% set d = dict(", given, ") %}");
  EXPECT_THAT(RefusalOf(macro + Times(100000, "{{ m() }}")), HasSubstr(kSteps));
  EXPECT_THAT(RefusalOf(macro + Times(100000, absl::StrCat("{{ m(", given, ") }}"))),
              HasSubstr(kSteps));
  EXPECT_THAT(RefusalOf(dict + Times(100000, "{% set z = d.nothing %}")), HasSubstr(kSteps));
  EXPECT_THAT(RefusalOf(dict + "{% set e = dict(d) %}" + Times(10000, "{% set z = d == e %}")),
              HasSubstr(kSteps));
  EXPECT_THAT(RefusalOf(tags + Times(100000, "{% set z = y %}{% set z = y %}") + ends),
              HasSubstr(kSteps));
  // The name of what is undefined is kept for messages, not all of it.
  EXPECT_EQ(RefusalOf("{% set y = 'y' * 1000000 %}{% set z = [{}[y]] * 200000 %}"), "");
  EXPECT_THAT(
      std::string(Template::Parse("{{ {}['y' * 1000000].z }}")->Render({}).status().message()),
      HasSubstr("'" + std::string(64, 'y') + "…' is undefined"));
}

// Scopes copy the names of their variables: 100,000 macros of a name of 500 kB would take 50 GB.
TEST(JinjaBudget, NamesAreBounded) {
  const std::string name(1000, 'y');
  EXPECT_EQ(RefusalOf(absl::StrCat("{% set ", name, " = 1 %}{{ ", name, " }}")), "");
  for (const char* use : {"{% macro y$() %}{% endmacro %}", "\n{{ y$ }}", "{{ x.y$ }}",
                          "{{ f(y$=1) }}", "{% set y$ = 1 %}", "{{ x | y$ }}"}) {
    EXPECT_THAT(RefusalOf(absl::StrReplaceAll(use, {{"$", name}})),
                HasSubstr("a name has more than 1000 bytes"))
        << use;
  }
}

TEST(JinjaBudget, NamedArgumentsAreBounded) {
  const std::string macro = "{% macro f() %}{{ kwargs | length }}{% endmacro %}";
  EXPECT_EQ(RefusalOf(macro + "{{ f(**{'x' * 1000: 1}) }}"), "");
  EXPECT_THAT(RefusalOf(macro + "{{ f(**{'x' * 1001: 1}) }}"), HasSubstr("named arguments"));
  const std::string many =
      "{% set n = namespace(pairs=[]) %}{% for i in range($) %}"
      "{% set n.pairs = n.pairs + [['x' ~ i, i]] %}{% endfor %}{{ f(**dict(n.pairs)) }}";
  EXPECT_EQ(RefusalOf(macro + absl::StrReplaceAll(many, {{"$", "1000"}})), "");
  EXPECT_THAT(RefusalOf(macro + absl::StrReplaceAll(many, {{"$", "1001"}})),
              HasSubstr("named arguments"));
}

/// `count` times `part`, each $ in it the number of the time.
std::string Numbered(int count, absl::string_view part) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&out, absl::StrReplaceAll(part, {{"$", absl::StrCat(i)}}));
  }
  return out;
}

std::string Nested(int depth, absl::string_view begin, absl::string_view inside,
                   absl::string_view end) {
  return absl::StrCat(Numbered(depth, begin), inside, Numbered(depth, end));
}

// In some tenths of a second each. What costs the square of the size, or of the depth, takes
// minutes.
TEST(JinjaBudget, ReadsTemplatesOfAMebibyteInNoLongTime) {
#ifdef BATON_SANITIZED
  constexpr int kPart = 10;
#else
  constexpr int kPart = 1;
#endif
  const std::string names = Numbered(100000 / kPart, "{{a$}}");
  const std::string ones = Numbered(200000 / kPart, "1,");
  for (const std::string& source :
       {Nested(190, "{%if b$%}", names, "{%endif%}"),
        Nested(190, "{%if b$%}{%set c$=1%}{%else%}", names, "{%set d$=1%}{%endif%}"),
        Nested(190, "{%if b$%}{%elif c$%}", names, "{%endif%}"),
        Nested(190, "{%for b$ in c%}", names, "{%endfor%}"),
        Nested(190, "{%call b$()%}", names, "{%endcall%}"),
        Nested(190, "{%generation%}", names, "{%endgeneration%}"),
        Nested(90, "{%set b$%}{%if c$%}", names, "{%endif%}{%endset%}"),
        absl::StrCat("{%if 1%}", Numbered(30000 / kPart, "{%elif a$%}{%set b$=1%}"), "{%endif%}"),
        absl::StrCat("{%macro m(", Numbered(100000 / kPart, "a$,"), "b)%}{%endmacro%}"),
        absl::StrCat("{{f(", Numbered(100000 / kPart, "a$=1,"), "b=1)}}"),
        absl::StrCat("{{", Nested(60, "-2**(", "[" + ones + "1]", ")"), "}}"),
        absl::StrCat("{{{", Numbered(100000 / kPart, "a$:1,"), "b:1}}}")}) {
    EXPECT_EQ(Template::Parse(source).status(), absl::OkStatus()) << source.substr(0, 40);
  }
}

TEST(JinjaBudget, EmptyIndentsCostNothing) {
  // An indent for each of the 190 levels around 200,000 items, a hundred times.
  EXPECT_THAT(
      RefusalOf("{% set n = namespace(v=[1] * 200000) %}" + Times(190, "{% set n.v = [n.v] %}") +
                Times(100, "{% set z = n.v | tojson(indent=0) %}")),
      HasSubstr(kSteps));
}

TEST(JinjaBudget, BoundsTheMemoryOfATemplate) {
  for (const std::string& source : {
           // Lists, dicts and their keys, texts.
           "{% set n = namespace(v=[]) %}{% set l = [1] * 200000 %}" +
               Times(100, "{% set n.v = n.v + [l + []] %}"),
           "{% set n = namespace(v=[]) %}{% set x = 'a' * 4000000 %}" +
               Times(200, "{% set n.v = n.v + [{x ~ i: 1}] %}"),
           "{% set n = namespace(v=[]) %}{% set x = 'a' * 4000000 %}" +
               Times(200, "{% set n.v = n.v + [x ~ i] %}"),
           // The texts of macros that are under way.
           std::string("{% macro m(k) %}{{ 'a' * 8000000 }}{{ m(k - 1) if k }}{% endmacro %}"
                       "{{ m(100) }}"),
           // Scopes that stay for the macros that were made in them.
           Times(100000, Times(1000, "{% macro m() %}{% endmacro %}")),
           // Memory that an operation uses on its way.
           std::string("{% for c in 'a' * 16000000 %}{% endfor %}"),
           std::string("{{ ('a ' * 8000000).split() | length }}"),
       }) {
    EXPECT_THAT(RefusalOf(source), AnyOf(HasSubstr(kMemory), HasSubstr(kSteps))) << source;
  }
  // 360 MB at a time are too much (18 times 20: a text that grows has room), one after the other
  // they are not.
  const std::string keep = "{% set n = namespace(v=[]) %}{% set x = 'a' * 10000000 %}";
  EXPECT_THAT(RefusalOf(keep + Times(18, "{% set n.v = n.v + [x ~ i] %}")), HasSubstr(kMemory));
  EXPECT_EQ(RefusalOf(keep + Times(10, "{% set n.v = n.v + [x ~ i] %}")), "");
  EXPECT_EQ(RefusalOf(keep + Times(30, "{% set n.v = [x ~ i] %}")), "");
}

TEST(JinjaBudget, TheSourceIsBounded) {
  EXPECT_EQ(RefusalOf(std::string(1 << 20, 'a')), "");
  EXPECT_EQ(Template::Parse(std::string((1 << 20) + 1, 'a')).status().message(),
            "the template has 1048577 bytes, more than 1048576");
}

// Three million steps are too many, one is not.
TEST(JinjaBudget, StepsAreBounded) {
  EXPECT_EQ(RefusalOf("\n" + Times(1000, Times(3000, ""))),
            "line 2: the template takes more than two million steps");
  EXPECT_EQ(RefusalOf(Times(100, Times(3000, ""))), "");
  // The budget is of each rendering by itself.
  const auto parsed = Template::Parse(Times(100, Times(3000, "")));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(parsed->Render({}).ok());
}

TEST(JinjaBudget, PartsAreFoundWhereTheStandardLibraryFindsThem) {
  std::mt19937 random(3);
  const auto letters = [&](size_t length) {
    std::string out;
    while (out.size() < length) out += static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::string text = letters(random() % 24), part = letters(random() % 6);
    const size_t from = random() % 26;
    ASSERT_EQ(FindPart(text, part, from), text.find(part, from)) << text << " " << part;
    ASSERT_EQ(LastPart(text, part), text.rfind(part)) << text << " " << part;
  }
}

TEST(JinjaBudget, CharactersAreStrippedFromBothEndsAlike) {
  // Characters of one to four bytes, and bytes that are none.
  const std::string pieces[] = {"a",          " ",    "\u00e9",   "\u3000",
                                "\U0001f600", "\x82", "\xe3\x80", "\xff"};
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string text, set;
    for (size_t k = random() % 6; k > 0; --k) text += pieces[random() % std::size(pieces)];
    for (size_t k = random() % 3; k > 0; --k) set += pieces[random() % std::size(pieces)];
    const auto goes = [&set](absl::string_view character) {
      for (const TextRange& range : Characters(set)) {
        if (absl::string_view(set).substr(range.begin, range.end - range.begin) == character) {
          return true;
        }
      }
      return false;
    };
    size_t first = std::string::npos, last = 0;
    for (const TextRange& range : Characters(text)) {
      if (goes(absl::string_view(text).substr(range.begin, range.end - range.begin))) continue;
      first = std::min(first, range.begin);
      last = range.end;
    }
    const std::string expected = first == std::string::npos ? "" : text.substr(first, last - first);
    ASSERT_EQ(Strip(RenderedText(text), Side::kBoth, set).text(), expected) << text << "|" << set;
  }
}

}  // namespace
}  // namespace baton::tokenizer::jinja

#include "workers/tokenizer/templates/jinja_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace baton::tokenizer::jinja {
namespace {

using testing::HasSubstr;
using OrderedJson = nlohmann::ordered_json;

OrderedJson ReadTestdata(const std::string& name) {
  const char* root = std::getenv("BATON_SOURCE_DIR");
  std::ifstream in(std::string(root == nullptr ? "." : root) + "/workers/tokenizer/testdata/" +
                   name);
  return OrderedJson::parse(in);
}

Variables ToVariables(const OrderedJson& json) {
  Variables variables;
  for (const auto& [name, value] : json.items()) variables[name] = Value::FromJson(value);
  return variables;
}

/// The text, or the error's message.
std::string Rendered(absl::string_view source,
                     const OrderedJson& variables = OrderedJson::object()) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) return std::string(parsed.status().message());
  const auto text = parsed->Render(ToVariables(variables));
  return text.ok() ? text->text() : std::string(text.status().message());
}

/// The template's own parts in brackets.
std::string Origins(const RenderedText& text) {
  std::string out;
  size_t done = 0;
  for (const TextRange& range : text.template_ranges()) {
    out += text.text().substr(done, range.begin - done);
    out += "[" + text.text().substr(range.begin, range.end - range.begin) + "]";
    done = range.end;
  }
  return out + text.text().substr(done);
}

std::string OriginsOf(absl::string_view source) {
  const auto text = Template::Parse(source)->Render(
      ToVariables({{"x", " a<b>\"c "}, {"tags", {"<i>", "j"}}, {"d", {{"<k>", "<v>"}}}}));
  return text.ok() ? Origins(*text) : std::string(text.status().message());
}

TEST(JinjaTemplate, RendersAsJinja2Does) {
  const OrderedJson golden = ReadTestdata("jinja_golden.json");
  const Variables variables = ToVariables(golden["data"]);
  ASSERT_GT(golden["cases"].size(), 40u);
  for (const auto& item : golden["cases"]) {
    const auto source = item["source"].get<std::string>();
    const auto parsed = Template::Parse(source);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << " in " << source;
    const auto text = parsed->Render(variables);
    ASSERT_TRUE(text.ok()) << text.status() << " in " << source;
    EXPECT_EQ(text->text(), item["text"].get<std::string>()) << source;
  }
}

// What compare_jinja.py and hands found: each template with three sets of variables, and what
// jinja2 makes of it in the sandbox of transformers (make_template_cases.py); null: it refuses.
TEST(JinjaTemplate, MakesOfEachConstructWhatJinja2Makes) {
  const OrderedJson golden = ReadTestdata("template_cases.json");
  std::vector<Variables> sets;
  for (const OrderedJson& set : golden["sets"]) sets.push_back(ToVariables(set));
  ASSERT_GT(golden["cases"].size(), 200u);
  for (const auto& item : golden["cases"]) {
    const auto source = item["source"].get<std::string>();
    const auto parsed = Template::Parse(source);
    for (size_t i = 0; i < sets.size(); ++i) {
      const OrderedJson& expected = item["texts"][i];
      const auto text = parsed.ok() ? parsed->Render(sets[i]) : parsed.status();
      ASSERT_EQ(text.ok(), !expected.is_null()) << text.status() << " in " << source;
      if (text.ok()) EXPECT_EQ(text->text(), expected.get<std::string>()) << source;
    }
  }
}

// A filter or a test that does not exist is an error when it is reached, where a condition stands
// around it; else at once.
TEST(JinjaTemplate, RefusesAnUnknownFilterWhereItIsReached) {
  const std::string source =
      "{% for m in messages %}{% if m.args is string %}{{ m.args | fromjson }}{% endif %}"
      "{{ m.content }}{% endfor %}{{ (x | from_json) if x is string else '.' }}";
  const OrderedJson hi = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  EXPECT_EQ(Rendered(source, hi), "hi.");
  OrderedJson text = hi;
  text["x"] = "a";
  EXPECT_EQ(Rendered(source, text), "line 1: the filter 'from_json' is not supported");
  EXPECT_EQ(Rendered("{% if false %}{% for i in [] %}{{ i | fromjson }}{% endfor %}{% endif %}"),
            "line 1: the filter 'fromjson' is not supported");
  EXPECT_EQ(Rendered("{{ 'a' if true else 'b' is loud }}"), "a");
  EXPECT_EQ(Rendered("{{ 'a' is loud }}"), "line 1: the test 'is loud' is not supported");
}

// A message's text stays content, whatever the template does with it.
TEST(JinjaTemplate, EveryByteKnowsItsOrigin) {
  EXPECT_EQ(OriginsOf("<s>{{ x }}</s>"), "[<s>] a<b>\"c [</s>]");
  EXPECT_EQ(OriginsOf("{{ '<s>' + x | trim + '</s>' }}"), "[<s>]a<b>\"c[</s>]");
  EXPECT_EQ(OriginsOf("{{ x.split('<b>')[1] ~ '!' }}"), "\"c [!]");
  EXPECT_EQ(OriginsOf("{{ x[1:3] }}{{ x[::-1][1] }}"), "a<c");
  EXPECT_EQ(OriginsOf("{{ x.replace('b', '<i>') }}"), " a<[<i>]>\"c ");
  EXPECT_EQ(OriginsOf("{{ x | upper }}{{ 'y' | upper }}"), " A<B>\"C [Y]");
  EXPECT_EQ(OriginsOf("{{ tags | join('|') }}"), "<i>[|]j");
  EXPECT_EQ(OriginsOf("{{ x | tojson }}"), "[\"] a<b>\\\"c [\"]");
  EXPECT_EQ(OriginsOf("{{ d | tojson }}"), "[{\"]<k>[\": \"]<v>[\"}]");
  EXPECT_EQ(OriginsOf("{{ d }}"), "[{']<k>[': ']<v>['}]");
  EXPECT_EQ(OriginsOf("{% set y %}<{{ x }}>{% endset %}{{ y }}"), "[<] a<b>\"c [>]");
  EXPECT_EQ(OriginsOf("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(x) | trim }}"),
            "[<] a<b>\"c [>]");
  EXPECT_EQ(OriginsOf("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}"), "<k>[=]<v>");
  EXPECT_EQ(OriginsOf("{{ 'a<b>' if '<b>' in x }}"), "[a<b>]");
  EXPECT_EQ(OriginsOf("{{ '<%s>' % x }}{{ '%d' % 12 }}"), "[<] a<b>\"c [>12]");
  EXPECT_EQ(OriginsOf("{{ '<{:>9}>'.format(x) }}{{ x.format() }}"), "[< ] a<b>\"c [>] a<b>\"c ");
  EXPECT_EQ(OriginsOf("{{ '<{a!r}>'.format(a=tags) }}"), "[<[']<i>[', ']j[']>]");
  EXPECT_EQ(OriginsOf("{{ x.partition('<')[1] }}{{ x.partition('<')[2] }}"), "[<]b>\"c ");
  EXPECT_EQ(OriginsOf("{{ 'ß' | upper }}{{ (x ~ 'ß') | upper }}"), "[SS] A<B>\"C [SS]");
  EXPECT_EQ(OriginsOf("{{ x.center(9, '*') }}{{ x | title }}"), "[*] a<b>\"c  A<B>\"c ");
  EXPECT_EQ(
      OriginsOf("{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}{{ x }}{% endcall %}"),
      "[<] a<b>\"c [>]");
  EXPECT_EQ(OriginsOf("{% filter upper %}<{{ x }}>{% endfilter %}"), "[<] A<B>\"C [>]");
  EXPECT_EQ(OriginsOf("{% for t in tags recursive %}<{{ t }}>{% endfor %}"), "[<]<i>[><]j[>]");
  EXPECT_EQ(OriginsOf("{{ tags | map('upper') | join }}{{ tags | batch(1) | first }}"),
            "<I>J[[']<i>[']]");
}

TEST(JinjaTemplate, SlicesOfRangesStayWithin64Bits) {
  EXPECT_EQ(Rendered("{{ range(0, 10, 3)[::4611686018427387904] | list }}"), "[0]");
  EXPECT_EQ(Rendered("{{ range(0, 10, 3)[1::2] | list }}"), "[3, 9]");
  EXPECT_EQ(Rendered("{{ range(0, 6000000000000000000, 4000000000000000000)[::2] | list }}"),
            "[0]");
  EXPECT_THAT(Rendered("{{ range(0, 6000000000000000000, 5000000000000000000)[::2] | list }}"),
              HasSubstr("beyond 64 bits"));
}

TEST(JinjaTemplate, NamesTheLineOfWhatIsWrong) {
  EXPECT_EQ(Rendered("a\n{% if x %}"), "line 2: the tag before this line has no {% endif %}");
  EXPECT_EQ(Rendered("a\n\n{{ x"), "line 3: a tag has no }}");
  EXPECT_EQ(Rendered("{# x"), "line 1: a comment that begins with {# has no #}");
  EXPECT_EQ(Rendered("{% raw %}"), "line 1: {% raw %} has no {% endraw %}");
  EXPECT_EQ(Rendered("\n{{ 1 + }}"), "line 2: expected an expression and found }}");
  EXPECT_EQ(Rendered("{{ 'a }}"), "line 1: a string has no closing quote");
  EXPECT_EQ(Rendered("{% endif %}"), "line 1: there is no tag {% endif %} here");
  EXPECT_EQ(Rendered("{% break %}"), "line 1: {% break %} stands outside of a loop");
  EXPECT_EQ(Rendered("{{ a ! b }}"), "line 1: '!' is no part of Jinja");
  EXPECT_EQ(Rendered("{{ x) }}"), "line 1: ')' closes nothing");
  EXPECT_EQ(Rendered("a\n{{ x.y.z }}", {{"x", OrderedJson::object()}}), "line 2: 'y' is undefined");
  EXPECT_EQ(Rendered("{{ 'a' + n }}", {{"n", 1}}), "line 1: + needs a string and got an int");
  EXPECT_EQ(Rendered("{{ 'a' + m }}"), "line 1: +: 'm' is undefined");
  EXPECT_EQ(Rendered("{{ 1 / 0 }}"), "line 1: division by zero");
  EXPECT_EQ(Rendered("\n\n{{ raise_exception('Roles must alternate') }}"),
            "line 3: the template refuses it: Roles must alternate");
  EXPECT_EQ(Rendered("{{ raise_exception('x' * 2000) }}"),
            "line 1: the template refuses it: " + std::string(1008, 'x') + "… (2000 bytes)");
}

TEST(JinjaTemplate, NamesWhatItDoesNotHave) {
  const auto unsupported = [](absl::string_view source) {
    const auto parsed = Template::Parse(source);
    const absl::Status status = parsed.ok() ? parsed->Render({}).status() : parsed.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << source;
    return std::string(status.message());
  };
  EXPECT_THAT(unsupported("\n{% include 'x' %}"),
              HasSubstr("line 2: the tag {% include %} is not"));
  EXPECT_EQ(unsupported("{{ x | xmlattr }}"), "line 1: the filter 'xmlattr' is not supported");
  EXPECT_EQ(unsupported("{{ x is loud }}"), "line 1: the test 'is loud' is not supported");
  EXPECT_THAT(unsupported("{{ 'a'.encode() }}"), HasSubstr("the method 'encode' of a string"));
  EXPECT_EQ(unsupported("{{ (-8) ** 0.5 }}"),
            "line 1: a power that is a complex number is not supported");
  EXPECT_EQ(Rendered("{{ x.append(1) }}", {{"x", {1}}}),
            "line 1: a list has no method 'append' here");
}

// The day is no part of a job.
TEST(JinjaTemplate, AsksForNoDate) {
  EXPECT_EQ(Rendered("{{ strftime_now('%Y') if strftime_now is defined else '2024' }}"), "2024");
  EXPECT_THAT(Rendered("\n{{ strftime_now('%Y') }}"),
              HasSubstr("line 2: the template asks for the day, and none is given"));
}

TEST(JinjaTemplate, BoundsWhatATemplateCosts) {
  const auto refused = [](absl::string_view source) {
    const auto parsed = Template::Parse(source);
    return parsed.ok() ? parsed->Render({}).status().code() : parsed.status().code();
  };
  const auto many = [](const std::string& part, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += part;
    return out;
  };
  constexpr auto kLimit = absl::StatusCode::kResourceExhausted;
  EXPECT_EQ(refused("{{ " + many("(", 5000) + "1" + many(")", 5000) + " }}"), kLimit);
  EXPECT_EQ(refused("{{ 1" + many(" + 1", 5000) + " }}"), kLimit);
  EXPECT_EQ(refused("{{ x" + many(".y", 5000) + " }}"), kLimit);
  EXPECT_EQ(refused("{{ x" + many("|trim", 5000) + " }}"), kLimit);
  EXPECT_EQ(refused(many("{% if 1 %}", 5000) + many("{% endif %}", 5000)), kLimit);
  EXPECT_EQ(refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), kLimit);
  EXPECT_EQ(refused("{% for i in range(2000) %}{% for j in range(2000) %}{% endfor %}{% endfor %}"),
            kLimit);
  EXPECT_EQ(refused("{{ 'a' * 99999999999 }}"), kLimit);
  EXPECT_EQ(refused("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), kLimit);
  EXPECT_EQ(
      refused("{% macro m() %}{% call m() %}{% endcall %}{{ caller }}{% endmacro %}{{ m() }}"),
      kLimit);
  EXPECT_EQ(refused("{{ '%99999999d' % 1 }}"), kLimit);
  EXPECT_EQ(refused("{{ '{:99999999}'.format(1) }}"), kLimit);
  EXPECT_EQ(refused("{{ 'a'.center(99999999) }}"), kLimit);
  EXPECT_EQ(refused("{% set x = 'abcdefgh' * 1000000 %}{{ x + x + x }}"), kLimit);
  EXPECT_EQ(refused("{{ range(1000000) }}"), kLimit);
  EXPECT_EQ(refused("{% set n = namespace() %}{% set n.n = n %}{{ n }}"), kLimit);
  EXPECT_EQ(refused("{{ 9223372036854775807 + 1 }}"), kLimit);
  EXPECT_EQ(refused("{{ -9223372036854775807 - 2 }}"), kLimit);
}

TEST(JinjaTemplate, BoundsWhatFiltersMake) {
  const auto refused = [](absl::string_view source) {
    const auto text = Template::Parse(source)->Render({});
    return std::string(text.status().message());
  };
  const std::string big = "{% set x = 'abcdefgh' * 500000 %}";  // 4 MB
  for (const char* made :
       {"{{ x | replace('a', x) }}", "{{ x.replace('', x) }}", "{{ ['', '', ''] | join(x * 3) }}",
        "{{ x.join(['', '', '', '', '', '', '']) }}",
        "{{ ('\n' * 20000) | indent(1000, true, true) }}", "{{ [x, x, x, x, x] | tojson }}",
        "{{ [x, x, x, x, x] }}"}) {
    EXPECT_THAT(refused(big + made), HasSubstr("more than 16 MiB of text")) << made;
  }
  EXPECT_THAT(refused(big + "{% set y = ([x] * 100000) | map('replace', 'a', 'b') | list %}"),
              HasSubstr("more than two million steps"));
  EXPECT_EQ(refused(big + "{% set y = x | replace('a', 'b') %}{{ [x, x] | join | length }}"), "");
}

// Values that hold one another would end one within the other, on the stack.
TEST(JinjaTemplate, BoundsHowDeepValuesAre) {
  const auto made = [](const std::string& step, int times) {
    const std::string source = "{% set n = namespace(v=1) %}{% for i in range(" +
                               std::to_string(times) + ") %}" + step + "{% endfor %}";
    return std::string(Template::Parse(source)->Render({}).status().message());
  };
  for (const char* step :
       {"{% set n.v = [n.v] %}", "{% set n.v = (n.v, 1) %}", "{% set n.v = {'a': n.v} %}",
        "{% set n.v = dict(a=n.v) %}", "{% set n.v = namespace(a=n.v) %}",
        "{% set n.v = [n.v] | map('string') %}", "{% set n.v = {1: n.v}.items() %}",
        "{% set n.v = cycler(n.v).next %}", "{% set n.v = joiner(n.v) %}",
        "{% set n.v = [1] | map('default', n.v) %}",
        "{% for x in [n.v] %}{% set n.v = loop.cycle %}{% endfor %}",
        "{% for x in [n.v] %}{% set n.v = loop %}{% endfor %}",
        "{% set n.v = [1] | batch(1, n.v) %}", "{% set n.v = [n.v] | reverse %}",
        "{% set d = {'a': n.v} %}{% set n.v = d.get %}"}) {
    EXPECT_EQ(made(step, 90), "") << step;
    EXPECT_THAT(made(step, 60000), HasSubstr("more than 200 levels deep")) << step;
  }
  // The namespaces are emptied one after the other.
  EXPECT_EQ(made("{% set d = {'f': namespace} %}{% set m = d.f() %}{% set m.v = n.v %}"
                 "{% set n.v = m %}",
                 20000),
            "");
}

TEST(JinjaTemplate, KnowsWhichNamesItMentions) {
  const auto parsed = Template::Parse("{% if tools %}{{ x.y }}{% endif %}");
  EXPECT_TRUE(parsed->Mentions("tools"));
  EXPECT_FALSE(parsed->Mentions("documents"));
}

}  // namespace
}  // namespace baton::tokenizer::jinja

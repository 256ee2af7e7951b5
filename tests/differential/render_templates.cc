// Renders the templates that compare_jinja.py writes to it, one a line, for the comparison with
// jinja2. Not part of an installation.
//
//   {"sets": [{name: value, …}, …]}     first: the variables that templates are given
//   {"source": TEMPLATE, "set": INDEX}  then, as often as one likes
//
// Answers each with a line: {"text": TEXT} or {"error": CODE, "message": …}, where CODE is the name
// of an absl::StatusCode. Strings of the variables are content, as those of messages are.
#include <iostream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "workers/tokenizer/templates/jinja_template.h"

namespace {

using OrderedJson = nlohmann::ordered_json;
using baton::tokenizer::jinja::Template;
using baton::tokenizer::jinja::Value;
using baton::tokenizer::jinja::Variables;

OrderedJson Answer(const std::string& source, const Variables& variables) {
  const auto parsed = Template::Parse(source);
  const auto text = parsed.ok() ? parsed->Render(variables) : parsed.status();
  if (text.ok()) return {{"text", text->text()}};
  return {{"error", absl::StatusCodeToString(text.status().code())},
          {"message", std::string(text.status().message())}};
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::vector<Variables> sets;
  for (std::string line; std::getline(std::cin, line);) {
    const OrderedJson request = OrderedJson::parse(line);
    if (request.contains("sets")) {
      for (const OrderedJson& set : request["sets"]) {
        Variables& variables = sets.emplace_back();
        for (const auto& [name, value] : set.items()) variables[name] = Value::FromJson(value);
      }
      continue;
    }
    const OrderedJson answer =
        Answer(request["source"].get<std::string>(), sets.at(request["set"].get<size_t>()));
    std::cout << answer.dump(-1, ' ', true, OrderedJson::error_handler_t::replace) << '\n'
              << std::flush;
  }
  return 0;
}

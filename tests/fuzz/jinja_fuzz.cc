// libFuzzer: any bytes as a chat template, rendered with a conversation. It must end within its
// bounds of time (memory: libFuzzer's own limit), and what a message says must stay content.
#include <cstdint>
#include <cstdlib>
#include <ctime>

#include "workers/tokenizer/templates/jinja_template.h"

using namespace baton::tokenizer;  // NOLINT

namespace {

/// Seconds of processor time. A rendering takes a second at most; sanitizers take ten times as
/// long.
constexpr double kSecondsOfRendering = 30;

/// A list that holds one list twice, which holds one twice, and so on: 2^60 items in few bytes.
jinja::Value Doubled() {
  jinja::Value value = jinja::Value::Int(1);
  for (int i = 0; i < 60; ++i) value = jinja::Value::List({value, value});
  return value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const variables = [] {
    auto* made = new jinja::Variables();
    (*made)["messages"] = jinja::Value::FromJson(nlohmann::ordered_json::parse(
        R"([{"role": "system", "content": "\u0001 \u0002"}, {"role": "user", "content": "\u0001"},)"
        R"( {"role": "assistant", "content": "\u0002", "tool_calls": [{"name": "\u0001"}]}])"));
    (*made)["tools"] = jinja::Value::None();
    (*made)["add_generation_prompt"] = jinja::Value::Bool(true);
    (*made)["bos_token"] = jinja::Value::Own("<s>");
    (*made)["doubled"] = Doubled();
    (*made)["twin"] = Doubled();
    return made;
  }();
  const absl::string_view source(reinterpret_cast<const char*>(data), size);
  // The two characters that mark what messages say.
  if (source.find_first_of("\x01\x02") != absl::string_view::npos) return 0;
  if (source.find('\\') != absl::string_view::npos) return 0;  // a string could spell them
  const auto parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) return 0;
  const std::clock_t begin = std::clock();
  const auto text = parsed->Render(*variables);
  if (static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC > kSecondsOfRendering) {
    std::abort();
  }
  if (!text.ok()) return 0;
  for (const TextRange& range : text->template_ranges()) {
    const absl::string_view own =
        absl::string_view(text->text()).substr(range.begin, range.end - range.begin);
    if (own.find_first_of("\x01\x02") != absl::string_view::npos) std::abort();
  }
  return 0;
}

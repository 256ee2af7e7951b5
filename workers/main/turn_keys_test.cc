// Turns with keys that are null, empty or absent: from a line of data to the prompt as transformers
// makes it (workers/tokenizer/testdata/make_chat_golden.py).
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/common/data_set/data_set.h"
#include "workers/policy/chat_messages.h"
#include "workers/tokenizer/chat/chat_template.h"
#include "workers/tokenizer/chat/model_template.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using OrderedJson = nlohmann::ordered_json;

std::string TestText(const std::string& name) {
  const char* root = std::getenv("BATON_SOURCE_DIR");
  std::ifstream in(std::string(root == nullptr ? "." : root) + "/workers/tokenizer/testdata/" +
                   name);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

// As a worker gets it: through the message that carries the prompt.
tokenizer::Chat ChatOfLine(const std::string& line) {
  const auto example = ParseExample(line, {});
  EXPECT_TRUE(example.ok()) << example.status() << line;
  if (!example.ok()) return {};
  v1::Generate sent, received;
  SetPrompt(*example, &sent);
  EXPECT_TRUE(received.ParseFromString(sent.SerializeAsString()));
  return policy::ChatOf(received.messages(), received.tools_json(),
                        received.chat_template_kwargs_json());
}

TEST(TurnKeysTest, PromptsEqualTransformers) {
  const OrderedJson golden = OrderedJson::parse(TestText("turn_golden.json"));
  int texts = 0, refusals = 0;
  for (const OrderedJson& item : golden["cases"]) {
    const auto name = item["template"].get<std::string>();
    const bool own = golden["templates"].contains(name);
    tokenizer::TemplateFiles files;
    files.chat_template_jinja = own ? golden["templates"][name].get<std::string>()
                                    : TestText("chat_templates/" + name + ".jinja");
    if (name == "headed_turns")
      files.tokenizer_config_json =
          R"({"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"})";
    if (name == "mistral_nemo") {
      files.tokenizer_config_json = R"({"bos_token": "<s>", "eos_token": "</s>"})";
    }
    const auto parsed = tokenizer::ModelTemplate::FromFiles(files);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const auto line = item["line"].get<std::string>();
    const auto text = (*parsed)->Render(ChatOfLine(line), /*add_generation_prompt=*/true);
    if (item.contains("error")) {
      ++refusals;
      EXPECT_FALSE(text.ok()) << name << " " << line << " " << text->text();
    } else {
      ++texts;
      ASSERT_TRUE(text.ok()) << text.status() << name << " " << line;
      EXPECT_EQ(text->text(), item["text"].get<std::string>()) << name << " " << line;
    }
  }
  EXPECT_EQ(texts, 164);
  EXPECT_EQ(refusals, 18);
}

// Variables of the spec and of the line, documents, the day, reasoning under each of its names,
// developers and other keys of turns.
TEST(TurnKeysTest, SettingsAndReasoningEqualTransformers) {
  const OrderedJson golden = OrderedJson::parse(TestText("settings_golden.json"));
  int texts = 0;
  for (const OrderedJson& item : golden["cases"]) {
    tokenizer::TemplateFiles files;
    files.chat_template_jinja =
        golden["templates"][item["template"].get<std::string>()].get<std::string>();
    const auto parsed = tokenizer::ModelTemplate::FromFiles(
        files, {item["spec"].dump(), golden["date"].get<std::string>()});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const auto line = item["line"].get<std::string>();
    const auto text = (*parsed)->Render(ChatOfLine(line), /*add_generation_prompt=*/true);
    ASSERT_TRUE(text.ok()) << text.status() << line;
    EXPECT_EQ(text->text(), item["text"].get<std::string>()) << item["template"] << " " << line;
    ++texts;
  }
  EXPECT_EQ(texts, 75);
}

TEST(TurnKeysTest, ABuiltInTemplateTakesATurnWithoutCalls) {
  const auto chatml = tokenizer::ChatTemplate::FromName("chatml");
  const auto render = [&](const std::string& calls) {
    return chatml->Render(ChatOfLine(
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b",)"
        R"( "tool_calls": )" +
        calls + R"(}, {"role": "tool", "content": "c", "name": "tool_calls"},)" +
        R"( {"role": "user", "content": "d"}]})"));
  };
  EXPECT_TRUE(render("[]").ok());
  EXPECT_TRUE(render("null").ok());
  EXPECT_THAT(std::string(render(R"([{"function": {"name": "f"}}])").status().message()),
              HasSubstr("no place for calls of tools"));
}

}  // namespace
}  // namespace baton

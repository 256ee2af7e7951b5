#include "workers/tokenizer/chat/learned_turns.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "workers/tokenizer/chat/model_template.h"

namespace baton::tokenizer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using OrderedJson = nlohmann::ordered_json;

std::string TestText(const std::string& name) {
  const char* root = std::getenv("BATON_SOURCE_DIR");
  std::ifstream in(std::string(root == nullptr ? "." : root) + "/workers/tokenizer/testdata/" +
                   name);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

const Tokenizer& Qwen2() {
  static const auto* const made =
      new std::unique_ptr<Tokenizer>(*Tokenizer::FromJson(TestText("tokenizer_qwen2.json")));
  return **made;
}

ChatTemplate Made(const std::string& source) {
  return *ChatTemplate::OfModel({source, "", ""}, Qwen2());
}

struct Talk {
  Chat chat;
  std::vector<bool> learned;
};

Talk TalkOf(const std::string& line) {
  Talk talk;
  const OrderedJson parsed = OrderedJson::parse(line);
  for (const OrderedJson& message : parsed["messages"]) {
    talk.chat.messages.emplace_back(
        message["role"].get<std::string>(),
        absl::string_view(message["content"].get_ref<const std::string&>()));
    if (message.contains("tool_calls")) {
      talk.chat.messages.back().fields_json =
          OrderedJson({{"tool_calls", message["tool_calls"]}}).dump();
    }
    talk.learned.push_back(message["role"] == "assistant" && message.value("weight", 1) != 0);
  }
  return talk;
}

// The tokens of a conversation, and of each whether it is learned.
struct Masked {
  std::vector<int32_t> ids;
  std::vector<int> mask;
};

Masked Encode(const LearnedTurns& turns) {
  Masked out;
  const auto add = [&](size_t begin, size_t end, int mask) {
    const auto ids = *Qwen2().Encode(turns.text.Slice(begin, end));
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.mask.resize(out.ids.size(), mask);
  };
  size_t done = 0;
  for (const TextRange& range : turns.ranges) {
    add(done, range.begin, 0);
    add(range.begin, range.end, 1);
    done = range.end;
  }
  add(done, turns.text.text().size(), 0);
  return out;
}

// With {% generation %} and without: as return_assistant_tokens_mask of transformers says it.
TEST(LearnedTurnsTest, TokensAndMaskEqualTransformers) {
  const OrderedJson golden = OrderedJson::parse(TestText("learned_golden.json"));
  int compared = 0;
  for (const OrderedJson& item : golden["cases"]) {
    const auto line = item["line"].get<std::string>();
    const Talk talk = TalkOf(line);
    for (const auto& [kind, source] :
         golden["templates"][item["template"].get<std::string>()].items()) {
      SCOPED_TRACE(absl::StrCat(item["template"].get<std::string>(), " ", kind, " ", line));
      const auto turns = FindLearnedTurns(Made(source.get<std::string>()), talk.chat, talk.learned);
      ASSERT_TRUE(turns.ok()) << turns.status();
      EXPECT_EQ(turns->by_blocks, kind == "marked");
      const Masked made = Encode(*turns);
      EXPECT_EQ(made.ids, item["ids"].get<std::vector<int32_t>>());
      EXPECT_EQ(made.mask, item["mask"].get<std::vector<int>>());
      ++compared;
    }
  }
  EXPECT_EQ(compared, 42);
}

TEST(LearnedTurnsTest, ATemplateThatRewritesEarlierTurnsIsRefusedByName) {
  // As Qwen3's: thoughts of all turns but the last one are taken out.
  const ChatTemplate forgets = Made(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n"
      "{{ m.content if loop.last else m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  const Chat chat = {
      {{"user", "a"}, {"assistant", "<think>x</think>b"}, {"user", "c"}, {"assistant", "d"}}};
  const auto refused = FindLearnedTurns(forgets, chat, {false, true, false, true});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("data.loss_on: all_assistant"), HasSubstr("turn 1"),
                    HasSubstr("use data.loss_on: last")));
  // A turn without a thought is written alike.
  EXPECT_TRUE(FindLearnedTurns(forgets, chat, {false, false, false, true}).ok());
}

TEST(LearnedTurnsTest, ATurnThatSpellsOutItsEndIsLearnedWhole) {
  const ChatTemplate chatml = *ChatTemplate::FromName("chatml");
  const Chat chat = {
      {{"user", "a"}, {"assistant", "b<|im_end|>\n"}, {"user", "c"}, {"assistant", "d"}}};
  const auto turns = FindLearnedTurns(chatml, chat, {false, true, false, true});
  ASSERT_TRUE(turns.ok()) << turns.status();
  std::vector<std::string> said;
  for (const TextRange& range : turns->ranges) {
    said.push_back(turns->text.text().substr(range.begin, range.end - range.begin));
  }
  EXPECT_THAT(said, ElementsAre("b<|im_end|>\n<|im_end|>", "d<|im_end|>"));
}

TEST(LearnedTurnsTest, BlocksThatAreNoTurnsCannotBeMasked) {
  const ChatTemplate two = Made(
      "{% for m in messages %}{{ m.role }}:{% generation %}{{ m.content }}{% endgeneration %}"
      "{% generation %}<|im_end|>{% endgeneration %}{% endfor %}");
  const Chat chat = {{{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}}};
  EXPECT_TRUE(FindLearnedTurns(two, chat, {false, true, false, true}).ok());
  EXPECT_THAT(
      std::string(FindLearnedTurns(two, chat, {false, false, false, true}).status().message()),
      HasSubstr("8 {% generation %} blocks for 2 turns of the assistant"));
}

}  // namespace
}  // namespace baton::tokenizer

#include "workers/tokenizer/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "workers/tokenizer/tokens/character_tokenizer.h"

namespace baton::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Chat Messages() {
  return {{{"system", "Be brief."}, {"user", " 2+2?\n"}, {"assistant", "4"}, {"user", "3+3?"}}};
}

TEST(ChatTemplateTest, RendersEachByName) {
  EXPECT_EQ(ChatTemplate::FromName("chatml")->Render(Messages())->text(),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n 2+2?\n<|im_end|>\n"
            "<|im_start|>assistant\n4<|im_end|>\n<|im_start|>user\n3+3?<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(ChatTemplate::FromName("llama3")->Render(Messages())->text(),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n2+2?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n4<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n3+3?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(ChatTemplate::FromName("chatml")->Render({{{"user", "x"}}}, false)->text(),
            "<|im_start|>user\nx<|im_end|>\n");
}

TEST(ChatTemplateTest, EndOfTurn) {
  EXPECT_EQ(ChatTemplate::FromName("chatml")->end_of_turn(), "<|im_end|>");
  EXPECT_EQ(ChatTemplate::FromName("llama3")->end_of_turn(), "<|eot_id|>");
}

TEST(ChatTemplateTest, UnknownNameListsTheKnown) {
  const auto status = ChatTemplate::FromName("vicuna").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "chat template 'vicuna' is not known; known: chatml, llama3");
}

TEST(ChatTemplateTest, BadRoleNamesTheMessage) {
  for (const char* role : {"", "user\n", "<|im_end|>"}) {
    const auto text = ChatTemplate::FromName("chatml")->Render({{{"user", "x"}, {role, "y"}}});
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(text.status().message()), HasSubstr("messages[1].role"));
  }
}

TEST(ChatTemplateTest, MarksMustBeTokens) {
  const auto make = [](const CharacterTokenizerOptions& options) {
    return *Tokenizer::FromJson(MakeCharacterTokenizer("abc<>|_imendstr", options)->tokenizer_json);
  };
  const auto chatml = *ChatTemplate::FromName("chatml");
  const auto plain_status = chatml.MarkIds(*make({})).status();
  EXPECT_EQ(plain_status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plain_status.message()), HasSubstr("<|im_start|>"));
  CharacterTokenizerOptions options;
  options.extra_special_tokens = {"<|im_start|>", "<|im_end|>"};
  EXPECT_THAT(*chatml.MarkIds(*make(options)), ElementsAre(2, 3));  // after <pad> and <eos>
}

}  // namespace
}  // namespace baton::tokenizer

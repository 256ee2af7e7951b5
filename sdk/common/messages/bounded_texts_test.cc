#include "sdk/common/messages/bounded_texts.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "baton/v1/worker_service.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "sdk/common/base/cut_text.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/contracts/text_bounds.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(CutTextTest, SaysHowLongTheTextWasAndCutsNoCharacter) {
  EXPECT_EQ(CutText(std::string(64, 'x'), 64), std::string(64, 'x'));
  // "… (65 bytes)" has 14 bytes.
  EXPECT_EQ(CutText(std::string(65, 'x'), 64), std::string(50, 'x') + "… (65 bytes)");
  // The 50th byte is the second of three: the character goes whole.
  const std::string middle = std::string(48, 'x') + "€" + std::string(100, 'x');
  EXPECT_EQ(CutText(middle, 64), std::string(48, 'x') + "… (151 bytes)");
  const std::string cut = CutText(std::string(5'000'000, 'x'), 64);
  EXPECT_EQ(cut.size(), 64u);
  EXPECT_EQ(CutText(cut, 64), cut);
  for (size_t shift = 0; shift < 8; ++shift) {
    std::string emojis(shift, 'x');
    while (emojis.size() < 1000) emojis += "🙂";
    EXPECT_TRUE(IsValidUtf8(CutText(emojis, 64))) << shift;
  }
}

// Calls `see` for every field below `type`, once.
void ForEachField(const Descriptor* type, std::set<const Descriptor*>* seen,
                  const std::function<void(const FieldDescriptor*)>& see) {
  if (!seen->insert(type).second) return;
  for (int i = 0; i < type->field_count(); ++i) {
    see(type->field(i));
    if (type->field(i)->message_type() != nullptr) {
      ForEachField(type->field(i)->message_type(), seen, see);
    }
  }
}

// Fills every string and every field of bytes in `message` and below.
void FillAll(Message* message, const std::string& text, const std::string& bytes) {
  const auto* const reflection = message->GetReflection();
  const Descriptor* const type = message->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field->is_map()) continue;
      FillAll(field->is_repeated() ? reflection->AddMessage(message, field)
                                   : reflection->MutableMessage(message, field),
              text, bytes);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      const std::string& value = field->type() == FieldDescriptor::TYPE_STRING ? text : bytes;
      if (field->is_repeated()) {
        reflection->AddString(message, field, value);
      } else {
        reflection->SetString(message, field, value);
      }
    }
  }
}

// The longest string or field of bytes in `message`, without the data of columns.
size_t Longest(const Message& message) {
  const auto* const reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  size_t longest = 0;
  for (const FieldDescriptor* field : fields) {
    const int size = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const Message& inner = field->is_repeated()
                                   ? reflection->GetRepeatedMessage(message, field, i)
                                   : reflection->GetMessage(message, field);
        longest = std::max(longest, Longest(inner));
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
                 field->full_name() != "baton.v1.Column.data") {
        const std::string value = field->is_repeated()
                                      ? reflection->GetRepeatedString(message, field, i)
                                      : reflection->GetString(message, field);
        longest = std::max(longest, value.size());
      }
    }
  }
  return longest;
}

// Fails if a later release adds a field without a bound.
TEST(BoundTextsTest, EveryTextOfEveryMessageHasABound) {
  const Descriptor* const type = v1::WorkerMessage::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    v1::WorkerMessage message;
    FillAll(message.GetReflection()->MutableMessage(&message, type->field(i)),
            std::string(100'000, 'x'), "token");
    if (message.has_result()) {  // these are refused, not cut
      message.mutable_result()->clear_files();
      message.mutable_result()->clear_response_text();
      message.mutable_result()->clear_prompt_text();
      message.mutable_result()->clear_prompt_suffix();
    }
    EXPECT_TRUE(BoundTexts(&message).ok()) << type->field(i)->name();
    EXPECT_LE(Longest(message), 8192u) << type->field(i)->name();
    const std::string once = message.SerializeAsString();
    EXPECT_TRUE(BoundTexts(&message).ok());
    EXPECT_EQ(message.SerializeAsString(), once) << "cut twice: " << type->field(i)->name();
  }
}

TEST(BoundTextsTest, TheMapsAndBytesOfMessagesAreThoseThatItKnows) {
  std::set<const Descriptor*> seen;
  std::set<std::string> maps, bytes;
  ForEachField(v1::WorkerMessage::descriptor(), &seen, [&](const FieldDescriptor* field) {
    if (field->is_map()) maps.insert(field->full_name());
    if (field->type() == FieldDescriptor::TYPE_BYTES) bytes.insert(field->full_name());
  });
  EXPECT_THAT(maps, ElementsAre("baton.v1.TaskResult.metrics"));
  EXPECT_THAT(bytes, ElementsAre("baton.v1.Column.data", "baton.v1.Hello.unacknowledged",
                                 "baton.v1.Progress.task_token", "baton.v1.RunningTask.task_token",
                                 "baton.v1.TaskResult.task_token", "google.protobuf.Any.value"));
}

TEST(BoundTextsTest, CutsByTheBoundOfTheField) {
  v1::WorkerMessage message;
  v1::TaskResult& result = *message.mutable_result();
  result.set_error(std::string(4 << 20, 'e'));
  result.set_finish_reason(std::string(65, 'f'));
  result.mutable_status()->set_message(std::string(8193, 'm'));
  result.set_response_text(std::string(1 << 20, 'r'));
  v1::Column& column = *result.add_columns();
  column.set_name(std::string(300, 'n'));
  column.set_data(std::string(1 << 20, '\xff'));
  ASSERT_TRUE(BoundTexts(&message).ok());
  EXPECT_EQ(result.error(), std::string(2048 - 19, 'e') + "… (4194304 bytes)");
  EXPECT_EQ(result.finish_reason(), std::string(50, 'f') + "… (65 bytes)");
  EXPECT_EQ(result.status().message(), std::string(8192 - 16, 'm') + "… (8193 bytes)");
  EXPECT_EQ(result.response_text().size(), 1u << 20);
  EXPECT_EQ(column.name(), std::string(256 - 15, 'n') + "… (300 bytes)");
  EXPECT_EQ(column.data().size(), 1u << 20);

  message.mutable_log()->set_message(std::string(64 << 20, 'l'));
  ASSERT_TRUE(BoundTexts(&message).ok());
  EXPECT_EQ(message.log().message().size(), 8192u);
  EXPECT_THAT(message.log().message(), EndsWith("… (67108864 bytes)"));
}

TEST(BoundTextsTest, FailsAResultInsteadOfTruncatingItsResponse) {
  v1::TaskResult result;
  result.set_task_token("token");
  result.set_response_text(std::string((16 << 20) + 1, 'r'));
  EXPECT_EQ(BoundTexts(&result).message(),
            "TaskResult.response_text has 16777217 bytes, at most 16777216");
  BoundResult(&result);
  EXPECT_EQ(result.task_token(), "token");
  EXPECT_TRUE(result.response_text().empty());
  EXPECT_EQ(result.status().code(), 3);
  EXPECT_THAT(result.status().message(), HasSubstr("response_text"));

  v1::Progress progress;
  progress.set_task_token(std::string(1025, 't'));
  EXPECT_TRUE(absl::IsInvalidArgument(BoundTexts(&progress)));
}

TEST(BoundTextsTest, ListsHaveABound) {
  v1::WorkerMessage message;
  for (int i = 0; i < 5000; ++i) {
    (*message.mutable_result()->mutable_metrics())[absl::StrCat("m", 10'000 + i)] = i;
  }
  (*message.mutable_result()->mutable_metrics())["a" + std::string(4 << 20, 'x')] = 1;
  for (int i = 0; i < 20; ++i) {
    message.mutable_result()->mutable_status()->add_details()->set_value(std::string(8193, 'd'));
  }
  ASSERT_TRUE(BoundTexts(&message).ok());
  const auto& metrics = message.result().metrics();
  EXPECT_EQ(metrics.size(), 4096u);
  EXPECT_EQ(metrics.at("m10000"), 0);
  EXPECT_EQ(metrics.count("m14999"), 0u);
  for (const auto& [name, value] : metrics) EXPECT_LE(name.size(), 256u);
  ASSERT_EQ(message.result().status().details_size(), 16);
  EXPECT_TRUE(message.result().status().details(0).value().empty());

  v1::Hello hello;
  for (int i = 0; i <= 100'000; ++i) hello.add_features("f");
  EXPECT_EQ(BoundTexts(&hello).message(), "Hello.features has 100001 entries, at most 100000");
}

// Bytes that are no UTF-8 would break the stream of a C++ worker: its peer cannot read them.
TEST(BoundTextsTest, MakesTextsUtf8) {
  v1::TaskResult result;
  result.set_error("a\xff");
  (*result.mutable_metrics())["m\xff"] = 1;
  BoundResult(&result);
  EXPECT_EQ(result.error(), "a\xEF\xBF\xBD");
  EXPECT_EQ(result.metrics().at("m\xEF\xBF\xBD"), 1);
  result.set_error(std::string(2048, '\xff'));  // thrice as long once it is repaired
  BoundResult(&result);
  EXPECT_LE(result.error().size(), 2048u);
  EXPECT_TRUE(IsValidUtf8(result.error()));
}

}  // namespace
}  // namespace baton

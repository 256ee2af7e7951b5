#include "sdk/common/messages/bounded_texts.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "baton/v1/error.pb.h"
#include "baton/v1/experience.pb.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "sdk/common/base/cut_text.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/contracts/text_bounds.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct FieldBound {
  enum class Over { kCut, kRefuse, kClear };
  size_t most = 0;
  Over over = Over::kCut;
};

// The fields whose bound is not that of their kind.
class BoundTable {
 public:
  static const BoundTable& Get() {
    static const auto* const table = new BoundTable();
    return *table;
  }

  FieldBound TextOf(const FieldDescriptor* field) const {
    const auto found = texts_.find(field);
    return found != texts_.end() ? found->second : FieldBound{kNameBytes, FieldBound::Over::kCut};
  }
  /// Fields of bytes that are not named here are data of columns, or of what is to come.
  const FieldBound* BytesOf(const FieldDescriptor* field) const {
    const auto found = bytes_.find(field);
    return found != bytes_.end() ? &found->second : nullptr;
  }

 private:
  using Over = FieldBound::Over;

  BoundTable() {
    using v1::TaskResult;
    Text(TaskResult::descriptor(), TaskResult::kResponseTextFieldNumber,
         {kPayloadTextBytes, Over::kRefuse});
    Text(TaskResult::descriptor(), TaskResult::kPromptTextFieldNumber,
         {kPayloadTextBytes, Over::kRefuse});
    Text(TaskResult::descriptor(), TaskResult::kPromptSuffixFieldNumber,
         {kPayloadTextBytes, Over::kRefuse});
    Text(TaskResult::descriptor(), TaskResult::kErrorFieldNumber, {kScoreErrorBytes, Over::kCut});
    Text(TaskResult::descriptor(), TaskResult::kFinishReasonFieldNumber,
         {kFinishReasonBytes, Over::kCut});
    // A part of a path is another path.
    Text(v1::FileHash::descriptor(), v1::FileHash::kPathFieldNumber, {kTextBytes, Over::kRefuse});
    Text(v1::Status::descriptor(), v1::Status::kMessageFieldNumber, {kErrorBytes, Over::kCut});
    Text(v1::WorkerLog::descriptor(), v1::WorkerLog::kMessageFieldNumber,
         {kLogLineBytes, Over::kCut});
    Text(v1::RoleTrouble::descriptor(), v1::RoleTrouble::kMessageFieldNumber,
         {kTroubleBytes, Over::kCut});
    const FieldBound token = {kTokenBytes, Over::kRefuse};
    Bytes(TaskResult::descriptor(), TaskResult::kTaskTokenFieldNumber, token);
    Bytes(v1::Progress::descriptor(), v1::Progress::kTaskTokenFieldNumber, token);
    Bytes(v1::RunningTask::descriptor(), v1::RunningTask::kTaskTokenFieldNumber, token);
    Bytes(v1::Hello::descriptor(), v1::Hello::kUnacknowledgedFieldNumber, token);
    Bytes(google::protobuf::Any::descriptor(), google::protobuf::Any::kValueFieldNumber,
          {kErrorDetailBytes, Over::kClear});
  }

  void Text(const Descriptor* message, int number, FieldBound bound) {
    texts_[message->FindFieldByNumber(number)] = bound;
  }
  void Bytes(const Descriptor* message, int number, FieldBound bound) {
    bytes_[message->FindFieldByNumber(number)] = bound;
  }

  std::unordered_map<const FieldDescriptor*, FieldBound> texts_, bytes_;
};

// Leaves the first names in their order. A name that is cut is too long for a series, and the core
// counts it as dropped.
void BoundMetrics(google::protobuf::Map<std::string, double>* metrics) {
  const bool many = metrics->size() > static_cast<size_t>(kMostMetrics);
  bool bad = many;
  for (const auto& [name, value] : *metrics) {
    bad = bad || name.size() > kNameBytes || !IsValidUtf8(name);
  }
  if (!bad) return;
  std::vector<std::pair<std::string, double>> all(metrics->begin(), metrics->end());
  std::sort(all.begin(), all.end());
  if (many) all.resize(static_cast<size_t>(kMostMetrics));
  metrics->clear();
  for (const auto& [name, value] : all) {
    (*metrics)[CutText(ReplaceInvalidUtf8(name), kNameBytes)] = value;
  }
}

class TextWalk {
 public:
  void Visit(Message* message) {
    const Reflection* const reflection = message->GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection->ListFields(*message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->is_map()) {
        VisitMap(message, field);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        VisitMessages(message, field);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        VisitStrings(message, field);
      }
    }
  }

  const absl::Status& status() const { return status_; }

 private:
  void Refuse(const FieldDescriptor* field, absl::string_view what, size_t most) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(
        field->containing_type()->name(), ".", field->name(), " has ", what, ", at most ", most));
  }

  // TaskResult.metrics is the one map in messages of workers (bounded_texts_test.cc looks).
  void VisitMap(Message* message, const FieldDescriptor* field) {
    auto* const result = google::protobuf::DynamicCastToGenerated<v1::TaskResult>(message);
    if (result != nullptr && field->number() == v1::TaskResult::kMetricsFieldNumber) {
      BoundMetrics(result->mutable_metrics());
    }
  }

  void VisitMessages(Message* message, const FieldDescriptor* field) {
    const Reflection* const reflection = message->GetReflection();
    if (!field->is_repeated()) return Visit(reflection->MutableMessage(message, field));
    int size = reflection->FieldSize(*message, field);
    const bool details = field->message_type() == google::protobuf::Any::descriptor();
    for (; details && size > kMostErrorDetails; --size) reflection->RemoveLast(message, field);
    if (!ListFits(field, size)) return;
    for (int i = 0; i < size; ++i) {
      Visit(reflection->MutableRepeatedMessage(message, field, i));
    }
  }

  void VisitStrings(Message* message, const FieldDescriptor* field) {
    const Reflection* const reflection = message->GetReflection();
    std::string scratch;
    if (!field->is_repeated()) {
      const std::string& text = reflection->GetStringReference(*message, field, &scratch);
      if (Good(field, text)) return;
      return reflection->SetString(message, field, Bounded(field, text));
    }
    const int size = reflection->FieldSize(*message, field);
    if (!ListFits(field, size)) return;
    for (int i = 0; i < size; ++i) {
      const std::string& text =
          reflection->GetRepeatedStringReference(*message, field, i, &scratch);
      if (Good(field, text)) continue;
      reflection->SetRepeatedString(message, field, i, Bounded(field, text));
    }
  }

  bool ListFits(const FieldDescriptor* field, int size) {
    if (size <= kMostListItems) return true;
    Refuse(field, absl::StrCat(size, " entries"), kMostListItems);
    return false;
  }

  // A good text stays as it is: it is within its bound, or the message is refused for it.
  bool Good(const FieldDescriptor* field, const std::string& text) {
    const bool is_text = field->type() == FieldDescriptor::TYPE_STRING;
    const FieldBound* const bytes = table_.BytesOf(field);
    if (!is_text && bytes == nullptr) return true;
    const FieldBound bound = is_text ? table_.TextOf(field) : *bytes;
    if (text.size() <= bound.most) return !is_text || IsValidUtf8(text);
    if (bound.over != FieldBound::Over::kRefuse) return false;
    Refuse(field, absl::StrCat(text.size(), " bytes"), bound.most);
    return true;
  }

  std::string Bounded(const FieldDescriptor* field, const std::string& text) const {
    if (field->type() != FieldDescriptor::TYPE_STRING) return "";  // FieldBound::Over::kClear
    const size_t most = table_.TextOf(field).most;
    // Cut first: what is repaired is then no more than the bound, times three.
    if (text.size() > most) return CutText(ReplaceInvalidUtf8(CutText(text, most)), most);
    return CutText(ReplaceInvalidUtf8(text), most);
  }

  const BoundTable& table_ = BoundTable::Get();
  absl::Status status_;
};

}  // namespace

absl::Status BoundTexts(Message* message) {
  TextWalk walk;
  walk.Visit(message);
  return walk.status();
}

void BoundResult(v1::TaskResult* result) {
  const absl::Status bounded = BoundTexts(result);
  if (bounded.ok()) return;
  v1::TaskResult refused;
  if (result->task_token().size() <= kTokenBytes) refused.set_task_token(result->task_token());
  refused.mutable_status()->set_code(static_cast<int>(bounded.code()));
  refused.mutable_status()->set_message(std::string(bounded.message()));
  result->Swap(&refused);
}

}  // namespace baton

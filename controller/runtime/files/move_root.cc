#include "controller/runtime/files/move_root.h"

#include <future>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

using google::protobuf::FieldDescriptor;

// Adds the changed rows of `table`; rows that do not parse stay as they are.
template <typename Message>
absl::Status MoveRows(store::Store& store, const char* table, const std::string& from,
                      const std::string& to, std::vector<store::Write>* writes) {
  BATON_ASSIGN_OR_RETURN(const auto rows, store.Scan(table, {}));
  for (const store::Row& stored : rows) {
    Message row;
    if (!row.ParseFromString(stored.value) || !MovePaths(from, to, &row)) continue;
    writes->push_back({table, stored.key, row.SerializeAsString(), store::kSchemaVersion});
  }
  return absl::OkStatus();
}

}  // namespace

bool MovePaths(const std::string& from, const std::string& to, google::protobuf::Message* message) {
  // These files move with the root; other files stay where their owner put them.
  const std::string jobs = absl::StrCat(from, "/jobs/"), files = absl::StrCat(from, "/files/");
  const google::protobuf::Reflection* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  bool moved = false;
  const auto moves = [&](const std::string& text) {
    return absl::StartsWith(text, jobs) || absl::StartsWith(text, files);
  };
  const auto after = [&](const std::string& text) {
    moved = true;
    return absl::StrCat(to, text.substr(from.size()));
  };
  for (const FieldDescriptor* field : fields) {
    if (field->is_map()) continue;  // their values are numbers
    const int size = field->is_repeated() ? reflection->FieldSize(*message, field) : 0;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        moved |= MovePaths(from, to, reflection->MutableMessage(message, field));
      }
      for (int i = 0; i < size; ++i) {
        moved |= MovePaths(from, to, reflection->MutableRepeatedMessage(message, field, i));
      }
    } else if (field->type() == FieldDescriptor::TYPE_STRING) {
      if (!field->is_repeated()) {
        const std::string text = reflection->GetString(*message, field);
        if (moves(text)) reflection->SetString(message, field, after(text));
      }
      for (int i = 0; i < size; ++i) {
        const std::string text = reflection->GetRepeatedString(*message, field, i);
        if (moves(text)) reflection->SetRepeatedString(message, field, i, after(text));
      }
    }
  }
  return moved;
}

absl::Status MoveRoot(store::Store& store, const std::string& data_root) {
  BATON_ASSIGN_OR_RETURN(const auto before, store.Get(kMetaTable, "root"));
  if (before == data_root) return absl::OkStatus();
  std::vector<store::Write> writes = {{kMetaTable, "root", data_root}};
  if (before.has_value()) {
    BATON_RETURN_IF_ERROR(
        MoveRows<store::v1::JobRow>(store, kJobTable, *before, data_root, &writes));
    BATON_RETURN_IF_ERROR(
        MoveRows<v1::Checkpoint>(store, kCheckpointTable, *before, data_root, &writes));
    BATON_RETURN_IF_ERROR(MoveRows<v1::Job>(store, kSpecTable, *before, data_root, &writes));
    Log(LogLevel::kInfo, "the data root was moved",
        {{"from", *before}, {"to", data_root}, {"rows", writes.size() - 1}});
  }
  std::promise<absl::Status> written;
  store.Commit(std::move(writes), [&](absl::Status status) { written.set_value(status); });
  return written.get_future().get();
}

}  // namespace baton::controller

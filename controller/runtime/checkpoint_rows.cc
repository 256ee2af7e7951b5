#include "controller/runtime/checkpoint_rows.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/tables.h"
#include "sdk/base/status_macros.h"

namespace baton::controller {

absl::Status ReadCheckpoints(store::Store& store, const std::string& name, store::v1::JobRow* row,
                             std::vector<store::Write>* moves) {
  BATON_ASSIGN_OR_RETURN(const auto rows, store.Scan(kCheckpointTable, NumberRange(name, 0)));
  if (row->checkpoints().empty()) {
    for (const store::Row& stored : rows) {
      if (row->add_checkpoints()->ParseFromString(stored.value)) continue;
      row->mutable_checkpoints()->RemoveLast();
      return absl::DataLossError(absl::StrCat("checkpoint row ", stored.key, " is damaged"));
    }
    return absl::OkStatus();
  }
  std::map<std::string, std::string> missing;  // by key
  for (const v1::Checkpoint& checkpoint : row->checkpoints()) {
    missing[NumberKey(name, static_cast<uint64_t>(checkpoint.step()))] =
        checkpoint.SerializeAsString();
  }
  for (const store::Row& stored : rows) {
    const auto listed = missing.find(stored.key);
    if (listed == missing.end()) {
      moves->push_back({kCheckpointTable, stored.key, std::nullopt});
    } else if (listed->second == stored.value) {
      missing.erase(listed);
    }
  }
  for (auto& [key, value] : missing) moves->push_back({kCheckpointTable, key, std::move(value)});
  return absl::OkStatus();
}

}  // namespace baton::controller

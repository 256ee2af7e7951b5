#include "controller/runtime/rows/checkpoint_rows.h"

#include "absl/strings/str_cat.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {

absl::Status ReadCheckpoints(store::Store& store, const std::string& name, store::v1::JobRow* row) {
  row->clear_checkpoints();
  BATON_ASSIGN_OR_RETURN(const auto rows, store.Scan(kCheckpointTable, NumberRange(name, 0)));
  for (const store::Row& stored : rows) {
    if (row->add_checkpoints()->ParseFromString(stored.value)) continue;
    row->mutable_checkpoints()->RemoveLast();
    return absl::DataLossError(absl::StrCat("checkpoint row ", stored.key, " is damaged"));
  }
  return absl::OkStatus();
}

}  // namespace baton::controller

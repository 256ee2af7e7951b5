#include "controller/store/store.h"

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"

namespace baton::store {

absl::Status Store::CheckRow(const Write& write) const {
  const size_t bytes = write.key.size() + (write.value.has_value() ? write.value->size() : 0);
  if (bytes <= max_row_bytes()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a row of table ", write.table, " has ", bytes, " bytes; the store takes at most ",
      max_row_bytes(),
      ": make batches smaller, or have workers report fewer metrics and shorter texts"));
}

absl::Status Store::CheckRows(const std::vector<Write>& writes) const {
  for (const Write& write : writes) BATON_RETURN_IF_ERROR(CheckRow(write));
  return absl::OkStatus();
}

}  // namespace baton::store

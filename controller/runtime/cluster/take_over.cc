#include "controller/runtime/cluster/take_over.h"

#include <future>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {

absl::Status CommitNow(store::Store& store, std::vector<store::Write> writes,
                       store::Durability durability) {
  std::promise<absl::Status> promise;
  store.Commit(std::move(writes), durability,
               [&](absl::Status status) { promise.set_value(std::move(status)); });
  return promise.get_future().get();
}

absl::Status TakeOver(store::Store& store, RuntimeContext* context) {
  BATON_ASSIGN_OR_RETURN(const auto epoch, store.Get(kMetaTable, "epoch"));
  BATON_ASSIGN_OR_RETURN(const auto secret, store.Get(kMetaTable, "secret"));
  if (epoch.has_value() && !absl::SimpleAtoi(*epoch, &context->epoch)) {
    return absl::DataLossError(absl::StrCat("the store's epoch '", *epoch, "' is not a number"));
  }
  ++context->epoch;
  BATON_ASSIGN_OR_RETURN(const std::string fresh, RandomHex(32));
  context->secret = secret.has_value() ? *secret : fresh;
  return CommitNow(store,
                   {{kMetaTable, "epoch", absl::StrCat(context->epoch)},
                    {kMetaTable, "secret", context->secret}},
                   store::Durability::kPowerCut);
}

}  // namespace baton::controller

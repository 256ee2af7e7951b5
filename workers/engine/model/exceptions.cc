#include "workers/engine/model/exceptions.h"

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "workers/engine/model/communicator.h"

namespace baton::engine {

absl::Status FromException(const std::exception& error) {
  const auto* collective = dynamic_cast<const CollectiveError*>(&error);
  if (collective != nullptr) return collective->status();
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return absl::InternalError(absl::StrCat(
      "libtorch: ", torch_error != nullptr ? torch_error->what_without_backtrace() : error.what()));
}

}  // namespace baton::engine

#include "controller/runtime/job_files/checkpoint_choice.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

constexpr absl::string_view kJobPrefix = "job:";

absl::Status NoSuchCheckpoint(const std::string& job, const std::string& what) {
  return MakeError(absl::StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
                   absl::StrCat("job '", job, "' ", what));
}

}  // namespace

bool NamesCheckpoint(absl::string_view path) { return absl::StartsWith(path, kJobPrefix); }

CheckpointName ParseCheckpointName(absl::string_view path) {
  path = absl::StripPrefix(path, kJobPrefix);
  const size_t at = path.find('@');
  if (at == absl::string_view::npos) return {std::string(path), ""};
  // "NAME@" matches nothing, so the error below names it.
  const absl::string_view which = path.substr(at + 1);
  return {std::string(path.substr(0, at)), which.empty() ? "@" : std::string(which)};
}

absl::StatusOr<v1::Checkpoint> ChooseCheckpoint(const std::string& job, const std::string& which,
                                                const std::vector<v1::Checkpoint>& checkpoints) {
  int64_t step = 0;
  if (!which.empty() && which != "best" && (!absl::SimpleAtoi(which, &step) || step < 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", job, "@", which, "': after the @ give `best` or the step of a checkpoint"));
  }
  if (checkpoints.empty()) return NoSuchCheckpoint(job, "has no complete checkpoint yet");
  if (which.empty()) return checkpoints.back();
  const bool best = which == "best";
  const auto found =
      std::find_if(checkpoints.begin(), checkpoints.end(), [&](const v1::Checkpoint& checkpoint) {
        return best ? checkpoint.best() : checkpoint.step() == step;
      });
  if (found != checkpoints.end()) return *found;
  if (best) {
    return NoSuchCheckpoint(job,
                            "has no best checkpoint: its spec does not set trainer.keep_best, or "
                            "that metric was not measured yet");
  }
  const std::string steps =
      absl::StrJoin(checkpoints, ", ", [](std::string* out, const v1::Checkpoint& checkpoint) {
        absl::StrAppend(out, checkpoint.step());
      });
  return NoSuchCheckpoint(
      job, absl::StrCat("keeps no checkpoint of step ", step, "; it keeps those of step ", steps));
}

}  // namespace baton::controller

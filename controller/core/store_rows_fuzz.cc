// Any rows of a store: refused with a reason, or a core that goes on.
//
// A row of a job on its way is made first, and then changed: random bytes alone are rarely a job.
#include <cstddef>
#include <cstdint>
#include <string>

#include "controller/core/check_row.h"
#include "controller/core/fuzzed_job.h"

namespace {

using namespace baton::controller;
namespace store = baton::store;

constexpr int kEventsBefore = 60, kEventsAfter = 40;

absl::Time Next(absl::Time now, FuzzedDataProvider& input) {
  return now + (input.ConsumeIntegralInRange(0, 7) == 0 ? absl::Minutes(5) : absl::Seconds(1));
}

void CheckRoundTrip(const store::v1::TrajectoryRow& row) {
  const TrajectoryInfo info = FromRow(row, 7, 1);
  Require(info.serial == 7 && info.state != TrajectoryState::kPending, "it was generated");
  const store::v1::TrajectoryRow again = ToRow(info, row.step(), row.incarnation());
  const TrajectoryInfo same = FromRow(again, 7, 1);
  Require(
      same.id == info.id && same.state == info.state && same.scores.size() == info.scores.size(),
      "a trajectory's row says what it was");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const std::string row_bytes = input.ConsumeRandomLengthString(256);
  const std::string trajectory_bytes = input.ConsumeRandomLengthString(128);
  FuzzedJob::Rows rows;
  store::v1::JobRow row;
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  if (input.ConsumeIntegralInRange(0, 7) > 0) {
    FuzzedJob job(FuzzedSpec("j", input.ConsumeBool(), input), &input);
    job.Start(now);
    const int events = input.ConsumeIntegralInRange(0, kEventsBefore);
    for (int i = 0; i < events && input.remaining_bytes() > 0; ++i) {
      job.Happen(now = Next(now, input));
    }
    row = job.row();
    rows = job.rows();
  }
  // Fields of the bytes take the place of the row's; what repeats is added to.
  if (!row.MergeFromString(row_bytes)) return 0;
  if (input.ConsumeBool()) {
    store::v1::TrajectoryRow& changed = rows[input.ConsumeIntegralInRange<uint64_t>(0, 12)];
    if (!changed.MergeFromString(trajectory_bytes)) return 0;
    CheckRoundTrip(changed);
  }
  if (!CheckRow(row).ok()) return 0;
  // A real job may be larger than what a fuzzer has time for.
  const auto& spec = row.job().effective_spec();
  const int groups = spec.data().train_batch_size();
  if (groups * std::max(1, spec.rollout().n()) > 256 || spec.rollout().val().n() > 64) return 0;
  FuzzedJob job(row, rows, &input);
  Require(CheckRow(job.core().Row()).ok(), "a restored core writes rows as good as its own");
  job.Start(now);
  for (int i = 0; i < kEventsAfter; ++i) job.Happen(now = Next(now, input));
  return 0;
}

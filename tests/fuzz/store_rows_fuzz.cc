// Any rows of a store: a job that is quarantined with a reason, or one that goes on.
//
// The rows of a job on its way are made first, and then changed: random bytes alone are rarely a
// job.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "controller/runtime/rows/stored_job.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/log.h"
#include "tests/fuzz/fuzzed_controller.h"

namespace {

using namespace baton::controller;
namespace store = baton::store;

constexpr int kEventsBefore = 60, kEventsAfter = 20;

void CheckRoundTrip(const store::v1::TrajectoryRow& row) {
  const TrajectoryInfo info = FromRow(row, 7, 1);
  Require(info.serial == 7 && info.state != TrajectoryState::kPending, "it was generated");
  const store::v1::TrajectoryRow again = ToRow(info, row.step(), row.incarnation());
  const TrajectoryInfo same = FromRow(again, 7, 1);
  Require(
      same.id == info.id && same.state == info.state && same.scores.size() == info.scores.size(),
      "a trajectory's row says what it was");
}

// Fields of the bytes take the place of the row's; what repeats is added to.
template <typename T>
bool Change(store::MemoryStore& rows, const char* table, const std::string& key,
            const std::string& bytes, T* changed) {
  const auto stored = rows.Get(table, key);
  Require(stored.ok(), "the store can be read");
  if (stored->has_value() && !changed->ParseFromString(**stored)) return false;
  if (!changed->MergeFromString(bytes)) return false;
  rows.Commit({{table, key, changed->SerializeAsString()}}, [](const absl::Status&) {});
  return true;
}

// A real job may be larger than what a fuzzer has time for.
bool IsSmall(store::MemoryStore& rows, const std::string& job) {
  const auto stored = rows.Get(kJobTable, job);
  if (!stored.ok() || !stored->has_value()) return false;
  const auto read = ReadStoredJob(rows, {job, **stored});
  if (!read.ok()) return true;  // it is quarantined
  const auto& spec = read->row.job().effective_spec();
  const int groups = spec.data().train_batch_size();
  return groups * std::max(1, spec.rollout().n()) <= 256 && spec.rollout().val().n() <= 64;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  baton::SilenceLog();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const std::string job_bytes = input.ConsumeRandomLengthString(256);
  const std::string spec_bytes = input.ConsumeRandomLengthString(64);
  const std::string trajectory_bytes = input.ConsumeRandomLengthString(128);
  FuzzedController controller(&input);
  const baton::v1::Job job = FuzzedSpec("0", input.ConsumeBool(), input);
  controller.Submit(job);
  const int events = input.ConsumeIntegralInRange(0, kEventsBefore);
  for (int i = 0; i < events && input.remaining_bytes() > 0; ++i) controller.Happen();
  controller.SetTampered();
  store::MemoryStore& rows = controller.store();
  store::v1::JobRow row;
  if (!Change(rows, kJobTable, job.name(), job_bytes, &row)) return 0;
  baton::v1::Job spec;
  if (!spec_bytes.empty() && !Change(rows, kSpecTable, job.name(), spec_bytes, &spec)) return 0;
  if (input.ConsumeBool()) {
    store::v1::TrajectoryRow trajectory;
    const uint64_t serial = input.ConsumeIntegralInRange<uint64_t>(0, 12);
    if (!Change(rows, kTrajectoryTable, NumberKey(job.name(), serial), trajectory_bytes,
                &trajectory)) {
      return 0;
    }
    CheckRoundTrip(trajectory);
  }
  if (!IsSmall(rows, job.name())) return 0;
  controller.Restart();
  for (int i = 0; i < kEventsAfter; ++i) controller.Happen();
  return 0;
}

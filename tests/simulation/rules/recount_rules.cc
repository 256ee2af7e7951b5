#include "tests/simulation/rules/recount_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::simulation {
namespace {

struct Recount {
  double responses = 0, failed = 0, reward = 0, accuracy = 0;
};

void CountRow(const store::v1::TrajectoryRow& row, Recount* count) {
  ++count->responses;
  if (row.infra_failed() || row.failed_nodes() != 0) {
    ++count->failed;
    return;
  }
  const auto reward = row.scores().find("reward");
  const double value = reward == row.scores().end() ? 0 : reward->second;
  const auto accuracy = row.scores().find("accuracy");
  count->reward += value;
  count->accuracy += accuracy == row.scores().end() ? value : accuracy->second;
}

}  // namespace

std::string MetricsEqualARecount(const std::vector<store::v1::TrajectoryRow>& rows,
                                 const store::v1::BatchRow& batch, int64_t step,
                                 std::optional<uint64_t> incarnation,
                                 const std::map<std::string, double>& metrics) {
  Recount train, val;
  for (const store::v1::BatchEntry& entry : batch.entries()) CountRow(entry.trajectory(), &train);
  for (const store::v1::TrajectoryRow& row : rows) {
    if (IsOfEvaluation(row, step, incarnation)) CountRow(row, &val);
  }
  const std::map<std::string, double> expected = {
      {"critic/score/mean", train.reward / (train.responses - train.failed)},
      {"val/accuracy", val.accuracy / (val.responses - val.failed)},
      {"val/reward", val.reward / (val.responses - val.failed)},
      {"val/infra_failed", val.failed},
  };
  for (const auto& [name, value] : expected) {
    const auto told = metrics.find(name);
    if (told == metrics.end()) continue;
    if (std::abs(told->second - value) <= 1e-9 * (1 + std::abs(value))) continue;
    return absl::StrCat(name, " of step ", step, " is ", told->second, "; counted again it is ",
                        value);
  }
  return "";
}

bool IsOfEvaluation(const store::v1::TrajectoryRow& row, int64_t step,
                    std::optional<uint64_t> incarnation) {
  return row.purpose() == v1::PURPOSE_EVAL && row.step() == step &&
         row.incarnation() == incarnation.value_or(row.incarnation());
}

std::optional<Tries> TriesOf(const controller::JobCore& core, const controller::TaskRef& ref) {
  const controller::TrajectoryInfo* info = core.Find(ref.subject);
  if (info == nullptr || info->trajectory_uid != ref.trajectory_uid) return std::nullopt;
  if (ref.kind == controller::TaskKind::kGenerate) return Tries{info->failures, info->losses};
  if ((info->scored >> ref.target & 1) != 0 || ref.target >= info->tries.size())
    return std::nullopt;
  return Tries{info->tries[ref.target].failures, info->losses};
}

std::string FailuresAreCounted(const Tries& before, const Tries& after,
                               const controller::TaskDone& done, bool own) {
  const bool other_weights = absl::IsFailedPrecondition(done.status);
  const bool stopped = absl::IsCancelled(done.status);
  const bool counts = !done.status.ok() && own && !other_weights && !stopped;
  // A response that is there ends the count of its generation.
  const bool generated = done.status.ok() && done.ref.kind == controller::TaskKind::kGenerate;
  const uint32_t expected = generated ? 0 : before.failures + (counts ? 1 : 0);
  if (after.failures == expected && after.losses == before.losses) return "";
  return absl::StrCat(controller::TrajectoryName(done.ref.subject), " had ", before.failures,
                      " failures and ", before.losses, " losses; after ", done.status.ToString(),
                      " it has ", after.failures, " and ", after.losses);
}

std::string FirstTries::Asked(const controller::TaskRef& ref, uint64_t incarnation) {
  if (!asked_.insert(ref.trajectory_uid).second) return "";
  const std::string name = controller::TrajectoryName(ref.subject);
  const uint64_t last_uid = std::exchange(last_uid_, std::max(last_uid_, ref.trajectory_uid));
  if (ref.trajectory_uid < last_uid) {
    return absl::StrCat(name, ", uid ", ref.trajectory_uid, ", is begun after uid ", last_uid);
  }
  if (controller::PurposeOf(ref.subject) != v1::PURPOSE_TRAIN) return "";
  const auto [last, first] = last_id_.try_emplace(incarnation, ref.subject);
  if (first) return "";
  const uint64_t last_id = std::exchange(last->second, std::max(last->second, ref.subject));
  if (ref.subject > last_id) return "";
  return absl::StrCat(name, " is begun after ", controller::TrajectoryName(last_id),
                      " in incarnation ", incarnation);
}

std::string FirstTries::AskedAhead(const controller::TaskRef& ref, uint64_t own) {
  if (!asked_.insert(ref.trajectory_uid).second) return "";
  uint64_t& last = last_uid_of_[controller::PurposeOf(ref.subject)];
  const uint64_t before = std::exchange(last, std::max(last, ref.trajectory_uid));
  // Some of the trajectories that were open when this controller began may have been begun before.
  if (ref.trajectory_uid > before || (ref.trajectory_uid < own && before < own)) return "";
  return absl::StrCat(controller::TrajectoryName(ref.subject), ", uid ", ref.trajectory_uid,
                      ", is begun after uid ", before);
}

}  // namespace baton::simulation

// The arguments of one part of a JobCore, for its tests.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_PARTS_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_PARTS_H_

#include <cstdlib>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "controller/core/job/effect_sink.h"
#include "google/protobuf/text_format.h"

namespace baton::controller {

/// Actor, critic, rollouts, one reward and one reference.
inline constexpr char kPpoGraph[] = R"(
  generate { purpose: "train" }
  score { node: "reward" role: "reward" method: "compute_reward" out: "reward" }
  score { node: "ref" role: "reference" method: "log_prob" out: "ref_log_prob" }
  update { role: "actor" method: "update" } update { role: "critic" method: "update" })";

/// Dies if a text is wrong: a test without its job tests nothing.
inline std::shared_ptr<const v1::Job> SubmittedJob(const std::string& spec,
                                                   const std::string& dataflow = kPpoGraph) {
  auto job = std::make_shared<v1::Job>();
  const bool read =
      google::protobuf::TextFormat::ParseFromString(spec, job->mutable_effective_spec()) &&
      google::protobuf::TextFormat::ParseFromString(dataflow, job->mutable_dataflow());
  if (!read) std::abort();
  return job;
}

/// The sink of a turn at `now`, of a job that has done `step` steps.
inline EffectSink SinkAt(absl::Time now, int64_t step = 0) {
  store::v1::JobRow row;
  row.set_incarnation(1);
  row.mutable_job()->set_step(step);
  EffectSink out(row, FirstAttempt(1));
  out.Begin(now);
  return out;
}

/// The effects of that type; the turn ends.
template <typename T>
std::vector<T> TakeAll(EffectSink& out) {
  std::vector<T> found;
  for (const Effect& effect : out.Take()) {
    if (const T* one = std::get_if<T>(&effect)) found.push_back(*one);
  }
  return found;
}

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_PARTS_H_

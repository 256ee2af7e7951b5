// Helpers of the tests of specs: a job with every role, and the problems of a spec as pairs.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_SPEC_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_SPEC_H_

#include <string>
#include <utility>
#include <vector>

#include "controller/spec/job_spec/presets.h"
#include "controller/spec/job_spec/spec.h"

namespace baton::controller {

/// Pairs of (path of the field, text), in the order of the report.
inline std::vector<std::pair<std::string, std::string>> Problems(const v1::JobSpec& spec) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& violation : CheckSpec(spec).violations) {
    out.emplace_back(violation.field(), violation.description());
  }
  return out;
}

/// The ppo preset with a learned reward model, without a graph of its own; nothing about workers.
inline v1::JobSpec PpoWithoutResources() {
  v1::JobSpec spec = ExampleSpec("ppo");
  spec.clear_dataflow();
  spec.clear_resources();
  spec.mutable_reward_model()->mutable_model()->set_path("job:rm");
  return spec;
}

inline v1::PoolSpec* AddPool(v1::JobSpec* spec, const std::vector<std::string>& roles,
                             int devices = 0) {
  v1::PoolSpec* pool = spec->mutable_resources()->add_pools();
  for (const std::string& role : roles) pool->add_roles(role);
  if (devices > 0) pool->set_devices(devices);
  return pool;
}

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_SPEC_H_

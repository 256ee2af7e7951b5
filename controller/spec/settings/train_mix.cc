#include "controller/spec/settings/train_mix.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton::controller {
namespace {

constexpr char kMix[] = "data.train_mix";

bool DrawnAt(const v1::FileMixSpec& entry, int64_t step) {
  return entry.from_step() <= step && (!entry.has_to_step() || step <= entry.to_step());
}

void CheckEntry(int index, const v1::FileMixSpec& entry, Violations* out) {
  if (!entry.has_to_step() || entry.to_step() < 1 || entry.to_step() >= entry.from_step()) return;
  out->Add(absl::StrCat(kMix, "[", index, "].to_step"),
           absl::StrCat(entry.to_step(), " is below from_step ", entry.from_step(),
                        ", so the file would never be drawn from; raise it, or remove the entry "
                        "and its file"));
}

}  // namespace

std::vector<MixPhase> PhasesOf(const v1::DataSpec& data) {
  std::set<int64_t> begins = {1};
  for (const v1::FileMixSpec& entry : data.train_mix()) {
    begins.insert(entry.from_step());
    if (entry.has_to_step()) begins.insert(entry.to_step() + 1);
  }
  std::vector<MixPhase> phases;
  for (const int64_t step : begins) {
    MixPhase phase;
    phase.from_step = step;
    for (int file = 0; file < data.train_mix_size(); ++file) {
      if (DrawnAt(data.train_mix(file), step)) phase.files.push_back(file);
    }
    if (phases.empty() || phases.back().files != phase.files) phases.push_back(std::move(phase));
  }
  return phases;
}

void CheckTrainMix(const v1::JobSpec& spec, Violations* out) {
  const v1::DataSpec& data = spec.data();
  if (data.train_mix().empty()) return;
  if (spec.kind() != v1::JOB_KIND_RL) {
    return out->Add(kMix, "is of kind rl; other kinds read their files as one list: remove it");
  }
  if (data.train_mix_size() != data.train_files_size()) {
    out->Add(kMix, absl::StrCat("has ", data.train_mix_size(), " entries, and data.train_files ",
                                data.train_files_size(),
                                " files; give one entry for each file, in their order"));
  }
  for (int i = 0; i < data.train_mix_size(); ++i) CheckEntry(i, data.train_mix(i), out);
  if (out->Mentions(kMix)) return;
  const int64_t steps = spec.trainer().total_training_steps();
  for (const MixPhase& phase : PhasesOf(data)) {
    if (!phase.files.empty() || phase.from_step > steps) continue;
    return out->Add(kMix, absl::StrCat("no file is drawn from at step ", phase.from_step, " of ",
                                       steps, "; lower a from_step, or raise or remove a to_step"));
  }
}

void ExtendTrainMix(int64_t steps, v1::DataSpec* data) {
  if (data->train_mix().empty()) return;
  const MixPhase last = PhasesOf(*data).back();
  if (!last.files.empty() || last.from_step > steps) return;
  for (v1::FileMixSpec& entry : *data->mutable_train_mix()) {
    if (entry.to_step() == last.from_step - 1) entry.clear_to_step();
  }
}

}  // namespace baton::controller

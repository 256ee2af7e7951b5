#include "controller/spec/train_mix.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton::controller {
namespace {

constexpr double kLeastWeight = 0.001, kMostWeight = 1000;
constexpr int64_t kMostStep = 1'000'000'000;

bool DrawnAt(const v1::FileMixSpec& entry, int64_t step) {
  return entry.from_step() <= step && (!entry.has_to_step() || step <= entry.to_step());
}

class MixCheck {
 public:
  explicit MixCheck(std::vector<v1::FieldViolation>* out) : out_(out), before_(out->size()) {}

  void Fail(absl::string_view field, std::string description) {
    v1::FieldViolation violation;
    violation.set_field(absl::StrCat("spec.data.train_mix", field));
    violation.set_description(std::move(description));
    out_->push_back(std::move(violation));
  }

  template <typename T>
  void InRange(const std::string& field, T value, T low, T high) {
    if (std::isfinite(static_cast<double>(value)) && value >= low && value <= high) return;
    Fail(field, absl::StrCat(value, " is not in [", low, ", ", high, "]"));
  }

  void Entry(int index, v1::FileMixSpec* entry) {
    const std::string path = absl::StrCat("[", index, "]");
    if (!entry->has_weight()) entry->set_weight(1);
    if (!entry->has_from_step()) entry->set_from_step(1);
    InRange(path + ".weight", entry->weight(), kLeastWeight, kMostWeight);
    InRange<int64_t>(path + ".from_step", entry->from_step(), 1, kMostStep);
    if (!entry->has_to_step()) return;
    InRange<int64_t>(path + ".to_step", entry->to_step(), 1, kMostStep);
    if (entry->to_step() >= 1 && entry->to_step() < entry->from_step()) {
      Fail(path + ".to_step",
           absl::StrCat(entry->to_step(), " is below from_step ", entry->from_step(),
                        ", so the file would never be drawn from; raise it, or remove the entry "
                        "and its file"));
    }
  }

  bool good() const { return out_->size() == before_; }

 private:
  std::vector<v1::FieldViolation>* const out_;
  const size_t before_;
};

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

void CheckTrainMix(v1::JobSpec* spec, std::vector<v1::FieldViolation>* out) {
  v1::DataSpec* data = spec->mutable_data();
  if (data->train_mix().empty()) return;
  MixCheck check(out);
  if (spec->kind() != v1::JOB_KIND_RL) {
    return check.Fail("", "is of kind rl; other kinds read their files as one list: remove it");
  }
  if (data->train_mix_size() != data->train_files_size()) {
    check.Fail("", absl::StrCat("has ", data->train_mix_size(), " entries, and data.train_files ",
                                data->train_files_size(),
                                " files; give one entry for each file, in their order"));
  }
  for (int i = 0; i < data->train_mix_size(); ++i) check.Entry(i, data->mutable_train_mix(i));
  if (!check.good()) return;
  const int64_t steps = spec->trainer().total_training_steps();
  for (const MixPhase& phase : PhasesOf(*data)) {
    if (!phase.files.empty() || phase.from_step > steps) continue;
    return check.Fail("", absl::StrCat("no file is drawn from at step ", phase.from_step, " of ",
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

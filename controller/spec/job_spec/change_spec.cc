#include "controller/spec/job_spec/change_spec.h"

#include <algorithm>
#include <memory>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "controller/spec/dataflow/dataflow_shape.h"
#include "controller/spec/job_spec/spec.h"
#include "controller/spec/settings/train_mix.h"
#include "controller/spec/settings/training_length.h"
#include "google/protobuf/message.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kCursor[] =
    "the checkpoint's prompt cursor counts prompts in this order; for other data submit a new job "
    "with model.path: job:NAME, which begins with the checkpoint's weights";
constexpr char kWeights[] = "the weights are the checkpoint's";
constexpr char kGroups[] =
    "the checkpoint's job goes on with the workers that it asked for; to change who shares workers "
    "or how models are divided among them, submit a new job with model.path: job:NAME";
constexpr char kGraph[] =
    "the roles of the dataflow and what they have learned are the checkpoint's; for another "
    "algorithm submit a new job with model.path: job:NAME";
constexpr char kMode[] =
    "the checkpoint's prompt cursor counts prompts in the order of its mode; to change it submit a "
    "new job with model.path: job:NAME";
constexpr char kMixSteps[] =
    "data.train_mix counts its steps in prompts of the checkpoint's batch size; for another one "
    "submit "
    "a new job with model.path: job:NAME";
constexpr char kOnlyEvaluates[] =
    "it goes on with training; to evaluate the checkpoint submit a new job with model.path: "
    "job:NAME";
constexpr char kOther[] = "is not among the settings that may change";

struct ChangeRule {
  absl::string_view path;  // of the setting, or of a section with all that is in it
  absl::string_view why;   // it may not change; empty: it may
};

// The longest path that fits decides. docs/formats/job-spec.md has the same list.
constexpr ChangeRule kChangeRules[] = {
    {"kind", kGraph},
    {"model", kWeights},
    {"data.train_files", kCursor},
    {"data.train_mix", kCursor},
    {"data.shuffle", kCursor},
    {"data.seed", kCursor},
    {"data.pretrain_files", kCursor},
    {"data.pretrain_batch_size", kCursor},
    {"data.filter_overlong_prompts", kCursor},
    {"data", ""},
    {"rollout", ""},
    {"rollout.tensor_model_parallel_size", kGroups},
    {"reward", ""},
    {"algorithm", ""},
    {"algorithm.preset", kGraph},
    {"algorithm.critic_warmup", kGraph},
    {"algorithm.mode", kMode},
    {"schedule", ""},
    {"weights", ""},
    {"actor", ""},
    {"actor.parallel", kGroups},
    {"critic", ""},
    {"critic.model", kWeights},
    {"critic.train.parallel", kGroups},
    {"cost_critic", ""},
    {"cost_critic.model", kWeights},
    {"cost_critic.train.parallel", kGroups},
    {"judge", ""},
    {"judge.model", kGraph},
    {"trainer", ""},
    {"trainer.val_only", kOnlyEvaluates},
    {"resources", kGroups},
    {"priority", ""},
    {"labels", ""},
    {"dataflow", kGraph},
    {"reference", kGraph},
    {"reward_model", kGraph},
    {"cost_model", kGraph},
};

bool IsStruct(const FieldDescriptor& field) {
  return field.message_type() != nullptr &&
         field.message_type()->full_name() == "google.protobuf.Struct";
}

// A field that is replaced as a whole.
bool IsWhole(const FieldDescriptor& field) {
  return field.is_repeated() || field.message_type() == nullptr || IsStruct(field);
}

void ReplaceFields(const Message& changes, Message* into) {
  std::vector<const FieldDescriptor*> fields;
  changes.GetReflection()->ListFields(changes, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!IsWhole(*field)) {
      ReplaceFields(changes.GetReflection()->GetMessage(changes, field),
                    into->GetReflection()->MutableMessage(into, field));
      continue;
    }
    const std::unique_ptr<Message> copy(changes.New());
    copy->CopyFrom(changes);
    into->GetReflection()->SwapFields(into, copy.get(), {field});
  }
}

// A setting that says how the value of another one is meant is cleared when the other one changes.
void DropMeanings(const v1::JobSpec& changes, v1::JobSpec* spec) {
  if (!spec->has_trainer()) return;
  const v1::TrainerSpec& changed = changes.trainer();
  v1::TrainerSpec* trainer = spec->mutable_trainer();
  // The length of the training is given in one of two ways.
  if (changed.has_total_training_steps()) trainer->clear_total_epochs();
  if (changed.has_total_epochs()) trainer->clear_total_training_steps();
  if (changed.has_keep_best() && changed.keep_best() != trainer->keep_best()) {
    trainer->clear_keep_best_mode();
  }
  if (changed.early_stop().has_metric() &&
      changed.early_stop().metric() != trainer->early_stop().metric()) {
    trainer->clear_early_stop();
  }
}

// Only that field, as bytes; two messages of the same type with equal bytes agree in the field.
std::string FieldBytes(const Message& message, const FieldDescriptor* field) {
  const std::unique_ptr<Message> copy(message.New()), alone(message.New());
  copy->CopyFrom(message);
  message.GetReflection()->SwapFields(copy.get(), alone.get(), {field});
  return alone->SerializeAsString();
}

// Clears a value if the user did not give it, it may change, and its default differs after the
// change, since it is taken from another setting (data.gen_batch_size, for example). `before` and
// `after` are the effective specs of the given spec without the changes and with them.
void DropFollowing(const Message& given, const Message& before, const Message& after,
                   const std::string& prefix, Message* effective) {
  std::vector<const FieldDescriptor*> fields;
  const auto* reflection = effective->GetReflection();
  reflection->ListFields(*effective, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = absl::StrCat(prefix, field->name());
    if (field->is_repeated() || IsStruct(*field)) continue;
    if (!IsWhole(*field)) {
      DropFollowing(reflection->GetMessage(given, field), reflection->GetMessage(before, field),
                    reflection->GetMessage(after, field), path + ".",
                    reflection->MutableMessage(effective, field));
      continue;
    }
    if (reflection->HasField(given, field) || !WhyFixed(path).empty()) continue;
    const std::string was = FieldBytes(before, field);
    // A value that is not the default was found at the submission (a layout, for example): it
    // stays.
    if (FieldBytes(*effective, field) != was || FieldBytes(after, field) == was) continue;
    reflection->ClearField(effective, field);
  }
}

// The paths of all present fields, such as "trainer.early_stop.metric".
void ListPaths(const Message& message, const std::string& prefix, std::vector<std::string>* out) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = absl::StrCat(prefix, prefix.empty() ? "" : ".", field->name());
    if (IsWhole(*field)) {
      out->push_back(path);
    } else {
      ListPaths(message.GetReflection()->GetMessage(message, field), path, out);
    }
  }
}

// Of data.train_files, which do not change.
uint64_t TrainExamples(const v1::Job& saved) {
  for (const v1::DataFilesSummary& list : saved.data_files()) {
    if (list.list() == "train_files") return list.examples();
  }
  return 0;
}

}  // namespace

std::string WhyFixed(const std::string& path) {
  const ChangeRule* best = nullptr;
  for (const ChangeRule& rule : kChangeRules) {
    const bool fits = path == rule.path || absl::StartsWith(path, absl::StrCat(rule.path, "."));
    if (fits && (best == nullptr || rule.path.size() > best->path.size())) best = &rule;
  }
  return std::string(best == nullptr ? kOther : best->why);
}

ChangedJob ChangeSpec(const v1::Job& saved, const v1::JobSpec& changes) {
  ChangedJob out;
  Violations refused;
  std::vector<std::string> paths;
  ListPaths(changes, "", &paths);
  for (const std::string& path : paths) {
    const std::string why = WhyFixed(path);
    if (!why.empty()) {
      refused.Add(path, absl::StrCat("cannot change when a job goes on from a checkpoint: ", why));
    }
  }
  const v1::DataSpec& data = saved.effective_spec().data();
  if (!data.train_mix().empty() && changes.data().has_train_batch_size() &&
      changes.data().train_batch_size() != data.train_batch_size()) {
    refused.Add("data.train_batch_size",
                absl::StrCat("cannot change when a job goes on from a checkpoint: ", kMixSteps));
  }
  out.spec = saved.spec();
  DropMeanings(changes, &out.spec);
  ReplaceFields(changes, &out.spec);
  v1::JobSpec effective = saved.effective_spec();
  DropMeanings(changes, &effective);
  DropFollowing(saved.spec(), CheckSpec(saved.spec()).effective, CheckSpec(out.spec).effective, "",
                &effective);
  ReplaceFields(changes, &effective);
  if (changes.trainer().has_total_training_steps()) {
    ExtendTrainMix(changes.trainer().total_training_steps(), effective.mutable_data());
  }
  // Filled-in settings are kept: only the changes, and settings that follow from them, are new.
  CheckedSpec checked = CheckSpec(effective);
  out.effective_spec = std::move(checked.effective);
  out.dataflow = std::move(checked.dataflow);
  out.violations = refused.Take();
  out.violations.insert(out.violations.end(), checked.violations.begin(), checked.violations.end());
  if (!out.violations.empty()) return out;
  if (ShapeText(out.dataflow) != ShapeText(saved.dataflow())) {
    refused.Add("algorithm", absl::StrCat("these changes would change the dataflow: ", kGraph));
  }
  FillSteps(TrainExamples(saved), &out.effective_spec, &refused);
  const int64_t steps = out.effective_spec.trainer().total_training_steps();
  if (steps <= saved.step() && steps > 0) {
    refused.Add("trainer.total_training_steps",
                absl::StrCat("is ", steps, ", and the checkpoint is of step ", saved.step(),
                             ": there is nothing left to do; set it to more, with --set "
                             "trainer.total_training_steps=",
                             saved.step() * 2));
  }
  out.violations = refused.Take();
  return out;
}

}  // namespace baton::controller

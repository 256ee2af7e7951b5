#include "controller/spec/job_spec/same_prompts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace baton::controller {
namespace {

using Files = google::protobuf::RepeatedPtrField<std::string>;

std::string OtherFiles(absl::string_view list, const Files& job, const Files& other) {
  if (std::equal(job.begin(), job.end(), other.begin(), other.end())) return "";
  return absl::StrCat("its data.", list, " are ", absl::StrJoin(other, ", "),
                      ", and here they are ", absl::StrJoin(job, ", "));
}

}  // namespace

std::string WhyOtherPrompts(const v1::JobSpec& job, const v1::JobSpec& other) {
  if (other.kind() != v1::JOB_KIND_RL)
    return "it is not of kind rl, so nothing was said to prompts";
  const v1::DataSpec &here = job.data(), &there = other.data();
  std::string files = OtherFiles("train_files", here.train_files(), there.train_files());
  if (files.empty()) {
    files = OtherFiles("val_files", here.val_files(), there.val_files());
  }
  if (!files.empty()) return files;
  if (here.prompt_key() == there.prompt_key()) return "";
  return absl::StrCat("its data.prompt_key is '", there.prompt_key(), "', and here it is '",
                      here.prompt_key(), "'");
}

}  // namespace baton::controller

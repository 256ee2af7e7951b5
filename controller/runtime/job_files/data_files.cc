#include "controller/runtime/job_files/data_files.h"

#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/runtime/calls/data_readers.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {

std::vector<std::string> AbsolutePaths(
    const std::string& data_root, const google::protobuf::RepeatedPtrField<std::string>& files) {
  std::vector<std::string> out;
  for (const std::string& path : files) {
    out.push_back(absl::StartsWith(path, "/") ? path : absl::StrCat(data_root, "/", path));
  }
  return out;
}

uint64_t DataBytes(const std::string& data_root, const v1::DataSpec& data) {
  uint64_t bytes = 0;
  for (const auto* files : {&data.train_files(), &data.val_files(), &data.pretrain_files()}) {
    bytes += BytesOf(AbsolutePaths(data_root, *files));
  }
  return bytes;
}

DataSet ReadDataFiles(const std::vector<std::string>& paths, DataSetOptions options,
                      const DataLimits& limits) {
  const uint64_t bytes = BytesOf(paths);  // files that do not exist are reported when they are read
  options.max_memory_bytes = limits.memory_bytes;
  if (bytes <= limits.bytes) return ReadDataSet(paths, options);
  DataSet none;
  none.problems.push_back(absl::StrCat("the files have ", bytes, " bytes together, at most ",
                                       limits.bytes,
                                       ", because the controller holds them in memory; give fewer "
                                       "or smaller ones, or start it with a "
                                       "larger --max-data-bytes"));
  return none;
}

v1::DataFilesSummary Summarise(const std::string& list, const DataSet& data) {
  v1::DataFilesSummary out;
  out.set_list(list);
  out.set_examples(data.examples.size());
  out.set_disliked(data.disliked);
  out.set_unpaired(data.unpaired);
  out.set_weightless(data.weightless);
  out.set_cut_turns(data.cut_turns);
  out.set_nulls_in_tools(data.nulls_in_tools);
  out.set_unanswered(data.unanswered.lines);
  out.set_unanswered_keys(data.unanswered.keys);
  out.set_unanswered_place(data.unanswered.place);
  out.set_answer_reader(data.unanswered.use);
  out.mutable_unused_keys()->Assign(data.unused_keys.begin(), data.unused_keys.end());
  return out;
}

std::string DataTooLarge(uint64_t memory_bytes, const DataLimits& limits) {
  if (memory_bytes <= limits.memory_bytes) return "";
  return absl::StrCat("the examples of all files take ", memory_bytes, " bytes in memory, at most ",
                      limits.memory_bytes,
                      ", which the data of all jobs may take together; give fewer, or start the "
                      "controller with a larger --max-data-memory-bytes");
}

absl::StatusOr<JobData> ReadJobData(const v1::JobSpec& effective, const std::string& data_root,
                                    const DataLimits& limits, bool held, DataCache* cache) {
  JobData out;
  uint64_t own = 0;
  const auto read = [&](const char* field, const auto& files, const DataSetOptions& options,
                        std::shared_ptr<const DataSet>* data) {
    const std::vector<std::string> paths = AbsolutePaths(data_root, files);
    const uint64_t free = held ? std::numeric_limits<uint64_t>::max() : own;
    auto got =
        cache->Get(paths, options, free, [&] { return ReadDataFiles(paths, options, limits); });
    if (!got.ok()) return got.status();
    *data = *std::move(got);
    own += (*data)->memory_bytes;
    for (const std::string& problem : (*data)->problems) {
      out.problems.push_back(absl::StrCat("spec.data.", field, ": ", problem));
    }
    return absl::OkStatus();
  };
  const v1::DataSpec& data = effective.data();
  BATON_RETURN_IF_ERROR(
      read("train_files", data.train_files(), OptionsOf(effective.kind(), data), &out.train));
  BATON_RETURN_IF_ERROR(
      read("val_files", data.val_files(), OptionsOf(effective.kind(), data), &out.val));
  BATON_RETURN_IF_ERROR(read("pretrain_files", data.pretrain_files(),
                             OptionsOf(v1::JOB_KIND_SFT, data), &out.pretrain));
  const std::string large = EvaluationTooLarge(effective, out.val->examples.size(), limits.steps);
  if (!large.empty()) out.problems.push_back(absl::StrCat("spec.data.val_files: ", large));
  const std::string much = DataTooLarge(own, limits);
  if (!much.empty()) out.problems.push_back(absl::StrCat("spec.data: ", much));
  return out;
}

}  // namespace baton::controller

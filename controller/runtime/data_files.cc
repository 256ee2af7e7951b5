#include "controller/runtime/data_files.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/runtime/data_readers.h"

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

DataSet ReadDataFiles(const std::vector<std::string>& paths, const DataSetOptions& options,
                      uint64_t max_bytes) {
  const uint64_t bytes = BytesOf(paths);  // files that do not exist are reported when they are read
  if (bytes <= max_bytes) return ReadDataSet(paths, options);
  DataSet none;
  none.problems.push_back(absl::StrCat("the files have ", bytes, " bytes together, at most ",
                                       max_bytes,
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
  out.set_unanswered(data.unanswered);
  out.set_unanswered_keys(data.unanswered_keys);
  return out;
}

JobData ReadJobData(const v1::JobSpec& effective, const std::string& data_root,
                    const DataLimits& limits) {
  JobData out;
  const auto read = [&](const char* field, const auto& files, const DataSetOptions& options) {
    DataSet data = ReadDataFiles(AbsolutePaths(data_root, files), options, limits.bytes);
    for (const std::string& problem : std::exchange(data.problems, {})) {
      out.problems.push_back(absl::StrCat("spec.data.", field, ": ", problem));
    }
    return data;
  };
  const v1::DataSpec& data = effective.data();
  out.train = read("train_files", data.train_files(), OptionsOf(effective.kind(), data));
  out.val = read("val_files", data.val_files(), OptionsOf(effective.kind(), data));
  out.pretrain = read("pretrain_files", data.pretrain_files(), OptionsOf(v1::JOB_KIND_SFT, data));
  const std::string large = EvaluationTooLarge(effective, out.val.examples.size(), limits.steps);
  if (!large.empty()) out.problems.push_back(absl::StrCat("spec.data.val_files: ", large));
  return out;
}

}  // namespace baton::controller

#include "controller/runtime/data_files.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/runtime/data_readers.h"

namespace baton::controller {
namespace {

std::vector<std::string> AbsolutePaths(const std::string& data_root,
                                       const google::protobuf::RepeatedPtrField<std::string>& in) {
  std::vector<std::string> out;
  for (const std::string& path : in) {
    out.push_back(absl::StartsWith(path, "/") ? path : absl::StrCat(data_root, "/", path));
  }
  return out;
}

}  // namespace

DataSet ReadDataFiles(const std::vector<std::string>& paths, const DataSetOptions& options,
                      uint64_t max_bytes) {
  const uint64_t bytes = BytesOf(paths);  // of what is no file, reading it says so
  if (bytes <= max_bytes) return ReadDataSet(paths, options);
  DataSet none;
  none.problems.push_back(absl::StrCat(
      "the files have ", bytes, " bytes together, at most ", max_bytes,
      ", for the controller holds them in memory; give fewer or smaller ones, or start it with a "
      "larger --max-data-bytes"));
  return none;
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
  out.train = read("train_files", data.train_files(), OptionsOf(effective.kind(), false));
  out.val = read("val_files", data.val_files(), OptionsOf(effective.kind(), /*held_out=*/true));
  out.pretrain = read("pretrain_files", data.pretrain_files(), OptionsOf(v1::JOB_KIND_SFT, false));
  const std::string large = EvaluationTooLarge(effective, out.val.examples.size(), limits.steps);
  if (!large.empty()) out.problems.push_back(absl::StrCat("spec.data.val_files: ", large));
  return out;
}

}  // namespace baton::controller

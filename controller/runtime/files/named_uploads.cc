#include "controller/runtime/files/named_uploads.h"
#include "controller/runtime/files/json_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/access/caller.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/rows/tables.h"
#include "google/protobuf/util/json_util.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using google::protobuf::FieldDescriptor;

constexpr size_t kScannedAtOnce = 100;
constexpr uintmax_t kMaxJobJsonBytes = 64 << 20;

class NamesFinder {
 public:
  NamesFinder(store::Store& store, const std::string& data_root, const std::function<bool()>& stop)
      : store_(store), data_root_(data_root), stop_(stop) {}

  absl::StatusOr<NamedUploads> Find() && {
    BATON_RETURN_IF_ERROR(ReadStore());
    // A job or checkpoint that vanishes meanwhile names nothing.
    BATON_ASSIGN_OR_RETURN(const auto projects, ListFolder(fs::path(data_root_) / "jobs"));
    for (const fs::directory_entry& project : projects) {
      BATON_ASSIGN_OR_RETURN(const auto jobs, ListFolder(project.path()));
      for (const fs::directory_entry& job : jobs) {
        BATON_ASSIGN_OR_RETURN(const auto checkpoints, ListFolder(job.path() / "checkpoints"));
        for (const fs::directory_entry& saved : checkpoints) {
          if (stop_()) return absl::CancelledError("the controller stops");
          BATON_RETURN_IF_ERROR(ReadCheckpoint(saved.path(), project.path().filename().string()));
        }
      }
    }
    return std::move(named_);
  }

 private:
  void AddNames(const v1::Job& job) {
    for (const v1::JobSpec* spec : {&job.spec(), &job.effective_spec()}) {
      named_.AddTexts(*spec, data_root_);
      for (const auto* files : {&spec->data().train_files(), &spec->data().val_files(),
                                &spec->data().pretrain_files()}) {
        for (const std::string& file : *files) AddWhereLinksLead(file);
      }
    }
  }

  void AddWhereLinksLead(const std::string& file) {
    if (!absl::StartsWith(file, "/")) return;
    std::error_code code;
    const fs::path real = fs::weakly_canonical(file, code);
    const fs::path root = fs::weakly_canonical(data_root_, code);
    if (!code) named_.AddPath(real.lexically_relative(root).string(), data_root_);
  }

  template <typename Read>
  absl::Status EachRow(const char* table, const Read& read) {
    store::ScanOptions scan;
    scan.limit = kScannedAtOnce;
    while (true) {
      if (stop_()) return absl::CancelledError("the controller stops");
      BATON_ASSIGN_OR_RETURN(const auto rows, store_.Scan(table, scan));
      for (const store::Row& row : rows) read(row);
      if (rows.size() < scan.limit) return absl::OkStatus();
      scan.begin = rows.back().key + std::string(1, '\0');
    }
  }

  // A job whose spec cannot be read may name any file of its project.
  absl::Status ReadStore() {
    std::set<std::string> unread;
    BATON_RETURN_IF_ERROR(
        EachRow(kJobTable, [&](const store::Row& stored) { unread.insert(stored.key); }));
    BATON_RETURN_IF_ERROR(EachRow(kSpecTable, [&](const store::Row& stored) {
      v1::Job job;
      const bool whole = job.ParseFromString(stored.value);
      AddNames(job);
      if (whole) unread.erase(stored.key);
    }));
    for (const std::string& job : unread) named_.unknown.insert(access::ProjectOf(job));
    return absl::OkStatus();
  }

  // The names of the files below `folder`, which stands for `files` in the checkpoint's `data`. The
  // name of a folder would stand for everything below it.
  absl::Status AddKept(const fs::path& folder, const fs::path& name) {
    BATON_ASSIGN_OR_RETURN(const auto entries, ListFolder(folder));
    for (const fs::directory_entry& entry : entries) {
      const fs::path below = name / entry.path().filename();
      std::error_code gone;
      if (fs::is_directory(entry.symlink_status(gone))) {
        BATON_RETURN_IF_ERROR(AddKept(entry.path(), below));
      } else {
        named_.AddPath(below.string(), data_root_);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadCheckpoint(const fs::path& folder, const std::string& project) {
    BATON_RETURN_IF_ERROR(AddKept(folder / "data", "files"));
    const fs::path json = folder / "job.json";
    std::error_code code;
    const fs::file_status status = fs::symlink_status(json, code);
    if (status.type() == fs::file_type::not_found) return absl::OkStatus();
    std::ifstream in(json);
    const uintmax_t size = fs::file_size(json, code);
    std::string text;
    if (!code && size <= kMaxJobJsonBytes && in)
      text.assign(std::istreambuf_iterator<char>(in), {});
    if (code || text.size() != size) {  // it may name anything
      named_.unknown.insert(project);
      return absl::OkStatus();
    }
    store::v1::JobRow row;
    google::protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;
    // A checkpoint whose job.json cannot be read cannot be resumed either.
    if (CountJsonValues(text) > kMostJsonValues) return absl::OkStatus();
    if (google::protobuf::util::JsonStringToMessage(text, &row, options).ok()) AddNames(row.job());
    return absl::OkStatus();
  }

  store::Store& store_;
  const std::string& data_root_;
  const std::function<bool()>& stop_;
  NamedUploads named_;
};

}  // namespace

bool NamedUploads::Has(const std::string& path, const std::string& project) const {
  if (unknown.count(project) > 0) return true;
  for (fs::path at = path; !at.empty(); at = at.parent_path()) {
    if (paths.count(at.string()) > 0) return true;
  }
  return false;
}

void NamedUploads::AddPath(const std::string& text, const std::string& data_root) {
  const bool absolute = absl::StartsWith(text, data_root + "/");
  std::string path =
      fs::path(absolute ? text.substr(data_root.size() + 1) : text).lexically_normal().string();
  while (absl::EndsWith(path, "/")) path.pop_back();
  if (path == "files" || absl::StartsWith(path, "files/")) paths.insert(path);
}

// A path by itself, or within a command.
void NamedUploads::AddText(const std::string& text, const std::string& data_root) {
  AddPath(text, data_root);
  for (absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\n\"'=;|&<>()"))) {
    if (word.size() < text.size()) AddPath(std::string(word), data_root);
  }
}

void NamedUploads::AddTexts(const google::protobuf::Message& message,
                            const std::string& data_root) {
  const google::protobuf::Reflection* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool texts = field->type() == FieldDescriptor::TYPE_STRING;
    const bool messages = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!texts && !messages) continue;
    if (!field->is_repeated()) {
      if (texts) AddText(reflection->GetString(message, field), data_root);
      if (messages) AddTexts(reflection->GetMessage(message, field), data_root);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      if (texts) AddText(reflection->GetRepeatedString(message, field, i), data_root);
      if (messages) AddTexts(reflection->GetRepeatedMessage(message, field, i), data_root);
    }
  }
}

absl::StatusOr<NamedUploads> FindNamedUploads(store::Store& store, const std::string& data_root,
                                              const std::function<bool()>& stop) {
  return NamesFinder(store, data_root, stop).Find();
}

}  // namespace baton::controller

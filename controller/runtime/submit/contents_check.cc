#include "controller/runtime/submit/contents_check.h"
#include "controller/runtime/files/trash.h"

#include <stdlib.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/job_files/data_files.h"
#include "controller/spec/job_spec/models.h"
#include "sdk/common/base/log.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using FileNames = google::protobuf::RepeatedPtrField<std::string>;

constexpr char kCheckFolderPrefix[] = ".checking-";

struct List {
  const char* name;
  FileNames* files;
};

std::vector<List> ListsOf(v1::JobSpec* spec) {
  v1::DataSpec* data = spec->mutable_data();
  return {{"train_files", data->mutable_train_files()},
          {"val_files", data->mutable_val_files()},
          {"pretrain_files", data->mutable_pretrain_files()}};
}

std::vector<std::string> FilesBelow(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code code;
  for (fs::recursive_directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    out.push_back(entry->path().string());
  }
  return out;
}

// True if the checking program changed the list, and did not only count the examples that it left
// unchecked.
bool IsFiltered(const v1::DataFilesSummary& counted) {
  return counted.overlong_prompts() + counted.overlong_responses() > 0 &&
         counted.unchecked_lines() == 0;
}

// Takes over the days that chat templates are given, which the program writes where a template asks
// for one.
void TakeDates(v1::JobSpec* checked, v1::JobSpec* effective) {
  const auto from = ModelsOf(checked);
  for (const auto& [field, model] : ModelsOf(effective)) {
    for (const auto& [other, dated] : from) {
      if (other == field && dated->has_chat_template_date()) {
        model->set_chat_template_date(dated->chat_template_date());
      }
    }
  }
}

// Without the checking program, a job is admitted, and its workers find the problems. But then
// nothing can leave out what is too long.
std::vector<v1::FieldViolation> Unfiltered(const v1::JobSpec& effective, absl::string_view why) {
  std::vector<v1::FieldViolation> out;
  const auto refuse = [&](bool filters, const char* field, const char* what) {
    if (!filters) return;
    out.push_back(
        Violation(field, absl::StrCat("the controller's program that finds ", what,
                                      " that are too long did not run: ", why,
                                      "; unset it and leave such ", what, " out of the files")));
  };
  refuse(effective.data().filter_overlong_prompts(), "spec.data.filter_overlong_prompts",
         "prompts");
  refuse(effective.data().filter_overlong_responses(), "spec.data.filter_overlong_responses",
         "responses");
  return out;
}

bool Filters(const v1::DataSpec& data) {
  return data.filter_overlong_prompts() || data.filter_overlong_responses();
}

}  // namespace

// A folder for the files of the checking program; it goes to the trash with this object.
class ContentsCheck::Scratch {
 public:
  explicit Scratch(const std::string& data_root) : data_root_(data_root) {
    std::string pattern = absl::StrCat(data_root, "/", kCheckFolderPrefix, "XXXXXX");
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Scratch() { Remove(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  void Remove() {
    if (!path_.empty()) MoveToTrash(data_root_, path_).IgnoreError();  // else the next start does
    path_.clear();
  }

 private:
  const std::string data_root_;
  std::string path_;
};

struct ContentsCheck::Call {
  Call(Asked asked, Done done, const std::string& data_root)
      : of(std::move(asked)), done(std::move(done)), scratch(data_root), spec(*of.effective) {}

  // Remove all files of the check before the caller gets its answer.
  void GiveBack() {
    scratch.Remove();
    room.reset();
  }

  Asked of;
  Done done;
  Scratch scratch;
  v1::JobSpec spec;                     // the spec for the program
  std::unique_ptr<Uploads::Room> room;  // for files of the program; null: it writes none
};

ContentsCheck::ContentsCheck(Options options, Uploads* uploads, DataReaders* readers)
    : options_(std::move(options)),
      uploads_(uploads),
      readers_(readers),
      checkers_(options_.checkers) {}

void ContentsCheck::Check(Asked asked, Done done) {
  if (options_.checkers.program.empty()) {
    return done(Unfiltered(*asked.effective, "there is none (--checker)"));
  }
  const auto call = std::make_shared<Call>(std::move(asked), std::move(done), options_.data_root);
  if (call->scratch.path().empty()) {  // not a mistake of the spec
    return call->done(
        absl::UnavailableError(absl::StrCat("the check of models and data cannot make a folder in ",
                                            options_.data_root, "; is the disk full?")));
  }
  // The filtered files are at most as large as the originals, plus an end of line for each.
  uint64_t bytes = 0;
  for (const List& list : ListsOf(&call->spec)) {
    const auto paths = AbsolutePaths(options_.data_root, *list.files);
    list.files->Assign(paths.begin(), paths.end());
    bytes += BytesOf(paths) + paths.size();
  }
  // Reserved while the program runs, not while the check waits for a process: otherwise many
  // waiting checks of the same data would reserve all room of their project.
  const auto begin = [this, call, bytes](CheckerProcess::Request* request) {
    if (!Filters(call->spec.data())) return;
    call->room = uploads_->Hold(call->of.project, bytes);
    request->filtered_bytes = call->room->bytes();
  };
  checkers_.Post(call->of.project, {call->spec, call->scratch.path(), 0}, begin, call->of.gone,
                 [this, call](absl::StatusOr<v1::ValidateJobResponse> answer) {
                   OnAnswer(call, std::move(answer));
                 });
}

void ContentsCheck::OnAnswer(const std::shared_ptr<Call>& call,
                             absl::StatusOr<v1::ValidateJobResponse> answer) {
  const auto shared = std::make_shared<decltype(answer)>(std::move(answer));
  const auto size = [call, shared] {
    return BytesToTakeOver(shared->ok() ? **shared : v1::ValidateJobResponse(),
                           call->scratch.path());
  };
  readers_->Post(call->of.project, size, [this, call, shared] {
    auto found = Judge(call.get(), shared.get());
    call->GiveBack();
    call->done(std::move(found));
  });
}

absl::StatusOr<std::vector<v1::FieldViolation>> ContentsCheck::Judge(
    Call* call, absl::StatusOr<v1::ValidateJobResponse>* answer) {
  const absl::Status& status = answer->status();
  if (absl::IsCancelled(status) || absl::IsResourceExhausted(status)) return status;
  if (absl::IsUnavailable(status)) {
    Log(LogLevel::kWarn, "models and data are not checked at submit",
        {{"error", status.message()}});
    return Unfiltered(*call->of.effective, status.message());
  }
  if (absl::IsDeadlineExceeded(status)) {
    // Whatever delays the check would also delay the workers of the job.
    return std::vector<v1::FieldViolation>{Violation(
        "spec.model",
        absl::StrCat("the check of models and data ", status.message(),
                     ", so the job is refused, since the same model, chat template or data would "
                     "hold its workers; use a simpler template or smaller files",
                     Filters(call->of.effective->data())
                         ? ", or leave out what is too long yourself and unset "
                           "spec.data.filter_overlong_prompts and filter_overlong_responses"
                         : ""))};
  }
  if (!status.ok()) {
    return std::vector<v1::FieldViolation>{Violation(
        "spec.model", absl::StrCat("the check of models and data (", options_.checkers.program,
                                   " check) ", status.message()))};
  }
  const auto& violations = (*answer)->violations();
  if (violations.empty()) return TakeFiltered(call, &**answer);
  return std::vector<v1::FieldViolation>(violations.begin(), violations.end());
}

// Counts what the checking program left out, and keeps the files that it wrote.
std::vector<v1::FieldViolation> ContentsCheck::TakeFiltered(Call* call,
                                                            v1::ValidateJobResponse* answer) {
  std::vector<v1::FieldViolation> out;
  if (call->room != nullptr) call->room->Shrink(BytesOf(FilesBelow(call->scratch.path())));
  v1::JobSpec* const effective = call->of.effective;
  TakeDates(answer->mutable_effective_spec(), effective);
  const std::vector<List> given = ListsOf(&call->spec),
                          left = ListsOf(answer->mutable_effective_spec()),
                          own = ListsOf(effective);
  for (const v1::DataFilesSummary& counted : answer->data_files()) {
    for (size_t i = 0; i < own.size() && IsFiltered(counted); ++i) {
      if (own[i].name != counted.list()) continue;
      const v1::JobKind kind =
          counted.list() == "pretrain_files" ? v1::JOB_KIND_SFT : effective->kind();
      DataSetOptions how = OptionsOf(kind, effective->data());
      if (counted.list() != "pretrain_files") how.answer_uses = call->of.answer_uses;
      const DataSet set = ReadDataFiles({left[i].files->begin(), left[i].files->end()}, how,
                                        {options_.max_data_bytes, options_.max_data_memory_bytes});
      for (v1::DataFilesSummary& summary : *call->of.data_files) {
        if (summary.list() != counted.list()) continue;
        summary = Summarise(counted.list(), set);
        summary.set_overlong_prompts(counted.overlong_prompts());
        summary.set_overlong_responses(counted.overlong_responses());
      }
      if (call->of.keeps) {
        KeepFiles(*call, counted.list(), *left[i].files, *given[i].files, own[i].files, &out);
      }
    }
    for (v1::DataFilesSummary& summary : *call->of.data_files) {
      if (summary.list() != counted.list()) continue;
      summary.set_unchecked_lines(counted.unchecked_lines());
      summary.set_prompts_cut_back(counted.prompts_cut_back());
      summary.set_joined_turns(counted.joined_turns());
      summary.set_lines_with_unread_keys(counted.lines_with_unread_keys());
      summary.set_unread_keys(counted.unread_keys());
      summary.set_cut_responses(counted.cut_responses());
      *summary.mutable_model_warnings() = counted.model_warnings();
    }
  }
  return out;
}

// Files of `left` that the program wrote become uploads; the others keep their names. `given` has
// the full paths of the files that `own` names.
void ContentsCheck::KeepFiles(const Call& call, const std::string& list, const FileNames& left,
                              const FileNames& given, FileNames* own,
                              std::vector<v1::FieldViolation>* out) {
  FileNames named;
  for (const std::string& path : left) {
    int index = 0;
    while (index < given.size() && given.Get(index) != path) ++index;
    if (index < given.size()) {
      named.Add(std::string(own->Get(index)));
      continue;
    }
    // no other file of this machine may become an upload
    if (!IsBelow(path, call.scratch.path())) {
      out->push_back(Violation(absl::StrCat("spec.data.", list),
                               "the check of models and data named a file that it did not write"));
      continue;
    }
    auto upload = uploads_->Copy(path, call.of.project, "", call.room.get());
    if (upload.ok()) {
      named.Add(*std::move(upload));
    } else {
      out->push_back(Violation(
          absl::StrCat("spec.data.", list),
          absl::StrCat("what is left of the files cannot be kept: ", upload.status().message())));
    }
  }
  own->Swap(&named);
}

// Copies the filtered files, and reads every changed list again.
uint64_t BytesToTakeOver(v1::ValidateJobResponse answer, const std::string& folder) {
  std::vector<std::string> files = FilesBelow(folder);
  for (const v1::DataFilesSummary& counted : answer.data_files()) {
    if (!IsFiltered(counted)) continue;
    for (const List& list : ListsOf(answer.mutable_effective_spec())) {
      if (list.name != counted.list()) continue;
      files.insert(files.end(), list.files->begin(), list.files->end());
    }
  }
  return BytesOf(files);
}

void RemoveCheckFolders(const std::string& data_root) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(data_root, code)) {
    if (!absl::StartsWith(entry.path().filename().string(), kCheckFolderPrefix)) continue;
    MoveToTrash(data_root, entry.path()).IgnoreError();
  }
}

}  // namespace baton::controller

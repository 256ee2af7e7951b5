#include "controller/runtime/job_files/replay_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/core/loop/job_core.h"
#include "controller/experience/experience_log.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/json_file.h"
#include "controller/runtime/job_files/checkpoint_copy.h"
#include "controller/runtime/job_files/compare_files.h"
#include "controller/runtime/job_files/optimizer_files.h"
#include "controller/runtime/job_files/saved_job.h"
#include "controller/runtime/rows/tables.h"
#include "controller/spec/dataflow/replay.h"
#include "controller/spec/job_spec/check_saved.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBatchRowsAtOnce = 1;  // a row may have 900 MB
constexpr char kReplayFile[] = "replay.json";
constexpr char kComparedFolder[] = "compared";  // a copy of the source's checkpoint of to_step
// Files with version numbers, which also depend on the failures of a job.
constexpr std::array<const char*, 3> kFilesOfVersions = {"trainer.json", "critic.json",
                                                         "cost_critic.json"};

absl::Status WithReason(const absl::Status& status) {
  const bool range = absl::IsInvalidArgument(status);
  return MakeError(status.code(), range ? "REPLAY_RANGE" : "REPLAY_NOT_KEPT", status.message());
}

// A JSON file of a message. DATA_LOSS.
template <typename Message>
absl::StatusOr<Message> ReadMessage(const fs::path& path) {
  Message message;
  const absl::Status read = ReadJsonFile(path, &message);
  if (!read.ok()) return absl::DataLossError(read.message());
  return message;
}

absl::Status WriteReplay(const v1::Replay& replay, const fs::path& path) {
  const absl::StatusOr<std::string> json = JsonText(replay);
  if (!json.ok()) return absl::InternalError(absl::StrCat("the replay ", json.status().message()));
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << *json;
  out.close();
  if (!out) {
    return absl::UnavailableError(
        absl::StrCat("cannot write ", path.string(), "; free space under the data root"));
  }
  return SyncFile(path);
}

fs::path LogFileOf(const fs::path& job_folder, uint32_t number) {
  return job_folder / "experience" / experience::LogFileName(number);
}

std::set<uint32_t> LogFilesOf(const store::v1::BatchRow& row) {
  std::set<uint32_t> files;
  for (const store::v1::BatchEntry& entry : row.entries()) {
    files.insert(entry.trajectory().file());
    for (const store::v1::ColumnsRow& columns : entry.trajectory().columns()) {
      files.insert(columns.file());
    }
  }
  return files;
}

// The rows of steps that can be replayed, one after the other; `use` is called with each. Steps
// whose experience is gone are left out.
template <typename Use>
absl::Status ForEachRow(store::Store& store, const ReplaySource& source, int64_t first,
                        int64_t last, Use use) {
  std::map<uint32_t, bool> there;  // log files
  const auto is_there = [&](uint32_t number) {
    const auto [file, fresh] = there.try_emplace(number, false);
    std::error_code code;
    if (fresh) file->second = fs::is_regular_file(LogFileOf(source.folder, number), code);
    return file->second;
  };
  for (auto next = static_cast<uint64_t>(first); static_cast<int64_t>(next) <= last;) {
    store::ScanOptions range =
        NumberRange(source.job.name(), next, static_cast<uint64_t>(last) + 1);
    range.limit = kBatchRowsAtOnce;
    BATON_ASSIGN_OR_RETURN(std::vector<store::Row> rows, store.Scan(kBatchTable, range));
    for (store::Row& stored : rows) {
      next = KeyNumber(stored.key) + 1;
      store::v1::BatchRow row;
      const bool good = row.ParseFromString(stored.value) &&
                        row.step() == static_cast<int64_t>(KeyNumber(stored.key));
      if (!good) {
        return absl::DataLossError(
            absl::StrCat("the row of a batch, ", stored.key, ", is damaged"));
      }
      const std::set<uint32_t> files = LogFilesOf(row);
      if (!std::all_of(files.begin(), files.end(), is_there)) continue;
      BATON_RETURN_IF_ERROR(use(row.step(), files, std::move(stored.value)));
    }
    if (rows.size() < kBatchRowsAtOnce) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<Kept> KeptOf(store::Store& store, const ReplaySource& source,
                            const v1::CreateReplayRequest& request) {
  Kept kept;
  kept.done = source.job.step();
  for (const v1::Checkpoint& checkpoint : source.checkpoints) {
    kept.checkpoints.insert(checkpoint.step());
    if (checkpoint.weights_only()) kept.weights_only.insert(checkpoint.step());
  }
  const int64_t first =
      request.has_from_step() ? std::clamp<int64_t>(request.from_step(), 0, kept.done) + 1 : 1;
  const int64_t last = request.has_to_step() ? std::min(request.to_step(), kept.done) : kept.done;
  BATON_RETURN_IF_ERROR(
      ForEachRow(store, source, first, last,
                 [&kept](int64_t step, const std::set<uint32_t>&, const std::string&) {
                   kept.recorded.insert(step);
                   return absl::OkStatus();
                 }));
  return kept;
}

absl::StatusOr<ReplayRange> RangeOf(const Kept& kept, const v1::CreateReplayRequest& request) {
  return ChooseReplay(kept,
                      request.has_from_step() ? std::optional(request.from_step()) : std::nullopt,
                      request.has_to_step() ? std::optional(request.to_step()) : std::nullopt);
}

void AddNotes(const ReplaySource& source, const v1::CreateReplayRequest& request, const Kept& kept,
              const ReplayRange& range, v1::Replay* replay) {
  if (!request.has_from_step() && range.from > 0) {
    replay->add_notes(absl::StrCat(
        "Steps 1-", range.from,
        " are not replayed: what they need is no longer kept, because the "
        "job had trainer.keep_experience: ",
        source.job.effective_spec().trainer().keep_experience(),
        " and trainer.max_checkpoints: ", source.job.effective_spec().trainer().max_checkpoints(),
        ", or because it began from a checkpoint. Kept are the batches and responses of ",
        StepsText(kept.recorded), ", and checkpoints of ", StepsText(kept.checkpoints), "."));
  }
  if (!request.has_to_step() && range.to < kept.done) {
    replay->add_notes(
        absl::StrCat("The replay ends at step ", range.to, " of ", kept.done,
                     ": that is the newest checkpoint that it can be compared with."));
  }
  if (!range.compares) {
    replay->add_notes(absl::StrCat("The job keeps no checkpoint of step ", range.to,
                                   ", so there is nothing to compare the weights with; the batches "
                                   "are compared."));
  }
  if (!source.job.effective_spec().rollout().deterministic()) {
    replay->add_notes(
        "The job does not set rollout.deterministic, so nothing promises that the same batch makes "
        "the same bytes: a difference then proves no fault.");
  }
}

const v1::Checkpoint* CheckpointOfStep(const ReplaySource& source, int64_t step) {
  for (const v1::Checkpoint& checkpoint : source.checkpoints) {
    if (checkpoint.step() == step) return &checkpoint;
  }
  return nullptr;
}

bool HoldsVersions(const v1::FileHash& file) {
  return std::find(kFilesOfVersions.begin(), kFilesOfVersions.end(), file.path()) !=
         kFilesOfVersions.end();
}

absl::StatusOr<std::vector<v1::FileHash>> FilesOf(const fs::path& checkpoint) {
  BATON_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest,
                         ReadMessage<v1::CheckpointManifest>(checkpoint / "files.json"));
  std::vector<v1::FileHash> files;
  for (const v1::FileHash& file : manifest.files()) {
    if (!HoldsVersions(file)) files.push_back(file);
  }
  return files;
}

// The first row of a job that begins as the source began, or as its checkpoint.
absl::StatusOr<store::v1::JobRow> RowAt(const ReplaySource& source, const ReplayPlan& plan,
                                        v1::Job as, int64_t submit_order, const fs::path& home) {
  if (plan.checkpoint.empty()) {
    *as.mutable_spec() = source.job.spec();
    *as.mutable_effective_spec() = source.job.effective_spec();
    *as.mutable_dataflow() = source.job.dataflow();
    return JobCore(std::move(as), submit_order, JobCoreOptions()).Row();
  }
  auto saved = ReadSavedJob(plan.checkpoint);
  BATON_RETURN_IF_ERROR(saved.status());
  v1::Checkpoint checkpoint;
  checkpoint.set_step(plan.replay.from_step());
  checkpoint.set_path((home / absl::StrCat("checkpoints/step-", plan.replay.from_step())).string());
  checkpoint.set_policy_version(saved->job().policy_version());
  MeasureCheckpoint(plan.checkpoint, &checkpoint);
  *checkpoint.mutable_create_time() = as.create_time();
  // The paths of the source are those that it has now.
  *saved->mutable_job()->mutable_spec() = source.job.spec();
  *saved->mutable_job()->mutable_effective_spec() = source.job.effective_spec();
  *saved->mutable_job()->mutable_dataflow() = source.job.dataflow();
  return GoOnFrom(*saved, as, checkpoint, submit_order);
}

// The models of the roles that train.
std::vector<v1::ModelSpec*> TrainedModels(v1::JobSpec* spec) {
  std::vector<v1::ModelSpec*> models = {spec->mutable_model()};
  if (spec->has_critic()) models.push_back(spec->mutable_critic()->mutable_model());
  if (spec->has_cost_critic()) models.push_back(spec->mutable_cost_critic()->mutable_model());
  return models;
}

// The error of a replay without a range, which may lack nothing but the optimizer's state of a
// checkpoint.
absl::Status WhyNone(const ReplaySource& source, const v1::CreateReplayRequest& request, Kept kept,
                     const absl::Status& status) {
  kept.weights_only.clear();
  const auto range = RangeOf(kept, request);
  if (!range.ok()) return WithReason(status);
  return WeightsOnlyError(CheckpointOfStep(source, range->from)->path());
}

absl::Status Meanwhile(const absl::Status& status) {
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  if (absl::IsDataLoss(status)) {
    return MakeError(status.code(), "REPLAY_NOT_KEPT", status.message());
  }
  return absl::UnavailableError(absl::StrCat(
      status.message(), "; the job goes on and deletes what it no longer needs: try again"));
}

// The two sides of the comparison, in the replay's folder.
absl::StatusOr<std::pair<ComparedSide, ComparedSide>> SidesOf(const v1::Replay& replay,
                                                              const fs::path& folder) {
  ComparedSide source{"the job", folder / kComparedFolder, {}};
  source.files.assign(replay.expected().begin(), replay.expected().end());
  ComparedSide saved{
      "the replay", folder / absl::StrCat("checkpoints/step-", replay.to_step()), {}};
  BATON_ASSIGN_OR_RETURN(saved.files, FilesOf(saved.folder));
  // The job's checkpoint may have lost the optimizer's files.
  const auto of_optimizer = [](const v1::FileHash& file) { return file.optimizer(); };
  if (std::none_of(source.files.begin(), source.files.end(), of_optimizer)) {
    std::erase_if(saved.files, [&](const v1::FileHash& file) {
      const auto same = [&](const v1::FileHash& other) { return other.path() == file.path(); };
      return file.optimizer() && std::none_of(source.files.begin(), source.files.end(), same);
    });
  }
  return std::make_pair(std::move(source), std::move(saved));
}

// Why there is nothing to compare; "": there is something.
std::string NothingToCompare(const v1::Replay& replay, const fs::path& folder) {
  std::error_code code;
  if (replay.expected().empty()) {
    return "the files.json of the job's checkpoint names no file but those that hold version "
           "numbers";
  }
  if (fs::is_directory(folder / kComparedFolder, code)) return "";
  return "this replay has no copy of the job's checkpoint: it was removed; replay the job again";
}

// A copy of these files of a checkpoint alone.
absl::Status CopyFilesOf(const fs::path& checkpoint, const std::vector<v1::FileHash>& files,
                         const fs::path& to) {
  CheckpointParts parts;
  parts.files = files;
  return CopyCheckpoint(checkpoint, parts, to);
}

}  // namespace

absl::StatusOr<ReplayPlan> PlanReplay(store::Store& store, const ReplaySource& source,
                                      const v1::CreateReplayRequest& request) {
  if (const absl::Status status = CheckReplayable(source.job); !status.ok()) {
    return MakeError(status.code(), "REPLAY_KIND", status.message());
  }
  // A job that was quarantined has the specs of its rows, which may be invalid.
  if (const std::string problem = ProblemOfSaved(source.job); !problem.empty()) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "REPLAY_KIND",
        absl::StrCat("the spec of job '", source.job.name(), "' is not a good one: ", problem));
  }
  BATON_ASSIGN_OR_RETURN(const Kept kept, KeptOf(store, source, request));
  const auto range = RangeOf(kept, request);
  if (!range.ok()) return WhyNone(source, request, kept, range.status());
  ReplayPlan plan;
  v1::Replay& replay = plan.replay;
  replay.set_source(source.job.name());
  replay.set_source_uid(source.job.uid());
  replay.set_from_step(range->from);
  replay.set_to_step(range->to);
  replay.set_compares(range->compares);
  replay.set_verdict(v1::Replay::VERDICT_PENDING);
  AddNotes(source, request, kept, *range, &replay);
  if (const v1::Checkpoint* from = CheckpointOfStep(source, range->from)) {
    plan.checkpoint = from->path();
  }
  if (range->compares) {
    BATON_ASSIGN_OR_RETURN(const auto files, FilesOf(CheckpointOfStep(source, range->to)->path()));
    replay.mutable_expected()->Assign(files.begin(), files.end());
    plan.compared = CheckpointOfStep(source, range->to)->path();
    if (CheckpointOfStep(source, range->to)->weights_only()) {
      replay.add_notes(absl::StrCat("The checkpoint of step ", range->to,
                                    " has weights only (trainer.keep_optimizer), so the weights "
                                    "are compared, and the optimizer's state is not."));
    }
  }
  uint64_t bytes = 0;
  BATON_RETURN_IF_ERROR(ForEachRow(
      store, source, range->from + 1, range->to,
      [&](int64_t step, const std::set<uint32_t>& files, std::string row) -> absl::Status {
        bytes += row.size();
        if (bytes > kMostReplayBytes) {
          return MakeError(absl::StatusCode::kResourceExhausted, "REPLAY_TOO_LARGE",
                           absl::StrCat("the rows of steps ", range->from + 1, "-", step,
                                        " have more than ", kMostReplayBytes,
                                        " bytes; replay fewer steps at a time: give a smaller "
                                        "to_step, or a later checkpoint as from_step"));
        }
        plan.log_files.insert(files.begin(), files.end());
        plan.rows[step] = std::move(row);
        return absl::OkStatus();
      }));
  if (static_cast<int64_t>(plan.rows.size()) != range->to - range->from) {
    return Meanwhile(absl::UnavailableError("a row of a batch is gone"));
  }
  return plan;
}

absl::Status LinkReplay(const ReplaySource& source, StagedFolder* staged, ReplayPlan* plan) {
  if (!plan->checkpoint.empty()) {
    const fs::path to = staged->Stage(absl::StrCat("checkpoints/step-", plan->replay.from_step()));
    BATON_ASSIGN_OR_RETURN(const CheckpointParts parts,
                           PartsOf(plan->checkpoint, source.job.effective_spec()));
    BATON_RETURN_IF_ERROR(Meanwhile(CopyCheckpoint(plan->checkpoint, parts, to)));
    plan->checkpoint = to;
  }
  if (!plan->compared.empty() && !plan->replay.expected().empty()) {
    const fs::path to = staged->Stage(kComparedFolder);
    BATON_RETURN_IF_ERROR(Meanwhile(CopyFilesOf(
        plan->compared, {plan->replay.expected().begin(), plan->replay.expected().end()}, to)));
    plan->compared = to;
  }
  for (const uint32_t file : plan->log_files) {
    const fs::path to = staged->Stage(absl::StrCat("experience/", experience::LogFileName(file)));
    BATON_RETURN_IF_ERROR(Meanwhile(LinkFile(LogFileOf(source.folder, file), to)));
  }
  // Models in the source's folder go with it when it is deleted.
  v1::JobSpec spec = source.job.effective_spec();
  for (const v1::ModelSpec* model : TrainedModels(&spec)) {
    const std::string& path = model->path();
    if (path.empty() || plan->models.count(path) > 0 || !IsBelow(path, source.folder)) continue;
    const std::string name =
        plan->models.empty() ? "model" : absl::StrCat("model-", plan->models.size() + 1);
    BATON_RETURN_IF_ERROR(Meanwhile(LinkCheckpoint(path, staged->Stage(name))));
    plan->models[path] = name;
  }
  return absl::OkStatus();
}

absl::StatusOr<store::v1::JobRow> MakeReplayRow(const ReplaySource& source, const ReplayPlan& plan,
                                                const v1::Job& as, int64_t submit_order,
                                                const fs::path& home, StagedFolder* staged) {
  v1::Replay replay = plan.replay;
  replay.set_job(as.name());
  BATON_RETURN_IF_ERROR(WriteReplay(replay, staged->Stage(kReplayFile)));
  BATON_ASSIGN_OR_RETURN(store::v1::JobRow row, RowAt(source, plan, as, submit_order, home));
  MakeReplay(replay.to_step(), &row);
  for (v1::ModelSpec* model : TrainedModels(row.mutable_job()->mutable_effective_spec())) {
    const auto link = plan.models.find(model->path());
    if (link != plan.models.end()) model->set_path((home / link->second).string());
  }
  return row;
}

absl::StatusOr<v1::Replay> ReadReplay(const fs::path& folder, const v1::Job& job) {
  BATON_ASSIGN_OR_RETURN(v1::Replay replay, ReadMessage<v1::Replay>(folder / kReplayFile));
  const v1::Job::State state = job.state();
  replay.set_verdict(v1::Replay::VERDICT_PENDING);
  if (IsTerminal(state) && state != v1::Job::STATE_SUCCEEDED) {
    replay.set_verdict(v1::Replay::VERDICT_FAILED);
    replay.set_difference(state == v1::Job::STATE_CANCELLED ? "the replay was cancelled"
                                                            : job.error().message());
  } else if (IsTerminal(state) && !replay.compares()) {
    replay.set_verdict(v1::Replay::VERDICT_NOT_COMPARED);
  } else if (IsTerminal(state)) {
    // An empty list does not count as equality.
    const std::string nothing = NothingToCompare(replay, folder);
    if (!nothing.empty()) {
      replay.set_verdict(v1::Replay::VERDICT_NOT_COMPARED);
      replay.set_difference(nothing);
    }
  }
  return replay;
}

absl::StatusOr<v1::Replay> JudgeReplay(const fs::path& folder, const v1::Job& job,
                                       const std::function<bool()>& stop) {
  BATON_ASSIGN_OR_RETURN(v1::Replay replay, ReadReplay(folder, job));
  if (!IsTerminal(job.state()) || replay.verdict() != v1::Replay::VERDICT_PENDING) return replay;
  const auto sides = SidesOf(replay, folder);
  if (!sides.ok()) {
    replay.set_verdict(v1::Replay::VERDICT_DIFFERENT);
    replay.set_difference(
        absl::StrCat("the replay's checkpoint cannot be read: ", sides.status().message()));
    return replay;
  }
  BATON_ASSIGN_OR_RETURN(const Comparison compared,
                         CompareFiles(sides->first, sides->second, stop));
  replay.mutable_compared()->Assign(compared.same.begin(), compared.same.end());
  replay.set_verdict(compared.difference.empty() ? v1::Replay::VERDICT_EQUAL
                                                 : v1::Replay::VERDICT_DIFFERENT);
  replay.set_difference(compared.difference);
  return replay;
}

JudgedFiles FilesToJudge(const fs::path& folder, const v1::Job& job) {
  JudgedFiles out;
  absl::StrAppend(&out.state, static_cast<int>(job.state()));
  const auto replay = ReadReplay(folder, job);
  if (!replay.ok()) return out;
  const std::string saved = absl::StrCat("checkpoints/step-", replay->to_step());
  for (const char* side : {kComparedFolder, saved.c_str()}) {
    std::vector<std::string> names = {"files.json"};
    for (const v1::FileHash& file : replay->expected()) names.push_back(file.path());
    for (const std::string& name : names) {
      struct stat is = {};
      const bool there = ::stat((folder / side / name).c_str(), &is) == 0;
      if (there) out.bytes += static_cast<uint64_t>(is.st_size);
      absl::StrAppend(&out.state, " ", there, ".", is.st_ino, ".", is.st_size, ".",
                      is.st_mtim.tv_sec, ".", is.st_mtim.tv_nsec, ".", is.st_ctim.tv_sec, ".",
                      is.st_ctim.tv_nsec);
    }
  }
  return out;
}

}  // namespace baton::controller

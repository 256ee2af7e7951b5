// JobRuntime: what trajectories carry, and the experience log that keeps it.
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/runtime/job/make_payload.h"
#include "sdk/base/log.h"
#include "sdk/base/mutant.h"
#include "sdk/base/status_macros.h"
#include "sdk/messages/columns.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

constexpr absl::Duration kTryAgain = absl::Milliseconds(200);

absl::StatusOr<uint32_t> ColumnLength(const v1::TaskResult& result, absl::string_view name,
                                      v1::DataType dtype, size_t width) {
  const v1::Column* column = FindColumn(result, name);
  if (column == nullptr || column->dtype() != dtype || column->data().size() % width != 0) {
    return absl::InternalError(absl::StrCat("the result has no sound column `", name, "`"));
  }
  return static_cast<uint32_t>(column->data().size() / width);
}

}  // namespace

int64_t JobRuntime::MaxResponseTokens() const {
  const int64_t most = submitted_->effective_spec().data().max_response_length();
  return most > 0 ? most : std::numeric_limits<int64_t>::max();
}

void JobRuntime::StoreGenerated(const std::string& worker, const TaskRef& ref,
                                v1::TaskResult result) {
  auto tokens = ColumnLength(result, "tokens", v1::DATA_TYPE_INT32, 4);
  auto prompt = ColumnLength(result, "prompt_tokens", v1::DATA_TYPE_INT32, 4);
  auto log_probs = ColumnLength(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, 4);
  TaskDone done;
  done.worker = worker;
  done.ref = ref;
  for (const auto* count : {&tokens, &prompt, &log_probs}) {
    if (!count->ok()) done.status = count->status();
  }
  if (done.status.ok() && *tokens != *log_probs) {
    done.status = absl::InternalError("`tokens` and `rollout_log_prob` differ in length");
  }
  if (done.status.ok() && FindColumn(result, "sampling_log_prob") != nullptr) {
    const auto sampling = ColumnLength(result, "sampling_log_prob", v1::DATA_TYPE_FLOAT32, 4);
    done.status = sampling.status();
    if (sampling.ok() && *sampling != *tokens) {
      done.status = absl::InternalError("`tokens` and `sampling_log_prob` differ in length");
    }
  }
  if (done.status.ok() && *tokens > MaxResponseTokens() && !Mutant("response-without-bound")) {
    done.status =
        absl::InternalError(absl::StrCat("the response has ", *tokens, " tokens; it was asked for ",
                                         MaxResponseTokens(), " at most"));
  }
  if (!done.status.ok()) return Run(done);
  done.output.tokens = *tokens;
  done.output.prompt_tokens = *prompt;
  done.output.finish_reason = result.finish_reason();
  for (const auto& [name, value] : result.metrics()) {
    const bool counts = name == kDraftAccepted || name == kStepSeconds || name == kStepRows ||
                        SpeculationCounts::IsKnown(name);
    if (counts) done.output.metrics[name] = value;
  }
  // It was stopped, and is no whole response: what it has is where the next attempt begins.
  if (result.finish_reason() == "cancelled" && !Mutant("stopped-response-kept")) {
    PartialResponse& partial = partials_[ref.subject];
    if (*tokens >= partial.tokens.size()) partial.TakeAll(result);
    done.status = absl::CancelledError("it was stopped");
    return Run(done);
  }

  const TrajectoryInfo info = *core_.Find(ref.subject);  // it is wanted, so it is known
  v1::Trajectory payload = MakePayload(info, ExampleOf(info));
  payload.set_response_text(result.response_text());
  payload.set_rendered_prompt(result.prompt_text());
  payload.set_finish_reason(result.finish_reason());
  v1::Segment* segment = payload.add_segments();
  segment->set_kind(v1::Segment::KIND_PROMPT);
  segment->set_end(*prompt);
  segment = payload.add_segments();
  segment->set_kind(v1::Segment::KIND_MODEL);
  segment->set_begin(*prompt);
  segment->set_end(*prompt + *tokens);
  segment->set_policy_version(info.policy_version);
  payload.mutable_columns()->Swap(result.mutable_columns());

  if (Mutant("row-before-bytes")) Run(done);
  const auto packed = std::make_shared<const PackedPayload>(payload);
  LogPayload(packed, [this, done, packed](const absl::StatusOr<PayloadLocation>& at) mutable {
    if (!core_.Wants(done.worker, done.ref)) return Refuse(done.worker, done.ref);
    done.status = at.status();
    if (at.ok()) {
      done.output.location = *at;
      payloads_.Put(done.ref.subject, packed);
      partials_.erase(done.ref.subject);
    }
    Run(done);
  });
}

// A score that made a column: it is written before anybody hears of it.
void JobRuntime::StoreColumns(TaskDone done, v1::TaskResult result) {
  const v1::ScoreNode& node = core_.dataflow().score(static_cast<int>(done.ref.target));
  const TrajectoryInfo info = *core_.Find(done.ref.subject);  // it is wanted, so it is known
  const auto count = ColumnLength(result, node.out(), v1::DATA_TYPE_FLOAT32, sizeof(float));
  if (!count.ok() || *count != info.tokens) {
    done.status = absl::InternalError(absl::StrCat("method ", node.method(), " made no column `",
                                                   node.out(), "` of ", info.tokens,
                                                   " float32, one for each token of the response"));
    return Run(done);
  }
  v1::Trajectory with_column;
  *with_column.add_columns() = *FindColumn(result, node.out());
  with_column.mutable_columns(0)->set_per_token(true);
  with_column.set_trajectory_id(TrajectoryName(info.id));
  const auto column = std::make_shared<const PackedPayload>(with_column);
  LogPayload(column, [this, done, column](const absl::StatusOr<PayloadLocation>& at) mutable {
    if (!core_.Wants(done.worker, done.ref)) return Refuse(done.worker, done.ref);
    done.status = at.status();
    if (at.ok()) {
      done.output.location = *at;
      AddToPayload(done.ref.subject, done.ref.target, column->Unpack().columns(0));
    }
    Run(done);
  });
}

// Columns stand in the order of their score nodes, as they do when the payload is read from the
// log: a batch is the same bytes either way.
void JobRuntime::AddToPayload(uint64_t trajectory, uint32_t node, const v1::Column& column) {
  const PayloadCache::Payload kept = payloads_.Find(trajectory);
  if (kept == nullptr) return;
  v1::Trajectory whole = kept->Unpack();
  // A node that runs at the draw runs again for the next batch, if that one was given up.
  for (v1::Column& had : *whole.mutable_columns()) {
    if (had.name() != column.name()) continue;
    had = column;
    return payloads_.Put(trajectory, std::make_shared<const PackedPayload>(whole));
  }
  *whole.add_columns() = column;
  const auto& made = core_.Find(trajectory)->columns;
  auto at = whole.columns_size() - 1;
  for (auto later = made.upper_bound(node); later != made.end(); ++later, --at) {
    if (at > 0 && !Mutant("columns-as-they-come"))
      whole.mutable_columns()->SwapElements(at - 1, at);
  }
  payloads_.Put(trajectory, std::make_shared<const PackedPayload>(whole));
}

void JobRuntime::LogPayload(PayloadCache::Payload payload,
                            std::function<void(const absl::StatusOr<PayloadLocation>&)> done) {
  const uint64_t bytes = payload->bytes();
  payloads_.BeginWrite(bytes);
  auto at = std::make_shared<PayloadLocation>();
  const auto write = [this, at, payload = std::move(payload)]() -> absl::Status {
    BATON_ASSIGN_OR_RETURN(*at, AppendPayload(payload->view()));
    return absl::OkStatus();
  };
  WriteUntilDone(write, [this, at, bytes, done = std::move(done)](const absl::Status& status) {
    payloads_.EndWrite(bytes);
    done(status.ok() ? absl::StatusOr<PayloadLocation>(*at) : status);
    CheckPayloadBudget();
  });
  CheckPayloadBudget();
}

void JobRuntime::CheckPayloadBudget() {
  const bool waits = payloads_.Full() && !Mutant("payloads-stop-nothing");
  if (waits == payloads_wait_) return;
  payloads_wait_ = waits;
  PayloadsWait event;
  event.waits = waits;
  event.of_job = payloads_.FullOfJob();
  event.bytes = event.of_job ? payloads_.unwritten() : payloads_.budget().unwritten();
  event.budget = event.of_job ? payloads_.limit() : payloads_.budget().limit();
  Run(event);
}

void JobRuntime::SetDiskHealth(const absl::Status& status) {
  bool changed = false;
  {
    absl::MutexLock lock(&mu_);
    changed = disk_health_.ok() != status.ok();
    disk_health_ = status;
  }
  if (!changed) return;
  if (status.ok()) {
    baton::Log(LogLevel::kInfo, "the job's folder can be used again", {{"job", name_}});
  } else {
    baton::Log(LogLevel::kError, "the job's folder cannot be used; it is tried again",
               {{"job", name_}, {"error", std::string(status.message())}});
  }
}

void JobRuntime::WriteUntilDone(std::function<absl::Status()> write,
                                std::function<void(absl::Status)> done,
                                std::function<bool()> wanted) {
  OnDisk([this, write = std::move(write), done = std::move(done),
          wanted = std::move(wanted)]() mutable {
    const absl::Status status =
        files_removed_ ? absl::CancelledError("the job is deleted") : write();
    if (!files_removed_ && !status.ok() && !absl::IsInvalidArgument(status) &&
        !absl::IsDataLoss(status)) {
      SetDiskHealth(status);
      strand_->PostAfter(kTryAgain, [self = shared_from_this(), write = std::move(write),
                                     done = std::move(done), wanted = std::move(wanted)]() mutable {
        if (wanted == nullptr || wanted()) {
          return self->WriteUntilDone(std::move(write), std::move(done), std::move(wanted));
        }
        self->SetDiskHealth(absl::OkStatus());  // nothing waits for it now
        done(absl::CancelledError("given up"));
      });
      return;
    }
    SetDiskHealth(absl::OkStatus());
    OnStrand([done = std::move(done), status] { done(status); });
  });
}

void JobRuntime::ReadAgain(const absl::Status& status, std::function<void()> again) {
  SetDiskHealth(status);
  strand_->PostAfter(kTryAgain, [self = shared_from_this(), again = std::move(again)] {
    self->SetDiskHealth(absl::OkStatus());  // until the next try tells otherwise
    if (!IsTerminal(self->core_.state())) again();
  });
}

absl::StatusOr<experience::ExperienceLog*> JobRuntime::Log() {
  if (files_removed_ && !Mutant("deleted-log-opened")) {
    return absl::NotFoundError("the job is deleted");
  }
  if (log_ == nullptr) {
    BATON_ASSIGN_OR_RETURN(log_, files_->OpenLog());
  }
  return log_.get();
}

absl::StatusOr<PayloadLocation> JobRuntime::AppendPayload(absl::string_view bytes) {
  BATON_ASSIGN_OR_RETURN(experience::ExperienceLog * log, Log());
  BATON_ASSIGN_OR_RETURN(const experience::Location at, log->Append(bytes));
  if (context_->sync_payloads && !Mutant("unsynced-payload")) {
    BATON_RETURN_IF_ERROR(log->Sync());
  }
  return PayloadLocation{at.file, at.offset, at.size};
}

absl::StatusOr<std::string> JobRuntime::ReadPayload(const PayloadLocation& location) {
  BATON_ASSIGN_OR_RETURN(experience::ExperienceLog * log, Log());
  return log->Read({location.file, location.offset, location.size});
}

absl::StatusOr<v1::Trajectory> JobRuntime::ReadWhole(const LoggedPayload& payload) {
  const std::string name = TrajectoryName(payload.id);
  v1::Trajectory whole;
  for (const PayloadLocation& part : payload.records) {
    const auto bytes = ReadPayload(part);
    v1::Trajectory read;
    if (absl::IsUnavailable(bytes.status())) return bytes.status();  // it is not lost
    if (!bytes.ok() || !read.ParseFromString(*bytes)) {
      return absl::DataLossError(absl::StrCat(
          "the payload of ", name,
          " cannot be read: ", bytes.ok() ? "it is damaged" : bytes.status().message()));
    }
    if (read.trajectory_id() != name) {
      return absl::DataLossError(absl::StrCat("the payload of ", name, " cannot be read: that of '",
                                              read.trajectory_id(), "' stands in its place"));
    }
    whole.MergeFrom(read);
  }
  return whole;
}

absl::StatusOr<v1::Trajectory> JobRuntime::ReadForBatch(const LoggedPayload& payload) {
  auto read = ReadWhole(payload);
  if (read.ok()) return read;
  if (absl::IsUnavailable(read.status())) {
    return MakeError(absl::StatusCode::kUnavailable, "BATCH_NOT_READY",
                     absl::StrCat(read.status().message(), "; try again"));
  }
  const std::string reason(read.status().message());
  OnStrand([this, payload, reason] { Run(PayloadLost{{{payload.id, payload.serial}}, reason}); });
  return MakeError(absl::StatusCode::kUnavailable, "BATCH_NOT_READY",
                   absl::StrCat("the batch has lost a response: ", reason));
}

void JobRuntime::ReadPayloadAsync(const PayloadLocation& location,
                                  std::function<void(absl::StatusOr<std::string>)> done) {
  OnDisk([this, location, done = std::move(done)] { done(ReadPayload(location)); });
}

void JobRuntime::Do(const DropLogFiles& effect) {
  OnDisk([this, effect] {
    auto log = Log();
    if (!log.ok()) return;
    const absl::Status status = (*log)->DropFiles(
        effect.end, [&effect](uint32_t file) { return effect.needed.Contains(file); });
    if (!status.ok()) {
      baton::Log(LogLevel::kWarn, "experience files are not dropped",
                 {{"job", name_}, {"error", std::string(status.message())}});
    }
  });
}

std::vector<uint64_t> JobRuntime::HeldPayloads() const {
  std::vector<uint64_t> held;
  if (!turns_.empty()) return held;
  payloads_.AppendIds(&held);
  for (const auto& [id, partial] : partials_) held.push_back(id);
  return held;
}

void JobRuntime::Do(const DropPayloads& effect) {
  for (uint64_t id : effect.trajectories) {
    payloads_.Erase(id);
    partials_.erase(id);
  }
}

void JobRuntime::OnResult(const std::string& worker, const TaskRef& ref, v1::TaskResult result) {
  OnStrand([this, worker, ref, result = std::move(result)]() mutable {
    if (context_->observer != nullptr) context_->observer->OnResult(core_, worker, ref, result);
    if (!core_.Wants(worker, ref)) return Refuse(worker, ref);
    const absl::Status status = FromProto(result.status());
    if (ref.kind == TaskKind::kGenerate && status.ok()) {
      if (!core_.knows_trajectories() && Mutant("early-result-dropped")) {
        return Refuse(worker, ref);
      }
      if (!core_.knows_trajectories()) return early_.Add({worker, ref, std::move(result)});
      return StoreGenerated(worker, ref, std::move(result));
    }
    if (ref.kind == TaskKind::kSaveCheckpoint && result.files_size() > 0) {  // rank 0's files
      saved_files_[core_.RoleOf(ref)] = {result.files().begin(), result.files().end()};
    }
    TaskDone done;
    done.worker = worker;
    done.ref = ref;
    done.status = status;
    done.role_lost = ErrorReason(status) == "ROLE_NOT_HELD";
    if (ref.kind == TaskKind::kRunAhead && result.finish_reason() == "cancelled") {
      done.status = absl::CancelledError("it was stopped");
    }
    done.output.error = result.error();
    done.output.infra_failed = result.infra_failed();
    for (const auto& [name, value] : result.metrics()) done.output.metrics[name] = value;
    const bool columns = ref.kind == TaskKind::kScore && status.ok() && result.columns_size() > 0;
    if (!columns) return Run(done);
    if (!core_.knows_trajectories()) return early_.Add({worker, ref, std::move(result)});
    StoreColumns(std::move(done), std::move(result));
  });
}

}  // namespace baton::controller

#include "controller/runtime/job/worker_reports.h"

#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/payloads/make_payload.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/columns.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

absl::StatusOr<uint32_t> ColumnLength(const v1::TaskResult& result, absl::string_view name,
                                      v1::DataType dtype, size_t width) {
  const v1::Column* column = FindColumn(result, name);
  if (column == nullptr || column->dtype() != dtype || column->data().size() % width != 0) {
    return absl::InternalError(absl::StrCat("the result has no sound column `", name, "`"));
  }
  return static_cast<uint32_t>(column->data().size() / width);
}

struct Lengths {
  uint32_t prompt = 0, tokens = 0;
};

// The lengths of a generation's columns, which must agree.
absl::StatusOr<Lengths> LengthsOf(const v1::TaskResult& result, int64_t most_tokens) {
  auto tokens = ColumnLength(result, "tokens", v1::DATA_TYPE_INT32, 4);
  auto prompt = ColumnLength(result, "prompt_tokens", v1::DATA_TYPE_INT32, 4);
  auto log_probs = ColumnLength(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, 4);
  BATON_RETURN_IF_ERROR(log_probs.status());
  BATON_RETURN_IF_ERROR(prompt.status());
  BATON_RETURN_IF_ERROR(tokens.status());
  if (*tokens != *log_probs) {
    return absl::InternalError("`tokens` and `rollout_log_prob` differ in length");
  }
  if (FindColumn(result, "sampling_log_prob") != nullptr) {
    BATON_ASSIGN_OR_RETURN(const uint32_t sampling,
                           ColumnLength(result, "sampling_log_prob", v1::DATA_TYPE_FLOAT32, 4));
    if (sampling != *tokens) {
      return absl::InternalError("`tokens` and `sampling_log_prob` differ in length");
    }
  }
  if (*tokens > most_tokens) {
    return absl::InternalError(absl::StrCat("the response has ", *tokens,
                                            " tokens; it was asked for ", most_tokens, " at most"));
  }
  return Lengths{*prompt, *tokens};
}

// True if the answer, whatever the task, is that the worker lost what it held for the job.
bool IsRoleLost(const v1::TaskResult& result) {
  return ErrorReason(FromProto(result.status())) == "ROLE_NOT_HELD";
}

// The event of a result for the core, without the payload.
TaskDone DoneOf(const std::string& worker, const TaskRef& ref, const v1::TaskResult& result) {
  TaskDone done;
  done.worker = worker;
  done.ref = ref;
  done.status = FromProto(result.status());
  done.role_lost = IsRoleLost(result);
  if (ref.kind == TaskKind::kRunAhead && result.finish_reason() == "cancelled") {
    done.status = absl::CancelledError("it was stopped");
  }
  done.output.error = result.error();
  done.output.infra_failed = result.infra_failed();
  for (const auto& [name, value] : result.metrics()) done.output.metrics[name] = value;
  return done;
}

bool IsGeneration(const TaskRef& ref, const v1::TaskResult& result) {
  return ref.kind == TaskKind::kGenerate && FromProto(result.status()).ok();
}

bool CarriesColumn(const TaskRef& ref, const v1::TaskResult& result) {
  return ref.kind == TaskKind::kScore && result.columns_size() > 0 &&
         FromProto(result.status()).ok();
}

// The payload of a response that is done.
v1::Trajectory PayloadOf(const TrajectoryInfo& info, const Example* example, const Lengths& lengths,
                         v1::TaskResult result) {
  v1::Trajectory payload = MakePayload(info, example);
  payload.set_response_text(result.response_text());
  payload.set_rendered_prompt(result.prompt_text());
  payload.set_prompt_suffix(result.prompt_suffix());
  payload.set_finish_reason(result.finish_reason());
  v1::Segment* segment = payload.add_segments();
  segment->set_kind(v1::Segment::KIND_PROMPT);
  segment->set_end(lengths.prompt);
  segment = payload.add_segments();
  segment->set_kind(v1::Segment::KIND_MODEL);
  segment->set_begin(lengths.prompt);
  segment->set_end(lengths.prompt + lengths.tokens);
  segment->set_policy_version(info.policy_version);
  payload.mutable_columns()->Swap(result.mutable_columns());
  return payload;
}

// False: a repeat, a gap or a piece that makes no sense; the result has the whole response.
bool GoesOn(const PartialResponse& partial, const v1::Progress& progress, int64_t most_tokens) {
  const bool repeated = progress.offset() != partial.tokens.size();
  if (repeated || progress.tokens_size() != progress.log_probs_size() ||
      (progress.sampling_log_probs_size() > 0 &&
       progress.tokens_size() != progress.sampling_log_probs_size())) {
    return false;
  }
  const int64_t tokens = int64_t{progress.offset()} + progress.tokens_size();
  return tokens <= most_tokens;
}

}  // namespace

int64_t WorkerReports::MaxResponseTokens() const {
  const int64_t most = scope_->submitted->effective_spec().data().max_response_length();
  return most > 0 ? most : std::numeric_limits<int64_t>::max();
}

bool WorkerReports::IsWanted(const std::string& worker, const TaskRef& ref) {
  if (scope_->core.Wants(worker, ref)) return true;
  Refuse(worker, ref);
  return false;
}

// A stale result changes nothing. But it may repeat a result that was accepted; then its ack may
// not leave before that result is committed.
void WorkerReports::Refuse(const std::string& worker, const TaskRef& ref) {
  turns_->Finish({AckResult{worker, ref}}, {}, nullptr);
}

void WorkerReports::TakeResult(const std::string& worker, const TaskRef& ref,
                               v1::TaskResult result) {
  const JobCore& core = scope_->core;
  if (scope_->context->observer != nullptr) {
    scope_->context->observer->OnResult(core, worker, ref, result);
  }
  if (!IsWanted(worker, ref)) return;
  // The core evicts a worker that lost its role at once. Any other result changes a trajectory, so
  // it waits until the core has that trajectory again.
  if (IsTrajectoryTask(ref.kind) && !core.knows_trajectories() && !IsRoleLost(result)) {
    return early_.Add({worker, ref, std::move(result)});
  }
  if (IsGeneration(ref, result)) return StoreResponse({worker, ref, {}, {}}, std::move(result));
  TaskDone done = DoneOf(worker, ref, result);
  if (CarriesColumn(ref, result)) return StoreColumn(std::move(done), result);
  if (ref.kind == TaskKind::kSaveCheckpoint && result.files_size() > 0) {  // rank 0's files
    saves_->NoteFiles(core.RoleOf(ref), result);
  }
  scope_->run(done);
}

void WorkerReports::StoreResponse(TaskDone done, v1::TaskResult result) {
  const uint64_t id = done.ref.subject;
  const auto lengths = LengthsOf(result, MaxResponseTokens());
  done.status = lengths.status();
  if (!lengths.ok()) return scope_->run(done);
  done.output.tokens = lengths->tokens;
  done.output.prompt_tokens = lengths->prompt;
  done.output.finish_reason = result.finish_reason();
  for (const auto& [name, value] : result.metrics()) {
    const bool counts = name == kDraftAccepted || name == kStepSeconds || name == kStepRows ||
                        SpeculationCounts::IsKnown(name);
    if (counts) done.output.metrics[name] = value;
  }
  // The generation was stopped, so this is no whole response: the next attempt begins with its
  // tokens.
  if (result.finish_reason() == "cancelled") {
    PartialResponse& partial = payloads_->Partial(id);
    if (lengths->tokens >= partial.tokens.size()) partial.TakeAll(result);
    done.status = absl::CancelledError("it was stopped");
    return scope_->run(done);
  }
  const TrajectoryInfo info = *scope_->core.Find(id);  // it is wanted, so it is known
  const auto payload = std::make_shared<const PackedPayload>(
      PayloadOf(info, data_->Of(info), *lengths, std::move(result)));
  StoreThenRun(std::move(done), payload, [this, id, payload] {
    payloads_->Keep(id, payload);
    payloads_->DropPartial(id);
  });
}

// The column is written before the core is told of it.
void WorkerReports::StoreColumn(TaskDone done, const v1::TaskResult& result) {
  const v1::ScoreNode& node = scope_->core.dataflow().score(static_cast<int>(done.ref.target));
  const TrajectoryInfo info = *scope_->core.Find(done.ref.subject);  // wanted, so it is known
  const auto count = ColumnLength(result, node.out(), v1::DATA_TYPE_FLOAT32, sizeof(float));
  if (!count.ok() || *count != info.tokens) {
    done.status = absl::InternalError(absl::StrCat("method ", node.method(), " made no column `",
                                                   node.out(), "` of ", info.tokens,
                                                   " float32, one for each token of the response"));
    return scope_->run(done);
  }
  v1::Trajectory with_column;
  *with_column.add_columns() = *FindColumn(result, node.out());
  with_column.mutable_columns(0)->set_per_token(true);
  with_column.set_trajectory_id(TrajectoryName(info.id));
  const auto payload = std::make_shared<const PackedPayload>(with_column);
  StoreThenRun(done, payload, [this, ref = done.ref, payload] {
    payloads_->AddColumn(ref.subject, ref.target, payload->Unpack().columns(0));
  });
}

void WorkerReports::StoreThenRun(TaskDone done, PayloadCache::Payload payload,
                                 std::function<void()> keep) {
  payloads_->Store(std::move(payload), [this, done = std::move(done), keep = std::move(keep)](
                                           const absl::StatusOr<PayloadLocation>& at) mutable {
    if (!IsWanted(done.worker, done.ref)) return;
    done.status = at.status();
    if (at.ok()) {
      done.output.location = *at;
      keep();
    }
    scope_->run(done);
  });
}

void WorkerReports::TakeProgress(const std::string& worker, const TaskRef& ref,
                                 const v1::Progress& progress) {
  const JobCore& core = scope_->core;
  if (!core.Wants(worker, ref)) return;
  if (ref.kind == TaskKind::kUpdate && progress.total() > 0 &&
      progress.done() <= progress.total()) {
    return scope_->run(UpdateProgressed{worker, ref, progress.done(), progress.total()});
  }
  if (ref.kind != TaskKind::kGenerate) return;
  const bool early = !core.knows_trajectories();
  if (!early && core.Find(ref.subject) == nullptr) return;
  PartialResponse* const partial =
      early ? early_.RoomFor({worker, ref}, static_cast<size_t>(progress.tokens_size()))
            : &payloads_->Partial(ref.subject);
  if (partial == nullptr || !GoesOn(*partial, progress, MaxResponseTokens())) return;
  partial->Append(progress);
  if (early) return;
  scope_->run(TaskProgressed{worker, ref, static_cast<uint32_t>(partial->tokens.size())});
}

// A payload has the prompt and the answer, so it is made when both are known. A worker that came
// back sends the tokens so far only once: without them all later pieces would follow a gap, and the
// response would seem to be stalled.
//
// Each result is judged again. The worker may be lost by now, or the work given up: then the result
// is only acknowledged.
void WorkerReports::TakeEarly() {
  if (early_.empty() || !scope_->core.knows_trajectories()) return;
  for (auto& [task, partial] : early_.TakePieces()) {
    const auto& [worker, ref] = task;
    if (!scope_->core.Wants(worker, ref)) continue;
    const auto tokens = static_cast<uint32_t>(partial.tokens.size());
    payloads_->Partial(ref.subject) = std::move(partial);
    scope_->run(TaskProgressed{worker, ref, tokens});
  }
  for (EarlyResponses::Result& held : early_.TakeResults()) {
    threads_->OnStrand([this, held = std::move(held)]() mutable {
      TakeResult(held.worker, held.ref, std::move(held.result));
    });
  }
}

void WorkerReports::RefuseEarly() {
  early_.TakePieces();
  for (const EarlyResponses::Result& held : early_.TakeResults()) {
    threads_->OnStrand([this, worker = held.worker, ref = held.ref] { Refuse(worker, ref); });
  }
}

void WorkerReports::ForgetEarly() {
  early_.TakePieces();
  early_.TakeResults();
}

}  // namespace baton::controller

// SimulatedJob: the job's controller and its ports.
#include <algorithm>
#include <fstream>
#include <functional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/core/job/job_state.h"
#include "controller/runtime/cluster/job_restorer.h"
#include "controller/runtime/cluster/take_over.h"
#include "controller/runtime/rows/tables.h"
#include "controller/spec/settings/schedule.h"
#include "gtest/gtest.h"
#include "sdk/common/base/log.h"
#include "sdk/common/rpc/error.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

constexpr uint32_t kTokens = 5;  // of each response
constexpr uint64_t kPrompts = 10;

JobData DataOf(const SimulatedJob::Options& options) {
  DataSet train, val;
  for (uint64_t i = 0; i < kPrompts; ++i) {
    Example& example = train.examples.emplace_back();
    example.prompt = absl::StrCat(i);
    example.answer = example.response = "1";
  }
  train.file_sizes = options.file_sizes;
  if (options.sft) return MakeJobData(std::move(train));
  for (const std::string& source : options.val_sources) {
    Example& example = val.examples.emplace_back();
    example.prompt = example.answer = "1";
    example.source = source;
  }
  return MakeJobData(std::move(train), std::move(val));
}

// Ids of the responses that the batch has, in order.
std::vector<uint64_t> IdsOf(const store::v1::BatchRow& row) {
  std::vector<uint64_t> ids;
  for (const store::v1::BatchEntry& entry : row.entries()) {
    if (entry.column_hashes_size() > 0) ids.push_back(entry.trajectory().id());
  }
  return ids;
}

template <typename T>
void AddColumn(v1::TaskResult& result, const std::string& name, v1::DataType type,
               const std::vector<T>& values) {
  v1::Column& column = *result.add_columns();
  column.set_name(name);
  column.set_dtype(type);
  column.set_data(values.data(), values.size() * sizeof(T));
}

}  // namespace

SimulatedJob::SimulatedJob(const Options& options)
    : options_(options),
      random_{options.seed},
      store_(options.max_row_bytes),
      files_(DataOf(options), this) {
  files_.GiveEachRecordAFile();
  SilenceLog();
  context_ = MakeContext();
  EXPECT_TRUE(TakeOver(store_, &context_).ok());
  job_ =
      std::make_shared<JobRuntime>(&context_, JobCore(MakeSimulatedJob(options_), 1, context_.core),
                                   /*next_log_sequence=*/1, /*stored=*/false);
  job_->Start({}, nullptr);
  Settle();
}

SimulatedJob::~SimulatedJob() {
  executors_.Drop();
  job_->Abandon();
  if (turns_file_ == nullptr) return;
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::ofstream(turns_file_, std::ios::app)
      << test->test_suite_name() << "." << test->name() << " " << turns_.value() << "\n";
}

RuntimeContext SimulatedJob::MakeContext() {
  RuntimeContext context;
  context.executors = &executors_;
  context.clock = &executors_;
  context.store = &store_;
  context.files = &files_;
  context.workers = this;
  context.queue = this;
  context.observer = this;
  context.kept = {1000, 100, 100};
  context.core.max_queued_responses = options_.max_queued_responses;
  return context;
}

void SimulatedJob::Send(const Event& event) {
  if (const auto* done = std::get_if<TaskDone>(&event)) {
    job_->OnResult(done->worker, done->ref, ResultOf(*done));
  } else if (const auto* progressed = std::get_if<TaskProgressed>(&event)) {
    v1::Progress progress;
    progress.mutable_tokens()->Resize(static_cast<int>(progressed->tokens), 1);
    progress.mutable_log_probs()->Resize(static_cast<int>(progressed->tokens), -1);
    job_->OnProgress(progressed->worker, progressed->ref, progress);
  } else if (const auto* update = std::get_if<UpdateProgressed>(&event)) {
    v1::Progress progress;
    progress.set_done(update->done);
    progress.set_total(update->total);
    job_->OnProgress(update->worker, update->ref, progress);
  } else if (std::holds_alternative<Tick>(event)) {
    job_->Tick();
  } else {
    job_->Post(event);
  }
  Settle();
}

// A response and its scores depend on the trajectory alone. They are the same whichever worker
// makes them, and after every restart.
v1::TaskResult SimulatedJob::ResultOf(const TaskDone& done) const {
  v1::TaskResult result;
  absl::Status status = done.status;
  if (done.role_lost) status = MakeError(status.code(), "ROLE_NOT_HELD", status.message());
  *result.mutable_status() = ToProto(status);
  for (const auto& [name, value] : done.output.metrics) (*result.mutable_metrics())[name] = value;
  result.set_error(done.output.error);
  result.set_infra_failed(done.output.infra_failed);
  const auto subject = static_cast<float>(done.ref.subject % 1000);
  const bool ahead = done.ref.kind == TaskKind::kRunAhead;
  if (ahead && absl::IsCancelled(status)) {
    result.clear_status();
    result.set_finish_reason("cancelled");
    return result;
  }
  if (!status.ok()) return result;
  // The result of a run-ahead task has a response, too: the controller must ignore it.
  if (done.ref.kind == TaskKind::kGenerate || ahead) {
    AddColumn(result, "tokens", v1::DATA_TYPE_INT32,
              std::vector<int32_t>(kTokens, static_cast<int32_t>(subject)));
    AddColumn(result, "prompt_tokens", v1::DATA_TYPE_INT32, std::vector<int32_t>{1, 2});
    AddColumn(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32,
              std::vector<float>(kTokens, -0.5f - subject / 4096));
    result.set_finish_reason("stop");
    result.set_response_text("1");
    const auto draft = drafts_.find(done.ref);
    const auto drawn = static_cast<int32_t>(subject);
    if (draft != drafts_.end() && draft->second == std::vector<int32_t>(kTokens, drawn)) {
      (*result.mutable_metrics())[kDraftAccepted] = kTokens;
    }
  } else if (done.ref.kind == TaskKind::kScore && result.error().empty()) {
    const v1::ScoreNode& node = core_->dataflow().score(static_cast<int>(done.ref.target));
    if (node.method() == "compute_reward") return result;
    AddColumn(result, node.out(), v1::DATA_TYPE_FLOAT32,
              std::vector<float>(kTokens, -0.25f - subject / 4096));
  }
  return result;
}

void SimulatedJob::Settle() {
  executors_.Settle();
  if (batch_rows_.empty()) return;
  EXPECT_LE(batch_rows_.rbegin()->first, core_->step() + 1);
  EXPECT_EQ(batch_rows_.rbegin()->first - batch_rows_.begin()->first + 1,
            static_cast<int64_t>(batch_rows_.size()))
      << "a step between has none";
}

void SimulatedJob::ReadRow() const {
  if (!std::exchange(row_changed_, false)) return;
  const auto stored = store_.Get(kJobTable, job_->name());
  EXPECT_TRUE(stored.ok() && stored->has_value() && row_.ParseFromString(**stored));
}

void SimulatedJob::Restart(int dying_percent) {
  std::erase_if(pending_, [](const Event& e) { return !std::holds_alternative<TaskDone>(e); });
  needs_.clear();
  leaving_.clear();
  executors_.Drop();
  job_->Abandon();
  const std::string name = job_->name();
  EXPECT_TRUE(CommitNow(store_, {{kJobTable, name, row().SerializeAsString()}}).ok());
  for (const auto& [serial, row] : rows_) {
    EXPECT_TRUE(
        CommitNow(store_, {{kTrajectoryTable, NumberKey(name, serial), row.SerializeAsString()}})
            .ok());
  }
  const auto stored = store_.Scan(kTrajectoryTable, NumberRange(name, 0));
  for (const store::Row& row : *stored) {
    if (rows_.count(KeyNumber(row.key)) > 0) continue;
    EXPECT_TRUE(CommitNow(store_, {{kTrajectoryTable, row.key, std::nullopt}}).ok());
  }
  const auto workers = alive_;
  away_.clear();
  for (const auto& [worker, role] : workers) BreakStream(worker);

  context_ = MakeContext();
  EXPECT_TRUE(TakeOver(store_, &context_).ok());
  JobTable jobs;
  const auto restored = JobRestorer(&context_, &store_, {}).Restore(&jobs);
  ASSERT_TRUE(restored.ok() && restored->size() == 1) << restored.status();
  job_ = restored->front();
  EXPECT_NE(ErrorReason(FromProto(job_->Brief().error())), "QUARANTINED");
  const auto held = job_->HeldWorkers();
  for (const auto& [worker, role] : workers) {
    if (held.count(worker) == 0) Forget(worker);  // the store knows of no grant: it is free again
  }
  for (const auto& [worker, role] : held) {
    if (alive_.count(worker) > 0 && static_cast<int>(random_() % 100) >= dying_percent) continue;
    Forget(worker);
    pending_.push_back(WorkerLost{worker, "did not come back"});
  }
  job_->Start({}, nullptr);
  Settle();
}

// ---- The job's turns ----------------------------------------------------------------------------

void SimulatedJob::OnTurn(const JobCore& core, const Effects& effects) {
  if (turns_file_ != nullptr) turns_.Add(core.name(), effects);
  core_ = &core;
  for (const Effect& effect : effects) {
    const auto* const start = std::get_if<StartAhead>(&effect);
    if (start != nullptr) CheckAhead(*start);
  }
}

// Checks that the response is still to come: not begun yet, and before the end.
void SimulatedJob::CheckAhead(const StartAhead& start) const {
  const v1::JobSpec& spec = core_->effective_spec();
  const AheadResponse& response = start.response;
  const auto n = static_cast<uint32_t>(spec.rollout().n());
  const uint64_t id = TrajectoryId(v1::PURPOSE_TRAIN, response.prompt_index, response.sample, n);
  EXPECT_EQ(core_->Find(id), nullptr)
      << "prompt index " << response.prompt_index << " is made already";
  const store::v1::JobRow row = core_->BriefRow();
  for (const store::v1::PromptIndexRange& spent : row.spent()) {
    EXPECT_FALSE(response.prompt_index >= spent.first() && response.prompt_index <= spent.last())
        << "it is spent";
  }
}

void SimulatedJob::OnEvent(const JobCore& core, const Event& event) {
  if (turns_file_ != nullptr) turns_.Add(core.name(), event);
  const auto* built = std::get_if<BatchBuilt>(&event);
  if (built == nullptr || options_.sft || !built->status.ok()) return;
  if (built->incarnation != core.incarnation()) return;
  std::vector<uint64_t>& ids = batches_[built->step];
  uint64_t& contents = contents_[built->step];
  ids.clear();
  contents = 0;
  for (const auto& [id, hashes] : built->column_hashes) {
    ids.push_back(id);
    for (const uint64_t hash : hashes) contents = MixInto(contents, hash);
  }
  EXPECT_EQ(ids.size(), built->size);
}

void SimulatedJob::OnEffect(const JobCore& /*core*/, const Effect& effect) {
  std::visit([this](const auto& e) { See(e); }, effect);
}

void SimulatedJob::Send(const std::string& worker, v1::ControllerMessage message) {
  if (message.has_cancel()) {
    return Stop(
        {worker, DecodeToken(message.cancel().task_token())->ref, message.cancel().reason()});
  }
  if (!message.has_task()) return;
  if (message.task().has_run_ahead()) {
    const auto ahead = ahead_.find(DecodeToken(message.task().task_token())->ref);
    ASSERT_NE(ahead, ahead_.end()) << "no turn asked for it";
    const v1::Generate& response = message.task().run_ahead().response();
    EXPECT_EQ(message.task().method(), "run_ahead");
    EXPECT_EQ(response.prompt_index(), ahead->second.response.prompt_index);
    EXPECT_EQ(response.sample_index(), ahead->second.response.sample);
    EXPECT_EQ(response.prompt_id(), ahead->second.response.prompt_id);
    EXPECT_EQ(response.purpose(), v1::PURPOSE_TRAIN);
    return RunAhead(ahead->second);
  }
  const auto leaving = leaving_.find({worker, DecodeToken(message.task().task_token())->ref});
  ASSERT_NE(leaving, leaving_.end()) << "no turn asked for " << message.task().method();
  const StartTask start = leaving->second;
  leaving_.erase(leaving);
  EXPECT_EQ(message.task().role(), start.args.role);
  EXPECT_EQ(message.task().epoch(), context_.epoch);
  if (start.ref.kind == TaskKind::kGenerate) {
    EXPECT_FALSE(message.task().generate().prompt().empty()) << "a response to nothing";
  }
  const auto& draft = message.task().generate().draft_tokens();
  if (!draft.empty()) drafts_[start.ref].assign(draft.begin(), draft.end());
  Start(start);
}

void SimulatedJob::See(const PutTrajectory& effect) {
  const auto stored = store_.Get(kTrajectoryTable, NumberKey(job_->name(), effect.serial));
  if (!stored.ok() || !stored->has_value()) return;  // a later turn has dropped it
  EXPECT_TRUE(rows_[effect.serial].ParseFromString(**stored));
}

void SimulatedJob::See(const DropTrajectories& effect) {
  rows_.erase(rows_.lower_bound(effect.begin), rows_.lower_bound(effect.end));
}

void SimulatedJob::See(const PutBatch& effect) {
  const int64_t step = effect.row.step();
  EXPECT_FALSE(options_.sft);
  EXPECT_EQ(effect.row.incarnation(), core_->incarnation());
  EXPECT_EQ(batch_rows_.count(step), 0u) << "step " << step << " has one already";
  EXPECT_EQ(IdsOf(effect.row), batches_.at(step));
  for (const store::v1::BatchEntry& entry : effect.row.entries()) {
    EXPECT_GT(entry.trajectory().size(), 0u) << "no place in the experience log";
    EXPECT_EQ(entry.trajectory().scores().count("reward"), 1u);
    ExpectFresh(entry.trajectory(), effect.row.entries(0).trajectory());
  }
  batch_rows_[step] = effect.row;
}

// A batch of mode sync is of one version; one of mode async keeps its bound.
void SimulatedJob::ExpectFresh(const store::v1::TrajectoryRow& row,
                               const store::v1::TrajectoryRow& first) const {
  const v1::JobSpec& spec = core_->effective_spec();
  if (!IsAsync(spec, core_->dataflow())) {
    EXPECT_EQ(row.policy_version(), first.policy_version());
    return;
  }
  VersionRows known;
  const store::v1::JobRow now = core_->BriefRow();
  for (const store::v1::VersionRow& version : now.versions()) known[version.version()] = version;
  const auto behind = Staleness(known, row.policy_version(), now.job().policy_version());
  ASSERT_TRUE(behind.has_value());
  EXPECT_LE(*behind, ScheduleOf(spec).max_staleness);
}

void SimulatedJob::See(const DropBatches& effect) {
  EXPECT_LT(effect.begin, effect.end);
  batch_rows_.erase(batch_rows_.lower_bound(effect.begin), batch_rows_.lower_bound(effect.end));
}

void SimulatedJob::See(const BuildBatch& effect) {
  executors_.MakeNextDiskWorkSlow();
  std::vector<uint64_t> ids;
  std::set<uint64_t> prompt_indices;
  for (const TrajectoryInfo& t : effect.trajectories) {
    EXPECT_EQ(t.purpose, v1::PURPOSE_TRAIN);
    EXPECT_EQ(t.state, TrajectoryState::kReady);
    EXPECT_EQ(t.failed, 0u) << "it has no reward";
    if (!options_.sft) EXPECT_EQ(t.scores.count("reward"), 1u);
    prompt_indices.insert(t.prompt_index);
    ids.push_back(t.id);
  }
  const bool whole = core_->effective_spec().schedule().group_timeout_seconds() == 0;
  if (whole && (options_.failing_rewards == Options::Failing::kNone || options_.error_reward)) {
    EXPECT_EQ(effect.trajectories.size(),
              prompt_indices.size() * (options_.sft ? 1 : options_.samples))
        << "whole groups";
  }
  if (!options_.sft) EXPECT_EQ(prompt_indices.size(), 3u) << "a full batch";
  EXPECT_EQ(effect.baselines.size(), options_.preset == "remax" ? prompt_indices.size() : 0);
  EXPECT_TRUE(std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end())
      << "in order, none twice";
  if (!options_.sft) return;  // its row tells what is left after filters
  batches_[effect.step] = ids;
  contents_[effect.step] = 0;
}

void SimulatedJob::See(const CommitCheckpoint& effect) {
  executors_.MakeNextDiskWorkSlow();
  EXPECT_EQ(effect.row.job().step(), effect.step);
  const auto staged = staged_.find({effect.step, effect.incarnation});
  ASSERT_NE(staged, staged_.end());
  EXPECT_EQ(static_cast<int>(staged->second.size()), core_->dataflow().update_size());
}

void SimulatedJob::OnCommitted(int64_t step, uint64_t incarnation) {
  disk_[step] = std::exchange(staged_[{step, incarnation}], {});
}

void SimulatedJob::See(const EmitEvent& effect) {
  row_changed_ |= effect.kept;
  if (effect.kept) events_.push_back(effect.event);
  if (effect.event.type() == "warning") warnings_.push_back(effect.event.message());
  if (effect.event.type() != "evaluation") return;
  EXPECT_NE(effect.event.message(), "");  // its numbers
  evaluated_.insert(effect.event.step());
}

void SimulatedJob::See(const PutMetrics& effect) {
  for (const auto& [name, value] : effect.metrics) metrics_[name] = value;
}

}  // namespace baton::controller

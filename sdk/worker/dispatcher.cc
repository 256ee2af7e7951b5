#include "sdk/worker/dispatcher.h"

#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/cut_text.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/contracts/text_bounds.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

constexpr char kAssign[] = "assign_role";
constexpr char kRelease[] = "release_role";

/// The result as it is sent.
v1::TaskResult ToResult(absl::StatusOr<v1::TaskResult> result) {
  if (result.ok()) return *std::move(result);
  v1::TaskResult failed;
  *failed.mutable_status() = ToProto(result.status());
  return failed;
}

absl::StatusOr<v1::TaskResult> Guarded(const TaskHandler& handler, TaskContext& context) {
  if (!handler) return v1::TaskResult();
  try {
    return handler(context.task(), context);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(context.task().role(), ".", context.task().method(),
                                            " threw an exception: ", error.what()));
  }
}

}  // namespace

absl::Status Dispatcher::AddRole(absl::string_view role, RoleOptions options) {
  if (role.empty() || options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("role \"", role, "\": it needs a name and at least one thread"));
  }
  if (!roles_.try_emplace(std::string(role), Role{std::move(options), {}, nullptr}).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("role ", role, " is registered already; register roles before methods"));
  }
  return absl::OkStatus();
}

absl::Status Dispatcher::AddMethod(absl::string_view role, absl::string_view method, int credits,
                                   TaskHandler handler, AsyncTaskHandler async,
                                   MethodOptions options) {
  const std::string name = absl::StrCat(role, ".", method);
  if (role.empty() || method.empty() || credits < 1 || (!handler && !async)) {
    return absl::InvalidArgumentError(
        absl::StrCat("method ", name, ": it needs names, a handler and at least one credit"));
  }
  if (method == kAssign || method == kRelease) {
    return absl::InvalidArgumentError(
        absl::StrCat("method ", name, " is built in: give RegisterRole on_assign and on_release"));
  }
  Role& entry = roles_[std::string(role)];
  Method value{credits, std::move(handler), std::move(async), options};
  if (!entry.methods.try_emplace(std::string(method), std::move(value)).second) {
    return absl::AlreadyExistsError(absl::StrCat("method ", name, " is registered already"));
  }
  return absl::OkStatus();
}

void Dispatcher::Start() {
  for (auto& [name, role] : roles_) {
    role.runner = std::make_unique<RoleRunner>(role.options.threads);
  }
}

void Dispatcher::Stop() {
  Fence();
  for (auto& [name, role] : roles_) {
    if (role.runner != nullptr) role.runner->Stop();
  }
}

void Dispatcher::Dispatch(v1::Task task) {
  const auto context = std::make_shared<TaskContext>(std::move(task), weak_from_this());
  if (!ledger_->Begin(context)) return;
  if (!context->task().has_order()) {
    Launch(context);
    return;
  }
  GroupSequencer::Decision decision;
  {
    absl::MutexLock lock(&mu_);
    decision = sequencer_.Offer(context);
  }
  Apply(std::move(decision));
}

void Dispatcher::Apply(GroupSequencer::Decision decision) {
  for (auto& [context, why] : decision.refused) context->Finish(why);
  if (decision.run != nullptr) Launch(decision.run);
}

void Dispatcher::Launch(const Context& context) {
  const v1::Task& task = context->task();
  const auto it = roles_.find(task.role());
  if (it == roles_.end()) {
    context->Finish(MakeError(absl::StatusCode::kUnimplemented, "UNKNOWN_ROLE",
                              absl::StrCat("this worker does not play role ", task.role())));
    return;
  }
  Role& role = it->second;
  const bool changes_role = task.method() == kAssign || task.method() == kRelease;
  const auto method = role.methods.find(task.method());
  if (!changes_role && method == role.methods.end()) {
    context->Finish(
        MakeError(absl::StatusCode::kUnimplemented, "UNKNOWN_METHOD",
                  absl::StrCat("this worker does not serve ", task.role(), ".", task.method())));
    return;
  }
  if (!changes_role && method->second.options.on_reader_thread && !task.has_order()) {
    RunTask(role, context, 0);
    return;
  }
  const uint64_t ending = changes_role ? BeginEnding(task.role(), task.job(), task.method()) : 0;
  role.runner->Post(
      [self = shared_from_this(), &role, context, ending] { self->RunTask(role, context, ending); },
      changes_role || task.has_order());
}

// Begins to time the end of a role's work: its earlier tasks wait in the queue of its runner, or
// run.
uint64_t Dispatcher::BeginEnding(absl::string_view role, absl::string_view job,
                                 absl::string_view why) {
  absl::MutexLock lock(&mu_);
  endings_[next_ending_] = {absl::StrCat("role ", role, ", for ", why, " of ", job),
                            SteadyClock::now()};
  return next_ending_++;
}

void Dispatcher::EndEnding(uint64_t ending) {
  absl::MutexLock lock(&mu_);
  endings_.erase(ending);
}

std::string Dispatcher::RoleEndingSince(SteadyClock::time_point begun) const {
  absl::MutexLock lock(&mu_);
  for (const auto& [number, ending] : endings_) {
    if (ending.begun <= begun) return ending.what;
  }
  return "";
}

void Dispatcher::RunTask(Role& role, const Context& context, uint64_t ending) {
  const v1::Task& task = context->task();
  if (context->cancelled()) {
    EndEnding(ending);
    context->Finish(absl::CancelledError("the task was cancelled before it began"));
  } else if (task.method() == kAssign) {
    context->Finish(RunAssign(role, *context, ending));
  } else if (task.method() == kRelease) {
    // If this job no longer holds the role, another job may.
    if (CheckHeld(task).ok()) {
      const std::string job = TakeHeld(task.role(), &task);
      if (!job.empty() && role.options.on_release) role.options.on_release(job);
    }
    EndEnding(ending);
    context->Finish(v1::TaskResult());
  } else {
    RunMethod(role.methods.at(task.method()), context);
  }
}

absl::StatusOr<v1::TaskResult> Dispatcher::RunAssign(Role& role, TaskContext& context,
                                                     uint64_t ending) {
  const v1::Task& task = context.task();
  DropOtherJobs(task);
  const std::string previous = TakeHeld(task.role(), &task);
  if (!previous.empty() && role.options.on_release) role.options.on_release(previous);
  EndEnding(ending);
  {
    absl::MutexLock lock(&mu_);
    troubles_.erase(task.role());  // what the job before may have left
  }
  logs_->SetJob(task.job());  // what is said from here on is about it
  auto result = Guarded(role.options.on_assign, context);
  {
    absl::MutexLock lock(&mu_);
    if (!result.ok() || context.cancelled()) TellLogs();
    if (!result.ok()) return result;
    if (!context.cancelled()) {
      v1::RoleHeld& held = held_[task.role()];
      held.set_job(task.job());
      held.set_role(task.role());
      held.set_pool(task.order().pool());
      held.set_group_epoch(task.order().group_epoch());
      held.set_policy_version(task.assign_role().policy_version());
      TellLogs();
      return result;
    }
  }
  if (role.options.on_release) role.options.on_release(task.job());
  return absl::CancelledError("assign_role was cancelled");
}

void Dispatcher::RunMethod(const Method& method, const Context& context) {
  const v1::Task& task = context->task();
  if (method.options.needs_role) {
    if (absl::Status held = CheckHeld(task); !held.ok()) {
      context->Finish(std::move(held));
      return;
    }
  }
  if (method.handler) {
    context->Finish(Guarded(method.handler, *context));
    return;
  }
  try {
    method.async(context);
  } catch (const std::exception& error) {
    context->Finish(absl::InternalError(
        absl::StrCat(task.role(), ".", task.method(), " threw an exception: ", error.what())));
  }
}

absl::Status Dispatcher::CheckHeld(const v1::Task& task) const {
  absl::MutexLock lock(&mu_);
  const auto it = held_.find(task.role());
  if (it != held_.end() && it->second.job() == task.job()) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, "ROLE_NOT_HELD",
                   absl::StrCat("this worker does not hold role ", task.role(), " of ", task.job(),
                                "; send assign_role first"));
}

bool Dispatcher::PoolIsHeld(const std::string& job, const std::string& pool) const {
  for (const auto& [role, held] : held_) {
    if (held.job() == job && held.pool() == pool) return true;
  }
  return false;
}

std::string Dispatcher::TakeHeld(const std::string& role, const v1::Task* keep_pool) {
  GroupSequencer::Decision decision;
  std::string job;
  {
    absl::MutexLock lock(&mu_);
    const auto it = held_.find(role);
    if (it == held_.end()) return "";
    job = it->second.job();
    const std::string pool = it->second.pool();
    held_.erase(it);
    troubles_.erase(role);
    TellLogs();
    const bool keep = keep_pool != nullptr && keep_pool->has_order() && keep_pool->job() == job &&
                      keep_pool->order().pool() == pool;
    if (!keep && !PoolIsHeld(job, pool)) {
      decision = sequencer_.Forget(job, pool);
    }
  }
  Apply(std::move(decision));
  return job;
}

/// A worker is one job's at a time: no message will release what it still holds of others.
void Dispatcher::DropOtherJobs(const v1::Task& assign) {
  std::vector<std::string> others;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [role, held] : held_) {
      if (held.job() != assign.job() && role != assign.role()) others.push_back(role);
    }
  }
  for (const std::string& role : others) DropRole(role);
}

void Dispatcher::DropRole(const std::string& name) {
  const auto it = roles_.find(name);
  const std::string job = TakeHeld(name);
  if (it == roles_.end() || job.empty() || !it->second.options.on_release) return;
  Role& role = it->second;
  const uint64_t ending = BeginEnding(name, job, "the end");
  const auto release = [self = shared_from_this(), &role, name, job, ending] {
    bool held = false;
    {
      absl::MutexLock lock(&self->mu_);
      held = self->held_.count(name) > 0;
    }
    if (!held) role.options.on_release(job);  // else it was taken on again meanwhile
    self->EndEnding(ending);
  };
  role.runner->Post(release, /*exclusive=*/true);
}

void Dispatcher::Cancel(absl::string_view token) {
  const Context context = ledger_->Find(token);
  if (context == nullptr) return;
  context->Cancel();
  if (!context->task().has_order()) return;
  GroupSequencer::Decision decision;
  {
    absl::MutexLock lock(&mu_);
    decision = sequencer_.Withdraw(*context);
  }
  Apply(std::move(decision));
}

void Dispatcher::Release(const v1::RoleHeld& held) {
  {
    absl::MutexLock lock(&mu_);
    const auto it = held_.find(held.role());
    if (it == held_.end() || it->second.job() != held.job()) return;
  }
  DropRole(held.role());
}

void Dispatcher::Fence() {
  for (const Context& context : ledger_->AbandonAll()) context->Cancel();
  GroupSequencer::Decision decision;
  {
    absl::MutexLock lock(&mu_);
    decision = sequencer_.ForgetAll();
  }
  for (const auto& [name, role] : roles_) {
    if (role.runner != nullptr) DropRole(name);
  }
  Apply(std::move(decision));
}

void Dispatcher::Describe(v1::Hello& hello) const {
  for (const auto& [name, role] : roles_) {
    const auto add = [&hello, &name = name](const std::string& method, int credits) {
      v1::MethodCredits* entry = hello.add_methods();
      entry->set_role(name);
      entry->set_method(method);
      entry->set_credits(credits);
    };
    add(kAssign, 1);
    add(kRelease, 1);
    for (const auto& [method, value] : role.methods) add(method, value.credits);
  }
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [name, held] : held_) {
      v1::RoleHeld* entry = hello.add_roles_held();
      *entry = held;
      entry->set_last_sequence(sequencer_.last_sequence(held.job(), held.pool()));
    }
  }
  ledger_->Describe(hello);
}

void Dispatcher::ReportTrouble(absl::string_view role, absl::string_view message) {
  absl::MutexLock lock(&mu_);
  Trouble& trouble = troubles_[std::string(role)];
  trouble.message = CutText(ReplaceInvalidUtf8(message), kTroubleBytes);
  trouble.due = true;
}

bool Dispatcher::NextTrouble(v1::RoleTrouble& trouble) {
  absl::MutexLock lock(&mu_);
  for (auto& [role, report] : troubles_) {
    const auto held = held_.find(role);
    if (!report.due || held == held_.end()) continue;
    report.due = false;
    trouble.set_job(held->second.job());
    trouble.set_role(role);
    trouble.set_message(report.message);
    return true;
  }
  return false;
}

void Dispatcher::SendTroubleAgain() {
  absl::MutexLock lock(&mu_);
  for (auto& [role, report] : troubles_) report.due = true;
}

void Dispatcher::TellLogs() { logs_->SetJob(held_.empty() ? "" : held_.begin()->second.job()); }

void Dispatcher::OnProgress(TaskContext& context, absl::Span<const int32_t> tokens,
                            absl::Span<const float> log_probs,
                            absl::Span<const float> sampling_log_probs) {
  ledger_->AddProgress(context, tokens, log_probs, sampling_log_probs);
}

void Dispatcher::OnWorkDone(TaskContext& context, uint32_t done, uint32_t total) {
  ledger_->NoteDone(context, done, total);
}

GroupSequencer::Decision Dispatcher::Advance(const v1::Task& task, bool ok) {
  absl::MutexLock lock(&mu_);
  if (task.method() != kRelease || !ok) return sequencer_.Done(task);
  if (PoolIsHeld(task.job(), task.order().pool())) return sequencer_.Done(task);
  GroupSequencer::Decision decision = sequencer_.Done(task);
  if (decision.run != nullptr) return decision;
  return sequencer_.Forget(task.job(), task.order().pool());
}

void Dispatcher::OnFinished(TaskContext& context, absl::StatusOr<v1::TaskResult> result) {
  const v1::Task& task = context.task();
  const bool ok = result.ok();
  if (!ok && !absl::IsCancelled(result.status())) {
    Log(LogLevel::kWarn, "task failed",
        {{"job", task.job()},
         {"role", task.role()},
         {"method", task.method()},
         {"attempt", task.attempt()},
         {"error", result.status().ToString(absl::StatusToStringMode::kWithNoExtraData)}});
  }
  GroupSequencer::Decision decision;
  if (task.has_order()) decision = Advance(task, ok);
  ledger_->Finish(context, ToResult(std::move(result)));
  Apply(std::move(decision));
}

void Dispatcher::OnPolicyVersion(TaskContext& context, uint64_t policy_version) {
  absl::MutexLock lock(&mu_);
  const auto it = held_.find(context.task().role());
  if (it != held_.end() && it->second.job() == context.task().job()) {
    it->second.set_policy_version(policy_version);
  }
}

}  // namespace baton

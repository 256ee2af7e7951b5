#include "tests/fake_worker/fake_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/contracts/worker_features.h"
#include "sdk/common/rpc/error.h"
#include "sdk/worker/score_output.h"
#include "tests/fake_worker/fake_actor.h"
#include "tests/fake_worker/fake_critic.h"
#include "tests/fake_worker/fake_generator.h"
#include "tests/fake_worker/fake_reward.h"
#include "tests/fake_worker/fake_scores.h"
#include "tests/fake_worker/fake_weights.h"

namespace baton::fake {
namespace {

using Result = absl::StatusOr<v1::TaskResult>;

/// Blocks for `delay` unless the task is cancelled first.
void Delay(TaskContext& context, absl::Duration delay) {
  if (delay <= absl::ZeroDuration()) return;
  const auto cancelled = std::make_shared<absl::Notification>();
  context.OnCancel([cancelled] { cancelled->Notify(); });
  cancelled->WaitForNotificationWithTimeout(delay);
}

absl::Status Injected(const v1::Task& task) {
  return absl::InternalError(absl::StrCat("fault injected into ", task.role(), ".", task.method()));
}

Result Reward(const v1::Task& task, TaskContext& /*context*/) {
  v1::TaskResult result;
  (*result.mutable_metrics())[OutputName(task.score(), "reward")] =
      RewardOf(task.score().trajectory().response_text());
  return result;
}

Result ReferenceLogProb(const v1::Task& task, TaskContext& /*context*/) {
  constexpr uint64_t kReference = 0x726566;
  return ColumnResult(
      OutputName(task.score(), "ref_log_prob"),
      TokenScores(kReference, task.score().trajectory(), -1.5, /*with_token=*/true));
}

Result LearnedReward(const v1::Task& task, TaskContext& /*context*/) {
  const std::string name = task.role() == "cost" ? "cost" : "reward";
  v1::TaskResult result;
  (*result.mutable_metrics())[OutputName(task.score(), name)] =
      LearnedScore(task.role(), task.score().trajectory().response_text());
  return result;
}

}  // namespace

struct FakeWorker::Impl {
  explicit Impl(FakeWorkerOptions fake_options, std::unique_ptr<Worker> sdk_worker)
      : options(std::move(fake_options)),
        worker(std::move(sdk_worker)),
        experience(worker->options()),
        relay(options.weights_place.empty() ? worker->options().controller : options.weights_place),
        actor(&experience, &relay),
        critic("critic", &experience),
        cost_critic("cost_critic", &experience),
        generator(options.token_delay),
        faults(options.faults) {}

  absl::Status Register();
  absl::Status RegisterActor();
  absl::Status RegisterRollout();
  absl::Status RegisterCritic(const std::string& name, FakeCritic& played);
  absl::Status RegisterScorer(const std::string& role);
  TaskHandler WithFaults(TaskHandler handler);
  void Generate(std::shared_ptr<TaskContext> context);
  Result LoadWeights(const v1::Task& task, TaskContext& context);
  Result ToGeneration(const v1::Task& task, TaskContext& context);
  TaskHandler TakingBack(TaskHandler handler);
  void Load(uint64_t wanted, uint64_t found);
  void Crash() { options.on_crash ? options.on_crash() : worker->Stop(); }

  const FakeWorkerOptions options;
  const std::unique_ptr<Worker> worker;
  ExperienceClient experience;
  FakeRelay relay;
  FakeActor actor;
  FakeCritic critic, cost_critic;
  FakeGenerator generator;
  FaultPlan faults;
  std::thread thread;
  bool shares = false;  // the actor's weights with the rollout; of the actor's thread

  absl::Mutex mu;
  bool loaded ABSL_GUARDED_BY(mu) = false;
  uint64_t version ABSL_GUARDED_BY(mu) = 0;
  uint64_t weights ABSL_GUARDED_BY(mu) = 0;
};

TaskHandler FakeWorker::Impl::WithFaults(TaskHandler handler) {
  return
      [this, handler = std::move(handler)](const v1::Task& task, TaskContext& context) -> Result {
        switch (faults.Count(task.method())) {
          case Fault::Kind::kNone:
            break;
          case Fault::Kind::kFail:
            return Injected(task);
          case Fault::Kind::kHang:
            Delay(context, absl::InfiniteDuration());
            return absl::CancelledError("hung until cancelled");
          case Fault::Kind::kCrash:
            Crash();
            Delay(context, absl::InfiniteDuration());
            return absl::CancelledError("crashed");
        }
        Delay(context, options.task_delay);
        return handler(task, context);
      };
}

absl::Status FakeWorker::Impl::RegisterActor() {
  const auto method = [this](Result (FakeActor::*call)(const v1::Task&, TaskContext&)) {
    return WithFaults([this, call](const v1::Task& task, TaskContext& context) {
      return (actor.*call)(task, context);
    });
  };
  RoleOptions role;
  role.on_assign = TakingBack(method(&FakeActor::Assign));
  BATON_RETURN_IF_ERROR(worker->RegisterRole("actor", role));
  BATON_RETURN_IF_ERROR(
      worker->RegisterMethod("actor", "update", 1, TakingBack(method(&FakeActor::Update))));
  BATON_RETURN_IF_ERROR(worker->RegisterMethod(
      "actor", "to_generation", 1, WithFaults([this](const v1::Task& task, TaskContext& context) {
        return ToGeneration(task, context);
      })));
  BATON_RETURN_IF_ERROR(worker->RegisterMethod("actor", "publish", 1, method(&FakeActor::Publish)));
  BATON_RETURN_IF_ERROR(
      worker->RegisterMethod("actor", "save_checkpoint", 1, method(&FakeActor::SaveCheckpoint)));
  BATON_RETURN_IF_ERROR(
      worker->RegisterMethod("actor", "compute_log_prob", 64, method(&FakeActor::ComputeLogProb)));
  BATON_RETURN_IF_ERROR(
      worker->RegisterMethod("actor", "evaluate", 1, method(&FakeActor::Evaluate)));
  return worker->RegisterMethod("actor", "export", 1, method(&FakeActor::Export),
                                {/*needs_role=*/false});
}

Result FakeWorker::Impl::LoadWeights(const v1::Task& task, TaskContext& context) {
  const uint64_t wanted = task.load_weights().policy_version();
  BATON_ASSIGN_OR_RETURN(const uint64_t found, relay.Load(task.job(), wanted));
  Load(wanted, found);
  context.ReportPolicyVersion(wanted);
  return v1::TaskResult();
}

void FakeWorker::Impl::Load(uint64_t wanted, uint64_t found) {
  absl::MutexLock lock(&mu);
  loaded = true;
  version = wanted;
  weights = found;
}

Result FakeWorker::Impl::ToGeneration(const v1::Task& task, TaskContext& /*context*/) {
  return actor.ToGeneration(task, [this](uint64_t wanted, uint64_t found) { Load(wanted, found); });
}

/// The rollout samples with the actor's weights: before they change, generation stops.
TaskHandler FakeWorker::Impl::TakingBack(TaskHandler handler) {
  return [this, handler = std::move(handler)](const v1::Task& task, TaskContext& context) {
    if (shares) {
      generator.CancelAll();
      absl::MutexLock lock(&mu);
      loaded = false;
    }
    if (task.has_assign_role()) shares = task.assign_role().generation_tp() > 0;
    return handler(task, context);
  };
}

void FakeWorker::Impl::Generate(std::shared_ptr<TaskContext> context) {
  const v1::Task& task = context->task();
  switch (faults.Count(task.method())) {
    case Fault::Kind::kNone:
      break;
    case Fault::Kind::kFail:
      context->Finish(Injected(task));
      return;
    case Fault::Kind::kCrash:
      Crash();
      [[fallthrough]];
    case Fault::Kind::kHang:
      context->OnCancel([context] { context->Finish(absl::CancelledError("hung")); });
      return;
  }
  uint64_t with = 0;
  {
    absl::MutexLock lock(&mu);
    if (!loaded || version != task.generate().policy_version()) {
      const std::string has = loaded ? absl::StrCat("version ", version) : "none yet";
      context->Finish(
          MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_VERSION",
                    absl::StrCat("asked to sample from policy version ",
                                 task.generate().policy_version(), ", but holds ", has)));
      return;
    }
    with = weights;
  }
  generator.Add(std::move(context), with);
}

absl::Status FakeWorker::Impl::RegisterRollout() {
  RoleOptions role;
  role.on_assign = WithFaults([this](const v1::Task& task, TaskContext&) {
    absl::MutexLock lock(&mu);
    if (task.assign_role().generation_tp() == 0) loaded = false;
    return v1::TaskResult();
  });
  role.on_release = [this](const std::string&) { generator.CancelAll(); };
  BATON_RETURN_IF_ERROR(worker->RegisterRole("rollout", role));
  BATON_RETURN_IF_ERROR(worker->RegisterAsyncMethod(
      "rollout", "generate", options.generate_credits,
      [this](std::shared_ptr<TaskContext> context) { Generate(std::move(context)); }));
  return worker->RegisterMethod("rollout", "load_weights", 1,
                                WithFaults([this](const v1::Task& task, TaskContext& context) {
                                  return LoadWeights(task, context);
                                }));
}

absl::Status FakeWorker::Impl::RegisterCritic(const std::string& name, FakeCritic& played) {
  const auto method = [&](Result (FakeCritic::*call)(const v1::Task&, TaskContext&)) {
    return WithFaults([&played, call](const v1::Task& task, TaskContext& context) {
      return (played.*call)(task, context);
    });
  };
  RoleOptions role;
  role.on_assign = method(&FakeCritic::Assign);
  BATON_RETURN_IF_ERROR(worker->RegisterRole(name, role));
  BATON_RETURN_IF_ERROR(worker->RegisterMethod(name, "update", 1, method(&FakeCritic::Update)));
  BATON_RETURN_IF_ERROR(
      worker->RegisterMethod(name, "save_checkpoint", 1, method(&FakeCritic::SaveCheckpoint)));
  return worker->RegisterMethod(name, "compute_values", options.reward_credits,
                                method(&FakeCritic::ComputeValues));
}

/// Roles that answer one method and hold nothing.
absl::Status FakeWorker::Impl::RegisterScorer(const std::string& role) {
  if (role == "reference") {
    return worker->RegisterMethod(role, "compute_log_prob", options.reward_credits,
                                  WithFaults(ReferenceLogProb));
  }
  return worker->RegisterMethod(role, "compute_reward", options.reward_credits,
                                WithFaults(role == "reward" ? Reward : LearnedReward));
}

absl::Status FakeWorker::Impl::Register() {
  for (const std::string& role : options.roles) {
    if (role == "actor") {
      BATON_RETURN_IF_ERROR(RegisterActor());
    } else if (role == "rollout") {
      BATON_RETURN_IF_ERROR(RegisterRollout());
    } else if (role == "critic" || role == "cost_critic") {
      BATON_RETURN_IF_ERROR(RegisterCritic(role, role == "critic" ? critic : cost_critic));
    } else if (role == "reward" || role == "reference" || role == "reward_model" ||
               role == "cost" || role == "judge") {
      BATON_RETURN_IF_ERROR(RegisterScorer(role));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown role \"", role,
                       "\": actor, rollout, reward, reference, critic, cost_critic, "
                       "reward_model, cost and judge exist"));
    }
  }
  return absl::OkStatus();
}

FakeWorker::FakeWorker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

FakeWorker::~FakeWorker() {
  Stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

absl::StatusOr<std::unique_ptr<FakeWorker>> FakeWorker::Create(FakeWorkerOptions options) {
  options.worker.features = {"seeded_sampling",    "resume_with_tokens",  "behaviour_log_probs",
                             kRewardRulesFeature,  kRewardCommandFeature, kChatTemplatesFeature,
                             kChatSettingsFeature, kSftEvaluationFeature, kUndecayedNormsFeature};
  for (std::string& feature : ModelFeatures()) {
    options.worker.features.push_back(std::move(feature));
  }
  options.worker.group_store = "tcp://127.0.0.1:1";  // its ranks do not talk to each other
  BATON_ASSIGN_OR_RETURN(auto worker, Worker::Create(options.worker));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(worker));
  BATON_RETURN_IF_ERROR(impl->Register());
  return std::unique_ptr<FakeWorker>(new FakeWorker(std::move(impl)));
}

absl::Status FakeWorker::Run() { return impl_->worker->Run(); }

void FakeWorker::Start() {
  impl_->thread = std::thread([this] { Run().IgnoreError(); });
}

void FakeWorker::Stop() { impl_->worker->Stop(); }
int FakeWorker::tasks(const std::string& method) const { return impl_->faults.count(method); }
Worker& FakeWorker::worker() { return *impl_->worker; }

}  // namespace baton::fake

#include "workers/main/serve_command.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/private_file.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/contracts/worker_features.h"
#include "sdk/common/process/local_address.h"
#include "sdk/common/process/memory_id.h"
#include "sdk/common/rpc/channel_credentials.h"
#include "sdk/worker/run_until_signal.h"
#include "sdk/worker/worker.h"
#include "workers/hybrid/shared_policy.h"
#include "workers/main/reward_role.h"
#include "workers/policy/weights_relay.h"
#include "workers/ranks/ranks.h"
#include "workers/rollout/rollout_role.h"
#include "workers/scoring/judge_role.h"
#include "workers/scoring/reference_role.h"
#include "workers/scoring/reward_model_role.h"
#include "workers/trainer/actor_role.h"
#include "workers/trainer/critic_role.h"

namespace baton {
namespace {

constexpr int kStuckExit = 75;  // EX_TEMPFAIL: it may go well the next time

/// With "auto" a worker whose machine has no sandbox goes on without commands, and says why; with
/// "bubblewrap" it does not start.
absl::StatusOr<CommandPermission> PermitCommands(const ServeOptions& options) {
  const bool plays = std::count(options.roles.begin(), options.roles.end(), "reward") > 0;
  if (!plays || !options.allow_commands) return CommandPermission();
  reward::SandboxOptions sandbox;
  sandbox.kind = options.command_sandbox == "none" ? reward::SandboxOptions::Kind::kNone
                                                   : reward::SandboxOptions::Kind::kBubblewrap;
  sandbox.readable = options.command_read;
  for (const std::string& secret : {options.token_file, options.tls.key}) {
    if (!secret.empty()) sandbox.hidden.push_back(std::filesystem::absolute(secret).string());
  }
  sandbox.limits.memory_bytes = options.command_memory_mb << 20;
  sandbox.limits.cpu_seconds = options.command_cpu_seconds;
  auto made = reward::CommandSandbox::Create(std::move(sandbox));
  if (made.ok()) {
    if (options.command_sandbox == "none") {
      Log(LogLevel::kWarn,
          "reward commands run without a sandbox: they can do whatever this worker's user can");
    }
    return CommandPermission{*std::move(made), ""};
  }
  if (options.command_sandbox != "auto" || absl::IsInvalidArgument(made.status())) {
    return made.status();
  }
  const std::string why(made.status().message());
  Log(LogLevel::kWarn, "this worker runs no reward commands", {{"reason", why}});
  return CommandPermission{nullptr, why};
}

absl::StatusOr<WorkerOptions> MakeWorkerOptions(const ServeOptions& options,
                                                const CommandPermission& commands) {
  WorkerOptions worker;
  worker.controller = options.controller;
  worker.worker_id = options.id;
  worker.device = options.device;
  worker.tls = options.tls;
  worker.insecure = options.insecure;
  // A worker that is told its relay needs none that the controller knows.
  if (options.relay.empty()) worker.memory_id = MemoryId(options.shm_dir);
  worker.features = {"seeded_sampling",     "resume_with_tokens",  "behaviour_log_probs",
                     kJobUidFeature,        kChatTemplatesFeature, kChatSettingsFeature,
                     kSftEvaluationFeature, kUndecayedNormsFeature};
  for (std::string& feature : ModelFeatures()) worker.features.push_back(std::move(feature));
  const bool rewards = std::count(options.roles.begin(), options.roles.end(), "reward") > 0;
  if (rewards) worker.features.emplace_back(kRewardRulesFeature);
  if (commands.allowed()) worker.features.emplace_back(kRewardCommandFeature);
  worker.forward_log = true;
  worker.on_stuck = [](absl::string_view what) {
    Log(LogLevel::kError, "the process ends, to be started again", {{"reason", what}});
    std::_Exit(kStuckExit);  // no destructor may wait for the handler
  };
  if (!options.token_file.empty()) {
    BATON_ASSIGN_OR_RETURN(worker.token, ReadTokenFile("--token-file", options.token_file));
  }
  return worker;
}

// Where a relay listens unless it is told otherwise.
constexpr char kUsualRelay[] = "127.0.0.1:7079";

/// Some role that several ranks may share.
bool PlaysRoleOfRanks(const ServeOptions& options) {
  const std::set<std::string> shared = {"actor",     "critic",       "cost_critic",
                                        "reference", "reward_model", "cost"};
  return std::any_of(options.roles.begin(), options.roles.end(),
                     [&](const std::string& role) { return shared.count(role) > 0; });
}

/// "", with a warning, while the controller's name is unknown: the worker may play alone.
std::string GroupHost(const ServeOptions& options) {
  if (!options.group_host.empty()) return options.group_host;
  const auto host = LocalAddressTowards(options.controller);
  if (host.ok()) return *host;
  Log(LogLevel::kWarn, "no address where ranks of a group can meet; give --group-host",
      {{"error", std::string(host.status().message())}});
  return "";
}

/// Null, with a warning, when it cannot be served.
std::unique_ptr<ranks::GroupStore> StartGroupStore(const std::string& host) {
  if (host.empty()) return nullptr;
  auto store = ranks::GroupStore::Start(host);
  if (store.ok()) return *std::move(store);
  Log(LogLevel::kWarn, "ranks of a group cannot meet at this worker",
      {{"error", std::string(store.status().message())}});
  return nullptr;
}

}  // namespace

absl::Status Serve(const ServeOptions& options) {
  BATON_ASSIGN_OR_RETURN(CommandPermission commands, PermitCommands(options));
  BATON_ASSIGN_OR_RETURN(auto worker_options, MakeWorkerOptions(options, commands));
  std::string group_host;
  std::unique_ptr<ranks::GroupStore> store;  // outlives the roles, whose ranks meet there
  if (PlaysRoleOfRanks(options)) {
    group_host = GroupHost(options);
    store = StartGroupStore(group_host);
    if (store != nullptr) worker_options.group_store = store->address();
  }
  const std::string token = worker_options.token;
  BATON_ASSIGN_OR_RETURN(const auto worker, Worker::Create(std::move(worker_options)));
  const bool named = !options.relay.empty();
  const std::string address = named ? options.relay : kUsualRelay;
  BATON_ASSIGN_OR_RETURN(
      const auto relay,
      policy::WeightsRelay::Create({address, named, token, options.insecure}, worker->worker_id()));
  const std::set<std::string> roles(options.roles.begin(), options.roles.end());
  hybrid::SharedPolicy shared;
  rollout::RolloutRole rollout({options.device}, relay.get(), &shared);
  trainer::ActorRole actor({options.device, group_host}, relay.get(), &shared);
  RewardRole reward(std::move(commands));
  const ranks::ModelRoleOptions scorer = {options.device, group_host};
  scoring::ReferenceRole reference(scorer);
  trainer::CriticRole critic("critic", scorer), cost_critic("cost_critic", scorer);
  scoring::JudgeRole judge(scorer);
  scoring::RewardModelRole reward_model("reward_model", scorer), cost("cost", scorer);
  if (roles.count("rollout") > 0) BATON_RETURN_IF_ERROR(rollout.Register(*worker));
  if (roles.count("actor") > 0) BATON_RETURN_IF_ERROR(actor.Register(*worker));
  if (roles.count("reward") > 0) BATON_RETURN_IF_ERROR(reward.Register(*worker));
  if (roles.count("reference") > 0) BATON_RETURN_IF_ERROR(reference.Register(*worker));
  if (roles.count("critic") > 0) BATON_RETURN_IF_ERROR(critic.Register(*worker));
  if (roles.count("cost_critic") > 0) BATON_RETURN_IF_ERROR(cost_critic.Register(*worker));
  if (roles.count("reward_model") > 0) BATON_RETURN_IF_ERROR(reward_model.Register(*worker));
  if (roles.count("cost") > 0) BATON_RETURN_IF_ERROR(cost.Register(*worker));
  if (roles.count("judge") > 0) BATON_RETURN_IF_ERROR(judge.Register(*worker));
  Log(LogLevel::kInfo, "worker starts",
      {{"worker", worker->worker_id()},
       {"controller", options.controller},
       {"relay", named ? address : "as the controller says"}});
  return RunUntilSignal(*worker);
}

}  // namespace baton

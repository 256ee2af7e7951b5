#include "tests/simulation/parts/faults.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/parts/random.h"

namespace baton::simulation {
namespace {

// The roles that score and train beside rollout, reward and actor, and the pools of roles that
// share workers.
struct Layout {
  bool reference, critic;
  std::vector<std::vector<std::string>> pools;
};
const std::vector<Layout>& Layouts() {
  static const auto* const layouts = new std::vector<Layout>{
      {false, false, {{"actor", "rollout"}}},
      {false, false, {{"actor", "rollout", "reward"}}},
      {false, false, {{"rollout", "reward"}}},
      {true, false, {{"actor", "reference", "rollout"}}},
      {true, false, {{"actor", "rollout"}, {"reference", "reward"}}},
      {true, false, {{"rollout", "reference"}}},
      {true, true, {}},
      {true, true, {{"actor", "critic"}, {"rollout"}}},
      {true, true, {{"actor", "critic"}, {"rollout", "reference"}}},
      {true, true, {{"actor", "reference"}, {"critic", "reward"}, {"rollout"}}},
      {true, true, {{"actor", "critic", "reference", "reward", "rollout"}}},
  };
  return *layouts;
}

void DrawLayout(JobPlan& plan, Random& random) {
  if (plan.sft || !random.Percent(50)) return;
  const Layout& layout = Layouts()[random.Below(Layouts().size())];
  plan.reference = layout.reference;
  plan.critic = layout.critic;
  plan.pools = layout.pools;
  plan.recompute = random.Percent(30);
  if (plan.batch > 1 && random.Percent(30)) plan.actors = 2;
  plan.scorers = random.Percent(30) ? 2 : 1;
  plan.tensor = plan.seed % 5 < 2;
  plan.slowness = random.Percent(50) ? 6 : 1;  // more happens while its pools work
}

// From numbers of their own: worlds without failing rewards stay as they were.
void DrawRewards(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x726577));
  const bool fail = random.Percent(20);
  for (JobPlan& plan : scenario.jobs) {
    plan.error_reward = random.Percent(50);
    if (fail && random.Percent(70)) plan.failing_rewards = random.Between(5, 40);
  }
  Random rates(Mix(scenario.seed, 0x72617465));
  for (JobPlan& plan : scenario.jobs) {
    if (rates.Percent(40)) plan.max_error_rate = rates.Between(0, 6) / 10.0;
    if (plan.failing_rewards == 0) plan.max_error_rate = 1;  // a worker's failures end no such job
  }
}

// From numbers of their own, too. Scores are predicted for jobs whose rewards do not fail.
void DrawEnds(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x656e6473));
  for (JobPlan& plan : scenario.jobs) {
    const bool predicted = !plan.sft && plan.failing_rewards == 0;
    plan.keep_best = random.Percent(30) && predicted;
    plan.stops = random.Percent(15) && predicted;
    plan.revived = random.Percent(50);
  }
}

// A job whose rollouts share no worker. From numbers of their own: worlds of sync jobs stay as they
// were.
bool MayBeAsync(const JobPlan& plan) {
  return !plan.sft && std::none_of(plan.pools.begin(), plan.pools.end(), [](const auto& roles) {
    return roles.size() > 1 && std::count(roles.begin(), roles.end(), "rollout") > 0;
  });
}

void DrawModes(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x6173796e63));
  for (JobPlan& plan : scenario.jobs) {
    const bool async = random.Percent(40);
    const int max_staleness = random.Between(0, 4);
    const bool in_order = random.Percent(40);
    const int more_steps = random.Between(0, 4);
    if (!async || !MayBeAsync(plan)) continue;
    plan.async = true;
    plan.max_staleness = max_staleness;
    plan.in_order = in_order;
    plan.steps += more_steps;  // rollouts need some to run ahead of
  }
}

// From numbers of their own, too.
void DrawSchedules(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x6c617465));
  for (JobPlan& plan : scenario.jobs) {
    const bool gives_up = random.Percent(30), longest_first = random.Percent(30);
    const double timeout = random.Between(1, 20) / 20.0;
    const bool paced = random.Percent(50);
    if (!plan.async) continue;
    plan.paced = paced;
    if (gives_up) plan.group_timeout = timeout;
    plan.longest_first = longest_first && !plan.in_order;
  }
}

// From numbers of their own, too: worlds without it stay as they were.
void DrawAhead(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x6168656164));
  for (JobPlan& plan : scenario.jobs) plan.run_ahead = random.Percent(30) && MayBeAsync(plan);
}

// From numbers of their own, too: worlds without a mix stay as they were. All steps have a file:
// the first one ends, if ever, when the last one has begun.
void DrawMixes(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x6d6978));
  for (JobPlan& plan : scenario.jobs) {
    const bool mixes = random.Percent(35);
    const int files = random.Between(2, 3), hard = random.Between(1, plan.steps);
    const int both = random.Between(-1, 2);  // steps that have the first and the last file
    std::vector<v1::FileMixSpec> mix(static_cast<size_t>(files));
    for (v1::FileMixSpec& file : mix) file.set_weight(random.Between(1, 30) / 10.0);
    if (random.Percent(60)) {
      mix.back().set_from_step(hard);
      if (random.Percent(80)) mix.front().set_to_step(std::max(1, hard + both));
    }
    if (mixes && !plan.sft) plan.mix = std::move(mix);
  }
}

// From numbers of their own, too.
void DrawEvaluations(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x76616c));
  for (JobPlan& plan : scenario.jobs) plan.val_only = random.Percent(6) && !plan.sft;
}

// From numbers of their own, too.
void DrawProjects(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x70726f6a));
  scenario.two_projects = random.Percent(25);
  for (JobPlan& plan : scenario.jobs) {
    if (scenario.two_projects && random.Percent(50)) plan.project = "other";
  }
}

void DrawKept(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x6b657074));
  for (JobPlan& plan : scenario.jobs) plan.keep_all = random.Percent(50);
}

// Lost payloads, power cuts and full disks come on top of what is drawn.
constexpr int kDrawnKinds = static_cast<int>(FaultKind::kLosePayloads);

JobPlan DrawJob(int index, Random& random) {
  JobPlan plan;
  plan.id = absl::StrCat("j", index + 1);
  plan.sft = random.Percent(15);
  plan.filter = random.Percent(30);
  plan.steps = random.Between(2, 4);
  plan.batch = random.Between(1, 3);
  plan.samples = random.Between(1, 3);
  plan.rollouts = random.Between(1, 2);
  plan.save_freq = random.Between(0, 2);
  plan.test_freq = random.Between(0, 2);
  plan.max_checkpoints = random.Between(0, 2);
  plan.priority = random.Between(0, 1);
  plan.seed = random.Below(1000);
  DrawLayout(plan, random);
  return plan;
}

absl::Duration LengthOf(FaultKind kind, Random& random) {
  switch (kind) {
    case FaultKind::kHang:
      if (random.Percent(50)) return random.Milliseconds(6500, 9500);  // about a lease
      return random.Milliseconds(100, 15000);
    case FaultKind::kPartition:
    case FaultKind::kLoseRequests:
    case FaultKind::kLoseResponses:
      return random.Milliseconds(100, 15000);  // often longer than a lease
    case FaultKind::kStoreRefuses:
    case FaultKind::kDiskFull:
    case FaultKind::kPause:
    case FaultKind::kTaskErrors:
      return random.Milliseconds(50, 3000);
    case FaultKind::kSlow:
    case FaultKind::kSlowNetwork:
    case FaultKind::kRepeats:
      return random.Milliseconds(500, 8000);
    default:
      return random.Milliseconds(10, 4000);
  }
}

// Half of the controller's deaths are its machine's, and some come besides. From numbers of their
// own: worlds without power cuts stay as they were.
void DrawPowerCuts(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x706f776572));
  for (Fault& fault : scenario.faults) {
    const bool cut = fault.kind == FaultKind::kKillController && random.Percent(50);
    if (cut) fault.kind = FaultKind::kCutPower;
  }
  if (!random.Percent(15)) return;
  scenario.faults.push_back({FaultKind::kCutPower, random.Milliseconds(500, 7000),
                             LengthOf(FaultKind::kCutPower, random), 0});
}

// From numbers of their own, too.
void DrawFullDisks(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x66756c6c));
  if (!random.Percent(20)) return;
  scenario.faults.push_back({FaultKind::kDiskFull, random.Milliseconds(300, 6000),
                             LengthOf(FaultKind::kDiskFull, random), 0});
}

// From numbers of their own, too. Some last until a job gives its workers back.
void DrawDataRoom(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x726f6f6d));
  if (!random.Percent(20)) return;
  const absl::Duration at = random.Milliseconds(0, 6000);
  scenario.faults.push_back(
      {FaultKind::kNoDataRoom, at,
       random.Percent(30) ? random.Milliseconds(20000, 30000) : random.Milliseconds(50, 6000), 0});
}

// From numbers of their own, too. Meanwhile workers take roles, die and come back.
void DrawSlowData(Scenario& scenario) {
  Random random(Mix(scenario.seed, 0x736c6f77));
  if (random.Percent(25)) scenario.data_read = absl::Milliseconds(random.Between(100, 10000));
}

}  // namespace

const char* FaultName(FaultKind kind) {
  static constexpr const char* kNames[] = {
      "kill worker",   "kill controller", "kill relay",   "kill machine",  "break stream",
      "lose requests", "lose responses",  "partition",    "hang",          "slow",
      "task errors",   "store refuses",   "slow network", "repeats",       "stale controller",
      "drain",         "pause",           "cancel",       "lose payloads", "cut power",
      "disk full",     "no room for data"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == kFaultKinds);
  return kNames[static_cast<int>(kind)];
}

std::string Describe(const Fault& fault) {
  return absl::StrCat(FaultName(fault.kind), " #", fault.target, " at ",
                      absl::FormatDuration(fault.at), " for ", absl::FormatDuration(fault.length));
}

Scenario MakeScenario(uint64_t seed) {
  Random random(Mix(seed, 0x73636e));
  Scenario out;
  out.seed = seed;
  const int jobs = random.Between(1, 3);
  for (int i = 0; i < jobs; ++i) {
    out.jobs.push_back(DrawJob(i, random));
    out.submitted.push_back(random.Milliseconds(0, 2000));
  }
  DrawRewards(out);
  DrawEnds(out);
  DrawKept(out);
  DrawModes(out);
  DrawSchedules(out);
  DrawAhead(out);
  DrawMixes(out);
  DrawEvaluations(out);
  DrawProjects(out);
  out.lossy_calls = random.Percent(50);
  out.hosts = Random(Mix(seed, 0x686f7374)).Percent(40);
  out.sync_payloads = Random(Mix(seed, 0x73796e63)).Percent(50);
  Random payloads(Mix(seed, 0x7061796c));
  for (uint64_t* budget : {&out.payload_bytes, &out.job_payload_bytes}) {
    *budget =
        payloads.Percent(40) ? uint64_t{1} << 40 : static_cast<uint64_t>(payloads.Between(1, 3000));
  }
  const int faults = random.Percent(10) ? 0 : random.Between(1, 10);
  absl::Duration at;
  for (int i = 0; i < faults; ++i) {
    Fault fault;
    fault.kind = static_cast<FaultKind>(random.Below(kDrawnKinds));
    if (fault.kind == FaultKind::kCancel && !random.Percent(30)) {
      fault.kind = FaultKind::kKillController;
    }
    // Half of them strike together with the one before.
    const bool together = i > 0 && random.Percent(50);
    at = together ? at + random.Milliseconds(0, 300) : random.Milliseconds(0, 7000);
    fault.at = at;
    fault.length = LengthOf(fault.kind, random);
    fault.target = random.Percent(35) ? random.Below(2) : random.Below(64);  // actors come first
    out.faults.push_back(fault);
    if (fault.kind == FaultKind::kHang && random.Percent(50)) {
      // The worker's messages when it wakes up are late as well.
      fault.kind = FaultKind::kSlowNetwork;
      fault.length += absl::Seconds(2);
      out.faults.push_back(fault);
    }
  }
  if (random.Percent(20)) {
    out.faults.push_back({FaultKind::kLosePayloads, random.Milliseconds(500, 7000),
                          LengthOf(FaultKind::kLosePayloads, random), random.Below(64)});
  }
  DrawPowerCuts(out);
  DrawFullDisks(out);
  DrawDataRoom(out);
  DrawSlowData(out);
  std::stable_sort(out.faults.begin(), out.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return out;
}

}  // namespace baton::simulation

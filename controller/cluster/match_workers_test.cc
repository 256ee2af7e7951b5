// Matching of free workers with waiting jobs: the order, against a slow obvious implementation, and
// its cost.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "controller/cluster/cluster_core.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using Grants = std::vector<std::string>;  // "job worker roles"

v1::Hello HelloWith(const std::string& id, const std::vector<std::string>& roles) {
  v1::Hello hello;
  hello.set_worker_id(id);
  hello.set_instance_id("i");
  hello.set_protocol_min(1);
  hello.set_protocol_max(1);
  for (const std::string& role : roles) hello.add_methods()->set_role(role);
  return hello;
}

v1::Project ProjectWith(const std::string& name, int weight, int max_workers) {
  v1::Project project;
  project.set_project(name);
  project.set_weight(weight);
  project.set_max_workers(max_workers);
  return project;
}

Grants GrantsOf(const ClusterEffects& effects) {
  Grants out;
  for (const ClusterEffect& effect : effects) {
    const auto* grant = std::get_if<ClusterGrant>(&effect);
    if (grant != nullptr) {
      out.push_back(absl::StrCat(grant->job, " ", grant->worker, " ", grant->roles));
    }
  }
  return out;
}

// Every job is looked at for every grant, and its project's workers are counted each time.
class ObviousQueue {
 public:
  struct Job {
    int priority = 0;
    int64_t order = 0;
    bool active = false;
    std::map<std::string, int> missing;
  };
  struct Worker {
    std::set<std::string> roles;
    std::string job;
  };

  Grants Match() {
    Grants grants;
    std::set<std::string> heard;
    while (true) {
      std::optional<std::tuple<bool, int, double, int64_t, std::string>> next;
      for (const auto& [name, job] : jobs) {
        if (heard.count(name) > 0) continue;
        const std::string project = ProjectOf(name);
        const double share = static_cast<double>(Held(project)) / std::max(1, weights[project]);
        const auto place = std::make_tuple(!job.active, -job.priority, share, job.order, name);
        std::map<std::string, Worker> copy = workers;
        Job left = job;
        Grants got;
        if (!Serve(name, left, copy, got) || got.empty()) continue;
        if (!next.has_value() || place < *next) next = place;
      }
      if (!next.has_value()) return grants;
      const std::string name = std::get<std::string>(*next);
      heard.insert(name);
      Job& job = jobs[name];
      Serve(name, job, workers, grants);
      job.active = true;
      if (std::all_of(job.missing.begin(), job.missing.end(),
                      [](const auto& m) { return m.second == 0; })) {
        jobs.erase(name);
      }
    }
  }

  static std::string ProjectOf(const std::string& job) {
    return std::vector<std::string>(absl::StrSplit(job, '/'))[1];
  }
  int Held(const std::string& project) const {
    int held = 0;
    for (const auto& [id, worker] : workers) {
      held += !worker.job.empty() && ProjectOf(worker.job) == project ? 1 : 0;
    }
    return held;
  }

  std::map<std::string, Job> jobs;
  std::map<std::string, Worker> workers;
  std::map<std::string, int> weights, limits;  // by project; no limit: absent

 private:
  bool Serve(const std::string& name, Job& job, std::map<std::string, Worker>& from,
             Grants& grants) const {
    const std::string project = ProjectOf(name);
    const auto limit = limits.find(project);
    int room = limit == limits.end() ? 1000 : std::max(0, limit->second - Held(project));
    std::vector<std::string> worker_slots;
    for (const auto& [roles, count] : job.missing) worker_slots.push_back(roles);
    const auto width = [](const std::string& roles) {
      return std::count(roles.begin(), roles.end(), '+');
    };
    std::stable_sort(worker_slots.begin(), worker_slots.end(),
                     [&](const auto& a, const auto& b) { return width(a) > width(b); });
    std::vector<std::string> taken;
    for (const std::string& worker_slot : worker_slots) {
      while (job.missing[worker_slot] > 0 && room > 0) {
        std::optional<std::pair<size_t, std::string>> best;
        for (const auto& [id, worker] : from) {
          bool fits = worker.job.empty();
          for (const std::string& role :
               std::vector<std::string>(absl::StrSplit(worker_slot, '+'))) {
            fits = fits && worker.roles.count(role) > 0;
          }
          const std::pair<size_t, std::string> place(worker.roles.size(), id);
          if (fits && (!best.has_value() || place < *best)) best = place;
        }
        if (!best.has_value()) break;
        from[best->second].job = name;
        grants.push_back(absl::StrCat(name, " ", best->second, " ", worker_slot));
        --job.missing[worker_slot];
        --room;
      }
      if (job.missing[worker_slot] > 0 && !job.active) return false;
    }
    return true;
  }
};

TEST(ClusterCoreMatchTest, AgreesWithASimpleReferenceQueue) {
  const std::vector<std::string> roles = {"actor", "critic", "reward", "rollout"};
  const std::vector<std::string> worker_slots = {"actor", "critic", "rollout", "actor+critic",
                                                 "reward"};
  size_t granted = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return random() % n; };
    ClusterCore core(1, {});
    ObviousQueue obvious;
    const absl::Time now = absl::UnixEpoch();
    for (const char* project : {"a", "b", "c"}) {
      const int weight = 1 + static_cast<int>(below(3)), limit = static_cast<int>(below(6));
      core.SetProject(ProjectWith(project, weight, limit));
      obvious.weights[project] = weight;
      if (limit > 0) obvious.limits[project] = limit;
    }
    std::set<std::string> free_ids;
    for (int event = 0; event < 80; ++event) {
      ClusterEffects effects;
      core.BeginTurn();
      for (uint32_t more = 1 + below(4); more > 0; --more) {
        const std::string job =
            absl::StrCat("projects/", std::string(1, "abc"[below(3)]), "/jobs/j", below(12));
        if (const uint32_t kind = below(8); kind < 4) {
          ObviousQueue::Job need{
              static_cast<int>(below(3)), static_cast<int64_t>(below(50)), below(4) == 0, {}};
          for (uint32_t n = 1 + below(3); n > 0; --n) {
            need.missing[worker_slots[below(5)]] = 1 + static_cast<int>(below(2));
          }
          core.OnNeed(job, need.priority, need.order, need.active, need.missing, now);
          obvious.jobs[job] = need;
        } else if (kind < 6 && obvious.workers.size() < 14) {
          std::set<std::string> plays;
          for (uint32_t n = 1 + below(3); n > 0; --n) plays.insert(roles[below(4)]);
          const std::string id = absl::StrCat("w", obvious.workers.size());
          core.OnHello(obvious.workers.size() + 1, HelloWith(id, {plays.begin(), plays.end()}),
                       now);
          obvious.workers[id] = {plays, ""};
        } else if (kind == 6) {
          core.OnLeave(job);
          obvious.jobs.erase(job);
        } else {
          for (auto& [id, worker] : obvious.workers) {
            if (worker.job.empty() || below(2) == 0) continue;
            core.OnReturn(worker.job, id, now);
            worker.job.clear();
          }
        }
      }
      const Grants expected = obvious.Match();
      ASSERT_EQ(GrantsOf(core.EndTurn()), expected) << "seed " << seed << " event " << event;
      granted += expected.size();
    }
  }
  EXPECT_GT(granted, 1000u);
}

class CappedQueueTest : public ::testing::Test {
 protected:
  static constexpr int kJobs = 1000;
  CappedQueueTest() {
    core_.SetProject(ProjectWith("capped", 1, 1));
    for (uint64_t i = 1; i <= 3; ++i) {
      core_.OnHello(i, HelloWith(absl::StrCat("w", i), {"actor", "reward", "rollout"}), now_);
    }
  }
  ClusterEffects Need(int i) {
    return core_.OnNeed(absl::StrCat("projects/capped/jobs/j", i), 0, i, false,
                        {{"actor", 1}, {"rollout", 1}, {"reward", 1}}, now_);
  }

  ClusterCore core_{1, {}};
  const absl::Time now_ = absl::UnixEpoch();
};

// Three workers are free, and none of the jobs may have them.
TEST_F(CappedQueueTest, EventsCostNoMoreTheMoreJobsWait) {
  for (int i = 0; i < kJobs; ++i) EXPECT_TRUE(Need(i).empty());
  const int64_t before = core_.examined();
  for (int i = 0; i < 100; ++i) core_.OnTick(now_);
  EXPECT_LE(core_.examined() - before, 100 * 10);
  EXPECT_LE(before, kJobs * 10);
}

// A job that fits is found without looking at the thousands before it that do not.
TEST_F(CappedQueueTest, AJobThatFitsIsFoundBehindThousandsThatDoNot) {
  for (int i = 0; i < kJobs; ++i) Need(i);
  const int64_t before = core_.examined();
  EXPECT_EQ(
      GrantsOf(core_.OnNeed("projects/capped/jobs/small", 0, kJobs, false, {{"actor", 1}}, now_)),
      Grants{"projects/capped/jobs/small w1 actor"});
  EXPECT_EQ(GrantsOf(core_.OnNeed("projects/other/jobs/j", 0, kJobs + 1, false,
                                  {{"actor", 1}, {"reward", 1}}, now_)),
            (Grants{"projects/other/jobs/j w2 actor", "projects/other/jobs/j w3 reward"}));
  EXPECT_LE(core_.examined() - before, 100);
}

TEST_F(CappedQueueTest, ATurnMatchesOnceForAllItsEvents) {
  core_.BeginTurn();
  for (int i = 0; i < kJobs; ++i) EXPECT_TRUE(Need(i).empty());
  EXPECT_EQ(core_.examined(), 0);
  core_.OnNeed("projects/other/jobs/late", 0, 2, false, {{"actor", 3}}, now_);
  core_.OnNeed("projects/other/jobs/early", 0, 1, false, {{"actor", 3}}, now_);
  EXPECT_EQ(GrantsOf(core_.EndTurn()),
            (Grants{"projects/other/jobs/early w1 actor", "projects/other/jobs/early w2 actor",
                    "projects/other/jobs/early w3 actor"}));
  EXPECT_LE(core_.examined(), 30);
  // Nothing happened in this turn.
  core_.BeginTurn();
  EXPECT_TRUE(core_.EndTurn().empty());
}

}  // namespace
}  // namespace baton::controller

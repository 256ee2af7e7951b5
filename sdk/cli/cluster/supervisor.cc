#include "sdk/cli/cluster/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/process/spawn.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kYoung = absl::Seconds(10);
constexpr absl::Duration kCleanUp = absl::Seconds(5);

absl::Duration Backoff(int young_deaths) {
  if (young_deaths <= 1) return absl::ZeroDuration();
  const double seconds = 0.5 * static_cast<double>(1 << std::min(young_deaths - 2, 5));
  return std::min(absl::Seconds(seconds), absl::Seconds(10));
}

}  // namespace

Supervisor::Supervisor(std::vector<ChildSpec> children) {
  for (ChildSpec& spec : children) {
    Child child;
    child.spec = std::move(spec);
    children_.push_back(std::move(child));
  }
}

Supervisor::~Supervisor() {
  if (!stopped_) Stop(absl::Seconds(5));
}

absl::Status Supervisor::Launch(Child& child, absl::Time now) {
  const int log = ::open(child.spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) {
    return absl::InternalError(
        absl::StrCat("cannot write ", child.spec.log, ": ", std::strerror(errno)));
  }
  SpawnOptions options;
  options.arguments = child.spec.command;
  options.environment.emplace();
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment->push_back(*entry);
  options.environment->insert(options.environment->end(), child.spec.environment.begin(),
                              child.spec.environment.end());
  options.stdout_fd = log;
  options.stderr_fd = log;
  options.own_group = true;
  options.death_signal = SIGTERM;
  const auto pid = Spawn(options);
  ::close(log);
  if (!pid.ok()) return pid.status();
  child.process = std::make_unique<ProcessGroup>(*pid);
  child.started = now;
  return absl::OkStatus();
}

absl::Status Supervisor::Start() {
  const absl::Time now = BootNow();
  for (Child& child : children_) {
    const absl::Status status = Launch(child, now);
    if (!status.ok()) {
      Stop(absl::Seconds(5));
      return status;
    }
  }
  return absl::OkStatus();
}

bool Supervisor::Poll(absl::Time now) {
  bool changed = false;
  for (Child& child : children_) {
    if (child.process != nullptr && child.process->WaitFor(absl::ZeroDuration()).has_value()) {
      child.process.reset();  // with what it started and left behind
      child.young_deaths = now - child.started < kYoung ? child.young_deaths + 1 : 1;
      child.next_start = now + Backoff(child.young_deaths);
      changed = true;
    }
    if (child.process == nullptr && !stopped_ && now >= child.next_start) {
      ++child.restarts;
      if (!Launch(child, now).ok()) child.next_start = now + absl::Seconds(10);
      changed = true;
    }
  }
  return changed;
}

void Supervisor::Stop(absl::Duration grace) {
  stopped_ = true;
  // Workers first, then what they talk to: no worker logs a loss that is none.
  for (auto child = children_.rbegin(); child != children_.rend(); ++child) {
    if (child->process != nullptr) child->process->Terminate();
  }
  AwaitEnd(grace);
  for (Child& child : children_) {
    child.spec.command = std::exchange(child.spec.clean_up, {});
    if (!child.spec.command.empty()) Launch(child, BootNow()).IgnoreError();
  }
  AwaitEnd(kCleanUp);
}

// Kills what is left after `grace`.
void Supervisor::AwaitEnd(absl::Duration grace) {
  const absl::Time end = BootNow() + grace;
  for (Child& child : children_) {
    if (child.process == nullptr) continue;
    child.process->WaitFor(end - BootNow());
    child.process.reset();
  }
}

std::vector<ProcessState> Supervisor::States() const {
  std::vector<ProcessState> states;
  for (const Child& child : children_) {
    const int pid = child.process == nullptr ? 0 : child.process->leader();
    states.push_back({child.spec.name, pid, child.restarts,
                      absl::ToUnixSeconds(absl::Now() - (BootNow() - child.started)),
                      child.spec.log});
  }
  return states;
}

int Supervisor::restarts() const {
  int sum = 0;
  for (const Child& child : children_) sum += child.restarts;
  return sum;
}

std::string Supervisor::TailOf(const std::string& name, int lines) const {
  for (const Child& child : children_) {
    if (child.spec.name != name) continue;
    std::ifstream in(child.spec.log);
    std::deque<std::string> tail;
    for (std::string line; std::getline(in, line);) {
      tail.push_back(line);
      if (tail.size() > static_cast<size_t>(lines)) tail.pop_front();
    }
    return absl::StrJoin(tail, "\n");
  }
  return "";
}

}  // namespace baton::cli

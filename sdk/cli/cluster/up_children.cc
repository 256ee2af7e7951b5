#include "sdk/cli/cluster/up_children.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "sdk/cli/shared/sibling_program.h"
#include "sdk/common/contracts/up_workers.h"

namespace baton::cli {
namespace {

// A prefix that is the same at every start in this folder: the relay removes the files that a
// killed relay left.
std::string ShmPrefix(const std::string& state_dir) {
  struct stat info = {};
  ::stat(state_dir.c_str(), &info);
  return absl::StrCat("baton-", info.st_dev, "-", info.st_ino);
}

std::string LogOf(const std::string& state_dir, const std::string& process) {
  return absl::StrCat(state_dir, "/logs/", process, ".log");
}

// The `i`th worker of its kind.
ChildSpec WorkerChild(const UpFlags& flags, const UpWorkers& kind, int i,
                      const std::string& state_dir, const ClusterState& state) {
  const std::string id = absl::StrCat(kind.id, "-", i);
  ChildSpec child{
      id,
      {SiblingPath(flags.fake ? "baton-fake-worker" : "baton-worker"), "--controller",
       state.controller, "--roles", std::string(kind.roles), "--relay", state.relay, "--id", id},
      {},
      LogOf(state_dir, id),
      {}};
  std::vector<std::string>& command = child.command;
  if (flags.fake) {
    command.insert(command.end(), {"--weights-dir", state_dir + "/fake-weights"});
    return child;
  }
  // All of it is on loopback, where a user who submits jobs can run commands anyway.
  command.insert(command.end(), {"--allow-commands", "--command-sandbox", flags.command_sandbox});
  const auto threads = flags.threads.find(std::string(kind.option));
  if (threads != flags.threads.end()) {
    command.insert(command.end(), {"--threads", absl::StrCat(threads->second)});
  }
  return child;
}

}  // namespace

std::string RelayKey(const std::string& state_dir) { return state_dir + "/data/relay.key"; }

std::vector<ChildSpec> UpChildren(const UpFlags& flags, const std::string& state_dir,
                                  const ClusterState& state) {
  const std::string key = RelayKey(state_dir);
  std::vector<ChildSpec> children;
  children.push_back(
      {"relay",
       {SiblingPath("baton-relay"), "--listen", state.relay, "--shm-prefix", ShmPrefix(state_dir),
        "--capability-key-file", key},
       {},
       LogOf(state_dir, "relay"),
       {SiblingPath("baton-relay"), "--remove-orphans", "--shm-prefix", ShmPrefix(state_dir)}});
  children.push_back(
      {"controller",
       {SiblingPath("baton-controller"), "--listen", state.controller, "--http", state.http,
        "--data-root", state_dir + "/data", "--relay-capability-key-file", key, "--up-workers",
        UpCountsFlag(flags.counts)},
       {},
       LogOf(state_dir, "controller"),
       {}});
  // Fake workers take any model, so nothing is wrong with one.
  if (flags.fake)
    children.back().command.insert(children.back().command.end(), {"--checker", "none"});
  for (const UpWorkers& kind : kUpWorkers) {
    for (int i = 0; i < flags.counts.at(std::string(kind.option)); ++i) {
      children.push_back(WorkerChild(flags, kind, i, state_dir, state));
    }
  }
  // The programs rotate what they log themselves; what else they print goes to the same file.
  for (ChildSpec& child : children) {
    child.command.insert(child.command.end(), {"--log-file", child.log});
  }
  return children;
}

}  // namespace baton::cli

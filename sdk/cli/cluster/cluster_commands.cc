// workers and drain.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/cli/cluster/commands.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"

namespace baton::cli {
namespace {

int Workers(const GlobalOptions& options) {
  auto client = MakeClient(options);
  auto list = client->ListWorkers();
  if (!list.ok()) return Fail(options, list.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*list).c_str());
    return kOk;
  }
  Table table({"WORKER", "STATE", "PLAYS", "JOB", "ROLE", "DEVICE", "HOST", "PID", "SEEN"});
  for (const v1::Worker& w : list->workers()) {
    table.Add({w.worker_id(), v1::Worker::State_Name(w.state()).substr(6),
               absl::StrJoin(w.roles(), ","), w.job().empty() ? "-" : ShortJobName(w.job()),
               w.role().empty() ? "-" : w.role(), w.device(), w.host(), absl::StrCat(w.pid()),
               ShortDuration(static_cast<double>(w.last_seen().seconds())) + " ago"});
  }
  std::printf("%s", list->workers().empty()
                        ? "no worker is attached; start some with `baton up` or `baton-worker`\n"
                        : ForTerminal(table.Format()).c_str());
  for (const v1::Worker& w : list->workers()) {
    if (w.drain_reason().empty()) continue;
    std::printf("%s is drained: %s. `baton drain %s --undo` uses it again.\n",
                OneLine(w.worker_id()).c_str(), ForTerminal(w.drain_reason()).c_str(),
                OneLine(w.worker_id()).c_str());
  }
  return kOk;
}

int Drain(const GlobalOptions& options, const std::string& worker, bool undo) {
  auto client = MakeClient(options);
  auto changed = undo ? client->UndrainWorker(worker) : client->DrainWorker(worker);
  if (!changed.ok()) return Fail(options, changed.status());
  const std::string said =
      undo ? absl::StrCat(worker, " gets work again\n")
           : absl::StrCat(worker, " gets no new work until `baton drain ", worker,
                          " --undo`; its tasks move to other workers\n");
  std::printf("%s", options.json() ? (ToJson(*changed) + "\n").c_str() : said.c_str());
  return kOk;
}

}  // namespace

void AddClusterCommands(CLI::App& app, GlobalOptions* options, int* code) {
  auto* workers = app.add_subcommand("workers", "List the attached workers");
  AddOutput(workers, options);
  workers->callback([=] { *code = Workers(*options); });

  auto* drain = app.add_subcommand("drain", "Give a worker no new work and move what it runs");
  AddOutput(drain, options);
  auto worker = std::make_shared<std::string>();
  drain->add_option("worker", *worker, "The worker's id")->required();
  auto undo = std::make_shared<bool>(false);
  drain->add_flag("--undo", *undo, "Give a drained worker work again");
  drain->callback([=] { *code = Drain(*options, *worker, *undo); });
}

}  // namespace baton::cli

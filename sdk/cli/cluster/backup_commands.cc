// backup and restore.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "sdk/cli/cluster/backup_archive.h"
#include "sdk/cli/cluster/commands.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"
#include "sdk/common/base/clock.h"

namespace baton::cli {
namespace {

// A progress line that is overwritten, on a terminal.
class BackupProgress {
 public:
  void Add(int64_t files, int64_t bytes) {
    files_ += files;
    bytes_ += bytes;
    if (!shown_ || BootNow() < next_) return;
    next_ = BootNow() + absl::Milliseconds(500);
    absl::FPrintF(stderr, "\r%d files, %s ", files_, Megabytes());
  }
  void End() {
    if (shown_) std::fprintf(stderr, "\r");
  }
  int64_t files() const { return files_; }
  int64_t bytes() const { return bytes_; }
  std::string Megabytes() const {
    return absl::StrFormat("%.1f MB", static_cast<double>(bytes_) / 1e6);
  }

 private:
  const bool shown_ = ::isatty(STDERR_FILENO) == 1;
  absl::Time next_ = absl::InfinitePast();
  int64_t files_ = 0, bytes_ = 0;
};

int Backup(const GlobalOptions& options, const std::string& file) {
  auto client = MakeClient(options);
  auto writer = BackupWriter::Create(file);
  if (!writer.ok()) return Fail(options, writer.status());
  BackupProgress progress;
  std::vector<std::string> skipped, damaged;
  absl::Status status = client->Backup([&](const v1::BackupResponse& piece) {
    absl::Status written;
    if (!piece.path().empty()) {
      written = (*writer)->Begin(piece.path(), piece.size_bytes());
      progress.Add(1, 0);
    }
    if (written.ok() && !piece.data().empty()) written = (*writer)->Append(piece.data());
    progress.Add(0, static_cast<int64_t>(piece.data().size()));
    skipped.insert(skipped.end(), piece.skipped().begin(), piece.skipped().end());
    damaged.insert(damaged.end(), piece.damaged().begin(), piece.damaged().end());
    return written;
  });
  if (status.ok()) status = (*writer)->Close();
  progress.End();
  if (!status.ok()) return Fail(options, status);
  if (options.json()) {
    const nlohmann::json said = {{"file", file},
                                 {"files", progress.files()},
                                 {"size_bytes", progress.bytes()},
                                 {"skipped", skipped},
                                 {"damaged", damaged}};
    std::printf("%s\n", said.dump(2).c_str());
    return damaged.empty() ? kOk : kFailed;
  }
  std::printf("%s holds %lld files, %s; `baton restore %s DIR` makes a data root from it\n",
              file.c_str(), static_cast<long long>(progress.files()), progress.Megabytes().c_str(),
              file.c_str());
  if (!skipped.empty()) {
    std::printf("removed during the backup, and not in it:\n  %s\n",
                absl::StrJoin(skipped, "\n  ").c_str());
  }
  if (damaged.empty()) return kOk;
  std::fprintf(stderr, "damaged on the controller's disk, and in the backup as they are there:\n");
  for (const std::string& what : damaged) {
    std::fprintf(stderr, "  %s\n", ForTerminal(what).c_str());
  }
  std::fprintf(stderr,
               "an older backup may hold them whole; a job can begin from another checkpoint with "
               "`baton resume --from FOLDER`\n");
  return kFailed;
}

int Restore(const GlobalOptions& options, const std::string& file, const std::string& folder) {
  BackupProgress progress;
  const auto done = RestoreBackup(file, folder, [&](const std::string&) { progress.Add(1, 0); });
  progress.End();
  if (!done.ok()) return Fail(options, done.status());
  if (options.json()) {
    const nlohmann::json said = {
        {"folder", folder}, {"files", done->files}, {"size_bytes", done->bytes}};
    std::printf("%s\n", said.dump(2).c_str());
    return kOk;
  }
  std::printf(
      "%s has %lld files of the backup; start it with `baton-controller --data-root %s`, "
      "and restart its workers\n",
      folder.c_str(), static_cast<long long>(done->files), folder.c_str());
  return kOk;
}

}  // namespace

void AddBackupCommands(CLI::App& app, GlobalOptions* options, int* code) {
  auto* backup = app.add_subcommand(
      "backup", "Write a consistent copy of all that the running controller keeps into one file");
  AddOutput(backup, options);
  auto file = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  backup->add_option("file", *file, "The archive to make (tar, zstd)")->required();
  backup->callback([=] { *code = Backup(*options, *file); });

  auto* restore = app.add_subcommand("restore", "Make a data root from a backup");
  AddOutput(restore, options);
  restore->add_option("file", *file, "The archive that `baton backup` made")->required();
  restore
      ->add_option("folder", *folder,
                   "The new data root: an empty folder, or one that does not exist yet")
      ->required();
  restore->callback([=] { *code = Restore(*options, *file, *folder); });
}

}  // namespace baton::cli

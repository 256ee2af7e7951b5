#include "workers/reward/command_sandbox.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/process/spawn.h"
#include "workers/reward/child_process.h"
#include "workers/reward/memory_filter.h"

namespace baton::reward {
namespace {

namespace fs = std::filesystem;

constexpr char kTemporary[] = "/tmp";
constexpr char kSharedMemory[] = "/dev/shm";
constexpr uint64_t kUnlimitedTemporaryBytes = uint64_t{1} << 30;
constexpr absl::Duration kCheckTime = absl::Seconds(10);
// The variables of the worker's environment that a command may see.
constexpr const char* kPassedOn[] = {"PATH",
                                     "LANG",
                                     "LC_ALL",
                                     "LC_CTYPE",
                                     "TZ",
                                     "LD_LIBRARY_PATH",
                                     "PYTHONPATH",
                                     "VIRTUAL_ENV",
                                     "OMP_NUM_THREADS",
                                     "OPENBLAS_NUM_THREADS",
                                     "MKL_NUM_THREADS",
                                     "OMP_WAIT_POLICY"};
// Programs and libraries, and what they cannot do without.
constexpr const char* kSystem[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
constexpr const char* kSystemFiles[] = {
    "/etc/alternatives", "/etc/group",     "/etc/ld.so.cache",    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types",     "/etc/nsswitch.conf",
    "/etc/passwd",       "/etc/ssl/certs", "/etc/ssl/openssl.cnf"};
// Never a working directory: the sandbox has its own of these, or what is in them concerns no
// command.
constexpr const char* kNotToWorkIn[] = {"/", "/boot", "/dev", "/etc", "/proc", "/run", "/sys"};

/// `path` is `folder` or below it; both canonical.
bool IsWithin(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

fs::path Canonical(const std::string& path) {
  std::error_code code;
  fs::path out = fs::weakly_canonical(path, code);
  return code ? fs::path(path) : out;
}

absl::StatusOr<std::string> FindProgram(const std::string& program) {
  if (absl::StrContains(program, '/')) {
    if (access(program.c_str(), X_OK) == 0) return program;
  } else if (const char* path = std::getenv("PATH")) {
    for (absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
      const std::string found = absl::StrCat(folder, "/", program);
      if (access(found.c_str(), X_OK) == 0) return found;
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat("there is no program ", program, "; install bubblewrap (apt install bubblewrap)",
                   ", or give --command-sandbox none where every user may do what the worker may"));
}

/// Words alone, without anything that a shell would interpret.
bool IsPlainCommand(absl::string_view command) {
  return std::all_of(command.begin(), command.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::StrContains("_./,:@%+ -", absl::string_view(&c, 1));
  });
}

std::vector<std::string> Environment(SandboxOptions::Kind kind) {
  std::vector<std::string> out = {"PYTHONUNBUFFERED=1"};
  const auto pass_on = [&](const char* name) {
    if (const char* value = std::getenv(name)) out.push_back(absl::StrCat(name, "=", value));
  };
  for (const char* name : kPassedOn) pass_on(name);
  if (kind == SandboxOptions::Kind::kNone) {
    for (const char* name : {"HOME", "USER", "LOGNAME", "TMPDIR"}) pass_on(name);
  } else {
    out.push_back(absl::StrCat("HOME=", kTemporary));
    out.push_back(absl::StrCat("TMPDIR=", kTemporary));
  }
  return out;
}

/// The end of what a process wrote to its standard error.
std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  return std::string(absl::StripAsciiWhitespace(ReplaceInvalidUtf8(text)));
}

}  // namespace

std::shared_ptr<const CommandSandbox> CommandSandbox::None() {
  return std::shared_ptr<const CommandSandbox>(new CommandSandbox({}));
}

absl::StatusOr<std::shared_ptr<const CommandSandbox>> CommandSandbox::Create(
    SandboxOptions options) {
  if (options.kind == SandboxOptions::Kind::kBubblewrap) {
    BATON_ASSIGN_OR_RETURN(options.program, FindProgram(options.program));
  }
  for (const std::string& path : options.readable) {
    std::error_code code;
    if (!absl::StartsWith(path, "/") || !fs::exists(path, code)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--command-read: '", path, "' is not an absolute path of this machine"));
    }
  }
  std::shared_ptr<CommandSandbox> sandbox(new CommandSandbox(std::move(options)));
  if (sandbox->kind() == SandboxOptions::Kind::kBubblewrap) {
    BATON_ASSIGN_OR_RETURN(sandbox->filter_, MakeMemoryFilter());
  }
  BATON_RETURN_IF_ERROR(sandbox->Check());
  return std::shared_ptr<const CommandSandbox>(std::move(sandbox));
}

absl::Status CommandSandbox::Check() const {
  if (options_.kind == SandboxOptions::Kind::kNone) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const CommandLaunch launch, Prepare("true", ""));
  const auto started = ChildProcess::Start(launch);
  if (absl::IsNotFound(started.status())) {
    return absl::FailedPreconditionError(started.status().message());
  }
  BATON_RETURN_IF_ERROR(started.status());
  const auto& process = *started;
  const bool ended = process->WaitFor(kCheckTime);
  process->Kill();
  if (ended && process->ExitText() == "exited with code 0") return absl::OkStatus();
  const std::string said = ReadAll(process->stderr_fd());
  return absl::FailedPreconditionError(
      absl::StrCat(options_.program, " does not work here (it ", process->ExitText(),
                   said.empty() ? "" : absl::StrCat(": ", said),
                   "); let this user make namespaces (sysctl kernel.unprivileged_userns_clone=1, "
                   "user.max_user_namespaces above 0; in a container, let it mount /proc), or give "
                   "--command-sandbox none where every user may do what the worker may"));
}

absl::StatusOr<CommandLaunch> CommandSandbox::Prepare(const std::string& command,
                                                      const std::string& working_dir) const {
  std::error_code code;
  if (!working_dir.empty() && !fs::is_directory(working_dir, code)) {
    return absl::InvalidArgumentError(
        absl::StrCat("working_dir: '", working_dir, "' is not a directory here"));
  }
  CommandLaunch launch;
  launch.environment = Environment(options_.kind);
  launch.limits = options_.limits;
  if (options_.kind == SandboxOptions::Kind::kBubblewrap) {
    BATON_ASSIGN_OR_RETURN(launch.arguments, BwrapArguments(working_dir));
    launch.filter = filter_;
    if (launch.limits.memory_bytes > 0) launch.limits.memory_bytes -= TemporaryBytes();
  } else {
    launch.working_dir = working_dir;
  }
  launch.arguments.insert(launch.arguments.end(), {"/bin/sh", "-c"});
  // Without the shell between, the kernel's signals and exit codes are the command's own.
  launch.arguments.push_back(IsPlainCommand(command) ? absl::StrCat("exec ", command) : command);
  return launch;
}

uint64_t CommandSandbox::TemporaryBytes() const {
  const uint64_t memory = options_.limits.memory_bytes;
  return memory > 0 ? memory / 4 : kUnlimitedTemporaryBytes;
}

// The bubblewrap arguments. A later mount lies above an earlier one.
absl::StatusOr<std::vector<std::string>> CommandSandbox::BwrapArguments(
    const std::string& working_dir) const {
  std::vector<std::string> out = {options_.program,
                                  "--unshare-user",
                                  "--unshare-ipc",
                                  "--unshare-pid",
                                  "--unshare-net",
                                  "--unshare-uts",
                                  "--unshare-cgroup-try",
                                  "--uid",
                                  "65534",
                                  "--gid",
                                  "65534",
                                  "--hostname",
                                  "sandbox",
                                  "--cap-drop",
                                  "ALL",
                                  "--die-with-parent",
                                  "--new-session",
                                  "--proc",
                                  "/proc",
                                  "--seccomp",
                                  absl::StrCat(kSpawnPassedFd),
                                  "--dev",
                                  "/dev"};
  const auto add = [&](std::initializer_list<std::string> words) { out.insert(out.end(), words); };
  std::error_code code;
  std::vector<fs::path> shown;
  for (const char* path : kSystem) {
    if (fs::is_symlink(path, code)) {
      add({"--symlink", fs::read_symlink(path, code).string(), path});
    } else {
      add({"--ro-bind-try", path, path});
      shown.emplace_back(path);
    }
  }
  for (const char* path : kSystemFiles) add({"--ro-bind-try", path, path});
  // One tmpfs holds everything that can be written: /dev/shm must be a folder, so /tmp is the link
  // to it. bwrap's own tmpfs of /dev has no bound.
  add({"--size", absl::StrCat(TemporaryBytes()), "--tmpfs", kSharedMemory, "--remount-ro", "/dev",
       "--symlink", kSharedMemory + 1, kTemporary});
  const auto show = [&](const fs::path& path) {
    add({"--ro-bind", path.string(), path.string()});
    shown.push_back(path);
  };
  for (const std::string& path : options_.readable) show(Canonical(path));
  const fs::path work = working_dir.empty() ? fs::path(kTemporary) : Canonical(working_dir);
  if (!working_dir.empty()) {
    if (std::any_of(std::begin(kNotToWorkIn), std::end(kNotToWorkIn), [&](const char* root) {
          return root == work || (fs::path(root) != "/" && IsWithin(work, root));
        })) {
      return absl::InvalidArgumentError(absl::StrCat(
          "working_dir: '", working_dir, "' is a part of the system; give the command a folder"));
    }
    show(work);
  }
  for (const std::string& hidden : options_.hidden) {
    const fs::path path = Canonical(hidden);
    if (IsWithin(work, path)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "working_dir: '", working_dir, "' holds what no command may read; give another folder"));
    }
    const bool seen = std::any_of(shown.begin(), shown.end(),
                                  [&](const fs::path& folder) { return IsWithin(path, folder); });
    if (!seen || !fs::exists(path, code)) continue;
    if (fs::is_directory(path, code)) {
      add({"--tmpfs", path.string(), "--remount-ro", path.string()});
    } else {
      add({"--ro-bind", "/dev/null", path.string()});
    }
  }
  add({"--remount-ro", "/", "--chdir", work.string(), "--"});
  return out;
}

}  // namespace baton::reward

#include "sdk/cli/shared/state_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace baton::cli {
namespace {

std::string PathOf(const std::string& state_dir) { return absl::StrCat(state_dir, "/state.json"); }

// Throws nlohmann::json::exception where a value has another type.
ClusterState FromJson(const nlohmann::json& json) {
  ClusterState state;
  state.supervisor = json.value("supervisor", 0);
  state.controller = json.value("controller", "");
  state.http = json.value("http", "");
  state.relay = json.value("relay", "");
  state.ready = json.value("ready", false);
  state.error = json.value("error", "");
  for (const auto& process : json.value("processes", nlohmann::json::array())) {
    state.processes.push_back({process.value("name", ""), process.value("pid", 0),
                               process.value("restarts", 0), process.value("started", int64_t{0}),
                               process.value("log", "")});
  }
  return state;
}

}  // namespace

absl::Status WriteStateFile(const std::string& state_dir, const ClusterState& state) {
  nlohmann::json json = {
      {"supervisor", state.supervisor}, {"controller", state.controller}, {"http", state.http},
      {"relay", state.relay},           {"ready", state.ready},           {"error", state.error}};
  json["processes"] = nlohmann::json::array();
  for (const ProcessState& process : state.processes) {
    json["processes"].push_back({{"name", process.name},
                                 {"pid", process.pid},
                                 {"restarts", process.restarts},
                                 {"started", process.started},
                                 {"log", process.log}});
  }
  const std::string temporary = PathOf(state_dir) + ".tmp";
  std::ofstream out(temporary, std::ios::trunc);
  // An error may quote a process that wrote no UTF-8.
  out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  out.close();
  if (!out || std::rename(temporary.c_str(), PathOf(state_dir).c_str()) != 0) {
    return absl::InternalError(absl::StrCat("cannot write ", PathOf(state_dir)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterState> ReadStateFile(const std::string& state_dir) {
  std::ifstream in(PathOf(state_dir));
  if (!in) return absl::NotFoundError(absl::StrCat("no cluster was started in ", state_dir));
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::DataLossError(absl::StrCat(PathOf(state_dir), " is damaged; remove it"));
  }
  try {
    return FromJson(json);
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(
        absl::StrCat(PathOf(state_dir), " is damaged (", error.what(), "); remove it"));
  }
}

void RemoveStateFile(const std::string& state_dir) {
  std::error_code code;
  std::filesystem::remove(PathOf(state_dir), code);
}

absl::StatusOr<StateLock> StateLock::Take(const std::string& state_dir) {
  const std::string path = state_dir + "/lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  StateLock lock(fd);
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  if (::fcntl(fd, F_OFD_SETLK, &whole) == 0) return lock;
  return absl::FailedPreconditionError(absl::StrCat("a cluster runs already in ", state_dir));
}

StateLock::~StateLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool IsUp(const std::string& state_dir) {
  const int fd = ::open((state_dir + "/lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  const bool held = ::fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
  ::close(fd);
  return held;
}

}  // namespace baton::cli

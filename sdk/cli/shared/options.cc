#include "sdk/cli/shared/options.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "sdk/cli/shared/controller_seen.h"
#include "sdk/cli/shared/state_file.h"
#include "sdk/cli/shared/table.h"
#include "sdk/common/base/private_file.h"
#include "sdk/common/rpc/error.h"

namespace baton::cli {
namespace {

// No answer came; an error with a reason is one.
bool GotNoAnswer(const absl::Status& status) {
  return (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) &&
         ErrorReason(status).empty();
}

}  // namespace

std::string GlobalOptions::StateDir() const {
  if (!state_dir.empty()) return state_dir;
  if (const char* dir = std::getenv("BATON_STATE_DIR")) return dir;
  const char* home = std::getenv("HOME");
  return absl::StrCat(home == nullptr ? "." : home, "/.baton");
}

std::string GlobalOptions::Address() const {
  if (!controller.empty()) return controller;
  if (const char* address = std::getenv("BATON_CONTROLLER")) return address;
  const auto state = ReadStateFile(StateDir());
  return state.ok() ? state->controller : "127.0.0.1:7077";
}

std::unique_ptr<Client> MakeClient(const GlobalOptions& options) {
  ClientOptions client;
  if (!options.token_file.empty()) {
    auto token = ReadTokenFile("--token-file", options.token_file);
    if (!token.ok()) {
      std::fprintf(stderr, "baton: %s\n", std::string(token.status().message()).c_str());
      std::exit(kUsage);
    }
    client.token = *std::move(token);
  }
  client.project = options.project;
  client.tls = options.tls;
  client.insecure = options.insecure;
  client.on_busy = [told = std::make_shared<std::atomic<bool>>(false)](const absl::Status& error) {
    if (told->exchange(true)) return;
    std::fprintf(stderr, "baton: the controller is busy; it is asked again (%s)\n",
                 ForTerminal(std::string(error.message())).c_str());
  };
  auto connected = Client::Connect(options.Address(), std::move(client));
  if (!connected.ok()) {
    std::fprintf(stderr, "baton: %s\n", std::string(connected.status().message()).c_str());
    std::exit(kUsage);
  }
  return *std::move(connected);
}

std::string ErrorText(const GlobalOptions& options, const absl::Status& status) {
  const std::string message(status.message());
  if (!GotNoAnswer(status)) return message;
  const std::string address = options.Address();
  const ServerSeen seen = LookAtController(address, options.tls);
  // What gRPC says of it is the same in other words.
  if (seen.what == ServerSeen::What::kNothingListens) return SeenText(address, seen);
  const std::string text =
      seen.what == ServerSeen::What::kReady
          ? absl::StrCat("the controller at ", address,
                         " gave no answer to this call; it answers now, so try again")
          : SeenText(address, seen);
  return absl::StrCat(text, " (", message, ")");
}

int Fail(const GlobalOptions& options, const absl::Status& status) {
  const std::string message = ErrorText(options, status);
  int code = kFailed;
  if (GotNoAnswer(status)) {
    code = kUnreachable;
  } else if (absl::IsNotFound(status)) {
    code = kNotFound;
  } else if (absl::IsInvalidArgument(status)) {
    code = kUsage;
  }
  if (options.json()) {
    nlohmann::json error = {{"error",
                             {{"code", absl::StatusCodeToString(status.code())},
                              {"reason", ErrorReason(status)},
                              {"message", message}}}};
    std::printf("%s\n",
                error.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  std::fprintf(stderr, "baton: %s\n", ForTerminal(message).c_str());
  return code;
}

std::string ToJson(const google::protobuf::Message& message, bool indented) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = indented;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string out;
  if (!google::protobuf::util::MessageToJsonString(message, &out, options).ok()) out = "{}";
  return out;
}

std::string ShortJobName(const std::string& name) {
  return std::string(absl::StripPrefix(name, "projects/default/jobs/"));
}

void AddOutput(CLI::App* command, GlobalOptions* options) {
  command->add_option("-o,--output", options->output, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

}  // namespace baton::cli

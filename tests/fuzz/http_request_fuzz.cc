// Any bytes as a request target, and as what a client sends over a connection.
//
// The first byte chooses. A target: what is taken apart is text that can be put together again,
// and it is answered once, with JSON where it says so. A connection: every answer is HTTP that a
// parser of its own understands, and nothing but the API's own errors.
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/ip/tcp.hpp"
#include "boost/beast/http/parser.hpp"
#include "boost/beast/http/string_body.hpp"
#include "controller/status/http_session.h"
#include "controller/status/status_router.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/utf8.h"
#include "tests/support/controller/mock_controller.h"

namespace {

using namespace baton;
using controller::Callback;
using status::HttpAnswer;
using status::RequestTarget;

void Require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", rule);
  std::abort();
}

/// Answers at once: jobs that begin with "n" are not there. Calls that are not here are not made.
class FakeController : public ::testing::StrictMock<controller::MockController> {
 public:
  std::string project = "*";  ///< The only one that may be asked for.

  void GetJob(v1::GetJobRequest request, Callback<v1::Job> done) override {
    v1::Job job;
    job.set_name(request.name());
    job.set_revision(7);
    Answer(request.name(), job, done);
  }
  void ListJobs(v1::ListJobsRequest request, Callback<v1::ListJobsResponse> done) override {
    Require(request.page_size() >= 1 && request.page_size() <= 1000, "a page has a size");
    v1::ListJobsResponse answer;
    answer.add_jobs()->set_name(request.project());
    answer.set_next_page_token(request.page_token());
    Answer(request.project(), answer, done);
  }
  void ListMetrics(v1::ListMetricsRequest request,
                   Callback<v1::ListMetricsResponse> done) override {
    Require(request.page_size() >= 1 && request.after_step() >= 0, "a page of metrics has bounds");
    Answer(request.name(), v1::ListMetricsResponse(), done);
  }
  void ListTrajectories(v1::ListTrajectoriesRequest request,
                        Callback<v1::ListTrajectoriesResponse> done) override {
    Require(v1::Purpose_IsValid(request.purpose()) && request.step() >= 0, "a purpose that is one");
    Answer(request.name(), v1::ListTrajectoriesResponse(), done);
  }
  void ListCheckpoints(v1::ListCheckpointsRequest request,
                       Callback<v1::ListCheckpointsResponse> done) override {
    Answer(request.name(), v1::ListCheckpointsResponse(), done);
  }
  void ExplainJob(v1::ExplainJobRequest request, Callback<v1::ExplainJobResponse> done) override {
    v1::ExplainJobResponse answer;
    answer.set_summary(request.name());
    Answer(request.name(), answer, done);
  }
  std::unique_ptr<controller::Subscription> WatchJob(
      v1::WatchJobRequest request, std::shared_ptr<controller::EventSink> sink) override {
    Require(request.after_revision() >= 0, "events after a revision that can be");
    for (int64_t revision = request.after_revision() + 1; revision <= 7; ++revision) {
      v1::JobEvent event;
      event.set_revision(revision);
      event.set_message(request.name());
      if (!sink->OnEvent(event)) return nullptr;
    }
    sink->OnEnd(absl::OkStatus());
    return nullptr;
  }
  void ListWorkers(v1::ListWorkersRequest, Callback<v1::ListWorkersResponse> done) override {
    Require(project == "*", "a token of one project does not see the cluster");
    done(v1::ListWorkersResponse());
  }
  absl::Status Ready() const override { return absl::OkStatus(); }
  void Metrics(std::function<void(std::vector<controller::GaugeSample>)> done) override {
    Require(project == "*", "a token of one project does not see all metrics");
    done({{"baton_fuzzed", {{"baton_job", "a\"b\\\n"}}, 1}});
  }

 private:
  template <typename T>
  void Answer(const std::string& name, const T& answer, const Callback<T>& done) {
    Require(project == "*" || name == project ||
                absl::StartsWith(name, absl::StrCat("projects/", project, "/jobs/")),
            "a token of one project sees no other");
    if (absl::StartsWith(name, "n")) return done(absl::NotFoundError("no job " + name));
    done(answer);
  }
};

// One controller for the process: it keeps nothing.
FakeController& Fake() {
  static auto* const fake = new FakeController();
  return *fake;
}

std::string Escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    absl::StrAppend(&out, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
  }
  return out;
}

void CheckAnswer(int code, absl::string_view type, const std::string& body) {
  static const std::set<int> codes = {200, 400, 401, 403, 404, 405, 413, 431};
  Require(codes.count(code) > 0, "a code that the page's reader expects");
  Require(IsValidUtf8(body), "an answer is text");
  if (type != "application/json") return;
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  Require(json.is_object(), "what says it is JSON is");
  if (code != 200) Require(json["error"]["code"] == code, "an error says its code");
}

void FuzzTarget(absl::string_view text, const std::string& project) {
  const auto target = RequestTarget::Parse(text);
  if (target.ok()) {
    std::string again = target->path.empty() ? "/" : "";
    for (const std::string& segment : target->path) {
      Require(!segment.empty() && IsValidUtf8(segment), "a segment is text");
      absl::StrAppend(&again, "/", Escape(segment));
    }
    for (const auto& [name, value] : target->query) {
      Require(IsValidUtf8(name) && IsValidUtf8(value), "a parameter is text");
      absl::StrAppend(&again, again.find('?') == std::string::npos ? "?" : "&", Escape(name), "=",
                      Escape(value));
      const auto number = target->Number(name, -5, 5, 0);
      if (number.ok()) Require(*number >= -5 && *number <= 5, "a number is within its bounds");
    }
    const auto same = RequestTarget::Parse(again);
    Require(same.ok() && same->path == target->path && same->query == target->query,
            "what is taken apart can be put together");
  }
  Fake().project = project;
  int answers = 0;
  status::StatusRouter(&Fake()).Answer(
      text,
      [&](HttpAnswer answer) {
        ++answers;
        Require(target.ok() || answer.code == 400, "a broken target is a bad request");
        CheckAnswer(answer.code, answer.content_type, answer.body);
      },
      project);
  Fake().project = "*";
  Require(answers == 1, "one answer");
}

// The server's output on one connection for these bytes, after which the client sends no more.
std::string Talk(absl::string_view bytes, bool with_tokens) {
  boost::asio::io_context io(1);
  const auto shared = std::make_shared<status::HttpShared>(
      &io, &Fake(),
      std::make_shared<access::TokenTable>(with_tokens ? std::set<std::string>{"t"}
                                                       : std::set<std::string>()),
      /*loopback=*/true, status::HttpLimits(), nullptr);
  int ends[2];
  Require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a pair of sockets");
  const int room = 1 << 20;  // for all answers: they are not read until the server has ended
  ::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  Require(::send(ends[1], bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
              static_cast<ssize_t>(bytes.size()),
          "the bytes fit");
  ::shutdown(ends[1], SHUT_WR);
  boost::asio::ip::tcp::socket socket(io);
  socket.assign(boost::asio::ip::tcp::v4(), ends[0]);
  std::make_shared<status::HttpSession>(std::move(socket), shared)->Start();
  std::string out;
  char block[4096];
  while (shared->connections > 0) {
    io.restart();
    io.run_one();
    for (ssize_t n; (n = ::recv(ends[1], block, sizeof block, MSG_DONTWAIT)) > 0;) {
      out.append(block, static_cast<size_t>(n));
    }
  }
  for (ssize_t n; (n = ::recv(ends[1], block, sizeof block, MSG_DONTWAIT)) > 0;) {
    out.append(block, static_cast<size_t>(n));
  }
  shared->Stop();
  ::close(ends[1]);
  return out;
}

void FuzzConnection(absl::string_view bytes, bool with_tokens) {
  namespace http = boost::beast::http;
  const std::string out = Talk(bytes, with_tokens);
  size_t at = 0;
  while (at < out.size()) {
    http::response_parser<http::string_body> parser;
    parser.body_limit(std::uint64_t{1} << 24);
    // Answers to HEAD have the length of a body that is not there.
    const size_t end = out.find("\r\n\r\n", at);
    Require(end != std::string::npos, "an answer has a whole header");
    const bool empty = end + 4 == out.size() || out.compare(end + 4, 9, "HTTP/1.1 ") == 0;
    parser.skip(empty);
    boost::beast::error_code error;
    parser.eager(true);
    at += parser.put(boost::asio::buffer(out.data() + at, out.size() - at), error);
    Require(!error && parser.is_done(), "an answer is HTTP");
    const auto& answer = parser.get();
    Require(answer["X-Content-Type-Options"] == "nosniff", "browsers take it for what it is");
    if (empty) continue;
    const auto type = answer[http::field::content_type];
    CheckAnswer(answer.result_int(), absl::string_view(type.data(), type.size()), answer.body());
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  GTEST_FLAG_SET(break_on_failure, true);  // a call that HTTP does not make
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 60000) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    FuzzTarget(bytes, data[0] % 4 == 2 ? "p" : "*");
  } else {
    FuzzConnection(bytes, data[0] % 4 == 3);
  }
  return 0;
}

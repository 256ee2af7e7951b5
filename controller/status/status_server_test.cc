// The status server over real sockets, on a controller that answers what the test says.
#include "controller/status/status_server.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "boost/asio/connect.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/read.hpp"
#include "boost/asio/write.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/mock_controller.h"
#include "tests/support/controller/token_table.h"

namespace baton::status {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ::testing::_;
using ::testing::HasSubstr;
using ::testing::NiceMock;
using ::testing::Return;
using Json = nlohmann::json;

class Client {
 public:
  explicit Client(int port) : socket_(io_) {
    socket_.connect({asio::ip::address_v4::loopback(), static_cast<uint16_t>(port)});
  }

  http::response<http::string_body> Send(http::request<http::string_body> request) {
    http::write(socket_, request);
    return Receive(request.method() == http::verb::head);
  }

  http::response<http::string_body> Get(const std::string& target, const std::string& name = "",
                                        const std::string& value = "") {
    http::request<http::string_body> request(http::verb::get, target, 11);
    request.set(http::field::host, "localhost:7078");
    if (!name.empty()) request.set(name, value);
    return Send(request);
  }

  void SendBytes(const std::string& bytes) {
    boost::system::error_code ignored;  // the server may close while we still write
    asio::write(socket_, asio::buffer(bytes), ignored);
  }

  http::response<http::string_body> Receive(bool head = false) {
    http::response_parser<http::string_body> parser;
    parser.skip(head);
    parser.body_limit(16 << 20);
    boost::system::error_code error;
    http::read(socket_, buffer_, parser, error);
    return parser.release();
  }

  bool AtEnd() {
    char byte;
    boost::system::error_code error;
    asio::read(socket_, asio::buffer(&byte, 1), error);
    return bool(error);
  }

 private:
  asio::io_context io_;
  asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
};

v1::Job SomeJob() {
  v1::Job job;
  job.set_name("projects/default/jobs/add");
  job.set_state(v1::Job::STATE_RUNNING);
  job.set_step(41);
  job.set_revision(3);
  return job;
}

class StatusServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ON_CALL(controller_, Ready()).WillByDefault(Return(absl::OkStatus()));
    ON_CALL(controller_, GetJob(_, _)).WillByDefault([](v1::GetJobRequest request, auto done) {
      if (request.name() == "add" || request.name() == "projects/default/jobs/add") {
        return done(SomeJob());
      }
      done(MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                     absl::StrCat("there is no job ", request.name())));
    });
    Start({});
  }

  void Start(StatusOptions options) {
    auto server = StatusServer::Start("127.0.0.1:0", &controller_, std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  http::response<http::string_body> Get(const std::string& target) {
    return Client(server_->port()).Get(target);
  }

  NiceMock<controller::MockController> controller_;
  std::unique_ptr<StatusServer> server_;
};

TEST_F(StatusServerTest, PageIsWholeAndNeedsNothingFromOutside) {
  auto answer = Get("/");
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(answer[http::field::content_type], "text/html; charset=utf-8");
  EXPECT_THAT(answer.body(), HasSubstr("<!doctype html>"));
  EXPECT_THAT(answer.body(), HasSubstr("</html>"));
  EXPECT_THAT(answer.body(), ::testing::Not(HasSubstr("src=")));
  EXPECT_THAT(std::string(answer["Content-Security-Policy"]), HasSubstr("default-src 'none'"));
}

TEST_F(StatusServerTest, ReadyTellsWhatTheStoreSays) {
  EXPECT_EQ(Get("/healthz").result_int(), 200u);
  EXPECT_EQ(Get("/readyz").result_int(), 200u);
  EXPECT_CALL(controller_, Ready()).WillOnce(Return(absl::ResourceExhaustedError("disk full")));
  auto answer = Get("/readyz");
  EXPECT_EQ(answer.result_int(), 503u);
  EXPECT_EQ(answer.body(), "store: disk full\n");
}

TEST_F(StatusServerTest, MetricsArePrometheusText) {
  EXPECT_CALL(controller_, Metrics(_))
      .WillOnce([](std::function<void(std::vector<controller::GaugeSample>)> done) {
        done({{"baton_job_step", {{"baton_job", "a"}}, 7}});
      });
  auto answer = Get("/metrics");
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(answer[http::field::content_type], "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(answer.body(), HasSubstr("baton_job_step{baton_job=\"a\"} 7\n"));
}

TEST_F(StatusServerTest, ListsJobs) {
  EXPECT_CALL(controller_, ListJobs(_, _)).WillOnce([](v1::ListJobsRequest request, auto done) {
    EXPECT_EQ(request.project(), "-");
    EXPECT_EQ(request.page_size(), 2);
    EXPECT_EQ(request.states_size(), 2);
    EXPECT_EQ(request.states(0), v1::Job::STATE_RUNNING);
    EXPECT_EQ(request.states(1), v1::Job::STATE_FAILED);
    v1::ListJobsResponse response;
    *response.add_jobs() = SomeJob();
    response.set_next_page_token("more");
    done(response);
  });
  auto answer = Get("/api/v1/jobs?project=-&page_size=2&state=running,STATE_FAILED");
  EXPECT_EQ(answer.result_int(), 200u);
  const Json json = Json::parse(answer.body());
  EXPECT_EQ(json["jobs"][0]["name"], "projects/default/jobs/add");
  EXPECT_EQ(json["jobs"][0]["state"], "STATE_RUNNING");
  EXPECT_EQ(json["next_page_token"], "more");
}

TEST_F(StatusServerTest, AListOfJobsIsShortUnlessAllIsAskedFor) {
  EXPECT_CALL(controller_, ListJobs(_, _)).Times(2).WillRepeatedly([](auto, auto done) {
    v1::ListJobsResponse response;
    v1::Job* job = response.add_jobs();
    *job = SomeJob();
    job->set_total_steps(50);
    job->set_phase("generating");
    job->mutable_error()->set_message("why");
    job->mutable_spec()->mutable_rollout()->set_n(4);
    *job->mutable_effective_spec() = job->spec();
    job->mutable_dataflow()->add_score()->set_node("reward");
    for (int i = 0; i < 40; ++i) (*job->mutable_metrics())[absl::StrCat("actor/", i)] = i;
    job->add_workers("actor: a");
    done(response);
  });
  const auto answer = Get("/api/v1/jobs");
  const Json job = Json::parse(answer.body())["jobs"][0];
  EXPECT_LT(answer.body().size(), 400u) << answer.body();
  for (const char* kept : {"name", "state", "step", "total_steps", "phase", "error"}) {
    EXPECT_TRUE(job.contains(kept)) << kept;
  }
  for (const char* left : {"spec", "effective_spec", "dataflow", "metrics", "workers"}) {
    EXPECT_FALSE(job.contains(left)) << left;
  }
  const Json full = Json::parse(Get("/api/v1/jobs?view=full").body())["jobs"][0];
  EXPECT_EQ(full["spec"]["rollout"]["n"], 4);
  EXPECT_EQ(full["metrics"].size(), 40u);
}

TEST_F(StatusServerTest, DescribesItself) {
  const auto answer = Get("/api/v1/openapi.json");
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(answer[http::field::content_type], "application/json");
  EXPECT_EQ(Json::parse(answer.body())["openapi"], "3.0.3");
}

TEST_F(StatusServerTest, RefusesParametersThatAnAddressDoesNotHave) {
  const auto answer = Get("/api/v1/jobs/add/metrics?prefx=actor/");
  EXPECT_EQ(answer.result_int(), 400u);
  EXPECT_EQ(Json::parse(answer.body())["error"]["message"],
            "/api/v1/jobs/{job}/metrics has no parameter 'prefx'; it has prefix, after_step, "
            "page_size, page_token");
  EXPECT_EQ(Get("/api/v1/jobs?view=long").result_int(), 400u);
  EXPECT_EQ(Get("/healthz?from=a-proxy").result_int(), 200u);
}

// A shell's prompt then stands on a line of its own after curl.
TEST_F(StatusServerTest, JsonEndsWithALineEnd) {
  for (const char* target : {"/api/v1/jobs", "/api/v1/jobs/add", "/api/v1/openapi.json", "/nowhere",
                             "/api/v1/jobs/add/events"}) {
    EXPECT_THAT(Get(target).body(), ::testing::EndsWith("}\n")) << target;
  }
}

TEST_F(StatusServerTest, AJobByShortAndFullName) {
  EXPECT_EQ(Json::parse(Get("/api/v1/jobs/add").body())["step"], "41");
  EXPECT_EQ(Json::parse(Get("/api/v1/projects/default/jobs/add").body())["step"], "41");
}

TEST_F(StatusServerTest, ErrorsAreJson) {
  auto answer = Get("/api/v1/jobs/nobody");
  EXPECT_EQ(answer.result_int(), 404u);
  const Json error = Json::parse(answer.body())["error"];
  EXPECT_EQ(error["code"], 404);
  EXPECT_EQ(error["status"], "NOT_FOUND");
  EXPECT_EQ(error["reason"], "JOB_NOT_FOUND");
  EXPECT_EQ(error["message"], "there is no job projects/default/jobs/nobody");
}

TEST_F(StatusServerTest, ServesThePartsOfAJob) {
  EXPECT_CALL(controller_, ListMetrics(_, _)).WillOnce([](v1::ListMetricsRequest r, auto done) {
    EXPECT_EQ(r.name(), "projects/default/jobs/add");
    EXPECT_EQ(r.after_step(), 40);
    EXPECT_EQ(r.page_size(), 5);
    EXPECT_EQ(r.prefixes_size(), 2);
    EXPECT_EQ(r.prefixes(1), "actor/");
    v1::ListMetricsResponse response;
    response.add_steps()->set_step(41);
    done(response);
  });
  EXPECT_EQ(Json::parse(Get("/api/v1/jobs/add/metrics?after_step=40&page_size=5"
                            "&prefix=critic/,actor/")
                            .body())["steps"][0]["step"],
            "41");
  EXPECT_CALL(controller_, ListTrajectories(_, _))
      .WillOnce([](v1::ListTrajectoriesRequest r, auto done) {
        EXPECT_EQ(r.purpose(), v1::PURPOSE_EVAL);
        EXPECT_EQ(r.step(), 9);
        v1::ListTrajectoriesResponse response;
        response.add_trajectories()->set_prompt_text("1+1:");
        done(response);
      });
  EXPECT_EQ(Json::parse(Get("/api/v1/jobs/add/trajectories?purpose=eval&step=9")
                            .body())["trajectories"][0]["prompt_text"],
            "1+1:");
  EXPECT_CALL(controller_, ListCheckpoints(_, _))
      .WillOnce([](v1::ListCheckpointsRequest r, auto done) {
        EXPECT_EQ(r.page_size(), 3);
        EXPECT_EQ(r.page_token(), "t");
        v1::ListCheckpointsResponse response;
        response.add_checkpoints()->set_step(20);
        done(response);
      });
  EXPECT_EQ(Json::parse(Get("/api/v1/jobs/add/checkpoints?page_size=3&page_token=t")
                            .body())["checkpoints"][0]["step"],
            "20");
  EXPECT_CALL(controller_, ExplainJob(_, _)).WillOnce([](auto, auto done) {
    v1::ExplainJobResponse response;
    response.add_waits()->set_kind("workers");
    done(response);
  });
  EXPECT_EQ(Json::parse(Get("/api/v1/jobs/add/explain").body())["waits"][0]["kind"], "workers");
  EXPECT_CALL(controller_, ListWorkers(_, _)).WillOnce([](v1::ListWorkersRequest r, auto done) {
    EXPECT_EQ(r.page_size(), 1000);
    EXPECT_EQ(r.page_token(), "u");
    v1::ListWorkersResponse response;
    response.add_workers()->set_worker_id("w1");
    done(response);
  });
  EXPECT_EQ(Json::parse(Get("/api/v1/workers?page_token=u").body())["workers"][0]["worker_id"],
            "w1");
  EXPECT_EQ(Get("/api/v1/workers?page_size=0").result_int(), 400u);
}

TEST_F(StatusServerTest, EventsUpToTheNewestWithoutProgress) {
  auto ended = std::make_shared<std::atomic<bool>>(false);
  EXPECT_CALL(controller_, WatchJob(_, _))
      .WillOnce([&](v1::WatchJobRequest request, std::shared_ptr<controller::EventSink> sink) {
        EXPECT_EQ(request.after_revision(), 1);
        for (int64_t revision : {2, 0, 3}) {  // 0: progress
          v1::JobEvent event;
          event.set_revision(revision);
          event.set_type(revision == 0 ? "progress" : "step");
          if (!sink->OnEvent(event)) break;
        }
        return std::make_unique<controller::FlagSubscription>(ended);
      });
  const Json json = Json::parse(Get("/api/v1/jobs/add/events?after=1").body());
  ASSERT_EQ(json["events"].size(), 2u);
  EXPECT_EQ(json["events"][0]["revision"], "2");
  EXPECT_EQ(json["events"][1]["revision"], "3");
  EXPECT_EQ(Json::parse(Get("/api/v1/jobs/add/events?after=3").body())["events"].size(), 0u);
  EXPECT_TRUE(*ended) << "the subscription was kept";
}

TEST_F(StatusServerTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Get("/nothing").result_int(), 404u);
  EXPECT_EQ(Get("/api/v2/jobs").result_int(), 404u);
  EXPECT_EQ(Get("/api/v1/jobs/add/metrics/x").result_int(), 404u);
  EXPECT_EQ(Get("/api/v1/jobs/add/secrets").result_int(), 404u);
  EXPECT_EQ(Get("/api/v1/jobs?page_size=none").result_int(), 400u);
  EXPECT_EQ(Get("/api/v1/jobs?state=flying").result_int(), 400u);
  EXPECT_EQ(Get("/api/v1/jobs/add/trajectories?purpose=fun").result_int(), 400u);
  EXPECT_EQ(Get("/%zz").result_int(), 400u);
  EXPECT_THAT(Get("/api/v1/jobs?state=flying").body(), HasSubstr("flying is not a job state"));
}

TEST_F(StatusServerTest, OnlyReads) {
  http::request<http::string_body> request(http::verb::post, "/api/v1/jobs", 11);
  request.set(http::field::host, "localhost");
  request.body() = "{}";
  request.prepare_payload();
  auto answer = Client(server_->port()).Send(request);
  EXPECT_EQ(answer.result_int(), 405u);
  EXPECT_EQ(answer[http::field::allow], "GET, HEAD");
  const Json error = Json::parse(answer.body())["error"];
  EXPECT_EQ(error["code"], 405);
  EXPECT_THAT(std::string(error["message"]), HasSubstr("read-only"));
}

TEST_F(StatusServerTest, HeadHasTheLengthAndNoBody) {
  http::request<http::string_body> request(http::verb::head, "/healthz", 11);
  request.set(http::field::host, "localhost");
  auto answer = Client(server_->port()).Send(request);
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(answer[http::field::content_length], "3");
  EXPECT_EQ(answer.body(), "");
}

TEST_F(StatusServerTest, OneConnectionServesManyRequests) {
  Client client(server_->port());
  EXPECT_EQ(client.Get("/healthz").result_int(), 200u);
  EXPECT_EQ(client.Get("/nothing").result_int(), 404u);
  EXPECT_EQ(client.Get("/api/v1/jobs/add").result_int(), 200u);
}

TEST_F(StatusServerTest, LimitsTheHeader) {
  Client client(server_->port());
  client.SendBytes("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(60000, 'a') +
                   "\r\n\r\n");
  // The answer may be lost with the connection's reset; the server goes on in both cases.
  const auto answer = client.Receive();
  EXPECT_TRUE(answer.result_int() == 431u || client.AtEnd());
  EXPECT_EQ(Get("/healthz").result_int(), 200u);
}

TEST_F(StatusServerTest, AnswersBadRequestIfTheInputIsNotHttp) {
  Client client(server_->port());
  client.SendBytes("hello there\r\n\r\n");
  EXPECT_EQ(client.Receive().result_int(), 400u);
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(StatusServerTest, ASilentConnectionIsClosed) {
  StatusOptions options;
  options.limits.read = absl::Milliseconds(30);
  Start(options);
  Client client(server_->port());
  client.SendBytes("GET / HT");
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(StatusServerTest, ClosesAnIdleConnectionAboveTheLimit) {
  StatusOptions options;
  options.limits.connections = 1;
  Start(options);
  Client first(server_->port());
  EXPECT_EQ(first.Get("/healthz").result_int(), 200u);
  Client second(server_->port());
  EXPECT_EQ(second.Get("/healthz").result_int(), 200u);
  EXPECT_TRUE(first.AtEnd());
  controller::Callback<v1::Job> kept;
  absl::Notification asked;
  EXPECT_CALL(controller_, GetJob(_, _)).WillOnce([&](auto, auto done) {
    kept = done;
    asked.Notify();
  });
  second.SendBytes("GET /api/v1/jobs/add HTTP/1.1\r\nHost: localhost\r\n\r\n");
  asked.WaitForNotification();
  EXPECT_TRUE(Client(server_->port()).AtEnd());  // the other is being answered
  kept(SomeJob());
  EXPECT_EQ(second.Receive().result_int(), 200u);
}

TEST_F(StatusServerTest, SlowConnectionsKeepNoProbeOut) {
  StatusOptions options;
  options.limits.connections = 4;
  Start(options);
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 40; ++i) {
    slow.push_back(std::make_unique<Client>(server_->port()));
    slow.back()->SendBytes("GET /healthz HT");
    EXPECT_EQ(Get("/healthz").result_int(), 200u) << i;
    EXPECT_EQ(Get("/readyz").result_int(), 200u) << i;
  }
}

TEST_F(StatusServerTest, AControllerThatIsSilentIsReportedAndMayAnswerLater) {
  StatusOptions options;
  options.limits.answer = absl::Milliseconds(30);
  Start(options);
  controller::Callback<v1::Job> kept;
  EXPECT_CALL(controller_, GetJob(_, _)).WillOnce([&](auto, auto done) { kept = done; });
  EXPECT_EQ(Get("/api/v1/jobs/add").result_int(), 504u);
  kept(SomeJob());  // too late
  EXPECT_EQ(Get("/healthz").result_int(), 200u);
  server_.reset();
  kept(SomeJob());  // the server is gone
}

TEST_F(StatusServerTest, AnotherSitesPageCannotReadLoopback) {
  http::request<http::string_body> request(http::verb::get, "/api/v1/jobs/add", 11);
  request.set(http::field::host, "evil.example:7078");
  EXPECT_EQ(Client(server_->port()).Send(request).result_int(), 403u);
  EXPECT_TRUE(IsLocalHostHeader("localhost:7078"));
  EXPECT_TRUE(IsLocalHostHeader("127.0.0.1"));
  EXPECT_TRUE(IsLocalHostHeader("[::1]:80"));
  EXPECT_FALSE(IsLocalHostHeader("127.evil.example"));
  EXPECT_FALSE(IsLocalHostHeader("localhost.evil.example"));
}

TEST_F(StatusServerTest, TokensAreAskedForButNotByProbes) {
  StatusOptions options;
  options.tokens = std::make_shared<access::TokenTable>(std::set<std::string>{"secret"});
  Start(options);
  auto refused = Get("/api/v1/jobs/add");
  EXPECT_EQ(refused.result_int(), 401u);
  EXPECT_THAT(std::string(refused[http::field::www_authenticate]), HasSubstr("Basic"));
  EXPECT_EQ(Get("/healthz").result_int(), 200u);
  Client client(server_->port());
  EXPECT_EQ(client.Get("/api/v1/jobs/add", "Authorization", "Bearer secret").result_int(), 200u);
  EXPECT_EQ(
      client.Get("/api/v1/jobs/add", "Authorization", "Basic " + absl::Base64Escape("me:secret"))
          .result_int(),
      200u);
  for (const char* wrong : {"Bearer wrong", "secret", "bearer secret", "Basic c2VjcmV0"}) {
    EXPECT_EQ(Client(server_->port()).Get("/api/v1/jobs/add", "Authorization", wrong).result_int(),
              401u)
        << wrong;
  }
}

TEST_F(StatusServerTest, AProjectsTokenReadsThatProjectAlone) {
  access::TestTokens tokens;
  StatusOptions options;
  options.tokens = tokens.table();
  Start(options);
  EXPECT_CALL(controller_, GetJob(_, _)).WillOnce([](v1::GetJobRequest r, auto done) {
    EXPECT_EQ(r.name(), "projects/a/jobs/add");
    done(v1::Job());
  });
  EXPECT_CALL(controller_, ListJobs(_, _)).WillOnce([](v1::ListJobsRequest r, auto done) {
    EXPECT_EQ(r.project(), "a");
    done(v1::ListJobsResponse());
  });
  const std::string reader = "Bearer " + tokens.Make("a", "read");
  const auto get = [&](const std::string& target, const std::string& as) {
    return Client(server_->port()).Get(target, "Authorization", as).result_int();
  };
  EXPECT_EQ(get("/api/v1/jobs/add", reader), 200u);
  EXPECT_EQ(get("/api/v1/jobs?project=-", reader), 200u);
  EXPECT_EQ(get("/api/v1/jobs?project=b", reader), 403u);
  EXPECT_EQ(get("/api/v1/projects/b/jobs/add", reader), 403u);
  EXPECT_EQ(get("/api/v1/workers", reader), 403u);
  EXPECT_EQ(get("/metrics", reader), 403u);
  EXPECT_EQ(get("/api/v1/jobs/add", "Bearer " + tokens.Make("*", "worker")), 403u);
}

TEST_F(StatusServerTest, RefusesAddressesItMustNotOrCannotServe) {
  auto open = StatusServer::Start("0.0.0.0:0", &controller_);
  EXPECT_EQ(open.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(open.status().message()), HasSubstr("--token-file"));
  StatusOptions options;
  options.tokens = std::make_shared<access::TokenTable>(std::set<std::string>{"root"});
  auto clear = StatusServer::Start("0.0.0.0:0", &controller_, options);
  EXPECT_EQ(clear.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(clear.status().message()), HasSubstr("--insecure"));
  options.insecure = true;
  EXPECT_TRUE(StatusServer::Start("0.0.0.0:0", &controller_, options).ok());
  auto taken = StatusServer::Start(absl::StrCat("127.0.0.1:", server_->port()), &controller_);
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr("--http"));
  for (const char* bad : {"", "7078", "localhost", "nohost:1", "127.0.0.1:99999", "127.0.0.1:x"}) {
    EXPECT_EQ(StatusServer::Start(bad, &controller_).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

}  // namespace
}  // namespace baton::status

// Calls that come all at once.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "bench/control_plane/load.h"
#include "grpcpp/grpcpp.h"
#include "sdk/common/contracts/text_bounds.h"
#include "sdk/common/rpc/error.h"
#include "sdk/common/rpc/retry.h"

namespace baton::bench {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

// Counts the answers. Thread-safe.
class Answers {
 public:
  explicit Answers(int expected) : expected_(expected) {}

  void Add(absl::Time start, const grpc::Status& status, const std::string& what) {
    const absl::Duration took = absl::Now() - start;
    absl::MutexLock lock(&mu_);
    ++answered_;
    if (status.ok()) {
      result_.ms.push_back(absl::ToDoubleMilliseconds(took));
    } else {
      result_.errors.push_back(
          absl::StrCat(what, ": ", status.error_code(), " ", status.error_message()));
    }
  }

  /// Decides whether a call that ended so is made again, as the server asks: `again` makes it, in
  /// the thread of Wait. A client library does the same.
  bool Again(const grpc::Status& status, std::function<void()> again) {
    const absl::Duration delay = RetryDelay(FromGrpc(status));
    if (delay == absl::InfiniteDuration()) return false;
    absl::MutexLock lock(&mu_);
    // Spread over half as much again.
    again_.emplace(absl::Now() + delay * (1 + 0.05 * static_cast<double>(again_.size() % 10)),
                   std::move(again));
    ++result_.retries;
    return true;
  }

  CallsResult Wait() {
    while (true) {
      std::function<void()> again;
      {
        absl::MutexLock lock(&mu_);
        const auto turn = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return answered_ == expected_ ||
                 (!again_.empty() && again_.begin()->first <= absl::Now());
        };
        mu_.AwaitWithTimeout(absl::Condition(&turn), absl::Milliseconds(10));
        if (answered_ == expected_) {
          result_.wall = absl::Now() - begin_;
          return result_;
        }
        if (!turn()) continue;
        again = std::move(again_.begin()->second);
        again_.erase(again_.begin());
      }
      again();
    }
  }

 private:
  const int expected_;
  const absl::Time begin_ = absl::Now();
  absl::Mutex mu_;
  int answered_ ABSL_GUARDED_BY(mu_) = 0;
  std::multimap<absl::Time, std::function<void()>> again_ ABSL_GUARDED_BY(mu_);
  CallsResult result_ ABSL_GUARDED_BY(mu_);
};

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(90)));
}

using Async = v1::JobService::StubInterface::async_interface;

// A unary call until it is answered for good.
template <typename Request, typename Response>
struct Call : std::enable_shared_from_this<Call<Request, Response>> {
  using Method = void (Async::*)(grpc::ClientContext*, const Request*, Response*,
                                 std::function<void(grpc::Status)>);

  void Start() {
    context = std::make_unique<grpc::ClientContext>();
    SetDeadline(*context);
    (async->*method)(context.get(), &request, &response,
                     [call = this->shared_from_this()](const grpc::Status& status) {
                       if (call->answers->Again(status, [call] { call->Start(); })) return;
                       call->answers->Add(call->start, status, call->what);
                     });
  }

  Async* async = nullptr;
  Method method = nullptr;
  Answers* answers = nullptr;
  std::string what;
  const absl::Time start = absl::Now();
  std::unique_ptr<grpc::ClientContext> context;
  Request request;
  Response response;
};

// Starts `count` unary calls together, the i-th with fill(i, request).
template <typename Request, typename Response>
CallsResult CallAll(const Stubs& stubs, int count, const std::string& what,
                    typename Call<Request, Response>::Method method,
                    const std::function<void(int, Request&)>& fill) {
  Answers answers(count);
  for (int i = 0; i < count; ++i) {
    auto call = std::make_shared<Call<Request, Response>>();
    fill(i, call->request);
    call->async = stubs[static_cast<size_t>(i) % stubs.size()]->async();
    call->method = method;
    call->answers = &answers;
    call->what = what;
    call->Start();
  }
  return answers.Wait();
}

// One file, piece by piece. Deletes itself.
class Upload : public grpc::ClientWriteReactor<v1::UploadFileRequest> {
 public:
  Upload(v1::JobService::Stub* stub, int number, size_t bytes, Answers* answers,
         absl::Time start = absl::Now())
      : start_(start),
        stub_(stub),
        number_(number),
        bytes_(bytes),
        left_(bytes),
        answers_(answers) {
    SetDeadline(context_);
    request_.set_filename(absl::StrCat("file-", number));
    piece_.assign(kPieceBytes, static_cast<char>('a' + number % 26));
    piece_.replace(0, 8, absl::StrCat(absl::Dec(number, absl::kZeroPad8)));
    stub->async()->UploadFile(&context_, &response_, this);
    Next();
    StartCall();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return;  // OnDone tells why
    request_.clear_filename();
    Next();
  }
  void OnDone(const grpc::Status& status) override {
    const auto again = [stub = stub_, number = number_, bytes = bytes_, answers = answers_,
                        start = start_] { new Upload(stub, number, bytes, answers, start); };
    if (!answers_->Again(status, again)) answers_->Add(start_, status, "upload");
    delete this;
  }

 private:
  void Next() {
    if (left_ == 0) return StartWritesDone();
    const size_t bytes = std::min(left_, kPieceBytes);
    request_.set_data(piece_.data(), bytes);
    left_ -= bytes;
    StartWrite(&request_);
  }

  const absl::Time start_;
  v1::JobService::Stub* const stub_;
  const int number_;
  const size_t bytes_;
  grpc::ClientContext context_;
  v1::UploadFileRequest request_;
  v1::UploadFileResponse response_;
  std::string piece_;
  size_t left_;
  Answers* const answers_;
};

std::string JobId(int i) { return absl::StrCat("load-", i); }

std::string JobName(const std::string& project, int i) {
  return absl::StrCat("projects/", project, "/jobs/", JobId(i));
}

}  // namespace

CallsResult CreateJobs(const Stubs& stubs, const std::string& data, int count, int spec_bytes,
                       int round, const std::string& project) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
  spec.mutable_data()->add_train_files(data);
  spec.mutable_reward()->add_rules()->set_type("exact_match");
  spec.mutable_trainer()->set_total_training_steps(1);
  for (int left = spec_bytes; left > 0; left -= static_cast<int>(kLabelBytes)) {
    const size_t bytes = std::min(static_cast<size_t>(left), kLabelBytes);
    (*spec.mutable_labels())[absl::StrCat("note-", left)] = std::string(bytes, 'x');
  }
  return CallAll<v1::CreateJobRequest, v1::Job>(
      stubs, count, "create", &Async::CreateJob, [&](int i, v1::CreateJobRequest& request) {
        request.set_job_id(JobId(i));
        request.set_project(project);
        request.set_request_id(absl::StrCat(JobId(i), ".", round));
        *request.mutable_spec() = spec;
      });
}

CallsResult UploadFiles(const Stubs& stubs, int count, int bytes) {
  Answers answers(count);
  for (int i = 0; i < count; ++i) {
    new Upload(stubs[static_cast<size_t>(i) % stubs.size()].get(), i, static_cast<size_t>(bytes),
               &answers);
  }
  return answers.Wait();
}

CallsResult CancelJobs(const Stubs& stubs, int count, const std::string& project) {
  return CallAll<v1::CancelJobRequest, v1::Job>(
      stubs, count, "cancel", &Async::CancelJob,
      [&](int i, v1::CancelJobRequest& request) { request.set_name(JobName(project, i)); });
}

CallsResult DeleteJobs(const Stubs& stubs, int count, const std::string& project) {
  return CallAll<v1::DeleteJobRequest, v1::DeleteJobResponse>(
      stubs, count, "delete", &Async::DeleteJob,
      [&](int i, v1::DeleteJobRequest& request) { request.set_name(JobName(project, i)); });
}

}  // namespace baton::bench

#include "workers/hybrid/replica.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"

namespace baton::hybrid {
namespace {

using engine::CollectiveError;
using engine::Communicator;
using engine::GenerateRequest;
using engine::GeneratorCall;

/// A message is {kind, length} and, of a step with calls, `length` numbers.
constexpr int64_t kStep = 0;
constexpr int64_t kStillHere = 1;
constexpr int64_t kEnd = 2;

void Broadcast(Communicator& control, std::vector<int64_t>& numbers) {
  const auto size = static_cast<int64_t>(numbers.size());
  control.Broadcast(torch::from_blob(numbers.data(), {size}, torch::kInt64), 0);
}

/// Calls as numbers. One function says what a request has, for writing and reading.
class Writer {
 public:
  template <typename T>
  void Number(T& value) {
    int64_t number = 0;
    static_assert(sizeof(value) <= sizeof(number));
    std::memcpy(&number, &value, sizeof(value));
    numbers.push_back(number);
  }
  template <typename List>
  void Numbers(List& values) {
    numbers.push_back(static_cast<int64_t>(values.size()));
    for (auto& value : values) Number(value);
  }
  template <typename List>
  void Lists(List& lists) {
    numbers.push_back(static_cast<int64_t>(lists.size()));
    for (auto& list : lists) Numbers(list);
  }
  std::vector<int64_t> numbers;
};

class Reader {
 public:
  explicit Reader(std::vector<int64_t> numbers) : numbers_(std::move(numbers)) {}
  bool done() const { return next_ == numbers_.size(); }

  template <typename T>
  void Number(T& value) {
    const int64_t number = numbers_.at(next_++);
    std::memcpy(&value, &number, sizeof(value));
  }
  template <typename List>
  void Numbers(List& values) {
    values.resize(static_cast<size_t>(numbers_.at(next_++)));
    for (auto& value : values) Number(value);
  }
  template <typename List>
  void Lists(List& lists) {
    lists.resize(static_cast<size_t>(numbers_.at(next_++)));
    for (auto& list : lists) Numbers(list);
  }

 private:
  const std::vector<int64_t> numbers_;
  size_t next_ = 0;
};

template <typename Coder>
void Code(Coder& coder, GeneratorCall& call) {
  coder.Number(call.kind);
  GenerateRequest& request = call.request;
  coder.Number(request.id);
  if (call.kind != GeneratorCall::Kind::kAdd) return;
  coder.Numbers(request.prompt);
  coder.Numbers(request.resume);
  engine::SamplingParams& params = request.params;
  coder.Number(params.temperature);
  coder.Number(params.top_k);
  coder.Number(params.top_p);
  coder.Number(params.max_new_tokens);
  coder.Number(params.min_new_tokens);
  coder.Numbers(params.stop_token_ids);
  coder.Lists(params.stop_strings);
  engine::SamplingKey& key = request.key;
  coder.Number(key.job_seed);
  coder.Number(key.purpose);
  coder.Number(key.prompt_id);
  coder.Number(key.draw);
  coder.Number(key.sample);
}

absl::Status Repeat(GeneratorCall call, engine::Generator& generator) {
  switch (call.kind) {
    case GeneratorCall::Kind::kAdd:
      return generator.Add(std::move(call.request));
    case GeneratorCall::Kind::kCancel:
      if (generator.Cancel(call.request.id)) return absl::OkStatus();
      return absl::NotFoundError(absl::StrCat("request ", call.request.id, " is not live"));
    case GeneratorCall::Kind::kWeightsChanged:
      return generator.OnWeightsChanged();
  }
  return absl::InternalError("no such call");
}

}  // namespace

ReplicaLeader::ReplicaLeader(Communicator* control, engine::Generator* generator,
                             absl::Duration keep_alive)
    : control_(control),
      generator_(generator),
      keep_alive_(keep_alive),
      keeper_([this] { KeepAlive(); }) {
  generator_->SetAnnounce([this](const std::vector<GeneratorCall>& calls) { Announce(calls); });
}

ReplicaLeader::~ReplicaLeader() { End().IgnoreError(); }

absl::Status ReplicaLeader::End() {
  absl::Status status;
  {
    absl::MutexLock lock(&mu_);
    if (!std::exchange(ended_, true)) {
      try {
        Send(kEnd, {});
      } catch (const CollectiveError&) {  // it is in broken_
      }
    }
    status = broken_;
  }
  if (keeper_.joinable()) keeper_.join();
  generator_->SetAnnounce(nullptr);
  return status;
}

void ReplicaLeader::Announce(const std::vector<GeneratorCall>& calls) {
  Writer writer;
  for (GeneratorCall call : calls) Code(writer, call);
  absl::MutexLock lock(&mu_);
  Send(kStep, std::move(writer.numbers));
}

void ReplicaLeader::Send(int64_t kind, std::vector<int64_t> payload) {
  if (!broken_.ok()) throw CollectiveError(broken_);
  sent_ = true;
  try {
    std::vector<int64_t> head = {kind, static_cast<int64_t>(payload.size())};
    Broadcast(*control_, head);
    if (!payload.empty()) Broadcast(*control_, payload);
  } catch (const CollectiveError& error) {
    broken_ = error.status();
    throw;
  }
}

void ReplicaLeader::KeepAlive() {
  absl::MutexLock lock(&mu_);
  while (!mu_.AwaitWithTimeout(absl::Condition(&ended_), keep_alive_)) {
    if (std::exchange(sent_, false)) continue;
    try {
      Send(kStillHere, {});
    } catch (const CollectiveError&) {  // the next step says it
      return;
    }
  }
}

ReplicaFollower::ReplicaFollower(Communicator* control, engine::Generator* generator)
    : control_(control), generator_(generator), thread_([this] {
        try {
          status_ = Follow();
        } catch (const CollectiveError& error) {
          status_ = error.status();
        } catch (const std::exception& error) {
          status_ = absl::InternalError(absl::StrCat("following a replica: ", error.what()));
        }
      }) {}

ReplicaFollower::~ReplicaFollower() {
  leaving_ = true;
  WaitForEnd().IgnoreError();
}

absl::Status ReplicaFollower::WaitForEnd() {
  if (thread_.joinable()) thread_.join();
  return status_;
}

absl::Status ReplicaFollower::Follow() {
  absl::Status lost;  // A rank, in a step: the leader knows too, and ends.
  while (true) {
    std::vector<int64_t> head(2);
    Broadcast(*control_, head);
    if (head[0] == kEnd) return lost;
    if (leaving_) return absl::CancelledError("left the replica");
    if (head[0] == kStillHere) continue;
    std::vector<int64_t> numbers(static_cast<size_t>(head[1]));
    if (!numbers.empty()) Broadcast(*control_, numbers);
    for (Reader reader(std::move(numbers)); !reader.done();) {
      GeneratorCall call;
      Code(reader, call);
      BATON_RETURN_IF_ERROR(Repeat(std::move(call), *generator_));
    }
    const absl::Status stepped = generator_->Step().status();
    if (absl::IsUnavailable(stepped) || absl::IsDeadlineExceeded(stepped)) lost = stepped;
  }
}

}  // namespace baton::hybrid

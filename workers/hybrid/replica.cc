#include "workers/hybrid/replica.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/number_coder.h"

namespace baton::hybrid {
namespace {

using engine::CollectiveError;
using engine::Communicator;
using engine::GenerateRequest;
using engine::GeneratorCall;

template <typename Coder>
void Code(Coder& coder, GeneratorCall& call) {
  coder.Number(call.kind);
  GenerateRequest& request = call.request;
  coder.Number(request.id);
  if (call.kind == GeneratorCall::Kind::kDraft) {
    coder.Numbers(call.draft.tokens);
    coder.Numbers(call.draft.parents);
  }
  if (call.kind != GeneratorCall::Kind::kAdd) return;
  coder.Numbers(request.prompt);
  coder.Numbers(request.resume);
  coder.Numbers(request.draft);
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
  coder.Number(key.prompt_index);
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
    case GeneratorCall::Kind::kDraft:
      if (generator.SetDraft(call.request.id, std::move(call.draft))) return absl::OkStatus();
      return absl::NotFoundError(absl::StrCat("request ", call.request.id, " is not live"));
  }
  return absl::InternalError("no such call");
}

}  // namespace

ReplicaLeader::ReplicaLeader(Communicator* control, engine::Generator* generator,
                             absl::Duration keep_alive)
    : generator_(generator), leader_(control, keep_alive) {
  generator_->SetAnnounce([this](std::vector<GeneratorCall> calls) {
    engine::NumberWriter writer;
    for (GeneratorCall& call : calls) Code(writer, call);
    const absl::Status said = leader_.Say(writer.numbers);
    if (!said.ok()) throw CollectiveError(said);
  });
}

ReplicaLeader::~ReplicaLeader() { End().IgnoreError(); }

absl::Status ReplicaLeader::End() {
  const absl::Status status = leader_.End();
  generator_->SetAnnounce(nullptr);
  return status;
}

ReplicaFollower::ReplicaFollower(Communicator* control, engine::Generator* generator)
    : control_(control), generator_(generator), thread_([this] {
        try {
          status_ = Follow();
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
  absl::Status lost;  // Set when a step finds a lost rank. The leader finds it too, and ends.
  while (true) {
    BATON_ASSIGN_OR_RETURN(auto words, engine::ReceiveFromLeader(*control_, leaving_));
    if (!words.has_value()) return lost;
    for (engine::NumberReader reader(*std::move(words)); !reader.done();) {
      GeneratorCall call;
      Code(reader, call);
      BATON_RETURN_IF_ERROR(Repeat(std::move(call), *generator_));
    }
    const absl::Status stepped = generator_->Step().status();
    if (absl::IsUnavailable(stepped) || absl::IsDeadlineExceeded(stepped)) lost = stepped;
  }
}

}  // namespace baton::hybrid

#include "workers/policy/weights_publisher.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "relay/segment/checksum.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/communicator.h"
#include "workers/engine/model/weights_io.h"

namespace baton::policy {
namespace {

constexpr int kTries = 3;          // a relay may be started again between Begin and Seal
constexpr int kMostGathered = 64;  // versions between two tries to write by all ranks
constexpr absl::Duration kKeepAlive = absl::Seconds(2);

/// The first rank's message about a version that it has begun: how it is written, then the segment
/// and its path, with a space between them.
constexpr int64_t kOwnBoxes = 0;
constexpr int64_t kGathered = 1;

std::vector<int64_t> ToWords(bool gathers, const relay::SegmentPlace& place) {
  std::vector<int64_t> words = {gathers ? kGathered : kOwnBoxes};
  words.insert(words.end(), place.segment_id.begin(), place.segment_id.end());
  words.push_back(' ');
  words.insert(words.end(), place.path.begin(), place.path.end());
  return words;
}

relay::SegmentPlace PlaceOf(const std::vector<int64_t>& words) {
  const auto space = std::find(words.begin() + 1, words.end(), ' ');
  return {std::string(words.begin() + 1, space), std::string(space + 1, words.end())};
}

}  // namespace

absl::Status WeightsPublisher::Publish(const Publication& what,
                                       const absl::Notification& cancelled) {
  if (broken_) return absl::UnavailableError("the ranks lost each other in an earlier version");
  BATON_ASSIGN_OR_RETURN(layout_, engine::ModelLayout(*model_, dtype_));
  const engine::Communicator* group = model_->tensor_group();
  return group == nullptr || group->rank() == 0 ? Lead(what, cancelled) : Follow(what);
}

std::unique_ptr<engine::GroupLeader> WeightsPublisher::StartLeading() const {
  if (model_->tensor_group() == nullptr || broken_) return nullptr;
  return std::make_unique<engine::GroupLeader>(model_->tensor_group(), kKeepAlive);
}

absl::Status WeightsPublisher::Lead(const Publication& what, const absl::Notification& cancelled) {
  std::unique_ptr<engine::GroupLeader> leader = StartLeading();
  gathers_ = gathered_left_ > 0;
  if (gathers_) --gathered_left_;
  absl::Status status;
  for (int tries = 0; tries < kTries; ++tries) {
    status = LeadOnce(what, cancelled, leader);
    if (!absl::IsNotFound(status)) break;
  }
  return status;  // the leader's end tells the others that it is over
}

absl::Status WeightsPublisher::LeadOnce(const Publication& what,
                                        const absl::Notification& cancelled,
                                        std::unique_ptr<engine::GroupLeader>& leader) {
  const int writers = leader == nullptr || gathers_ ? 1 : model_->tensor_group()->size();
  absl::StatusOr<Writer> writer = relay_->Begin(what, layout_, writers, cancelled);
  BATON_RETURN_IF_ERROR(writer.status());
  if (leader != nullptr) {
    BATON_RETURN_IF_ERROR(leader->Say(ToWords(gathers_, (*writer)->place())));
    // The group is needed to write; nobody waits for a word meanwhile.
    BATON_RETURN_IF_ERROR(leader->End());
  }
  const absl::Status written = gathers_ ? WriteGathered(*writer) : WriteOwnBoxes(writer);
  leader = StartLeading();
  BATON_RETURN_IF_ERROR(written);
  return relay_->Seal(**writer, cancelled);
}

absl::Status WeightsPublisher::Follow(const Publication& what) {
  const std::atomic<bool> stays{false};
  absl::Status status;
  while (!broken_) {
    BATON_ASSIGN_OR_RETURN(const auto words,
                           engine::ReceiveFromLeader(*model_->tensor_group(), stays));
    if (!words.has_value()) {
      // A version is begun again after NotFound. How that ended, the first rank says.
      return absl::IsNotFound(status) ? absl::OkStatus() : status;
    }
    BATON_RETURN_IF_ERROR(engine::ReceiveFromLeader(*model_->tensor_group(), stays).status());
    status = words->at(0) == kGathered
                 ? WriteGathered(nullptr)
                 : WriteOwnBoxes(relay_->Join(what, PlaceOf(*words), layout_));
  }
  return status;
}

absl::Status WeightsPublisher::WriteOwnBoxes(const absl::StatusOr<Writer>& writer) {
  const absl::Status reached = OfAllRanks(writer.status());
  if (broken_) return reached;
  if (!reached.ok()) {
    GatherFromNow(reached);
    return absl::NotFoundError(
        absl::StrCat("not all ranks reach the version's memory: ", reached.message()));
  }
  const engine::Communicator* group = model_->tensor_group();
  const int rank = group == nullptr ? 0 : group->rank();
  const absl::Status written = WriteAndCommit(**writer, rank);
  const absl::Status all = OfAllRanks(written);
  if (all.ok()) gathered_at_once_ = 1;
  // Another rank maps the memory and speaks to another relay, or none.
  if (written.ok() && absl::IsNotFound(all)) GatherFromNow(all);
  return all;
}

absl::Status WeightsPublisher::WriteAndCommit(relay::SegmentWriter& writer, int rank) {
  BATON_ASSIGN_OR_RETURN(const auto view, relay::SafetensorsView::Parse(writer.bytes()));
  relay::BoxDigests digests(&view);
  BATON_RETURN_IF_ERROR(engine::WriteModelBoxes(
      *model_, layout_, writer.bytes(),
      [&](const relay::TensorBox& box, const relay::Box& part) { return digests.Add(box, part); }));
  return relay_->Commit(writer, rank, digests.Take());
}

void WeightsPublisher::GatherFromNow(const absl::Status& reason) {
  gathers_ = true;
  gathered_left_ = gathered_at_once_;
  gathered_at_once_ = std::min(2 * gathered_at_once_, kMostGathered);
  baton::Log(
      LogLevel::kWarn,
      "some rank cannot write into the relay's memory; the first rank gathers the model and "
      "writes alone, which takes longer",
      {{"reason", std::string(reason.message())}, {"versions", absl::StrCat(gathered_left_)}});
}

absl::Status WeightsPublisher::WriteGathered(const Writer& writer) {
  const absl::Span<uint8_t> out = writer == nullptr ? absl::Span<uint8_t>() : writer->bytes();
  const absl::Status written = engine::WriteGatheredModel(*model_, layout_, out);
  // At a rank that does not write, nothing but a collective can fail.
  broken_ = !written.ok() && (writer == nullptr || absl::IsUnavailable(written) ||
                              absl::IsDeadlineExceeded(written));
  if (!written.ok() || writer == nullptr) return written;
  BATON_ASSIGN_OR_RETURN(const auto view, relay::SafetensorsView::Parse(writer->bytes()));
  BATON_ASSIGN_OR_RETURN(const auto digests,
                         relay::DigestBoxes(view, relay::WholeTensors(layout_.entries())));
  return relay_->Commit(*writer, 0, digests);
}

absl::Status WeightsPublisher::OfAllRanks(const absl::Status& mine) {
  engine::Communicator* group = model_->tensor_group();
  if (group == nullptr) return mine;
  const torch::Tensor code = torch::full({1}, static_cast<int64_t>(mine.code()), torch::kInt64);
  const torch::Tensor codes = torch::empty({group->size()}, torch::kInt64);
  try {
    group->AllGather(code, codes);
  } catch (const engine::CollectiveError& error) {
    broken_ = true;
    return error.status();
  }
  if (!mine.ok()) return mine;
  for (int rank = 0; rank < group->size(); ++rank) {
    const auto other = static_cast<absl::StatusCode>(codes[rank].item<int64_t>());
    if (other != absl::StatusCode::kOk) {
      return absl::Status(other, absl::StrCat("rank ", rank,
                                              " could not write its part of the version; its log "
                                              "says why. All ranks need the same relay"));
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::policy

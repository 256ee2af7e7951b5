#include "controller/runtime/payloads/batch_part.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

/// The scores from which the sign of a sequence is read (workers/policy/sequences.h).
constexpr const char* kHeaderScores[] = {"accuracy", "reward"};

/// Elements of a column of 32-bit values; 0: there is none.
uint32_t ElementsOf(const v1::Trajectory& trajectory, absl::string_view name) {
  for (const v1::Column& column : trajectory.columns()) {
    if (column.name() == name) return static_cast<uint32_t>(column.data().size() / 4);
  }
  return 0;
}

/// True if the segments give the lengths of prompt and response.
bool SegmentsTellLengths(const v1::Trajectory& payload) {
  uint32_t prompt = 0, end = 0;
  for (const v1::Segment& segment : payload.segments()) {
    if (segment.kind() == v1::Segment::KIND_PROMPT) prompt = segment.end();
    end = std::max(end, segment.end());
  }
  const uint32_t prompt_tokens = ElementsOf(payload, "prompt_tokens");
  return prompt == prompt_tokens && end == prompt_tokens + ElementsOf(payload, "tokens");
}

/// Adds the scores of `from` from which the sign of a sequence is read.
void AddHeaderScores(const v1::Trajectory& from, v1::Trajectory* header) {
  for (const char* name : kHeaderScores) {
    const auto score = from.scores().find(name);
    if (score != from.scores().end()) (*header->mutable_scores())[name] = score->second;
  }
}

absl::Status OutOfRange(absl::string_view what, size_t size) {
  return MakeError(absl::StatusCode::kOutOfRange, "BATCH_RANGE",
                   absl::StrCat(what, " in a batch of ", size));
}

absl::Status CheckRows(const v1::FetchBatchRequest& request, size_t size) {
  if (request.begin() != 0 || request.end() != 0) {
    return OutOfRange("rows and a range are asked for together", size);
  }
  int64_t before = -1;
  for (const int32_t row : request.rows()) {
    if (row <= before) return OutOfRange(absl::StrCat("row ", row, " follows ", before), size);
    before = row;
  }
  if (before < static_cast<int64_t>(size)) return absl::OkStatus();
  return OutOfRange(absl::StrCat("there is no row ", before), size);
}

}  // namespace

LoggedPayload::LoggedPayload(const TrajectoryInfo& info)
    : id(info.id), serial(info.serial), records({info.location}) {
  for (const auto& [node, location] : info.columns) records.push_back(location);
}

v1::Trajectory BatchEntry::Whole(v1::Trajectory whole) const {
  if (added != nullptr) whole.MergeFrom(added->Unpack());
  return whole;
}

std::optional<v1::Trajectory> HeaderOf(const v1::Trajectory& payload) {
  if (ElementsOf(payload, "tokens") == 0 || !SegmentsTellLengths(payload)) return std::nullopt;
  v1::Trajectory header;
  header.set_trajectory_id(payload.trajectory_id());
  header.set_purpose(payload.purpose());
  *header.mutable_segments() = payload.segments();
  AddHeaderScores(payload, &header);
  return header;
}

std::optional<v1::Trajectory> BatchEntry::Header() const {
  std::optional<v1::Trajectory> out;
  if (payload != nullptr) {
    out = HeaderOf(*payload);
  } else if (header != nullptr) {
    out = header->Unpack();
  }
  if (out.has_value()) AddHeaderScores(Added(), &*out);
  return out;
}

uint64_t BatchEntry::OwnBytes() const {
  const auto packed = [](const std::shared_ptr<const PackedPayload>& part) {
    return part == nullptr ? 0 : part->bytes() + sizeof(PackedPayload);
  };
  return packed(added) + packed(header) + (payload == nullptr ? 0 : payload->SpaceUsedLong()) +
         sizeof(BatchEntry) + logged.records.size() * sizeof(PayloadLocation);
}

absl::StatusOr<BatchPart> BatchPart::Of(std::shared_ptr<const BatchEntries> batch,
                                        const v1::FetchBatchRequest& request, BatchSource reader) {
  const auto size = static_cast<int32_t>(batch->size());
  BatchPart part;
  part.reader_ = std::move(reader);
  part.headers_ = request.view() == v1::FetchBatchRequest::VIEW_HEADERS;
  if (request.rows_size() > 0) {
    if (absl::Status checked = CheckRows(request, batch->size()); !checked.ok()) return checked;
    part.rows_.assign(request.rows().begin(), request.rows().end());
  } else {
    const int32_t end = request.end() == 0 ? size : request.end();
    if (request.begin() < 0 || request.begin() > end || end > size) {
      return MakeError(
          absl::StatusCode::kOutOfRange, "BATCH_RANGE",
          absl::StrCat("[", request.begin(), ", ", end, ") is not in a batch of ", size));
    }
    part.rows_.resize(static_cast<size_t>(end - request.begin()));
    std::iota(part.rows_.begin(), part.rows_.end(), request.begin());
  }
  part.batch_ = std::move(batch);
  return part;
}

std::optional<v1::Trajectory> BatchPart::TryAt(size_t i) const {
  const BatchEntry& entry = (*batch_)[static_cast<size_t>(rows_[i])];
  if (headers_) {
    std::optional<v1::Trajectory> header = entry.Header();
    if (header.has_value()) return header;
  }
  if (entry.payload != nullptr) return entry.Whole();
  const auto cached = entry.cached.lock();
  if (cached == nullptr) return std::nullopt;
  return entry.Whole(cached->Unpack());
}

absl::StatusOr<v1::Trajectory> BatchPart::At(size_t i) const {
  std::optional<v1::Trajectory> known = TryAt(i);
  if (known.has_value()) return *std::move(known);
  const BatchEntry& entry = (*batch_)[static_cast<size_t>(rows_[i])];
  BATON_ASSIGN_OR_RETURN(v1::Trajectory payload, reader_.read(entry.logged));
  return entry.Whole(std::move(payload));
}

void BatchPart::Post(std::function<void()> work) const {
  if (reader_.post == nullptr) return work();  // all of it is in memory
  reader_.post(std::move(work));
}

}  // namespace baton::controller

#include "relay/segment/segment_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/status_macros.h"

namespace baton::relay {
namespace {

constexpr int kMostBoxes = 64;  // of one tensor, by one rank
constexpr int kMostRanks = 4096;

}  // namespace

absl::StatusOr<SegmentTable::Begun> SegmentTable::Begin(const std::string& job, uint64_t version,
                                                        uint64_t size_bytes, int world_size,
                                                        bool fork) {
  BATON_RETURN_IF_ERROR(CheckBegin(job, version, size_bytes, world_size, fork).status());
  Begun begun;
  begun.retired = RetireUnsealed(job);
  if (fork) {
    for (auto& [id, record] : records_) {
      if (record.segment.job == job && record.segment.version >= version) {
        record.dropped = true;
      }
    }
    for (auto& segment : RetireSealed(job)) begun.retired.push_back(std::move(segment));
  }
  begun.segment_id = absl::StrCat(options_.id_prefix, "-", next_id_++);
  Record& record = records_[begun.segment_id];
  record.segment.segment_id = begun.segment_id;
  record.segment.job = job;
  record.segment.version = version;
  record.segment.size_bytes = size_bytes;
  record.segment.fork = fork;
  record.world_size = world_size;
  return begun;
}

absl::StatusOr<SegmentTable::Room> SegmentTable::CheckBegin(const std::string& job,
                                                            uint64_t version, uint64_t size_bytes,
                                                            int world_size, bool fork) const {
  if (job.empty()) return absl::InvalidArgumentError("job: empty");
  if (size_bytes == 0) return absl::InvalidArgumentError("size_bytes: 0");
  if (world_size < 1 || world_size > kMostRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("world_size: ", world_size, " is not in [1, ", kMostRanks, "]"));
  }
  const Record* newest = FindVersion(job, {});
  if (!fork && FindVersion(job, version) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("version ", version, " of ", job, " is sealed; publish a newer one"));
  }
  if (!fork && newest != nullptr && newest->segment.version > version) {
    return absl::FailedPreconditionError(
        absl::StrCat("version ", version, " of ", job, " is older than version ",
                     newest->segment.version, ", which is sealed; go back with fork"));
  }
  Room room;
  std::map<uint64_t, uint64_t> earlier;  // sizes by version
  for (const auto& [id, record] : records_) {
    const SealedSegment& segment = record.segment;
    if (segment.job != job) continue;
    const bool unsealed = record.state != State::kSealed;
    if (unsealed || (fork && segment.version >= version && segment.leases == 0)) {
      room.freed_bytes += segment.size_bytes;
    } else if (!record.dropped && segment.version < version) {
      earlier[segment.version] = segment.size_bytes;
    }
  }
  int kept = 0;
  for (auto it = earlier.rbegin(); it != earlier.rend() && kept < options_.keep; ++it, ++kept) {
    room.kept_bytes += it->second;
  }
  return room;
}

std::vector<RetiredSegment> SegmentTable::Keep(const std::string& job,
                                               const std::vector<uint64_t>& versions) {
  kept_[job] = {versions.begin(), versions.end()};
  return RetireSealed(job);
}

std::vector<uint64_t> SegmentTable::KeptOf(const std::string& job) const {
  const auto kept = kept_.find(job);
  if (kept == kept_.end()) return {};
  return {kept->second.begin(), kept->second.end()};
}

absl::Status SegmentTable::Open(const std::string& segment_id, const std::string& path,
                                const TensorShapes& tensors, absl::Time now) {
  BATON_ASSIGN_OR_RETURN(Record * record, Find(segment_id));
  record->opened = now;
  record->state = State::kWriting;
  record->segment.path = path;
  record->tensors = tensors;
  return absl::OkStatus();
}

void SegmentTable::Abandon(const std::string& segment_id) {
  const auto it = records_.find(segment_id);
  if (it != records_.end() && it->second.state != State::kSealed) records_.erase(it);
}

absl::Status SegmentTable::Commit(const std::string& segment_id, int rank,
                                  absl::Span<const TensorDigest> tensors) {
  BATON_ASSIGN_OR_RETURN(Record * record, Find(segment_id));
  if (record->state != State::kWriting) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", segment_id, " is not being written"));
  }
  if (rank < 0 || rank >= record->world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank: ", rank, " is not in [0, ", record->world_size, ")"));
  }
  std::set<std::pair<std::string, std::vector<int64_t>>> named;  // begin and end in one
  std::map<std::string, int64_t> elements;                       // of all boxes of a tensor
  std::map<std::string, int> boxes;
  for (const TensorDigest& tensor : tensors) {
    const auto it = record->tensors.find(tensor.name);
    if (it == record->tensors.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors: \"", tensor.name, "\" is not in the segment's header"));
    }
    if (!tensor.whole() && !tensor.box.FitsIn(it->second)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors: ", tensor.box.ToString(), " is outside of \"", tensor.name, "\""));
    }
    // Seal reads every box, so a rank names no element twice.
    std::vector<int64_t> corners = tensor.box.begin;
    corners.insert(corners.end(), tensor.box.end.begin(), tensor.box.end.end());
    const int64_t all = Box::Full(it->second).volume();
    int64_t& sum = elements[tensor.name];
    sum += tensor.whole() ? all : tensor.box.volume();
    // Seal compares the boxes of a tensor with each other.
    if (++boxes[tensor.name] > kMostBoxes) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors: more than ", kMostBoxes, " boxes of \"", tensor.name, "\""));
    }
    const bool again = !named.emplace(tensor.name, std::move(corners)).second;
    if (again || sum > all) {
      return absl::InvalidArgumentError(absl::StrCat("tensors: elements of \"", tensor.name,
                                                     "\" are named twice",
                                                     again ? ", by the same box" : ""));
    }
  }
  record->commits[rank].assign(tensors.begin(), tensors.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorDigest>> SegmentTable::StartSeal(const std::string& segment_id) {
  BATON_ASSIGN_OR_RETURN(Record * record, Find(segment_id));
  if (record->state == State::kSealing) {
    return absl::UnavailableError(absl::StrCat("segment ", segment_id, " is being sealed"));
  }
  if (record->state != State::kWriting) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", segment_id, " is not being written"));
  }
  std::vector<TensorDigest> merged;
  BATON_RETURN_IF_ERROR(CheckCommits(*record, &merged));
  record->state = State::kSealing;
  return merged;
}

absl::StatusOr<std::vector<RetiredSegment>> SegmentTable::FinishSeal(
    const std::string& segment_id) {
  BATON_ASSIGN_OR_RETURN(Record * record, Find(segment_id));
  if (record->state != State::kSealing) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", segment_id, " is not being sealed"));
  }
  BATON_RETURN_IF_ERROR(CheckCommits(*record, &record->segment.tensors));
  record->state = State::kSealed;
  record->commits.clear();
  return RetireSealed(record->segment.job);
}

void SegmentTable::AbortSeal(const std::string& segment_id) {
  const auto it = records_.find(segment_id);
  if (it != records_.end() && it->second.state == State::kSealing) {
    it->second.state = State::kWriting;
  }
}

std::optional<std::string> SegmentTable::JobOf(const std::string& segment_id) const {
  const auto it = records_.find(segment_id);
  if (it == records_.end()) return {};
  return it->second.segment.job;
}

std::optional<SealedSegment> SegmentTable::FindSealed(const std::string& segment_id) const {
  const auto it = records_.find(segment_id);
  if (it == records_.end() || it->second.state != State::kSealed) return {};
  return it->second.segment;
}

absl::StatusOr<SegmentTable::Lease> SegmentTable::Acquire(const std::string& job,
                                                          std::optional<uint64_t> version,
                                                          const std::string& holder,
                                                          absl::Duration ttl, absl::Time now) {
  if (ttl <= absl::ZeroDuration()) return absl::InvalidArgumentError("ttl: not above 0");
  const Record* found = FindVersion(job, version);
  if (found == nullptr) {
    std::vector<uint64_t> have;
    for (const SealedSegment& segment : List(job)) have.push_back(segment.version);
    return absl::NotFoundError(
        absl::StrCat("this relay has no ", version ? absl::StrCat("version ", *version) : "version",
                     " of ", job.empty() ? "a job without name" : job, "; it has ",
                     have.empty() ? "none of that job: if the job's trainer is on another machine, "
                                    "start baton-relay with --controller on each machine"
                                  : absl::StrJoin(have, ", ")));
  }
  Record& record = records_.at(found->segment.segment_id);
  ++record.segment.leases;
  Lease lease{absl::StrCat(options_.id_prefix, "-lease-", next_id_++), record.segment};
  leases_[lease.lease_id] = {record.segment.segment_id, holder, now + ttl};
  return lease;
}

absl::StatusOr<std::vector<RetiredSegment>> SegmentTable::Release(const std::string& lease_id) {
  const auto it = leases_.find(lease_id);
  if (it == leases_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no lease ", lease_id, ", or it has ended"));
  }
  Record& record = records_.at(it->second.segment_id);
  --record.segment.leases;
  leases_.erase(it);
  return RetireSealed(record.segment.job);
}

std::vector<RetiredSegment> SegmentTable::Drop(const std::string& segment_id) {
  const auto it = records_.find(segment_id);
  if (it == records_.end()) return {};
  if (it->second.state != State::kSealed) {
    records_.erase(it);
    return {{segment_id, /*recyclable=*/false}};  // The segment's writer may be alive.
  }
  it->second.dropped = true;
  return RetireSealed(it->second.segment.job);
}

std::vector<RetiredSegment> SegmentTable::Expire(absl::Time now) {
  std::set<std::string> jobs;
  for (auto it = leases_.begin(); it != leases_.end();) {
    if (it->second.expiry > now) {
      ++it;
      continue;
    }
    Record& record = records_.at(it->second.segment_id);
    --record.segment.leases;
    record.lease_expired = true;
    jobs.insert(record.segment.job);
    it = leases_.erase(it);
  }
  std::vector<RetiredSegment> retired;
  for (auto it = records_.begin(); it != records_.end();) {
    const Record& record = it->second;
    if (record.state != State::kWriting || record.opened + options_.unsealed_ttl > now) {
      ++it;
      continue;
    }
    retired.push_back({it->first, /*recyclable=*/false});  // The segment's writer may be alive.
    it = records_.erase(it);
  }
  for (const std::string& job : jobs) {
    for (auto& segment : RetireSealed(job)) retired.push_back(std::move(segment));
  }
  return retired;
}

std::optional<absl::Time> SegmentTable::NextExpiry() const {
  std::optional<absl::Time> next;
  for (const auto& [id, record] : records_) {
    if (record.state != State::kWriting) continue;
    const absl::Time expiry = record.opened + options_.unsealed_ttl;
    if (!next || expiry < *next) next = expiry;
  }
  for (const auto& [id, lease] : leases_) {
    if (!next || lease.expiry < *next) next = lease.expiry;
  }
  return next;
}

std::vector<SealedSegment> SegmentTable::List(const std::string& job) const {
  std::vector<SealedSegment> out;
  for (const auto& [id, record] : records_) {
    if (record.state != State::kSealed || record.dropped) continue;
    if (job.empty() || record.segment.job == job) out.push_back(record.segment);
  }
  std::sort(out.begin(), out.end(), [](const SealedSegment& a, const SealedSegment& b) {
    return std::tie(a.job, a.version) < std::tie(b.job, b.version);
  });
  return out;
}

absl::StatusOr<SegmentTable::Record*> SegmentTable::Find(const std::string& segment_id) {
  const auto it = records_.find(segment_id);
  if (it == records_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no segment ", segment_id,
                                            ", or a later Begin of its job has replaced it"));
  }
  return &it->second;
}

absl::Status SegmentTable::CheckCommits(const Record& record,
                                        std::vector<TensorDigest>* merged) const {
  std::map<std::string, std::vector<TensorDigest>> digests;  // of each tensor, by box
  for (int rank = 0; rank < record.world_size; ++rank) {
    const auto it = record.commits.find(rank);
    if (it == record.commits.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " of ", record.world_size, " has not committed"));
    }
    for (const TensorDigest& tensor : it->second) {
      std::vector<TensorDigest>& known = digests[tensor.name];
      const auto same = std::find_if(known.begin(), known.end(), [&](const TensorDigest& other) {
        return other.box == tensor.box;
      });
      if (same == known.end()) {
        known.push_back(tensor);
      } else if (same->xxh3 != tensor.xxh3) {
        return absl::FailedPreconditionError(
            absl::StrCat("two ranks give tensor \"", tensor.name, "\" different checksums"));
      }
    }
  }
  merged->clear();
  for (const auto& [name, shape] : record.tensors) {
    const std::vector<TensorDigest>& known = digests[name];
    const std::vector<Box> missing = Undigested(shape, known);
    if (known.empty() || !missing.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "no rank has committed ", missing.empty() ? "" : missing[0].ToString() + " of ",
          "tensor \"", name, "\""));
    }
    merged->insert(merged->end(), known.begin(), known.end());
  }
  return absl::OkStatus();
}

const SegmentTable::Record* SegmentTable::FindVersion(const std::string& job,
                                                      std::optional<uint64_t> version) const {
  const Record* found = nullptr;
  for (const auto& [id, record] : records_) {
    if (record.state != State::kSealed || record.dropped || record.segment.job != job) continue;
    if (version && record.segment.version != *version) continue;
    if (found == nullptr || record.segment.version > found->segment.version) found = &record;
  }
  return found;
}

std::vector<RetiredSegment> SegmentTable::RetireUnsealed(const std::string& job) {
  std::vector<RetiredSegment> retired;
  for (auto it = records_.begin(); it != records_.end();) {
    if (it->second.segment.job != job || it->second.state == State::kSealed) {
      ++it;
      continue;
    }
    retired.push_back({it->first, /*recyclable=*/false});  // The segment's writer may be alive.
    it = records_.erase(it);
  }
  return retired;
}

std::vector<RetiredSegment> SegmentTable::RetireSealed(const std::string& job) {
  std::vector<std::pair<uint64_t, std::string>> sealed;
  std::vector<std::string> gone;
  for (const auto& [id, record] : records_) {
    if (record.segment.job != job || record.state != State::kSealed) continue;
    if (record.dropped) {
      gone.push_back(id);
    } else {
      sealed.emplace_back(record.segment.version, id);
    }
  }
  std::sort(sealed.begin(), sealed.end());
  const size_t keep = static_cast<size_t>(std::max(options_.keep, 1));
  const auto kept = kept_.find(job);
  for (size_t i = 0; i + keep < sealed.size(); ++i) {
    const auto& [version, id] = sealed[i];
    const bool asked_for = kept != kept_.end() && kept->second.count(version) > 0;
    if (!asked_for) gone.push_back(id);
  }
  if (sealed.empty() && kept != kept_.end()) kept_.erase(kept);
  std::vector<RetiredSegment> retired;
  for (const std::string& id : gone) {
    const Record& record = records_.at(id);
    if (record.segment.leases > 0) continue;
    retired.push_back({id, !record.lease_expired});
    records_.erase(id);
  }
  return retired;
}

}  // namespace baton::relay

#include "controller/api/backup_reactor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "sdk/common/rpc/error.h"

namespace baton::api {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;
constexpr size_t kMostNamed = 200;  // a message has a limit, and a path up to 4 KiB

void AddLines(const std::vector<std::string>& lines,
              google::protobuf::RepeatedPtrField<std::string>* to) {
  const size_t named = std::min(lines.size(), kMostNamed);
  for (size_t i = 0; i < named; ++i) *to->Add() = lines[i];
  if (named < lines.size()) *to->Add() = absl::StrCat("… and ", lines.size() - named, " more");
}

}  // namespace

BackupReactor::BackupReactor(controller::ControllerInterface* controller,
                             boost::asio::thread_pool* files,
                             std::function<void(const absl::Status&)> ended)
    : files_(files), ended_(std::move(ended)) {
  controller->Backup([this](absl::StatusOr<std::shared_ptr<controller::BackupFiles>> set) {
    if (!set.ok()) return End(set.status());
    boost::asio::post(*files_, [this, set = *std::move(set)]() mutable {
      set_ = std::move(set);
      damaged_ = set_->damaged();
      Next();
    });
  });
}

BackupReactor::BackupReactor(const absl::Status& refusal) : files_(nullptr) {
  Finish(ToGrpc(refusal));
}

void BackupReactor::End(const absl::Status& status) {
  if (ended_) ended_(status);
  Finish(ToGrpc(status));
}

void BackupReactor::Next() {
  if (last_sent_) return End(absl::OkStatus());
  if (const absl::Status status = Fill(); !status.ok()) return End(status);
  StartWrite(&message_);
}

absl::Status BackupReactor::Fill() {
  message_.Clear();
  while (left_ == 0 && next_ < set_->files().size()) {
    const controller::BackupFile& file = set_->files()[next_++];
    in_ = std::ifstream(file.place, std::ios::binary);
    if (!in_) {
      skipped_.push_back(file.path);
      continue;
    }
    message_.set_path(file.path);
    message_.set_size_bytes(file.size_bytes);
    left_ = file.size_bytes;
    hasher_ = {};
    break;  // an empty file is a message as well
  }
  if (left_ == 0 && message_.path().empty()) {
    AddLines(skipped_, message_.mutable_skipped());
    AddLines(damaged_, message_.mutable_damaged());
    last_sent_ = true;
    return absl::OkStatus();
  }
  const controller::BackupFile& file = set_->files()[next_ - 1];
  const int64_t piece = std::min(left_, kPieceBytes);
  std::string* data = message_.mutable_data();
  data->resize(static_cast<size_t>(piece));
  in_.read(data->data(), static_cast<std::streamsize>(piece));
  if (in_.gcount() != piece) {
    return absl::DataLossError(absl::StrCat("file ", file.path,
                                            in_.bad() ? " cannot be read: the disk reports an error"
                                                      : " became shorter while it was read"));
  }
  left_ -= piece;
  if (!file.xxh3.empty()) {
    hasher_.Add(data->data(), data->size());
    if (left_ == 0 && hasher_.Digest() != file.xxh3) {
      damaged_.push_back(absl::StrCat(file.path, " has XXH3 ", hasher_.Digest(),
                                      ", and its files.json says ", file.xxh3));
    }
  }
  return absl::OkStatus();
}

void BackupReactor::OnWriteDone(bool ok) {
  if (!ok) return End(absl::CancelledError("the caller is gone"));
  boost::asio::post(*files_, [this] { Next(); });
}

void BackupReactor::OnDone() {
  if (files_ != nullptr) boost::asio::post(*files_, [set = std::move(set_)] {});
  delete this;
}

}  // namespace baton::api

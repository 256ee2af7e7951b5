#include "bench/relay/local_rows.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "relay/client/relay_client.h"
#include "relay/segment/checksum.h"
#include "relay/server/relay_server.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/common/base/clock.h"

namespace baton::bench {
namespace {

constexpr int64_t kTensorBytes = 64 << 20;
constexpr int64_t kPartBytes = 256 << 10;  // as workers/engine/model/weights_io.cc copies a model
constexpr char kLocalJob[] = "bench";

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "relay bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename Value>
Value OrDie(absl::StatusOr<Value> value) {
  if (!value.ok()) Die(value.status());
  return *std::move(value);
}

void OrDie(const absl::Status& status) {
  if (!status.ok()) Die(status);
}

/// A relay of this process, and its client.
class LocalRelay {
 public:
  LocalRelay() {
    char folder[] = "/dev/shm/baton-bench-XXXXXX";
    if (mkdtemp(folder) == nullptr) Die(absl::InternalError("/dev/shm: no folder can be made"));
    folder_ = folder;
    relay::RelayServerOptions options;
    options.listen = "127.0.0.1:0";
    options.relay.pool.directory = folder_;
    server_ = OrDie(relay::RelayServer::Start(std::move(options)));
    relay::RelayClientOptions client;
    client.address = server_->address();
    client_ = OrDie(relay::RelayClient::Create(std::move(client)));
  }
  ~LocalRelay() {
    client_ = nullptr;
    server_ = nullptr;
    std::filesystem::remove_all(folder_);
  }
  const relay::RelayClient& client() const { return *client_; }

 private:
  std::string folder_;
  std::unique_ptr<relay::RelayServer> server_;
  std::unique_ptr<relay::RelayClient> client_;
};

relay::SafetensorsLayout LayoutOf(int64_t bytes) {
  std::vector<relay::TensorSpec> tensors;
  for (int64_t left = bytes; left > 0; left -= kTensorBytes) {
    tensors.push_back(
        {absl::StrCat("w", tensors.size()), relay::DType::kU8, {std::min(left, kTensorBytes)}});
  }
  return OrDie(relay::SafetensorsLayout::Create(std::move(tensors)));
}

struct PublishTimes {
  absl::Duration stall;    ///< From Begin to Commit: the trainer waits.
  absl::Duration visible;  ///< From Begin to Seal.
};

/// `weights`: the bytes of the version's data.
PublishTimes Publish(const relay::RelayClient& client, const relay::SafetensorsLayout& layout,
                     uint64_t version, const std::vector<uint8_t>& weights) {
  relay::PublishOptions options;
  options.job = kLocalJob;
  options.policy_version = version;
  options.header = layout.header();
  options.size_bytes = layout.file_size();
  const absl::Time begun = BootNow();
  const auto writer = OrDie(client.Begin(options));
  {
    const auto view = OrDie(relay::SafetensorsView::Parse(writer->bytes()));
    relay::BoxDigests digests(&view);
    for (const relay::TensorEntry& entry : layout.entries()) {
      const relay::TensorBox box = {entry.name, relay::Box::Full(entry.shape)};
      uint8_t* const out = layout.Slot(writer->bytes(), entry).data();
      for (int64_t at = 0; at < entry.size_bytes(); at += kPartBytes) {
        const int64_t end = std::min(at + kPartBytes, entry.size_bytes());
        std::memcpy(out + at, weights.data() + entry.begin + at, static_cast<size_t>(end - at));
        OrDie(digests.Add(box, {{at}, {end}}));
      }
    }
    OrDie(writer->Commit(0, digests.Take()));
  }
  PublishTimes times;
  times.stall = BootNow() - begun;
  OrDie(writer->Seal().status());
  times.visible = BootNow() - begun;
  return times;
}

}  // namespace

void AddLocalRows(int64_t bytes, int repeats, Report* report) {
  const LocalRelay relay;
  const relay::SafetensorsLayout layout = LayoutOf(bytes);
  std::vector<uint8_t> weights(static_cast<size_t>(bytes)), copy(weights.size());
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<uint8_t>(i * 2654435761u >> 7);
  const auto memcpy_seconds = [&] {
    const absl::Time begun = BootNow();
    std::memcpy(copy.data(), weights.data(), weights.size());
    return absl::ToDoubleSeconds(BootNow() - begun);
  };
  memcpy_seconds();  // faults the memory in
  std::vector<double> stall, visible, load, copied;
  double first_stall = 0;
  // Two versions are kept, so that from the fourth one on memory is used again.
  for (int version = 1; version <= 4 + repeats; ++version) {
    const double seconds = memcpy_seconds();
    const PublishTimes times =
        Publish(relay.client(), layout, static_cast<uint64_t>(version), weights);
    relay::AcquireOptions acquire;
    acquire.job = kLocalJob;
    acquire.holder = "bench";
    const absl::Time begun = BootNow();
    {
      const auto leased = OrDie(relay.client().Acquire(acquire));
      std::memcpy(copy.data(), leased->bytes().data() + layout.data_offset(), copy.size());
    }
    const double loaded = absl::ToDoubleSeconds(BootNow() - begun);
    if (copy != weights) Die(absl::DataLossError("the version has other bytes"));
    if (version == 1) first_stall = absl::ToDoubleSeconds(times.stall) / seconds;
    if (version <= 4) continue;
    copied.push_back(seconds);
    stall.push_back(absl::ToDoubleSeconds(times.stall) / seconds);
    visible.push_back(absl::ToDoubleSeconds(times.visible) / seconds);
    load.push_back(loaded);
  }
  const auto gb_s = [&](const std::vector<double>& seconds) {
    return static_cast<double>(bytes) / Percentile(seconds, 0.5) * 1e-9;
  };
  report->Add("stall_over_memcpy", Percentile(stall, 0.5), "ratio", "aim: at most 1.3");
  report->Add("first_stall_over_memcpy", first_stall, "ratio", "memory that is new to the relay");
  report->Add("visible_over_memcpy", Percentile(visible, 0.5), "ratio", "");
  report->Add("memcpy_gb_s", gb_s(copied), "GB/s", "");
  report->Add("local_load_gb_s", gb_s(load), "GB/s", "verified, and copied out");
  report->Add("local_load_over_memcpy", gb_s(load) / gb_s(copied), "ratio", "aim: at least 0.8");
}

}  // namespace baton::bench

#include "sdk/planner/placement/device_catalogue.h"

namespace baton::placement {
namespace {

std::vector<Device> MakeKnownDevices() {
  std::vector<Device> out;
  // Per device: NVIDIA A100 data sheet (80GB SXM): BF16 312 TFLOP/s, FP32 19.5, 80 GB, 2,039 GB/s,
  // NVLink 600 GB/s both ways. Per node: one 200 Gb/s port; a DGX A100 has eight.
  out.push_back({"a100-80g", 312e12, 19.5e12, 80e9, 2039e9, 300e9, 25e9, 8,
                 "NVIDIA A100 80GB SXM data sheet; node: one 200 Gb/s port"});
  // H100 SXM data sheet: BF16 989 TFLOP/s dense (1,979 with sparsity), FP32 67, 80 GB, 3.35 TB/s,
  // NVLink 900 GB/s both ways. DGX H100 data sheet: eight 400 Gb/s ports.
  out.push_back({"h100", 989e12, 67e12, 80e9, 3350e9, 450e9, 400e9, 8,
                 "NVIDIA H100 SXM and DGX H100 data sheets"});
  // H200 SXM data sheet: as H100, with 141 GB and 4.8 TB/s. DGX H200: eight 400 Gb/s ports.
  out.push_back({"h200", 989e12, 67e12, 141e9, 4800e9, 450e9, 400e9, 8,
                 "NVIDIA H200 SXM and DGX H200 data sheets"});
  // L40S data sheet: BF16 362 TFLOP/s dense (733 with sparsity), FP32 91.6, 48 GB, 864 GB/s, PCIe
  // 4.0 x16 64 GB/s both ways, no NVLink. Per node: one 200 Gb/s port.
  out.push_back({"l40s", 362e12, 91.6e12, 48e9, 864e9, 32e9, 25e9, 8,
                 "NVIDIA L40S data sheet; node: one 200 Gb/s port"});
  // A socket with 40 cores at 2.3 GHz, two AVX-512 FMA units each: 64 FLOP a cycle; eight channels
  // of DDR4-3200; three UPI links of 11.2 GT/s (22.4 GB/s each way). No bf16. 256 GB and one
  // 25 Gb/s port are usual, not the vendor's.
  out.push_back({"cpu", 5.888e12, 5.888e12, 256e9, 204.8e9, 67.2e9, 3.125e9, 2,
                 "Intel Xeon Platinum 8380 specifications (ARK), a socket; node: 25 Gb/s"});
  return out;
}

}  // namespace

const std::vector<Device>& KnownDevices() {
  static const auto* const devices = new std::vector<Device>(MakeKnownDevices());
  return *devices;
}

const Device* FindDevice(const std::string& name) {
  for (const Device& device : KnownDevices()) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

}  // namespace baton::placement

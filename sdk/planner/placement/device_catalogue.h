// The capabilities of devices, from their vendors' data sheets.
#ifndef BATON_SDK_PLANNER_PLACEMENT_DEVICE_CATALOGUE_H_
#define BATON_SDK_PLANNER_PLACEMENT_DEVICE_CATALOGUE_H_

#include <string>
#include <vector>

namespace baton::placement {

/// Peak rates; the simulators scale them by what is reached in practice.
struct Device {
  std::string name;
  double bf16_flops = 0;        ///< Dense FLOP/s, no sparsity.
  double fp32_flops = 0;        ///< FLOP/s of float32 that is not rounded to TF32.
  double memory_bytes = 0;      ///< Memory of one device.
  double memory_bandwidth = 0;  ///< Bytes/s.
  double node_bandwidth = 0;    ///< Bytes/s that a device sends to others of its node.
  double network_bandwidth =
      0;  ///< Bytes/s that a *node* sends to others, all its devices together.
  int devices_per_node = 8;
  std::string source;  ///< Source of the numbers.
};

/// a100-80g, h100, h200, l40s, cpu.
const std::vector<Device>& KnownDevices();
const Device* FindDevice(const std::string& name);

}  // namespace baton::placement

#endif  // BATON_SDK_PLANNER_PLACEMENT_DEVICE_CATALOGUE_H_

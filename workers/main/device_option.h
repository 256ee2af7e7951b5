// The values of option `--device` of baton-worker.
#ifndef BATON_WORKERS_MAIN_DEVICE_OPTION_H_
#define BATON_WORKERS_MAIN_DEVICE_OPTION_H_

#include <string>

namespace baton {

/// Empty when this program computes on `device`; else why not, and what to do. The engine's code
/// runs on any device of libtorch, but no release of this program was tried on another than "cpu".
std::string DeviceProblem(const std::string& device);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_DEVICE_OPTION_H_

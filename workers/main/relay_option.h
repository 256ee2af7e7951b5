// The values of option `--relay` of baton-worker.
#ifndef BATON_WORKERS_MAIN_RELAY_OPTION_H_
#define BATON_WORKERS_MAIN_RELAY_OPTION_H_

#include <string>

namespace baton {

/// Empty when `relay` is host:port, with a port of 1 to 65535; else what is wrong. An IPv6 address
/// stands in brackets.
std::string RelayProblem(const std::string& relay);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_RELAY_OPTION_H_

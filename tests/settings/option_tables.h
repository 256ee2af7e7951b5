// The option tables of sdk/common/schema (.def files), as the settings of job_spec.proto have them.
#ifndef BATON_TESTS_SETTINGS_OPTION_TABLES_H_
#define BATON_TESTS_SETTINGS_OPTION_TABLES_H_

#include <string>
#include <vector>

namespace baton {

struct OptionTable {
  std::string path;  ///< From the root of the repository.
  std::string text;
};

/// The tables of losses, of advantage estimators and of the optimizer.
std::vector<OptionTable> OptionTables();

}  // namespace baton

#endif  // BATON_TESTS_SETTINGS_OPTION_TABLES_H_

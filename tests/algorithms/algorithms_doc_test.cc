// The option tables of docs/algorithms.md are made of sdk/common/schema's; the page names every
// estimator and loss that there is, and every metric that the estimators give.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "controller/algorithms/compute_advantages.h"
#include "sdk/common/schema/estimator_options.h"
#include "sdk/common/schema/loss_options.h"

namespace baton::algorithms {
namespace {

std::string PagePath() {
  const char* root = std::getenv("BATON_SOURCE_DIR");
  return absl::StrCat(root != nullptr ? root : ".", "/docs/algorithms.md");
}

std::string Page() {
  std::ifstream in(PagePath());
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << "docs/algorithms.md cannot be read";
  return text.str();
}

/// A set of estimators or losses that has a name: "all", "policy's".
struct NamedUsers {
  uint32_t users;
  std::string name;
};

std::string UsersText(uint32_t users, const std::vector<NamedUsers>& sets,
                      const std::vector<std::string>& names) {
  const uint32_t everyone = (1u << names.size()) - 1;
  for (const NamedUsers& set : sets) {
    if ((users & everyone) == set.users) return set.name;
  }
  std::vector<std::string> each;
  for (size_t i = 0; i < names.size(); ++i) {
    if ((users & (1u << i)) != 0) each.push_back(names[i]);
  }
  return absl::StrJoin(each, ", ");
}

std::string DefaultText(const OptionValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const double* number = std::get_if<double>(&value)) return NumberText(*number);
  const std::string& text = std::get<std::string>(value);
  return text.empty() ? "–" : text;
}

// The meaning of an absent option may depend on others: then its row says so.
bool DependsOnOthers(absl::string_view meaning) { return absl::StrContains(meaning, "Absent: "); }

std::string ValuesText(const Limits& limits) {
  return limits.choices.empty() ? BoundsText(limits.bounds) : absl::StrJoin(limits.choices, ", ");
}

template <class Spec>
std::string Markdown(const std::vector<OptionField<Spec>>& table,
                     const std::vector<NamedUsers>& sets, const std::vector<std::string>& names) {
  std::string out = "| option | default | values | of | |\n|---|---|---|---|---|\n";
  for (const auto& row : table) {
    const std::string value =
        DependsOnOthers(row.meaning) ? "see right" : DefaultText(DefaultOf(row));
    absl::StrAppend(&out, "| `", row.name, "` | ", value, " | ", ValuesText(row.limits), " | ",
                    UsersText(row.users, sets, names), " | ",
                    absl::StrReplaceAll(row.meaning, {{"|", "\\|"}}), " |\n");
  }
  return out;
}

std::string LossTable() {
  const uint32_t all = (1u << LossNames().size()) - 1;
  const uint32_t actor = all & ~UserBit(LossSpec::kValue);
  return Markdown(
      LossOptionTable(),
      {{all, "all"}, {actor, "actor's"}, {actor & ~UserBit(LossSpec::kSft), "policy's"}},
      LossNames());
}

std::string EstimatorTable() {
  const uint32_t all = (1u << EstimatorNames().size()) - 1;
  return Markdown(EstimatorOptionTable(),
                  {{all, "all"}, {all & ~UserBit(Estimator::kGiven), "not given"}},
                  EstimatorNames());
}

/// `page` with `table` between the marks of `what`.
std::string WithTable(const std::string& page, const std::string& what, const std::string& table) {
  const std::string mark = absl::StrCat("<!-- options of ", what, ": made by ./dev docs -->\n");
  const std::string end = "<!-- end -->\n";
  const size_t from = page.find(mark);
  const size_t to = page.find(end, from);
  EXPECT_NE(to, std::string::npos) << mark;
  if (to == std::string::npos) return page;
  return page.substr(0, from + mark.size()) + table + page.substr(to);
}

TEST(AlgorithmsDocTest, GoldenOptionTables) {
  const std::string page = Page();
  const std::string made =
      WithTable(WithTable(page, "losses", LossTable()), "estimators", EstimatorTable());
  if (std::getenv("BATON_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(PagePath()) << made;
  } else {
    EXPECT_TRUE(made == page) << "docs/algorithms.md has not the options of sdk/common/schema; run "
                                 "`./dev docs`";
  }
}

/// Lines that begin a row of a table about `name`: "| `name`".
bool HasRow(const std::string& page, const std::string& name) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const size_t place = line.find(absl::StrCat("`", name, "`"));
    if (line.rfind("| `", 0) == 0 && place < line.find('|', 2)) return true;
  }
  return false;
}

TEST(AlgorithmsDocTest, EveryNameHasARow) {
  const std::string page = Page();
  for (const std::string& name : EstimatorNames()) EXPECT_TRUE(HasRow(page, name)) << name;
  for (const std::string& name : LossNames()) EXPECT_TRUE(HasRow(page, name)) << name;
  EXPECT_FALSE(HasRow(page, "sigma"));
}

TEST(AlgorithmsDocTest, EveryMetricIsNamed) {
  const std::string page = Page();
  const std::vector<float> one = {1, 1};
  std::vector<Sample> samples(2);
  for (Sample& s : samples) {
    s.length = 2, s.cost = 1;
    s.log_probs = s.ref_log_probs = s.values = s.cost_values = one;
  }
  const auto spec = MakeEstimatorSpec("gae", {{"use_cost", true},
                                              {"use_kl_in_reward", true},
                                              {"overlong_buffer_len", 1.0},
                                              {"max_response_length", 2.0},
                                              {"flawed_positive_penalty", 1.0}});
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto out = ComputeAdvantages(samples, *spec, InitialState(*spec));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_GT(out->metrics.size(), 20u);
  for (const auto& metric : out->metrics) {
    std::string name = metric.first;
    for (const char* end : {"/mean", "/min", "/max"}) {
      const size_t place = name.rfind(end);
      if (name != "reward/overlong_penalty/mean" && place != std::string::npos) name.resize(place);
    }
    EXPECT_NE(page.find(absl::StrCat("`", name)), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace baton::algorithms

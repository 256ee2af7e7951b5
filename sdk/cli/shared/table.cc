#include "sdk/cli/shared/table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "sdk/common/base/utf8.h"

namespace baton::cli {

std::string Table::Format() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, row[i]);
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::string ShortNumber(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return absl::StrFormat("%.1fG", value / 1e9);
  if (size >= 1e6) return absl::StrFormat("%.1fM", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%.1fk", value / 1e3);
  if (size == std::floor(size)) return absl::StrFormat("%.0f", value);
  if (size >= 100) return absl::StrFormat("%.1f", value);
  if (size >= 0.001) return absl::StrFormat("%.3f", value);
  return absl::StrFormat("%.2g", value);
}

std::string ShortDuration(double seconds) {
  const auto total = static_cast<int64_t>(std::max(0.0, seconds));
  if (total < 60) return absl::StrFormat("%ds", total);
  if (total < 3600) return absl::StrFormat("%dm%02ds", total / 60, total % 60);
  return absl::StrFormat("%dh%02dm", total / 3600, total / 60 % 60);
}

std::string Plot(const std::vector<double>& values, int width, int height) {
  if (values.empty()) return "";
  // Columns are means of equal shares of the values.
  const int columns = std::min<int>(width, static_cast<int>(values.size()));
  std::vector<double> means;
  for (int c = 0; c < columns; ++c) {
    const size_t begin = values.size() * static_cast<size_t>(c) / static_cast<size_t>(columns);
    const size_t end = values.size() * static_cast<size_t>(c + 1) / static_cast<size_t>(columns);
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  const double low = *std::min_element(means.begin(), means.end());
  const double high = *std::max_element(means.begin(), means.end());
  const double span = high > low ? high - low : 1;
  static const char* const kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string out;
  for (int row = height - 1; row >= 0; --row) {
    const std::string label = row == height - 1 ? ShortNumber(high)
                              : row == 0        ? ShortNumber(low)
                                                : "";
    absl::StrAppendFormat(&out, "%8s ┤", label);
    for (double mean : means) {
      const double eighths = (mean - low) / span * height * 8 - row * 8;
      const int block = static_cast<int>(std::clamp(std::lround(eighths), 0l, 8l));
      out += row == 0 && block == 0 ? kBlocks[1] : kBlocks[block];
    }
    out += "\n";
  }
  return out;
}

std::string OneLine(const std::string& text, size_t width) {
  std::string line;
  size_t characters = 0;
  for (absl::string_view rest = text; !rest.empty();) {
    const Utf8Char next = ReadUtf8(rest);
    rest.remove_prefix(next.length);
    ++characters;
    if (characters > width) return line + "…";
    const char32_t c = next.code_point;
    const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);  // a terminal would obey it
    if (c == '\n') {
      line += "⏎";
    } else if (control) {
      line += ' ';
    } else {
      AppendUtf8(c, &line);
    }
  }
  return line;
}

std::string ForTerminal(const std::string& text) {
  return absl::StrJoin(
      absl::StrSplit(text, '\n'), "\n",
      [](std::string* out, absl::string_view line) { out->append(OneLine(std::string(line))); });
}

}  // namespace baton::cli

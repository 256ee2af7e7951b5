// Columns of text.
#ifndef BATON_SDK_CLI_SHARED_TABLE_H_
#define BATON_SDK_CLI_SHARED_TABLE_H_

#include <string>
#include <vector>

namespace baton::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Left-aligned, two spaces between columns, a line each.
  std::string Format() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// "1.5k", "3.2M", "0.87": at most five characters or so.
std::string ShortNumber(double value);
/// "2m05s", "1h03m", "12s".
std::string ShortDuration(double seconds);
/// A curve of `values` as lines of text: `height` rows, at most `width` columns, with a scale.
std::string Plot(const std::vector<double>& values, int width, int height);
/// Text on one line, cut to `width` characters. Control characters become spaces, and what is no
/// UTF-8 becomes U+FFFD: the text may be a model's, and the line goes to a terminal.
std::string OneLine(const std::string& text, size_t width = std::string::npos);
/// As above, but line feeds stay, such as an error of several lines.
std::string ForTerminal(const std::string& text);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SHARED_TABLE_H_

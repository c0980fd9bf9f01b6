#include "plan/csv.h"

#include <algorithm>

#include "base/utf8.h"

namespace knapsack {
namespace {

// Rows are looked through by regular expressions, whose depth is that of the text.
constexpr std::size_t most_bytes = 2048;
constexpr std::size_t most_columns = 128;
constexpr std::size_t most_rows = 100000;

class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }
  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  [[nodiscard]] std::int64_t line() const { return line_; }

  // The fields of a record; false: a quote does not end.
  bool record(std::vector<std::string>& fields) {
    fields.assign(1, {});
    bool quoted = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (quoted) {
        if (c != '"') {
          line_ += c == '\n' ? 1 : 0;
          fields.back() += c;
        } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
          fields.back() += text_[++at_];
        } else {
          quoted = false;
        }
      } else if (c == '"') {
        quoted = true;
      } else if (c == ',') {
        fields.emplace_back();
      } else if (c == '\n') {
        ++at_;
        ++line_;
        return true;
      } else if (c != '\r') {
        fields.back() += c;
      }
    }
    return !quoted;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace

Result<std::vector<CsvRow>> read_csv(std::string_view text, const std::string& origin) {
  if (!is_valid_utf8(text)) return bad_input("{}: expected text in UTF-8, found other bytes", origin);
  CsvReader reader(text);
  std::vector<std::string> header;
  if (reader.done()) return bad_input("{}: expected a header line, found an empty file", origin);
  if (!reader.record(header)) return bad_input("{}: line 1: a quote does not end", origin);
  if (header.size() > most_columns)
    return bad_input("{}: expected at most {} columns, found {}", origin, most_columns, header.size());
  for (std::size_t i = 0; i < header.size(); ++i)
    if (header[i].find('\0') != std::string::npos || std::count(header.begin(), header.end(), header[i]) > 1)
      return bad_input("{}: line 1: the column {} is there more than once, or no name", origin,
                       printable(header[i], 40));
  std::vector<CsvRow> rows;
  std::vector<std::string> fields;
  while (!reader.done()) {
    const std::int64_t line = reader.line();
    if (!reader.record(fields)) return bad_input("{}: line {}: a quote does not end", origin, line);
    if (fields.size() == 1 && fields.front().empty()) continue;
    if (fields.size() != header.size())
      return bad_input("{}: line {}: expected {} fields as in the header, found {}", origin, line, header.size(),
                       fields.size());
    if (rows.size() == most_rows) return bad_input("{}: expected at most {} rows, found more", origin, most_rows);
    CsvRow& row = rows.emplace_back();
    for (std::size_t i = 0; i < header.size(); ++i) {
      if (fields[i].size() > most_bytes)
        return bad_input("{}: line {}: a field has {} bytes; at most {} are read", origin, line, fields[i].size(),
                         most_bytes);
      row[header[i]] = std::move(fields[i]);
    }
  }
  return rows;
}

}  // namespace knapsack

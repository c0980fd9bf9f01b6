// README.md holds the table of golden models: largest logit error and whether greedy tokens match. The test makes
// it anew and compares; KNAPSACK_WRITE_GOLDEN_TABLE=1 writes it instead (errors differ a little from CPU to CPU, so
// only their being within the tolerance is compared).
#include <cstdlib>

#include "import/golden.h"

namespace knapsack::testing {
namespace {

struct Row {
  std::string name;
  double tolerance = 0;
  double error = 0;
  bool greedy = false;
  [[nodiscard]] std::string text() const {
    return fmt::format("| {} | {} | {:.1e} | {} |", name, tolerance == 1e-3 ? "1e-3" : "2e-4", error,
                       greedy ? "yes" : "NO");
  }
};

Row measure(const std::string& name) {
  const Golden golden = load_golden(name);
  const RunOptions options{.isa = supported_isas().back()};
  Row row{name, golden.tolerance, 0, false};
  Model a(golden.folder, static_cast<std::int64_t>(golden.ids_a.size()), options);
  Model b(golden.folder, static_cast<std::int64_t>(golden.ids_b.size()), options);
  row.error =
      std::max(max_error(a.logits(golden.ids_a), golden.logits_a), max_error(b.logits(golden.ids_b), golden.logits_b));
  Model c(golden.folder, static_cast<std::int64_t>(golden.greedy_prompt.size() + golden.greedy_tokens.size()), options);
  row.greedy = c.greedy(golden.greedy_prompt, golden.greedy_tokens.size()) == golden.greedy_tokens;
  return row;
}

TEST(GoldenTable, IsWhatTheModelsGive) {
  const std::string begin = "<!-- golden table: made by tests/import/table_test.cc -->\n";
  const std::string end = "<!-- end of the golden table -->";
  std::string table = begin +
                      "| model | tolerance | max abs logit error | greedy tokens equal |\n"
                      "|---|---|---|---|\n";
  std::vector<Row> rows;
  for (const std::string& name : golden_names()) {
    rows.push_back(measure(name));
    EXPECT_LE(rows.back().error, rows.back().tolerance) << name;
    EXPECT_TRUE(rows.back().greedy) << name;
    table += rows.back().text() + "\n";
  }
  table += end;

  const auto path = source_dir() / "README.md";
  std::string page = read_file(path);
  const std::size_t from = page.find(begin);
  const std::size_t to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  if (std::getenv("KNAPSACK_WRITE_GOLDEN_TABLE") != nullptr) {
    page.replace(from, to + end.size() - from, table);
    write_file(path, page);
    return;
  }
  const std::string written = page.substr(from, to - from);
  std::size_t lines = 0;
  for (const char c : written) lines += c == '\n' ? 1 : 0;
  EXPECT_EQ(lines, rows.size() + 3) << "README.md: run with KNAPSACK_WRITE_GOLDEN_TABLE=1 to renew the table";
  for (const Row& row : rows) {
    const std::size_t at = written.find(fmt::format("| {} | ", row.name));
    ASSERT_NE(at, std::string::npos) << row.name << " is not in README.md";
    const std::string line = written.substr(at, written.find('\n', at) - at);
    char error[32] = {};
    char greedy[8] = {};
    const std::string format = fmt::format("| {} | %*s | %31s | %7s |", row.name);
    ASSERT_EQ(std::sscanf(line.c_str(), format.c_str(), error, greedy), 2) << line;  // NOLINT(cert-err34-c)
    EXPECT_LE(std::strtod(error, nullptr), row.tolerance) << line;
    EXPECT_STREQ(greedy, "yes") << line;
  }
}

}  // namespace
}  // namespace knapsack::testing

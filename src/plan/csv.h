// Tables as comma-separated text (RFC 4180): quoted fields, a header line. Not for writing them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace knapsack {

using CsvRow = std::map<std::string, std::string, std::less<>>;

// One map a row, by the header's names. Rows of another width than the header and quotes that do not end are errors
// that name the line.
Result<std::vector<CsvRow>> read_csv(std::string_view text, const std::string& origin);

}  // namespace knapsack

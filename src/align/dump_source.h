// Values made elsewhere (files/npz.h) as something to align. They cannot be replayed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "align/source.h"
#include "files/npz.h"

namespace knapsack {

struct Dump {
  std::unique_ptr<Source> source;
  std::vector<std::int32_t> ids;  // the array `ids`; empty where there is none
};
// Every array of floats must have as many rows as there are ids, or as the others have.
Result<Dump> dump_source(NpzFile file, const std::string& label);

}  // namespace knapsack

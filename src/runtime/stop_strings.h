// Finds stop strings in text that comes in pieces, and holds back what could still become one. The result does not
// depend on how the text was cut: the first stop string to be complete wins, the longest if several are at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace knapsack {

class StopStrings {
 public:
  // stops: not empty strings, whole characters.
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Appends to `out` what is now certain to be text. True: a stop string is complete; nothing may follow.
  bool push(std::string_view text, std::string& out);
  // The end of the text: appends what was held back.
  void finish(std::string& out);

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace knapsack

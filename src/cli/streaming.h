// A completion on its way to standard output; the first failure to write stops the generation.
#pragma once

#include <string_view>

#include "cli/generated.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace knapsack {

class Streaming {
 public:
  // silent: nothing is written (--json). prompt: a model that thinks may have been left inside its <think>.
  Streaming(Output& out, Interruptible& interruptible, std::string_view prompt, bool silent);

  void operator()(std::string_view text) { put(screen_.push(text)); }
  // Ends the line where `newline` says so and the text did not; then the first error there was, if any.
  Result<void> finish(bool newline);

 private:
  void put(std::string_view text);

  Output& out_;
  Interruptible& interruptible_;
  ScreenText screen_;
  bool silent_;
  char last_ = '\n';
  Result<void> written_;
};

}  // namespace knapsack

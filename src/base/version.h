// What this build is. Not for: the versions of files and formats, which their own folders keep.
#pragma once

namespace knapsack {

const char* version();     // "0.1.0"
const char* git_commit();  // "0123456789ab", with "+" after it if files had been changed; "" when built outside git
const char* compiler();    // "g++ 12.2.0"

}  // namespace knapsack

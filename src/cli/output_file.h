// Where a command may write its result. The writing itself: base/atomic_file.h; standard output: cli/output.h.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"

namespace knapsack {

// Refuses a file that `model` is made of: the GGUF itself, under whatever name, another part of it, and in a folder
// what import/ reads there. Other files of the folder, such as an earlier result, are not the model.
Result<void> not_the_model(const std::string& output, const std::string& model);

// Whether what is written there comes out of standard output: /dev/stdout, /proc/self/fd/1, the file it is led to.
bool is_standard_output(const std::string& path);

// Refuses a file that is there and has none of these extensions (".html"): it may be anything, a model's weights too.
Result<void> only_over(const std::string& output, std::initializer_list<std::string_view> extensions,
                       std::string_view option);

// Refuses what is there and is no regular file: a folder, a pipe, a device. option: as it is named in the message.
Result<void> file_or_nothing(const std::string& output, std::string_view option);

}  // namespace knapsack

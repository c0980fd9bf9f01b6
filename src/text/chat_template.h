// Chat templates as checkpoints ship them: Jinja2 with Hugging Face's extensions, behind bridge/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace knapsack {

// variables_json: an object: messages, tools, add_generation_prompt, bos_token, and whatever else the template reads.
// clock: what strftime_now() sees, ISO 8601 ("2026-07-01T12:30:00"); absent: the local time now.
// A template that does not parse or raises is `bad_input`, with the line.
Result<std::string> render_chat_template(std::string_view source, std::string_view variables_json,
                                         const std::optional<std::string>& clock, const std::string& origin);

}  // namespace knapsack

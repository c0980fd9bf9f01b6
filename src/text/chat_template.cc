#include "text/chat_template.h"

#include <ctime>

#include "text/bridge/bytes.h"

namespace knapsack {
namespace {

std::string local_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  return {text, length};
}

}  // namespace

Result<std::string> render_chat_template(std::string_view source, std::string_view variables_json,
                                         const std::optional<std::string>& clock, const std::string& origin) {
  const std::string now = clock.has_value() ? *clock : local_time_now();
  knap_bytes out{};
  const int status = knap_template_render(source.data(), source.size(), variables_json.data(), variables_json.size(),
                                          now.data(), now.size(), &out);
  std::string text = take(out);
  if (status != 0) return bad_input("{}: {}", origin, text);
  return text;
}

}  // namespace knapsack

#include "cli/conversation.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "base/utf8.h"
#include "cli/json_text.h"

namespace knapsack {
namespace {

constexpr std::string_view file_format = "knapsack conversation";
constexpr std::int64_t file_version = 1;

}  // namespace

void Conversation::set_system(const std::string& text) {
  if (!messages.empty() && messages.front().role == "system") messages.erase(messages.begin());
  if (!text.empty()) messages.insert(messages.begin(), {"system", text});
}

std::string Conversation::system() const {
  return !messages.empty() && messages.front().role == "system" ? messages.front().content : "";
}

Result<void> save_conversation(const Conversation& conversation, const std::string& path) {
  json::array list;
  for (const auto& message : conversation.messages)
    list.push_back(json::object{{"role", message.role}, {"content", message.content}});
  const json::object object{{"format", file_format},
                            {"version", file_version},
                            {"model", conversation.model},
                            {"model_hash", conversation.model_hash},
                            {"messages", std::move(list)}};
  TRY(auto file, AtomicFile::create(path));
  TRY_VOID(file.write(json_text(object) + "\n"));
  return file.commit();
}

Result<Conversation> load_conversation(const std::string& path) {
  constexpr std::size_t most_bytes = std::size_t{64} << 20;
  TRY(const std::string text, read_text_file(path, most_bytes));
  TRY(const json::object object, parse_json_object(text, path));
  TRY(const std::string format, json_string(object, "format", path));
  if (format != file_format)
    return bad_input("{}: format: expected \"{}\", found {}", path, file_format, printable(format));
  TRY(const std::int64_t version, json_int(object, "version", path, 1));
  if (version > file_version)
    return unsupported("{}: version {} of the file; this program reads up to {}", path, version, file_version);
  Conversation conversation;
  TRY(conversation.model, json_string(object, "model", path));
  TRY(conversation.model_hash, json_string(object, "model_hash", path));
  TRY(const json::array* list, json_array(object, "messages", path));
  for (const auto& item : *list) {
    const std::string origin = fmt::format("{}: message {}", path, conversation.messages.size() + 1);
    if (!item.is_object()) return bad_input("{}: expected an object, found {}", origin, json_kind(item));
    TRY(std::string role, json_string(item.get_object(), "role", origin));
    TRY(std::string content, json_string(item.get_object(), "content", origin));
    const bool known = role == "user" || role == "assistant" || (role == "system" && conversation.messages.empty());
    if (!known)
      return bad_input("{}: role: expected user or assistant (system only as the first), found {}", origin,
                       printable(role));
    if (!is_valid_utf8(content)) return bad_input("{}: content: not UTF-8", origin);
    conversation.messages.push_back({std::move(role), std::move(content)});
  }
  return conversation;
}

}  // namespace knapsack

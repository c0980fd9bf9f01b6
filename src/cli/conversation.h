// A conversation as `chat` keeps it, and its file: JSON, written aside and renamed, checked when read.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/chat_prompt.h"

namespace knapsack {

struct Conversation {
  std::string model;  // name of the model it was held with
  std::string model_hash;
  std::vector<Message> messages;  // a system message only as the first

  // Replaces, adds or (with "") removes the system message.
  void set_system(const std::string& text);
  [[nodiscard]] std::string system() const;
};

Result<void> save_conversation(const Conversation& conversation, const std::string& path);
Result<Conversation> load_conversation(const std::string& path);

}  // namespace knapsack

#include "cli/chat_prompt.h"

#include <array>

#include "text/chat_template.h"

namespace knapsack {

Result<json::object> special_tokens(const std::string& tokenizer_config_json, const std::string& origin) {
  constexpr std::array names{"bos_token", "eos_token", "unk_token", "sep_token",
                             "pad_token", "cls_token", "mask_token"};
  TRY(const json::object config, parse_json_object(tokenizer_config_json, origin));
  json::object special;
  for (const char* name : names) {
    const json::value* value = config.if_contains(name);
    if (value != nullptr && value->is_object()) value = value->get_object().if_contains("content");
    if (value != nullptr && value->is_string()) special[name] = *value;
  }
  return special;
}

void complete_variables(json::object& variables, const json::object& special) {
  for (const auto& token : special) variables.emplace(token.key(), token.value());
  for (const char* name : {"tools", "documents"}) variables.emplace(name, nullptr);
}

Result<std::string> chat_prompt(const Bundle& bundle, std::span<const Message> messages) {
  if (bundle.chat_template.empty())
    return unsupported(
        "{}: the model has no chat template, so how it wants a conversation written is unknown; "
        "use `knapsack run` with the text as the model expects it",
        bundle.name);
  json::array list;
  for (const auto& message : messages)
    list.push_back(json::object{{"role", message.role}, {"content", message.content}});
  json::object variables{{"messages", std::move(list)}, {"add_generation_prompt", true}};
  TRY(const json::object special, special_tokens(bundle.tokenizer_config_json, "tokenizer_config of " + bundle.name));
  complete_variables(variables, special);
  return render_chat_template(bundle.chat_template, json::serialize(variables), std::nullopt,
                              "chat template of " + bundle.name);
}

}  // namespace knapsack

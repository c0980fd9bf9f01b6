#include "text/line_editor.h"

#include "text/bridge/bytes.h"

namespace knapsack {
namespace {

class BridgeEditor final : public LineEditor {
 public:
  explicit BridgeEditor(knap_line_editor* editor) : editor_(editor) {}
  ~BridgeEditor() override { knap_line_editor_close(editor_); }
  BridgeEditor(const BridgeEditor&) = delete;
  BridgeEditor& operator=(const BridgeEditor&) = delete;

  Result<Input> read(std::string_view prompt) override {
    knap_bytes out{};
    const int status = knap_line_editor_read(editor_, prompt.data(), prompt.size(), &out);
    std::string text = take(out);
    switch (status) {
      case 0:
        return Input{Event::line, std::move(text)};
      case 1:
        return Input{Event::interrupted, {}};
      case 2:
        return Input{Event::end, {}};
      case 4:
        return bad_input("expected text in UTF-8, the terminal sent something else; that line is not taken");
      default:
        return out_of_resource("cannot read from the terminal: {}", text);
    }
  }

  Result<void> remember(std::string_view line) override {
    knap_bytes error{};
    if (knap_line_editor_remember(editor_, line.data(), line.size(), &error) != 0) {
      return out_of_resource("cannot write the history: {}", take(error));
    }
    return {};
  }

 private:
  knap_line_editor* editor_;
};

}  // namespace

Result<std::unique_ptr<LineEditor>> LineEditor::open(const std::string& history_file, std::size_t capacity) {
  knap_line_editor* editor = nullptr;
  knap_bytes error{};
  if (knap_line_editor_open(history_file.data(), history_file.size(), capacity, &editor, &error) != 0) {
    return out_of_resource("cannot open the line editor: {}", take(error));
  }
  return std::unique_ptr<LineEditor>(std::make_unique<BridgeEditor>(editor));
}

}  // namespace knapsack

// Telling formats apart: by their first bytes, and by the extension where text could be several things.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "traces/line_reader.hpp"
#include "traces/readers.hpp"

namespace dropless::traces {
namespace {

/// Whether the text is one JSON array or object, complete: its brackets close at its end.
bool is_whole_value(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && --depth == 0) {
      return text.find_first_not_of(" \t\r\n", i + 1) == std::string_view::npos;
    }
  }
  return false;
}

[[noreturn]] void refuse_pickle(const FileBytes& file) {
  throw FileError(
      file.path(), "",
      "a pickle (.pt, .pkl) runs code when it is loaded, so it is not read; convert it where you trust it: "
      "python -c \"import torch, numpy; numpy.save('trace.npy', torch.load('trace.pt', "
      "map_location='cpu'))\" "
      "(add ['key'] after torch.load(...) where the file is a dict)");
}

}  // namespace

std::string detect_format(const FileBytes& file) {
  std::string start(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 1 << 20)), '\0');
  file.read(0, start.data(), static_cast<std::int64_t>(start.size()));
  std::string extension = std::filesystem::path(file.path()).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const auto starts_with = [&](std::string_view bytes) { return start.compare(0, bytes.size(), bytes) == 0; };

  if (extension == ".pt" || extension == ".pth" || extension == ".pkl" || extension == ".pickle")
    refuse_pickle(file);
  if (start.size() > 1 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) refuse_pickle(file);
  if (starts_with("\x93NUMPY")) return "npy";
  if (starts_with("PK\x03\x04") || starts_with("PK\x05\x06")) return "npz";
  // The text that a safetensors header is follows its length in 8 bytes, which as text are longer than any
  // file.
  if (start.size() > 8 && start[8] == '{') {
    std::uint64_t length = 0;
    std::memcpy(&length, start.data(), 8);
    if (length <= static_cast<std::uint64_t>(file.size()) - 8) return "safetensors";
  }
  if (start.compare(0, byte_order_mark.size(), byte_order_mark) == 0) start.erase(0, byte_order_mark.size());
  const std::size_t text = start.find_first_not_of(" \t\r\n");
  if (text != std::string::npos && (start[text] == '{' || start[text] == '[')) {
    if (extension == ".jsonl" || extension == ".ndjson") return "jsonl";
    const std::size_t line_end = start.find('\n', text);
    const bool more_text =
        line_end != std::string::npos && start.find_first_not_of(" \t\r\n", line_end) != std::string::npos;
    return more_text && is_whole_value(std::string_view(start).substr(text, line_end - text)) ? "jsonl"
                                                                                              : "json";
  }
  for (const char* known : {"npy", "npz", "safetensors", "json", "jsonl", "csv"})
    if (extension == std::string(".") + known) return known;
  if (starts_with("layer_id,")) return "csv";
  throw FileError(file.path(), "byte 0",
                  "no trace format begins with " + in_quotes(start.substr(0, 16)) +
                      "; npy, npz, safetensors, json, jsonl and csv are read");
}

}  // namespace dropless::traces

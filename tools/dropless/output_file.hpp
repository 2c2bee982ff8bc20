// Writing a result so that nobody ever reads half of it: to a temporary name beside the file, then renamed.
#pragma once
#include <string>

/// Writes `text` as the file `path`; throws dropless::FileError where that fails, and leaves no temporary
/// behind.
void write_output_file(const std::string& path, const std::string& text);

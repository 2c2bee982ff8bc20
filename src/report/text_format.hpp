// Numbers and paragraphs as the text report prints them.
#pragma once
#include <cstdint>
#include <string>

namespace dropless {

constexpr std::size_t text_width = 100;

std::string grouped(std::int64_t count);  ///< "1,048,576"; from 10^10 on "1.049e+10"
std::string counted(std::int64_t count, const std::string& thing);  ///< "1 batch", "1,024 batches"
std::string percent(double fraction);                               ///< "46.9"
std::string byte_count(double bytes);                               ///< "3.1 MB": powers of 1000
std::string flop_count(double flops);                               ///< "12.9 TFLOP"
/// `text` broken at spaces into lines of at most text_width characters, those after the first indented.
std::string wrapped(const std::string& text, std::size_t indent);

}  // namespace dropless

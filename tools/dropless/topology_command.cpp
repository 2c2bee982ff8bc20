// `dropless topology`: every array of the blocked layout over given rows per expert, and the bytes it takes.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "above_zero.hpp"
#include "commands.hpp"
#include "dropless/block_topology.hpp"
#include "dropless/element_type.hpp"
#include "dropless/integer_math.hpp"
#include "dropless/policy.hpp"

using namespace dropless;

namespace {

struct TopologyArguments {
  std::vector<std::int64_t> rows_per_expert, d_ff;
  std::int64_t block = 128, d_model = 0;
  std::string dtype = "bf16";
  bool json = false;
};

using Document = nlohmann::ordered_json;

/// More blocks than anyone reads; a mistyped count must not fill the memory.
constexpr std::int64_t most_blocks = std::int64_t{1} << 22;

void refuse_unprintable(const RowLayout& layout, const std::vector<std::int64_t>& d_ff) {
  const std::vector<std::int64_t> widths = widths_in_blocks(d_ff, layout.experts, layout.block);
  std::int64_t blocks = 0, columns = 0;
  for (std::size_t x = 0; x < widths.size(); ++x) {
    const std::int64_t rows = (layout.row_offsets[x + 1] - layout.row_offsets[x]) / layout.block;
    blocks = checked_sum(blocks, checked_product(rows, widths[x], "non-zero blocks"), "non-zero blocks");
    columns = checked_sum(columns, widths[x], "block columns");
  }
  for (const auto& [name, count] : {std::pair{"non-zero blocks", blocks}, {"block columns", columns}})
    if (count > most_blocks)
      throw Error(name, std::to_string(count), fmt::format("at most {} to print", most_blocks));
}

Document topology_document(const TopologyArguments& arguments) {
  const RowLayout layout = row_layout_from_counts(arguments.rows_per_expert, arguments.block);
  refuse_unprintable(layout, arguments.d_ff);
  const BlockTopology topology = block_topology(layout, arguments.d_ff);
  const RowLayout packed = row_layout_from_counts(arguments.rows_per_expert);
  const std::int64_t element = element_bytes(element_from_name(arguments.dtype));
  Document document;
  document["block"] = layout.block;
  document["d_ff"] = arguments.d_ff;
  document["useful_rows"] = layout.useful_rows;
  document["scheduled_rows"] = layout.scheduled_rows;
  document["padding_fraction"] = padding_fraction(layout.scheduled_rows, layout.useful_rows, 0);
  document["block_rows"] = topology.block_rows;
  document["block_columns"] = topology.block_columns;
  document["nonzero_blocks"] = topology.nonzero_blocks;
  document["arrays"] = {{"rows_per_expert", layout.rows_per_expert},
                        {"packed_row_offsets", packed.row_offsets},
                        {"row_offsets", layout.row_offsets},
                        {"offsets", topology.offsets},
                        {"row_indices", topology.row_indices},
                        {"column_indices", topology.column_indices},
                        {"offsets_transposed", topology.offsets_transposed},
                        {"column_indices_transposed", topology.column_indices_transposed},
                        {"block_offsets_transposed", topology.block_offsets_transposed}};
  Document& bytes = document["bytes"];
  bytes["topology"] = topology.metadata_bytes();
  bytes["megablocks_topology"] =
      megablocks_topology_bytes(topology.nonzero_blocks, topology.block_rows, topology.block_columns);
  bytes["megablocks_routing"] = megablocks_routing_bytes(layout.useful_rows, layout.experts);
  bytes["values"] = topology.value_bytes(element);
  bytes["padded_input"] = nullptr;
  if (arguments.d_model > 0)
    bytes["padded_input"] = checked_product(
        checked_product(layout.scheduled_rows, arguments.d_model, "padded input"), element, "padded input");
  return document;
}

/// One array under its name, wrapped to 100 columns.
void print_array(const std::string& name, const Document& values) {
  std::string line = fmt::format("{} [{}]:", name, values.size());
  for (const Document& value : values) {
    const std::string number = value.dump();
    if (line.size() + 1 + number.size() > 100) {
      fmt::print("{}\n", line);
      line = "   ";
    }
    line += " " + number;
  }
  fmt::print("{}\n", line);
}

void print_text(const Document& document, const std::string& dtype) {
  fmt::print("{} useful rows, {} scheduled at block {}: {:.1f} % of the scheduled rows are padding\n",
             document["useful_rows"].dump(), document["scheduled_rows"].dump(), document["block"].dump(),
             100 * document["padding_fraction"].get<double>());
  fmt::print("{} block rows, {} block columns, {} non-zero blocks\n\n", document["block_rows"].dump(),
             document["block_columns"].dump(), document["nonzero_blocks"].dump());
  for (const auto& [name, values] : document["arrays"].items()) print_array(name, values);
  const Document& bytes = document["bytes"];
  const auto print_bytes = [&bytes](const char* key, const std::string& meaning) {
    if (!bytes[key].is_null()) fmt::print("{:>16}  {}\n", bytes[key].dump(), meaning);
  };
  fmt::print("\nBytes\n");
  print_bytes("topology", "the six block arrays above, int32");
  print_bytes("megablocks_topology", "MegaBlocks' topology: 10 nnz + 4 (R + C + 2)");
  print_bytes("megablocks_routing", "MegaBlocks' routing: 12 n + 16 E");
  print_bytes("values", "values of the non-zero blocks, " + dtype);
  print_bytes("padded_input", "input rows with their padding, " + dtype);
}

}  // namespace

void add_topology_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "topology", "Print every array and byte count of the blocked layout over given rows per expert");
  const auto arguments = std::make_shared<TopologyArguments>();
  command->add_option("--rows", arguments->rows_per_expert, "Rows per expert, for example 3,0,130,128")
      ->required()
      ->delimiter(',');
  command->add_option("--d-ff", arguments->d_ff, "Width of the experts: one for all, or one each")
      ->required()
      ->delimiter(',');
  command->add_option("--block", arguments->block, "Block size: 16, 32, 64 or 128")->capture_default_str();
  command->add_option("--d-model", arguments->d_model, "Hidden size, for the bytes of the padded input")
      ->check(above_zero);
  command->add_option("--dtype", arguments->dtype, "Element type of values and input: bf16, fp16 or fp32")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] {
    const Document document = topology_document(*arguments);
    if (arguments->json)
      fmt::print("{}\n", document.dump());
    else
      print_text(document, arguments->dtype);
  });
}

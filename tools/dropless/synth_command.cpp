// `dropless synth`: writes a routing trace from a stated router model, shape and seed.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>

#include "commands.hpp"
#include "dropless/synth.hpp"

using namespace dropless;

namespace {

struct SynthArguments {
  std::string path, router = "uniform";
  SynthOptions options;
};

}  // namespace

void add_synth_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("synth", "Write a synthetic routing trace");
  const auto arguments = std::make_shared<SynthArguments>();
  SynthOptions& options = arguments->options;
  command->add_option("file", arguments->path, "The .npy file to write, [layer, sequence, position, slot]")
      ->required();
  command
      ->add_option(
          "--router", arguments->router,
          "uniform; zipf: the expert of rank r weighs 1 / r^S; hot: one expert takes a share of each draw")
      ->check(CLI::IsMember({"uniform", "zipf", "hot"}))
      ->capture_default_str();
  command->add_option("--exponent", options.exponent, "S of zipf")->capture_default_str();
  command->add_option("--hot-share", options.hot_share, "The hot expert's share of a draw")
      ->capture_default_str();
  command->add_option("--experts", options.experts, "Experts of a layer")->capture_default_str();
  command->add_option("--top-k", options.top_k, "Experts that a token chooses")->capture_default_str();
  command->add_option("--layers", options.layers, "Layers")->capture_default_str();
  command->add_option("--sequences", options.sequences, "Sequences, each a batch")->capture_default_str();
  command->add_option("--positions", options.positions, "Tokens of a sequence")->capture_default_str();
  command->add_option("--seed", options.seed, "The same seed gives the same file")->capture_default_str();
  command->callback([arguments] {
    arguments->options.model = arguments->router == "uniform" ? RouterModel::uniform
                               : arguments->router == "zipf"  ? RouterModel::zipf
                                                              : RouterModel::hot_expert;
    write_synth_trace(arguments->path, arguments->options);
    const SynthOptions& written = arguments->options;
    const std::string parameter = arguments->router == "zipf"  ? fmt::format(" {}", written.exponent)
                                  : arguments->router == "hot" ? fmt::format(" {}", written.hot_share)
                                                               : "";
    fmt::print("{}: {} bytes of expert ids\n", arguments->path, synth_bytes(written));
    fmt::print("router {}{}, {} experts, shape ({}, {}, {}, {}) of layer,sequence,position,slot, seed {}\n",
               arguments->router, parameter, written.experts, written.layers, written.sequences,
               written.positions, written.top_k, written.seed);
  });
}

// The shape of a model's Mixture-of-Experts layers: what turns rows into FLOPs and bytes. Known models by
// name (data/models.json, built into the library) and any model's Hugging Face config.json.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dropless/element_type.hpp"
#include "dropless/mlp_kind.hpp"

namespace dropless {

struct ModelShape {
  std::string name;
  MlpKind mlp = MlpKind::glu;
  std::int64_t d_model = 0;               ///< hidden size: what a token's row holds
  std::int64_t d_ff = 0;                  ///< width of one routed expert
  std::int64_t experts = 0;               ///< routed experts of a layer
  std::int64_t top_k = 0;                 ///< routed experts a token chooses
  std::int64_t layers = 0;                ///< Mixture-of-Experts layers; 0: not known
  ElementType dtype = ElementType::bf16;  ///< activations, and weights unless `source` says otherwise
  std::string source;                     ///< where the numbers are from
};

/// Every shape of data/models.json, in its order.
const std::vector<ModelShape>& known_model_shapes();

/// The known shape of that name, capitals and punctuation aside ("Mixtral 8x7B" is "mixtral-8x7b"); for a
/// name that ends in ".json", model_shape_from_config of that file. Throws Error naming the known models
/// otherwise.
ModelShape find_model_shape(const std::string& name_or_config);

/// The shape that a Hugging Face config.json states, nested language models (text_config) included. Throws
/// FileError naming the key that is missing or unusable.
ModelShape model_shape_from_config(const std::string& path);

}  // namespace dropless

// Model shapes: the known ones, parsed once from the string that the build made of data/models.json, and
// those that a Hugging Face config.json states under the key names of a dozen model families.
#include "dropless/model_shape.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "built_in_data.hpp"
#include "json_file.hpp"

namespace dropless {
namespace {

using nlohmann::json;

/// Letters and digits alone, in lower case, of the part after an owner ("Qwen/Qwen3-30B-A3B").
std::string plain_name(const std::string& name) {
  std::string plain;
  for (const char letter : name.substr(name.find_last_of('/') + 1))
    if (std::isalnum(static_cast<unsigned char>(letter)))
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return plain;
}

std::vector<ModelShape> parse_known_shapes() {
  std::vector<ModelShape> shapes;
  for (const json& entry : json::parse(models_json)) {
    ModelShape shape;
    shape.name = entry.at("name");
    shape.mlp = mlp_kind_from_name(entry.at("mlp"));
    shape.d_model = entry.at("d_model");
    shape.d_ff = entry.at("d_ff");
    shape.experts = entry.at("experts");
    shape.top_k = entry.at("top_k");
    shape.layers = entry.at("layers");
    shape.dtype = element_from_name(entry.at("dtype"));
    shape.source = entry.at("source");
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// One config.json: looks keys up by their several names and refuses what is no usable number.
class Config {
 public:
  Config(const Config&) = delete;
  explicit Config(std::string path) : path_(std::move(path)), root_(read_json_file(path_)) {
    if (!root_.is_object()) throw FileError(path_, "", "holds no JSON object");
    // Multimodal models keep the language model's keys one level down, DBRX those of its experts too.
    for (const char* key : {"text_config", "language_config", "llm_config", "ffn_config"})
      if (root_.contains(key) && root_[key].is_object()) nested_.push_back(&root_[key]);
  }

  const json* find(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      for (const json* object : nested_)
        if (object->contains(name) && !object->at(name).is_null()) return &object->at(name);
      if (root_.contains(name) && !root_[name].is_null()) return &root_[name];
    }
    return nullptr;
  }

  std::optional<std::int64_t> optional_count(std::initializer_list<const char*> names) const {
    const json* value = find(names);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer() || *value < 0 || *value > INT32_MAX)
      throw FileError(path_, *names.begin(),
                      "is " + value->dump() + ", not a whole number from 0 to 2^31 - 1");
    return value->get<std::int64_t>();
  }

  std::int64_t count(std::initializer_list<const char*> names) const {
    const auto value = optional_count(names);
    std::string known;
    for (const char* name : names) known += (known.empty() ? "" : " or ") + std::string(name);
    if (!value) throw FileError(path_, known, "is missing");
    if (*value == 0) throw FileError(path_, known, "is 0");
    return *value;
  }

  std::string text(std::initializer_list<const char*> names) const {
    const json* value = find(names);
    return value != nullptr && value->is_string() ? value->get<std::string>() : "";
  }

  /// Layers with experts: those that a list marks, or else those past the dense ones at the start, every
  /// step-th, and not listed as dense.
  std::int64_t expert_layers() const {
    const json* pattern = find({"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq"});
    if (pattern != nullptr && pattern->is_array()) return std::count(pattern->begin(), pattern->end(), 1);
    const std::int64_t step =
        pattern != nullptr && pattern->is_number_integer() ? std::max<std::int64_t>(1, *pattern) : 1;
    const json* dense = find({"mlp_only_layers"});
    const std::int64_t layers = optional_count({"num_hidden_layers", "n_layers", "num_layers"}).value_or(0);
    std::int64_t with_experts = 0;
    for (std::int64_t layer = optional_count({"first_k_dense_replace"}).value_or(0); layer < layers;
         ++layer) {
      const bool listed_dense =
          dense != nullptr && std::find(dense->begin(), dense->end(), layer) != dense->end();
      with_experts += (layer + 1) % step == 0 && !listed_dense;
    }
    return with_experts;
  }

 private:
  std::string path_;
  json root_;
  std::vector<const json*> nested_;
};

MlpKind mlp_kind_of(const Config& config) {
  // Model families whose experts have two matrices; all others of today gate.
  const std::string family = config.text({"model_type"});
  const bool gated = config.text({"feed_forward_proj"}).rfind("gated", 0) == 0;
  const bool two_matrices = family == "nemotron_h" || (family == "switch_transformers" && !gated);
  return two_matrices ? MlpKind::linear2 : MlpKind::glu;
}

}  // namespace

const std::vector<ModelShape>& known_model_shapes() {
  static const std::vector<ModelShape> shapes = parse_known_shapes();
  return shapes;
}

ModelShape find_model_shape(const std::string& name_or_config) {
  const std::string suffix = ".json";
  if (name_or_config.size() > suffix.size() &&
      name_or_config.compare(name_or_config.size() - suffix.size(), suffix.size(), suffix) == 0)
    return model_shape_from_config(name_or_config);
  std::string known;
  for (const ModelShape& shape : known_model_shapes()) {
    if (plain_name(shape.name) == plain_name(name_or_config)) return shape;
    known += (known.empty() ? "" : ", ") + shape.name;
  }
  throw Error("model", name_or_config, "a config.json or one of " + known);
}

ModelShape model_shape_from_config(const std::string& path) {
  const Config config(path);
  ModelShape shape;
  shape.name = config.text({"_name_or_path"});
  if (shape.name.empty()) shape.name = config.text({"model_type"});
  if (shape.name.empty()) shape.name = path;
  shape.mlp = mlp_kind_of(config);
  shape.experts = config.count({"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"});
  shape.top_k = config.text({"model_type"}) == "switch_transformers"
                    ? 1
                    : config.count({"num_experts_per_tok", "num_experts_per_token", "experts_per_token",
                                    "moe_top_k", "moe_topk", "moe_k"});
  shape.d_model = config.count({"hidden_size", "d_model"});
  shape.d_ff = config.count(
      {"moe_intermediate_size", "expert_ffn_hidden_size", "ffn_hidden_size", "intermediate_size", "d_ff"});
  shape.layers = config.expert_layers();
  if (shape.top_k > shape.experts)
    throw FileError(path, "num_experts_per_tok",
                    "is " + std::to_string(shape.top_k) + ", more than the " + std::to_string(shape.experts) +
                        " experts");
  const std::string dtype = config.text({"torch_dtype", "dtype"});
  if (!dtype.empty()) shape.dtype = element_from_name(dtype);
  shape.source = "the keys of " + path;
  return shape;
}

}  // namespace dropless

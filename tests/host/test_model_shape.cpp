// Known model shapes and Hugging Face config files.
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "dropless/model_shape.hpp"
#include "temporary_folder.hpp"

using namespace dropless;

namespace {

ModelShape from_config(const std::string& text) {
  const TemporaryFolder folder;
  return model_shape_from_config(folder.write("config.json", text));
}

std::string refusal(const std::string& text) {
  try {
    from_config(text);
  } catch (const FileError& error) {
    return error.place() + ": " + error.reason();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("model shapes: every known shape is usable and names its source") {
  REQUIRE(known_model_shapes().size() >= 20);
  for (const ModelShape& shape : known_model_shapes()) {
    INFO(shape.name);
    CHECK(shape.d_model > 0);
    CHECK(shape.d_ff > 0);
    CHECK(shape.layers > 0);
    CHECK(shape.top_k >= 1);
    CHECK(shape.top_k <= shape.experts);
    CHECK_FALSE(shape.source.empty());
    CHECK(find_model_shape(shape.name).name == shape.name);
  }
}

TEST_CASE("model shapes: names are found whatever their capitals, punctuation and owner") {
  for (const char* name : {"Mixtral-8x7B", "mixtral 8x7b", "mistralai/Mixtral-8x7B"}) {
    const ModelShape shape = find_model_shape(name);
    CHECK(shape.d_model == 4096);
    CHECK(shape.d_ff == 14336);
    CHECK(shape.experts == 8);
    CHECK(shape.top_k == 2);
    CHECK(shape.mlp == MlpKind::glu);
  }
  CHECK(find_model_shape("dMoE-Small").mlp == MlpKind::linear2);
  CHECK_THROWS_WITH(find_model_shape("no such model"),
                    Catch::Contains("no such model") && Catch::Contains("Qwen3-30B-A3B"));
}

TEST_CASE("model shapes: the key names of several families") {
  const ModelShape qwen = from_config(
      R"({"model_type": "qwen3_moe", "hidden_size": 2048, "moe_intermediate_size": 768, "intermediate_size": 6144,
          "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "decoder_sparse_step": 1,
          "mlp_only_layers": [], "torch_dtype": "bfloat16"})");
  CHECK(qwen.name == "qwen3_moe");
  CHECK(qwen.d_model == 2048);
  CHECK(qwen.d_ff == 768);
  CHECK(qwen.experts == 128);
  CHECK(qwen.top_k == 8);
  CHECK(qwen.layers == 48);
  CHECK(qwen.dtype == ElementType::bf16);

  const ModelShape deepseek = from_config(
      R"({"hidden_size": 7168, "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
          "num_hidden_layers": 61, "first_k_dense_replace": 3, "moe_layer_freq": 1})");
  CHECK(deepseek.experts == 256);
  CHECK(deepseek.layers == 58);

  const ModelShape mixtral = from_config(
      R"({"hidden_size": 4096, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
          "num_hidden_layers": 32, "torch_dtype": "float16"})");
  CHECK(mixtral.d_ff == 14336);
  CHECK(mixtral.dtype == ElementType::fp16);

  const ModelShape maverick = from_config(
      R"({"model_type": "llama4", "text_config": {"hidden_size": 5120, "intermediate_size": 8192,
          "num_local_experts": 128, "num_experts_per_tok": 1, "num_hidden_layers": 48,
          "interleave_moe_layer_step": 2}, "vision_config": {"hidden_size": 1408}})");
  CHECK(maverick.d_model == 5120);
  CHECK(maverick.layers == 24);

  const ModelShape dbrx = from_config(
      R"({"model_type": "dbrx", "d_model": 6144, "n_layers": 40,
          "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}})");
  CHECK(dbrx.d_model == 6144);
  CHECK(dbrx.d_ff == 10752);
  CHECK(dbrx.top_k == 4);

  const ModelShape listed = from_config(
      R"({"hidden_size": 64, "moe_intermediate_size": 32, "n_routed_experts": 4, "num_experts_per_tok": 2,
          "num_hidden_layers": 4, "moe_layer_freq": [0, 1, 1, 0]})");
  CHECK(listed.layers == 2);

  const ModelShape switch_base = from_config(
      R"({"model_type": "switch_transformers", "d_model": 768, "d_ff": 3072, "num_experts": 8, "num_layers": 12,
          "feed_forward_proj": "relu"})");
  CHECK(switch_base.mlp == MlpKind::linear2);
  CHECK(switch_base.top_k == 1);
}

TEST_CASE("model shapes: a config that states no usable shape is refused by its key") {
  CHECK_THAT(refusal(R"({"hidden_size": 64})"), Catch::Contains("num_experts") && Catch::Contains("missing"));
  CHECK_THAT(
      refusal(R"({"num_experts": 4, "num_experts_per_tok": 8, "hidden_size": 64, "intermediate_size": 64})"),
      Catch::Contains("num_experts_per_tok") && Catch::Contains("more than the 4 experts"));
  CHECK_THAT(refusal(R"({"num_experts": -4})"), Catch::Contains("-4"));
  CHECK_THAT(refusal(R"({"num_experts": 4.5})"), Catch::Contains("4.5"));
  CHECK_THAT(refusal(R"({"num_experts": 0})"), Catch::Contains("is 0"));
  CHECK_THAT(refusal(R"({"num_experts": )"), Catch::Contains("not JSON"));
  CHECK_THAT(refusal("[1, 2]"), Catch::Contains("no JSON object"));
  CHECK_THROWS_AS(find_model_shape("absent/config.json"), FileError);
}

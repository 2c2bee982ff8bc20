/* The C interface from plain C99: the header compiles, sizes come back, and every refusal is a code and a
 * sentence. Nothing here needs a GPU. */
#include <stdio.h>
#include <string.h>

#include "dropless/dropless_c.h"

static int failures = 0;

static void expect(int condition, const char* what) {
  if (condition) return;
  ++failures;
  printf("failed: %s (last error: %s)\n", what, dropless_last_error());
}

int main(void) {
  expect(strlen(dropless_version()) >= 5, "the version has three numbers");
  expect(strcmp(dropless_last_error(), "") == 0, "no error before the first failure");

  dropless_topology_bounds bounds;
  memset(&bounds, 0, sizeof bounds);
  bounds.tokens = 4096;
  bounds.top_k = 8;
  bounds.experts = 128;
  size_t metadata = 0, workspace = 0;
  expect(dropless_topology_bytes(&bounds, &metadata, &workspace) == DROPLESS_OK, "topology bytes");
  expect(metadata >= 2 * 4 * 4096 * 8, "metadata holds both orders");

  bounds.experts = 0;
  expect(dropless_topology_bytes(&bounds, &metadata, &workspace) == DROPLESS_INVALID_ARGUMENT, "no experts");
  expect(strstr(dropless_last_error(), "experts") != NULL, "the sentence names the argument");
  expect(dropless_topology_bytes(NULL, &metadata, &workspace) == DROPLESS_INVALID_ARGUMENT, "null bounds");
  expect(strcmp(dropless_last_error(), "bounds is null; expected a pointer") == 0,
         "the sentence of a null pointer");

  dropless_row_tile_rule default_rule = {0, 0};
  size_t bytes = 0;
  expect(dropless_expert_rows_bytes(8, 1000, default_rule, &bytes) == DROPLESS_OK && bytes >= 16 * 8,
         "bytes of a tile list");

  dropless_expert_rows rows;
  dropless_rows_view view;
  dropless_expert_weights weights;
  dropless_product_options options;
  memset(&rows, 0, sizeof rows);
  memset(&view, 0, sizeof view);
  memset(&weights, 0, sizeof weights);
  memset(&options, 0, sizeof options);
  options.path = 7;
  expect(dropless_sdd(&rows, &view, &weights, &view, &options, NULL) == DROPLESS_INVALID_ARGUMENT,
         "a path of 7");
  expect(strcmp(dropless_last_error(), "path is 7; expected 0..2") == 0, "the sentence of a bad number");
  expect(dropless_dsd(&rows, NULL, &weights, &view, NULL, NULL) == DROPLESS_INVALID_ARGUMENT,
         "null input rows");
  expect(strcmp(dropless_last_error(), "input rows is null; expected a pointer") == 0,
         "null options are no error of their own");
  expect(dropless_weight_gradient(&rows, &view, &view, NULL, &options, NULL) == DROPLESS_INVALID_ARGUMENT,
         "null gradients");

  dropless_expert_mlp mlp;
  dropless_expert_mlp_options layer_options;
  dropless_expert_mlp_memory stated, defaults;
  memset(&mlp, 0, sizeof mlp);
  memset(&layer_options, 0, sizeof layer_options);
  memset(&defaults, 0, sizeof defaults);
  mlp.up.experts = mlp.down.experts = bounds.experts = 128;
  mlp.up.k = mlp.up.n = mlp.up.leading_dimension = 64;
  mlp.down.k = mlp.down.n = mlp.down.leading_dimension = 64;
  expect(dropless_expert_mlp_bytes(&mlp, &bounds, &layer_options, &stated) == DROPLESS_OK, "layer bytes");
  expect(dropless_expert_mlp_bytes(&mlp, &bounds, NULL, &defaults) == DROPLESS_OK, "layer bytes by default");
  expect(defaults.saved > 0 && memcmp(&stated, &defaults, sizeof stated) == 0,
         "null options are options in which all is 0");
  if (failures == 0) puts("the C interface holds");
  return failures == 0 ? 0 : 1;
}

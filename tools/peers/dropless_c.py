"""libdropless_c.so through ctypes: the structures of include/dropless/dropless_c.h and its functions, which raise on
failure. Device memory is passed as integer addresses."""
import ctypes
from ctypes import POINTER, Structure, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p

BF16, FP16, FP32 = 0, 1, 2
K_BY_N, N_BY_K = 0, 1
AUTOMATIC, PORTABLE, SM90 = 0, 1, 2
LINEAR2, GLU = 0, 1
SILU, GELU_ERF, GELU_TANH, RELU, RELU_SQUARED = range(5)


class RowTileRule(Structure):
    _fields_ = [("tile_rows", c_int32), ("granule", c_int32)]


class TopologyBounds(Structure):
    _fields_ = [("tokens", c_int64), ("top_k", c_int64), ("experts", c_int64), ("tile_rule", RowTileRule)]


class RouterIds(Structure):
    _fields_ = [("data", c_void_p), ("is_int64", c_int32), ("global_experts", c_int64), ("first_expert", c_int64),
                ("expert_map", c_void_p)]


class ExpertRows(Structure):
    _fields_ = [("experts", c_int64), ("rows_bound", c_int64), ("row_begin", c_void_p), ("row_count", c_void_p),
                ("tiles", c_void_p), ("tile_count", c_void_p), ("tile_counter", c_void_p), ("tile_bound", c_int64),
                ("tile_rule", RowTileRule)]


class TopologyStatus(Structure):
    _fields_ = [("out_of_range", c_int32), ("unrouted", c_int32), ("non_local", c_int32), ("useful_rows", c_int32)]


class Topology(Structure):
    _fields_ = [("bounds", TopologyBounds), ("assignments", c_int64), ("rows_per_expert", c_void_p),
                ("row_offsets", c_void_p), ("row_to_assignment", c_void_p), ("assignment_to_row", c_void_p),
                ("status", c_void_p), ("rows", ExpertRows)]


class RowsView(Structure):
    _fields_ = [("data", c_void_p), ("leading_dimension", c_int64), ("element_type", c_int32)]


class WeightTensor(Structure):
    _fields_ = [("data", c_void_p), ("expert_stride", c_int64), ("matrices", c_void_p)]


class ExpertWeights(Structure):
    _fields_ = [("element_type", c_int32), ("order", c_int32), ("experts", c_int64), ("k", c_int64), ("n", c_int64),
                ("leading_dimension", c_int64), ("first", WeightTensor), ("second", WeightTensor), ("d_ff", c_void_p),
                ("d_ff_begin", c_void_p)]


class ExpertGradients(Structure):
    _fields_ = [("element_type", c_int32), ("experts", c_int64), ("m", c_int64), ("n", c_int64),
                ("leading_dimension", c_int64), ("expert_stride", c_int64), ("data", c_void_p), ("matrices", c_void_p)]


class ProductOptions(Structure):
    _fields_ = [("accumulate", c_int32), ("sm_limit", c_int32), ("path", c_int32), ("exclusive_rows", c_int32)]


class Activation(Structure):
    _fields_ = [("function", c_int32), ("alpha", c_float), ("limit", c_float), ("up_offset", c_float)]


class ExpertMlp(Structure):
    _fields_ = [("kind", c_int32), ("activation", Activation), ("up", ExpertWeights), ("down", ExpertWeights),
                ("up_bias", c_void_p), ("down_bias", c_void_p)]


class ExpertMlpOptions(Structure):
    _fields_ = [("weight_place", c_int32), ("output_scale", c_float), ("accumulate", c_int32), ("sm_limit", c_int32),
                ("path", c_int32), ("composed", c_int32)]


class ExpertMlpBatch(Structure):
    _fields_ = [("bounds", TopologyBounds), ("ids", RouterIds), ("routing_weights", c_void_p), ("x", RowsView)]


class DeviceMemory(Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class ExpertMlpGradients(Structure):
    _fields_ = [("x", RowsView), ("up", ExpertGradients), ("up_second", ExpertGradients), ("down", ExpertGradients),
                ("up_bias", c_void_p), ("down_bias", c_void_p), ("routing_weights", c_void_p)]


class ExpertMlpMemory(Structure):
    _fields_ = [("saved", c_size_t), ("inference_workspace", c_size_t), ("forward_workspace", c_size_t),
                ("backward_workspace", c_size_t)]


class Dropless:
    """The loaded library. Every method is the C function of its name; structures are passed by reference."""

    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        self._library.dropless_version.restype = c_char_p
        self._library.dropless_last_error.restype = c_char_p
        rows, view, options = POINTER(ExpertRows), POINTER(RowsView), POINTER(ProductOptions)
        weights, gradients = POINTER(ExpertWeights), POINTER(ExpertGradients)
        self.topology_bytes = self._checked(
            "topology_bytes", POINTER(TopologyBounds), POINTER(c_size_t), POINTER(c_size_t))
        self.build_topology = self._checked(
            "build_topology", POINTER(RouterIds), POINTER(TopologyBounds), c_void_p, c_size_t, c_void_p, c_size_t,
            c_void_p, POINTER(Topology))
        self.check_topology = self._checked(
            "check_topology", POINTER(Topology), c_void_p, POINTER(TopologyStatus))
        self.sdd = self._checked("sdd", rows, view, weights, view, options, c_void_p)
        self.dsd = self._checked("dsd", rows, view, weights, view, options, c_void_p)
        self.weight_gradient = self._checked("weight_gradient", rows, view, view, gradients, options, c_void_p)
        mlp, batch, layer_options = POINTER(ExpertMlp), POINTER(ExpertMlpBatch), POINTER(ExpertMlpOptions)
        self.expert_mlp_bytes = self._checked(
            "expert_mlp_bytes", mlp, POINTER(TopologyBounds), layer_options, POINTER(ExpertMlpMemory))
        self.expert_mlp_forward = self._checked(
            "expert_mlp_forward", mlp, batch, view, layer_options, DeviceMemory, DeviceMemory, c_void_p,
            POINTER(Topology))
        self.expert_mlp_backward = self._checked(
            "expert_mlp_backward", mlp, batch, view, POINTER(ExpertMlpGradients), layer_options, DeviceMemory,
            DeviceMemory, c_void_p)

    def version(self):
        return self._library.dropless_version().decode()

    def _checked(self, name, *argument_types):
        function = getattr(self._library, "dropless_" + name)
        function.restype, function.argtypes = c_int, argument_types

        def call(*arguments):
            if function(*arguments) != 0:
                raise RuntimeError(f"dropless_{name}: {self._library.dropless_last_error().decode()}")
        return call

"""The messages of TensorFlow Serving's gRPC services, and of TensorFlow those that they hold.

Names and numbers are those of the published files (Apache-2.0, the TensorFlow authors); what no
served flow has an answer to (variants, resources, log collectors) is left out: protobuf keeps
fields that it does not know.
"""

from modelflow.wire.proto import Protocol

TF_SERVING = Protocol(
    "tf_serving",
    """
package tensorflow.error;
enum Code {
  OK = 0; CANCELLED = 1; UNKNOWN = 2; INVALID_ARGUMENT = 3; DEADLINE_EXCEEDED = 4; NOT_FOUND = 5;
  ALREADY_EXISTS = 6; PERMISSION_DENIED = 7; UNAUTHENTICATED = 16; RESOURCE_EXHAUSTED = 8;
  FAILED_PRECONDITION = 9; ABORTED = 10; OUT_OF_RANGE = 11; UNIMPLEMENTED = 12; INTERNAL = 13;
  UNAVAILABLE = 14; DATA_LOSS = 15;
}
package tensorflow;
enum DataType {
  DT_INVALID = 0; DT_FLOAT = 1; DT_DOUBLE = 2; DT_INT32 = 3; DT_UINT8 = 4; DT_INT16 = 5;
  DT_INT8 = 6; DT_STRING = 7; DT_COMPLEX64 = 8; DT_INT64 = 9; DT_BOOL = 10; DT_QINT8 = 11;
  DT_QUINT8 = 12; DT_QINT32 = 13; DT_BFLOAT16 = 14; DT_QINT16 = 15; DT_QUINT16 = 16;
  DT_UINT16 = 17; DT_COMPLEX128 = 18; DT_HALF = 19; DT_RESOURCE = 20; DT_VARIANT = 21;
  DT_UINT32 = 22; DT_UINT64 = 23;
}
message TensorShapeProto {
  message Dim { int64 size = 1; string name = 2; }
  repeated Dim dim = 2; bool unknown_rank = 3;
}
message TensorProto {
  DataType dtype = 1; TensorShapeProto tensor_shape = 2; int32 version_number = 3;
  bytes tensor_content = 4; repeated int32 half_val = 13; repeated float float_val = 5;
  repeated double double_val = 6; repeated int32 int_val = 7; repeated bytes string_val = 8;
  repeated float scomplex_val = 9; repeated int64 int64_val = 10; repeated bool bool_val = 11;
  repeated double dcomplex_val = 12; repeated uint32 uint32_val = 16;
  repeated uint64 uint64_val = 17;
}
message BytesList { repeated bytes value = 1; }
message FloatList { repeated float value = 1; }
message Int64List { repeated int64 value = 1; }
message Feature {
  oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; }
}
message Features { map<string, Feature> feature = 1; }
message Example { Features features = 1; }
message TensorInfo {
  message CooSparse {
    string values_tensor_name = 1; string indices_tensor_name = 2;
    string dense_shape_tensor_name = 3;
  }
  oneof encoding { string name = 1; CooSparse coo_sparse = 4; }
  DataType dtype = 2; TensorShapeProto tensor_shape = 3;
}
message SignatureDef {
  map<string, TensorInfo> inputs = 1; map<string, TensorInfo> outputs = 2; string method_name = 3;
  map<string, TensorProto> defaults = 4;
}
package tensorflow.serving;
message ModelSpec {
  string name = 1;
  oneof version_choice { google.protobuf.Int64Value version = 2; string version_label = 4; }
  string signature_name = 3;
}
message PredictRequest {
  ModelSpec model_spec = 1; map<string, TensorProto> inputs = 2;
  repeated string output_filter = 3;
}
message PredictResponse { ModelSpec model_spec = 2; map<string, TensorProto> outputs = 1; }
message ExampleList { repeated Example examples = 1; }
message ExampleListWithContext { repeated Example examples = 1; Example context = 2; }
message Input {
  oneof kind { ExampleList example_list = 1; ExampleListWithContext example_list_with_context = 2; }
}
message Class { string label = 1; float score = 2; }
message Classifications { repeated Class classes = 1; }
message ClassificationResult { repeated Classifications classifications = 1; }
message ClassificationRequest { ModelSpec model_spec = 1; Input input = 2; }
message ClassificationResponse { ModelSpec model_spec = 2; ClassificationResult result = 1; }
message Regression { float value = 1; }
message RegressionResult { repeated Regression regressions = 1; }
message RegressionRequest { ModelSpec model_spec = 1; Input input = 2; }
message RegressionResponse { ModelSpec model_spec = 2; RegressionResult result = 1; }
message InferenceTask { ModelSpec model_spec = 1; string method_name = 2; }
message InferenceResult {
  ModelSpec model_spec = 1;
  oneof result {
    ClassificationResult classification_result = 2; RegressionResult regression_result = 3;
  }
}
message MultiInferenceRequest { repeated InferenceTask tasks = 1; Input input = 2; }
message MultiInferenceResponse { repeated InferenceResult results = 1; }
message ClassifyLog { ClassificationRequest request = 1; ClassificationResponse response = 2; }
message RegressLog { RegressionRequest request = 1; RegressionResponse response = 2; }
message PredictLog { PredictRequest request = 1; PredictResponse response = 2; }
message MultiInferenceLog {
  MultiInferenceRequest request = 1; MultiInferenceResponse response = 2;
}
message PredictionLog {
  oneof log_type {
    ClassifyLog classify_log = 2; RegressLog regress_log = 3; PredictLog predict_log = 6;
    MultiInferenceLog multi_inference_log = 4;
  }
}
message SignatureDefMap { map<string, SignatureDef> signature_def = 1; }
message GetModelMetadataRequest { ModelSpec model_spec = 1; repeated string metadata_field = 2; }
message GetModelMetadataResponse {
  ModelSpec model_spec = 1; map<string, google.protobuf.Any> metadata = 2;
}
message StatusProto { tensorflow.error.Code error_code = 1; string error_message = 2; }
message GetModelStatusRequest { ModelSpec model_spec = 1; }
message ModelVersionStatus {
  enum State { UNKNOWN = 0; START = 10; LOADING = 20; AVAILABLE = 30; UNLOADING = 40; END = 50; }
  int64 version = 1; State state = 2; StatusProto status = 3;
}
message GetModelStatusResponse { repeated ModelVersionStatus model_version_status = 1; }
message FileSystemStoragePathSourceConfig {
  message ServableVersionPolicy {
    message Latest { uint32 num_versions = 1; }
    message All { }
    message Specific { repeated int64 versions = 1; }
    oneof policy_choice { Latest latest = 100; All all = 101; Specific specific = 102; }
  }
}
message LogCollectorConfig { string type = 1; string filename_prefix = 2; }
message SamplingConfig { double sampling_rate = 1; int32 attributes = 2; }
message LoggingConfig {
  LogCollectorConfig log_collector_config = 1; SamplingConfig sampling_config = 2;
}
enum ModelType { MODEL_TYPE_UNSPECIFIED = 0; TENSORFLOW = 1; OTHER = 2; }
message ModelConfig {
  string name = 1; string base_path = 2; ModelType model_type = 3; string model_platform = 4;
  FileSystemStoragePathSourceConfig.ServableVersionPolicy model_version_policy = 7;
  map<string, int64> version_labels = 8; LoggingConfig logging_config = 6;
}
message ModelConfigList { repeated ModelConfig config = 1; }
message ModelServerConfig {
  oneof config {
    ModelConfigList model_config_list = 1; google.protobuf.Any custom_model_config = 2;
  }
}
message ReloadConfigRequest { ModelServerConfig config = 1; repeated string metric_names = 2; }
message Metric { string name = 1; oneof value_increase { int64 int64_value_increase = 2; } }
message ReloadConfigResponse { StatusProto status = 1; repeated Metric metric = 2; }
message BatchingParameters {
  google.protobuf.Int64Value max_batch_size = 1;
  google.protobuf.Int64Value batch_timeout_micros = 2;
  google.protobuf.Int64Value max_enqueued_batches = 3;
  google.protobuf.Int64Value num_batch_threads = 4;
  google.protobuf.StringValue thread_pool_name = 5; repeated int64 allowed_batch_sizes = 6;
  bool pad_variable_length_inputs = 7;
}
service PredictionService {
  rpc Classify(ClassificationRequest) returns (ClassificationResponse);
  rpc Regress(RegressionRequest) returns (RegressionResponse);
  rpc Predict(PredictRequest) returns (PredictResponse);
  rpc MultiInference(MultiInferenceRequest) returns (MultiInferenceResponse);
  rpc GetModelMetadata(GetModelMetadataRequest) returns (GetModelMetadataResponse);
}
service ModelService {
  rpc GetModelStatus(GetModelStatusRequest) returns (GetModelStatusResponse);
  rpc HandleReloadConfigRequest(ReloadConfigRequest) returns (ReloadConfigResponse);
}
""",
)
"""Messages and services, by their full names: ``tensorflow.serving.PredictRequest``."""

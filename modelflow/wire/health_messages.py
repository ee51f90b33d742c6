"""The messages of ``grpc.health.v1``, by which probes ask whether a server serves."""

from modelflow.wire.proto import Protocol

__all__ = ["HEALTH"]

HEALTH = Protocol(
    "health",
    """
package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse {
  enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; SERVICE_UNKNOWN = 3; }
  ServingStatus status = 1;
}
message HealthListRequest { }
message HealthListResponse { map<string, HealthCheckResponse> statuses = 1; }
service Health {
  rpc Check(HealthCheckRequest) returns (HealthCheckResponse);
  rpc List(HealthListRequest) returns (HealthListResponse);
  rpc Watch(HealthCheckRequest) returns (stream HealthCheckResponse);
}
""",
)
"""Messages and the service of gRPC's health protocol."""

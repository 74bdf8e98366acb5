// Package exporter asks AMD's device metrics exporter, if the node has one, for the health of
// the GPUs. The exporter has a gRPC service on a unix socket for this (package
// metricssvc, later gpumetricssvc, in pkg/amdgpu/proto of
// github.com/ROCm/device-metrics-exporter):
//
//	rpc MetricsService.List(google.protobuf.Empty) returns (GPUStateResponse)
//
// The response has any number of GPUState in field 1; a GPUState has strings: 1 ID,
// 2 UUID, 3 Health, 4 AssociatedWorkload (any number), 5 Device (the PCI address).
// That is so little that it is read from the wire by these numbers, without generated code.
//
// The exporter is a second source. If it is missing, does not answer, or its answer is
// malformed, nothing is known; that is never a fault of a GPU. It reports all GPUs of the node
// as unhealthy while it cannot reach its own agent.
package exporter

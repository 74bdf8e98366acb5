// The contract between the accelmux core and a backend.
//
// A backend is a program that knows one kind of hardware, and a manifest: a file beside
// it that says what the program is, which settings it takes and what it may do. The core
// reads the manifest, starts the program as a child process, asks it which devices the node
// has, and serves them to Kubernetes. A backend states facts; the core decides. A backend never talks
// to kubelet or to the API server, never writes CDI files, and never learns
// which pod uses a device.
//
// # Writing a backend in any language
//
// 1. Handshake. The core starts the program without arguments and with these
//    environment variables (and no others but PATH, HOME, LANG, TZ and those
//    that the configuration lists), in a process group of its own, with / as its
//    working directory and nothing on standard input:
//
//      ACCELMUX_BACKEND         the value 8b3f0d2c-accelmux-backend; a program
//                               without it was started by hand: it prints that
//                               on standard error and exits with status 1
//      PLUGIN_PROTOCOL_VERSIONS comma-separated protocol versions that the core
//                               speaks; this file is version 1
//      PLUGIN_UNIX_SOCKET_DIR   a private directory for the listening socket
//      PLUGIN_CLIENT_CERT       the core's certificate, PEM; the server speaks
//                               TLS 1.2 or later and accepts this client alone
//      PLUGIN_OPEN_FILES_FD     the number of an inherited socket for questions,
//                               see 6; missing if there is none
//
//    The program listens on a unix socket in that directory and prints exactly
//    one line on standard output:
//
//      1|<protocol version>|unix|<socket path>|grpc|<certificate>
//
//    (the handshake of github.com/hashicorp/go-plugin, core version 1). The
//    certificate is the server's own, made for this start: self-signed, for the
//    DNS name localhost, with a key that TLS libraries commonly accept, such as
//    P-256, as DER in standard base64 without padding. Nothing may
//    be printed before that line, and nothing on standard output after it.
//    Standard error is the log: a line that is a JSON object with @level
//    (trace, debug, info, warn, error), @message and further keys keeps its
//    level; any other line is logged at debug.
//
//    The server also serves grpc.health.v1.Health (health.proto of gRPC): Check
//    answers SERVING for the service "plugin"; the core ends a process that does
//    not. Health's Watch is not used. Nothing else of go-plugin's
//    own services is used. A backend in Go calls sdk.Serve and has all of this.
//
// 2. Calls, in order: Configure, Watch. Configure may come again at
//    any time, also while Watch streams. Prepare, Release, Reset and Sample come
//    only if the manifest has the ability. There is at most one Watch stream
//    and at most one Sample stream. Prepare, Release and Reset run in parallel
//    for different devices, never for the same one.
//
// 3. Every call but Watch and Sample carries its deadline (gRPC's grpc-timeout
//    header; every gRPC library offers it to the handler). The limits below are
//    the usual ones.
//    A backend that exceeds the deadline of Configure or the first
//    inventory, or that sends no heartbeat, is killed and started again, with
//    back-off. A Prepare, Release or Reset that exceeds its deadline is cancelled
//    and has failed; the process and the calls for other devices continue. The
//    backend must abandon a cancelled call immediately: the next call for the
//    device comes 5 s later at the earliest, and Release follows a Prepare that
//    failed when its holder is gone. An error's gRPC status code does not matter,
//    its text does; write it for the reader that the call names.
//
// 4. A backend that loses its parent must exit within 5 s: ask the kernel for a
//    signal (PR_SET_PDEATHSIG), or see whether getppid() changes. To end a backend
//    the core sends SIGTERM to the process group, and SIGKILL 2 s later.
//
// 5. State that must outlive the process, such as what Release needs, belongs into
//    files below a directory of the backend's settings.
//
// 6. A program in its sandbox cannot see what other processes have open. It may ask
//    which of them have device nodes open, so that it resets no device in use, on the
//    socket of PLUGIN_OPEN_FILES_FD (SOCK_SEQPACKET, unix(7)). A packet of at most
//    64 KiB is one JSON object, a request or its answer:
//
//      {"id": 1, "nodes": ["/dev/acme0", "/dev/acme1"]}
//      {"id": 1, "processes": [{"pid": 1234, "name": "python3"}]}
//      {"id": 1, "error": "why it is not known, for the reader of an error"}
//
//    The id is any number. Nodes are at most 256 paths, as links in /proc/PID/fd have
//    them. Each must be a file that the manifest and the configuration give to the
//    process, or a device node that they give to containers. The answer has at most 256 processes,
//    without the program's own. An answer with neither processes nor error means none.
//    It comes within 10 s; requests are answered one after the other, ten a second in
//    the long run. Without the variable the program scans /proc itself.
//
// `accelmux check-backend PROGRAM` checks a program against these rules.
//
// A message is at most 8 MiB in both directions; many gRPC libraries receive only
// 4 MiB by default. A message from a backend may also take at most 20 MiB of the
// core's memory. The core estimates this as the length of all strings and, in an
// inventory, about 1 KiB for each device, 50 bytes for each attribute, 80 for each
// link, 90 for each device node and 8 for each number of a list; in a sample,
// 0.9 KiB for each metric and 0.4 KiB for each label. 4,096 devices with 20
// attributes and 16 links each take four fifths of the 20 MiB. A process that
// sends more in Watch is ended and started again, with back-off; the devices of
// its last accepted inventory stay for the holdover. A sample that takes more ends
// only the Sample stream.
//
// # Kubernetes
//
// The core serves a device by the device plugin API or by dynamic resource
// allocation (DRA, resource.k8s.io/v1). This is how fields map to the latter; a
// backend needs to know neither:
//
//   Device.id                   Device.name: a DNS label that the core derives
//                               from it, and the attribute accelmux.io/id
//   Device.attributes           Device.attributes; a name without a domain gets
//                               the driver's
//   Device.numa_nodes           the attribute resource.kubernetes.io/numaNode,
//                               if there is exactly one
//   Device.pci_bus_id           the attribute resource.kubernetes.io/pciBusID
//   Device.capacities           Device.capacity, value and requestPolicy
//   Device.shareable            Device.allowMultipleAllocations
//   Inventory.counter_sets      ResourceSliceSpec.sharedCounters, without what devices
//                               consume that exist and that no Prepare made
//   Device.consumes             Device.consumesCounters of a potential device, and of
//                               one that Prepare made
//   Device.slow_to_prepare      Device.bindsToNode, bindingConditions and
//                               bindingFailureConditions
//   Health, while unhealthy     Device.taints (key accelmux.io/<code>, effect by
//                               reach) and the device health in pod.status
//   Device.edits                the CDI device of the device
//   PrepareResponse.edits       the CDI device of the claim
//   Holder                      the ResourceClaim's UID, or one container's
//                               allocation by the device plugin API
//   PrepareRequest.parameters_json
//                               DeviceClaimConfiguration.opaque.parameters
//
// A rule about a name, a value or an amount that says "as resource.k8s.io" is
// that of the API's own validation: the API server accepts every slice that the
// core makes of an inventory.
//
// # Compatibility
//
// Fields are only ever added. An unknown field must be ignored. Protocol
// version 2 will be a package of its own, negotiated in the handshake.

// Code generated by protoc-gen-go-grpc. DO NOT EDIT.
// versions:
// - protoc-gen-go-grpc v1.6.2
// - protoc             (unknown)
// source: accelmux/backend/v1/backend.proto

package backendv1

import (
	context "context"
	grpc "google.golang.org/grpc"
	codes "google.golang.org/grpc/codes"
	status "google.golang.org/grpc/status"
)

// This is a compile-time assertion to ensure that this generated file
// is compatible with the grpc package it is being compiled against.
// Requires gRPC-Go v1.64.0 or later.
const _ = grpc.SupportPackageIsVersion9

const (
	BackendService_Configure_FullMethodName = "/accelmux.backend.v1.BackendService/Configure"
	BackendService_Watch_FullMethodName     = "/accelmux.backend.v1.BackendService/Watch"
	BackendService_Prepare_FullMethodName   = "/accelmux.backend.v1.BackendService/Prepare"
	BackendService_Release_FullMethodName   = "/accelmux.backend.v1.BackendService/Release"
	BackendService_Reset_FullMethodName     = "/accelmux.backend.v1.BackendService/Reset"
	BackendService_Sample_FullMethodName    = "/accelmux.backend.v1.BackendService/Sample"
)

// BackendServiceClient is the client API for BackendService service.
//
// For semantics around ctx use and closing/ending streaming RPCs, please refer to https://pkg.go.dev/google.golang.org/grpc/?tab=doc#ClientConn.NewStream.
//
// BackendService is what a backend implements.
type BackendServiceClient interface {
	// Configure hands over the settings, before the first Watch and again on every
	// change. The settings are accepted as a whole, or refused with a list of
	// field errors; refused settings leave the earlier ones in force. The core has checked
	// them by the manifest's schema, has merged its presets, and has given the process what
	// the manifest says that they need: other rights mean another process. Accepted
	// settings take effect without a restart: within 10 s a running Watch sends the
	// inventory that follows from them, with their revision, even if it is the same
	// as before. Until then the core does not use what depends on the new settings.
	// Deadline 10 s.
	Configure(ctx context.Context, in *ConfigureRequest, opts ...grpc.CallOption) (*ConfigureResponse, error)
	// Watch sends the whole inventory at once, the first within 10 s, and again
	// each time anything in it changed: a device came or went, its health, an
	// attribute, its edits. Between changes it sends heartbeats. The stream ends
	// only when the core cancels it; a backend that can't see its hardware (a driver
	// that is not loaded yet) sends an empty inventory and keeps trying.
	//
	// The core accepts at most 20 messages and 40 MiB a second in the long run, and
	// short bursts above that; what comes faster is delayed, and the core reports a
	// problem. Gather what changes at the same time into one inventory, and send the
	// newest: those in between are not needed.
	Watch(ctx context.Context, in *WatchRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[WatchResponse], error)
	// Prepare readies devices for a holder: clean, reset, program, or make a
	// potential device. It comes before every start of a container that holds a
	// device with HOOK_PREPARE, restarts included, and once or several times for a
	// claim. It must be idempotent: a repeated call for the same holder gives the
	// same result. An error fails the start, its text is shown to the pod's user,
	// and nothing may be left behind. INVALID_ARGUMENT is for parameters that are to
	// blame: after any other error, no new claim gets a device that is slow to prepare
	// for a while. A later call for the same holder may have other parameters: the latest
	// counts. Deadline 25 s (kubelet gives up after 30 s); see also Device.slow_to_prepare.
	Prepare(ctx context.Context, in *PrepareRequest, opts ...grpc.CallOption) (*PrepareResponse, error)
	// Release ends what Prepare did for a holder. It comes for devices with
	// HOOK_RELEASE when a holder is gone, at least once, and possibly late: kubelet
	// does not announce the end of a container. It must be idempotent, and succeed
	// for a holder or a device that the backend does not know. Deadline 25 s.
	Release(ctx context.Context, in *ReleaseRequest, opts ...grpc.CallOption) (*ReleaseResponse, error)
	// Reset tries to recover faulted devices, and clears what a holder left on healthy
	// ones. The core calls it for devices whose fault has RECOVERY_RESET, and between
	// holders if the configuration says so, when no device of their reset group is
	// allocated, with all the devices of one reset group in one call. Deadline 2 min.
	Reset(ctx context.Context, in *ResetRequest, opts ...grpc.CallOption) (*ResetResponse, error)
	// Sample sends telemetry of all devices, at once and then at the given interval,
	// until cancelled. It comes only while something reads the telemetry, and again
	// with another interval after the earlier stream was cancelled: nothing should be
	// measured while there is no stream. A stream that sends nothing for long, or far
	// more often than requested, is cancelled and opened again after a while.
	Sample(ctx context.Context, in *SampleRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[SampleResponse], error)
}

type backendServiceClient struct {
	cc grpc.ClientConnInterface
}

func NewBackendServiceClient(cc grpc.ClientConnInterface) BackendServiceClient {
	return &backendServiceClient{cc}
}

func (c *backendServiceClient) Configure(ctx context.Context, in *ConfigureRequest, opts ...grpc.CallOption) (*ConfigureResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(ConfigureResponse)
	err := c.cc.Invoke(ctx, BackendService_Configure_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *backendServiceClient) Watch(ctx context.Context, in *WatchRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[WatchResponse], error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	stream, err := c.cc.NewStream(ctx, &BackendService_ServiceDesc.Streams[0], BackendService_Watch_FullMethodName, cOpts...)
	if err != nil {
		return nil, err
	}
	x := &grpc.GenericClientStream[WatchRequest, WatchResponse]{ClientStream: stream}
	if err := x.ClientStream.SendMsg(in); err != nil {
		return nil, err
	}
	if err := x.ClientStream.CloseSend(); err != nil {
		return nil, err
	}
	return x, nil
}

// This type alias is provided for backwards compatibility with existing code that references the prior non-generic stream type by name.
type BackendService_WatchClient = grpc.ServerStreamingClient[WatchResponse]

func (c *backendServiceClient) Prepare(ctx context.Context, in *PrepareRequest, opts ...grpc.CallOption) (*PrepareResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(PrepareResponse)
	err := c.cc.Invoke(ctx, BackendService_Prepare_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *backendServiceClient) Release(ctx context.Context, in *ReleaseRequest, opts ...grpc.CallOption) (*ReleaseResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(ReleaseResponse)
	err := c.cc.Invoke(ctx, BackendService_Release_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *backendServiceClient) Reset(ctx context.Context, in *ResetRequest, opts ...grpc.CallOption) (*ResetResponse, error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(ResetResponse)
	err := c.cc.Invoke(ctx, BackendService_Reset_FullMethodName, in, out, cOpts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *backendServiceClient) Sample(ctx context.Context, in *SampleRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[SampleResponse], error) {
	cOpts := append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	stream, err := c.cc.NewStream(ctx, &BackendService_ServiceDesc.Streams[1], BackendService_Sample_FullMethodName, cOpts...)
	if err != nil {
		return nil, err
	}
	x := &grpc.GenericClientStream[SampleRequest, SampleResponse]{ClientStream: stream}
	if err := x.ClientStream.SendMsg(in); err != nil {
		return nil, err
	}
	if err := x.ClientStream.CloseSend(); err != nil {
		return nil, err
	}
	return x, nil
}

// This type alias is provided for backwards compatibility with existing code that references the prior non-generic stream type by name.
type BackendService_SampleClient = grpc.ServerStreamingClient[SampleResponse]

// BackendServiceServer is the server API for BackendService service.
// All implementations must embed UnimplementedBackendServiceServer
// for forward compatibility.
//
// BackendService is what a backend implements.
type BackendServiceServer interface {
	// Configure hands over the settings, before the first Watch and again on every
	// change. The settings are accepted as a whole, or refused with a list of
	// field errors; refused settings leave the earlier ones in force. The core has checked
	// them by the manifest's schema, has merged its presets, and has given the process what
	// the manifest says that they need: other rights mean another process. Accepted
	// settings take effect without a restart: within 10 s a running Watch sends the
	// inventory that follows from them, with their revision, even if it is the same
	// as before. Until then the core does not use what depends on the new settings.
	// Deadline 10 s.
	Configure(context.Context, *ConfigureRequest) (*ConfigureResponse, error)
	// Watch sends the whole inventory at once, the first within 10 s, and again
	// each time anything in it changed: a device came or went, its health, an
	// attribute, its edits. Between changes it sends heartbeats. The stream ends
	// only when the core cancels it; a backend that can't see its hardware (a driver
	// that is not loaded yet) sends an empty inventory and keeps trying.
	//
	// The core accepts at most 20 messages and 40 MiB a second in the long run, and
	// short bursts above that; what comes faster is delayed, and the core reports a
	// problem. Gather what changes at the same time into one inventory, and send the
	// newest: those in between are not needed.
	Watch(*WatchRequest, grpc.ServerStreamingServer[WatchResponse]) error
	// Prepare readies devices for a holder: clean, reset, program, or make a
	// potential device. It comes before every start of a container that holds a
	// device with HOOK_PREPARE, restarts included, and once or several times for a
	// claim. It must be idempotent: a repeated call for the same holder gives the
	// same result. An error fails the start, its text is shown to the pod's user,
	// and nothing may be left behind. INVALID_ARGUMENT is for parameters that are to
	// blame: after any other error, no new claim gets a device that is slow to prepare
	// for a while. A later call for the same holder may have other parameters: the latest
	// counts. Deadline 25 s (kubelet gives up after 30 s); see also Device.slow_to_prepare.
	Prepare(context.Context, *PrepareRequest) (*PrepareResponse, error)
	// Release ends what Prepare did for a holder. It comes for devices with
	// HOOK_RELEASE when a holder is gone, at least once, and possibly late: kubelet
	// does not announce the end of a container. It must be idempotent, and succeed
	// for a holder or a device that the backend does not know. Deadline 25 s.
	Release(context.Context, *ReleaseRequest) (*ReleaseResponse, error)
	// Reset tries to recover faulted devices, and clears what a holder left on healthy
	// ones. The core calls it for devices whose fault has RECOVERY_RESET, and between
	// holders if the configuration says so, when no device of their reset group is
	// allocated, with all the devices of one reset group in one call. Deadline 2 min.
	Reset(context.Context, *ResetRequest) (*ResetResponse, error)
	// Sample sends telemetry of all devices, at once and then at the given interval,
	// until cancelled. It comes only while something reads the telemetry, and again
	// with another interval after the earlier stream was cancelled: nothing should be
	// measured while there is no stream. A stream that sends nothing for long, or far
	// more often than requested, is cancelled and opened again after a while.
	Sample(*SampleRequest, grpc.ServerStreamingServer[SampleResponse]) error
	mustEmbedUnimplementedBackendServiceServer()
}

// UnimplementedBackendServiceServer must be embedded to have
// forward compatible implementations.
//
// NOTE: this should be embedded by value instead of pointer to avoid a nil
// pointer dereference when methods are called.
type UnimplementedBackendServiceServer struct{}

func (UnimplementedBackendServiceServer) Configure(context.Context, *ConfigureRequest) (*ConfigureResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method Configure not implemented")
}
func (UnimplementedBackendServiceServer) Watch(*WatchRequest, grpc.ServerStreamingServer[WatchResponse]) error {
	return status.Error(codes.Unimplemented, "method Watch not implemented")
}
func (UnimplementedBackendServiceServer) Prepare(context.Context, *PrepareRequest) (*PrepareResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method Prepare not implemented")
}
func (UnimplementedBackendServiceServer) Release(context.Context, *ReleaseRequest) (*ReleaseResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method Release not implemented")
}
func (UnimplementedBackendServiceServer) Reset(context.Context, *ResetRequest) (*ResetResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method Reset not implemented")
}
func (UnimplementedBackendServiceServer) Sample(*SampleRequest, grpc.ServerStreamingServer[SampleResponse]) error {
	return status.Error(codes.Unimplemented, "method Sample not implemented")
}
func (UnimplementedBackendServiceServer) mustEmbedUnimplementedBackendServiceServer() {}
func (UnimplementedBackendServiceServer) testEmbeddedByValue()                        {}

// UnsafeBackendServiceServer may be embedded to opt out of forward compatibility for this service.
// Use of this interface is not recommended, as added methods to BackendServiceServer will
// result in compilation errors.
type UnsafeBackendServiceServer interface {
	mustEmbedUnimplementedBackendServiceServer()
}

func RegisterBackendServiceServer(s grpc.ServiceRegistrar, srv BackendServiceServer) {
	// If the following call panics, it indicates UnimplementedBackendServiceServer was
	// embedded by pointer and is nil.  This will cause panics if an
	// unimplemented method is ever invoked, so we test this at initialization
	// time to prevent it from happening at runtime later due to I/O.
	if t, ok := srv.(interface{ testEmbeddedByValue() }); ok {
		t.testEmbeddedByValue()
	}
	s.RegisterService(&BackendService_ServiceDesc, srv)
}

func _BackendService_Configure_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ConfigureRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(BackendServiceServer).Configure(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: BackendService_Configure_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(BackendServiceServer).Configure(ctx, req.(*ConfigureRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _BackendService_Watch_Handler(srv interface{}, stream grpc.ServerStream) error {
	m := new(WatchRequest)
	if err := stream.RecvMsg(m); err != nil {
		return err
	}
	return srv.(BackendServiceServer).Watch(m, &grpc.GenericServerStream[WatchRequest, WatchResponse]{ServerStream: stream})
}

// This type alias is provided for backwards compatibility with existing code that references the prior non-generic stream type by name.
type BackendService_WatchServer = grpc.ServerStreamingServer[WatchResponse]

func _BackendService_Prepare_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(PrepareRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(BackendServiceServer).Prepare(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: BackendService_Prepare_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(BackendServiceServer).Prepare(ctx, req.(*PrepareRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _BackendService_Release_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ReleaseRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(BackendServiceServer).Release(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: BackendService_Release_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(BackendServiceServer).Release(ctx, req.(*ReleaseRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _BackendService_Reset_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ResetRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(BackendServiceServer).Reset(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: BackendService_Reset_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(BackendServiceServer).Reset(ctx, req.(*ResetRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _BackendService_Sample_Handler(srv interface{}, stream grpc.ServerStream) error {
	m := new(SampleRequest)
	if err := stream.RecvMsg(m); err != nil {
		return err
	}
	return srv.(BackendServiceServer).Sample(m, &grpc.GenericServerStream[SampleRequest, SampleResponse]{ServerStream: stream})
}

// This type alias is provided for backwards compatibility with existing code that references the prior non-generic stream type by name.
type BackendService_SampleServer = grpc.ServerStreamingServer[SampleResponse]

// BackendService_ServiceDesc is the grpc.ServiceDesc for BackendService service.
// It's only intended for direct use with grpc.RegisterService,
// and not to be introspected or modified (even as a copy)
var BackendService_ServiceDesc = grpc.ServiceDesc{
	ServiceName: "accelmux.backend.v1.BackendService",
	HandlerType: (*BackendServiceServer)(nil),
	Methods: []grpc.MethodDesc{
		{
			MethodName: "Configure",
			Handler:    _BackendService_Configure_Handler,
		},
		{
			MethodName: "Prepare",
			Handler:    _BackendService_Prepare_Handler,
		},
		{
			MethodName: "Release",
			Handler:    _BackendService_Release_Handler,
		},
		{
			MethodName: "Reset",
			Handler:    _BackendService_Reset_Handler,
		},
	},
	Streams: []grpc.StreamDesc{
		{
			StreamName:    "Watch",
			Handler:       _BackendService_Watch_Handler,
			ServerStreams: true,
		},
		{
			StreamName:    "Sample",
			Handler:       _BackendService_Sample_Handler,
			ServerStreams: true,
		},
	},
	Metadata: "accelmux/backend/v1/backend.proto",
}

package exporter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/accelmux/accelmux/backends/pci"
)

const (
	// Socket is where the exporter's chart puts its socket.
	Socket = "/var/lib/amd-metrics-exporter/amdgpu_device_metrics_exporter_grpc.socket"
	// Timeout bounds a question.
	Timeout = 5 * time.Second
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 1 << 20
)

// methods are the question under its names: newer exporters have renamed the
// package, and nothing else, since there is one for network cards too.
var methods = []string{"/metricssvc.MetricsService/List", "/gpumetricssvc.MetricsService/List"}

// ErrAbsent means that the node has no exporter, or that it does not run.
var ErrAbsent = errors.New("there is no device metrics exporter")

// State is what the exporter says of a GPU.
type State int

// The states. What the exporter does not say, or says in other words, is Unknown.
const (
	Unknown State = iota
	Healthy
	Unhealthy
)

// String is "unknown", "healthy" or "unhealthy".
func (s State) String() string { return [...]string{"unknown", "healthy", "unhealthy"}[s] }

// GPU is a GPU as the exporter sees it.
type GPU struct {
	State State
	// Text is the exporter's word for the state.
	Text string
	// PCI is where the GPU is, if HasPCI; older exporters do not say.
	PCI    pci.Address
	HasPCI bool
	// ID and UUID are the exporter's names of it.
	ID, UUID string
}

// Client asks an exporter. It keeps no connection, for exporters come and go, so it
// need not be closed. It can be used concurrently.
type Client struct {
	// Socket is the path of its socket; empty for [Socket].
	Socket string
}

// List asks for all GPUs. It takes up to [Timeout], or as long as ctx says if that
// is less. The error is ErrAbsent if there is nobody to ask. With any error nothing
// is known of any GPU, which is no fault of them.
func (c Client) List(ctx context.Context) ([]GPU, error) {
	socket := c.Socket
	if socket == "" {
		socket = Socket
	}
	info, err := os.Stat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s", ErrAbsent, socket)
	case err != nil:
		return nil, fmt.Errorf("device metrics exporter: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("device metrics exporter: %s is no socket", socket)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///exporter",
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return nil, fmt.Errorf("device metrics exporter: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is under way any more
	var answer []byte
	for _, method := range methods {
		err = conn.Invoke(ctx, method, []byte(nil), &answer, grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(maxAnswer))
		if status.Code(err) != codes.Unimplemented {
			break
		}
	}
	switch {
	case status.Code(err) == codes.Unavailable:
		return nil, fmt.Errorf("%w: nobody answers at %s: %s", ErrAbsent, socket, status.Convert(err).Message())
	case err != nil:
		return nil, fmt.Errorf("device metrics exporter at %s: %w", socket, err)
	}
	gpus, err := parse(answer)
	if err != nil {
		return nil, fmt.Errorf("device metrics exporter at %s: %w", socket, err)
	}
	return gpus, nil
}

// raw hands messages on as they are on the wire.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("a %T is no message", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("a %T is no message", v)
	}
	*b = data.Materialize()
	return nil
}

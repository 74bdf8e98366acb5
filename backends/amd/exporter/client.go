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
	// Timeout bounds a question. It is below the time after which a check hangs.
	Timeout = 4 * time.Second
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 1 << 20
)

// methods are the question under its names: newer exporters have renamed the
// package, and nothing else, since there is one for network cards too.
var methods = []string{"/metricssvc.MetricsService/List", "/gpumetricssvc.MetricsService/List"}

// ErrAbsent means that the node has no exporter, or that it does not run.
var ErrAbsent = errors.New("there is no device metrics exporter")

// State is what the exporter reports of a GPU.
type State int

// The states. What the exporter does not report, or reports in other words, is Unknown.
const (
	Unknown State = iota
	Healthy
	Unhealthy
)

// String returns "unknown", "healthy" or "unhealthy".
func (s State) String() string { return [...]string{"unknown", "healthy", "unhealthy"}[s] }

// GPU is a GPU as the exporter sees it.
type GPU struct {
	State State
	// Text is the exporter's name of the state.
	Text string
	// PCI is the GPU's address, if HasPCI; older exporters do not report it.
	PCI    pci.Address
	HasPCI bool
}

// Client asks an exporter. It opens a connection for each question, since exporters come and
// go. It can be used concurrently.
type Client struct {
	// Socket is the path of its socket.
	Socket string
}

// List requests the state of all GPUs. It takes at most [Timeout], or until ctx ends. The error
// is ErrAbsent if there is no exporter. After any error the state of all GPUs is unknown, which
// is no fault.
func (c Client) List(ctx context.Context) ([]GPU, error) {
	socket := c.Socket
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
	defer func() { _ = conn.Close() }() // no call is in progress
	var answer []byte
	for _, method := range methods {
		err = conn.Invoke(ctx, method, []byte(nil), &answer, grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(maxAnswer))
		if status.Code(err) != codes.Unimplemented {
			break
		}
	}
	switch {
	case status.Code(err) == codes.Unavailable:
		return nil, fmt.Errorf("%w: no answer at %s: %s", ErrAbsent, socket, status.Convert(err).Message())
	case err != nil:
		return nil, fmt.Errorf("device metrics exporter at %s: %w", socket, err)
	}
	gpus, err := parse(answer)
	if err != nil {
		return nil, fmt.Errorf("device metrics exporter at %s: %w", socket, err)
	}
	return gpus, nil
}

// raw passes messages as they are on the wire.
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

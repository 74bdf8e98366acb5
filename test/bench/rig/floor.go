package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// builtin are the roles that belong to no section.
var builtin = map[string]Role{"floor": serveFloor}

// Floor is a bare gRPC server in a process of its own: the least that an answer to one
// of kubelet's calls can take on this machine.
type Floor struct {
	Socket  string
	process *exec.Cmd
}

// PID is the process's.
func (f *Floor) PID() int { return f.process.Process.Pid }

// StartFloor starts one on a socket of that path, which answers every Allocate with
// that message, and every GetPreferredAllocation with the first of the devices that it
// may choose from. It serves when this returns.
func StartFloor(socket string, answer *pluginapi.AllocateResponse) (_ *Floor, err error) {
	message, err := proto.Marshal(answer)
	if err != nil {
		return nil, err
	}
	f := &Floor{Socket: socket}
	if f.process, err = Self("floor", f.Socket, string(fmt.Appendf(nil, "%x", message))); err != nil {
		return nil, err
	}
	ready, err := f.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := f.process.Start(); err != nil {
		return nil, err
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, f.Stop())
	}
	return f, nil
}

// Stop ends the process.
func (f *Floor) Stop() error { return errors.Join(End(f.process), removeSocket(f.Socket)) }

func removeSocket(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// serveFloor serves until SIGTERM.
func serveFloor(args []string) error {
	if len(args) != 2 {
		return errors.New("the floor needs a socket and an answer")
	}
	var message []byte
	if _, err := fmt.Sscanf(args[1], "%x", &message); err != nil && args[1] != "" {
		return fmt.Errorf("read the floor's answer: %w", err)
	}
	answer := &pluginapi.AllocateResponse{}
	if err := proto.Unmarshal(message, answer); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", args[0])
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, &constant{answer: answer})
	if err := os.Stdout.Close(); err != nil { // whoever started it waits for this
		return err
	}
	return server.Serve(listener)
}

// constant answers everything at once.
type constant struct {
	pluginapi.UnimplementedDevicePluginServer
	answer *pluginapi.AllocateResponse
}

func (c *constant) Allocate(context.Context, *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	return c.answer, nil
}

func (*constant) GetPreferredAllocation(_ context.Context, request *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	first := request.GetContainerRequests()[0]
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{
		{DeviceIDs: first.GetAvailableDeviceIDs()[:first.GetAllocationSize()]},
	}}, nil
}

// Dial connects to a device plugin's socket, now.
func Dial(socket string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	conn.Connect()
	return conn, nil
}

// AllocateRequest asks for these units for one container, as kubelet does.
func AllocateRequest(ids ...string) *pluginapi.AllocateRequest {
	return &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}}
}

// Interleave times single calls of two sides in turns: blocks of each side, of which the
// first is that side which was the second before, so that whatever the machine does
// meanwhile meets both. A first pair of blocks warms up and does not count.
func Interleave(a, b func() error, blocks, calls int) (timesA, timesB []time.Duration, err error) {
	timesA, timesB = make([]time.Duration, 0, blocks*calls), make([]time.Duration, 0, blocks*calls)
	sides := []struct {
		call  func() error
		times *[]time.Duration
	}{{a, &timesA}, {b, &timesB}}
	for block := range blocks + 1 {
		for _, side := range sides {
			for range calls {
				began := time.Now()
				if err := side.call(); err != nil {
					return nil, nil, err
				}
				if block > 0 {
					*side.times = append(*side.times, time.Since(began))
				}
			}
		}
		sides[0], sides[1] = sides[1], sides[0]
	}
	return timesA, timesB, nil
}

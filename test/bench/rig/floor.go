package rig

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Floor is a bare gRPC server in a process of its own, which is test/bench/floor: the
// least that an answer to one of kubelet's calls can take on this machine.
type Floor struct {
	Socket  string
	process *exec.Cmd
}

// PID is the process's.
func (f *Floor) PID() int { return f.process.Process.Pid }

// StartFloor starts one on a socket of that path, which answers every Allocate with
// that message, and every GetPreferredAllocation with the first of the devices that it
// may choose from. It serves when this returns. The program is built beside the
// socket, with the options of those that `make build` builds; the working directory
// must be in the module.
func StartFloor(socket string, answer *pluginapi.AllocateResponse) (_ *Floor, err error) {
	message, err := proto.Marshal(answer)
	if err != nil {
		return nil, err
	}
	program := filepath.Join(filepath.Dir(socket), "floor")
	//nolint:noctx // it ends by itself
	build := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", program,
		"github.com/accelmux/accelmux/test/bench/floor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the floor: %w: %s", err, text)
	}
	//nolint:noctx // it is ended by Stop, with a signal
	f := &Floor{Socket: socket, process: exec.Command(program, socket, hex.EncodeToString(message))}
	f.process.Stderr = os.Stderr
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

// Stop ends the process, and removes its socket.
func (f *Floor) Stop() error {
	err := End(f.process)
	if gone := os.Remove(f.Socket); !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
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

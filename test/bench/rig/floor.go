package rig

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

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
// that message. It serves when this returns. The program is built beside the
// socket, with the options of those that `make build` builds; the working directory
// must be in the module.
func StartFloor(socket string, answer *pluginapi.AllocateResponse) (_ *Floor, err error) {
	message, err := proto.Marshal(answer)
	if err != nil {
		return nil, err
	}
	program := filepath.Join(filepath.Dir(socket), "floor")
	if err := Build(program, "floor"); err != nil {
		return nil, err
	}
	f := &Floor{Socket: socket, process: Command(program, socket, hex.EncodeToString(message))}
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

// Build builds a program of a directory below test/bench, with the options of those that `make
// build` builds. The working directory must be in the module.
func Build(program, directory string) error {
	//nolint:noctx // it ends on its own
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program,
		"github.com/accelmux/accelmux/test/bench/"+directory)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", directory, err, text)
	}
	return nil
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

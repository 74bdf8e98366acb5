package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status"
)

const (
	resource = "example.com/gpu"
	config   = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - {name: mock, settings: %s}
    resources:
      - {name: example.com/gpu%s}
`
)

// node is the agent under test and the floor, each as processes, and a kubelet.
type node struct {
	dir         string
	kubelet     *kubelettest.Kubelet
	agent       *exec.Cmd
	floor       *exec.Cmd
	ids         []string
	socket      string
	floorSocket string
}

func startNode(bin string, m machine) (_ *node, err error) {
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		return nil, err
	}
	n := &node{dir: dir, floorSocket: filepath.Join(dir, "floor.sock")}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.stop())
		}
	}()
	n.kubelet = kubelettest.New(filepath.Join(dir, "kubelet"), kubelettest.Options{})
	if err := n.kubelet.Start(); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, m.settings, m.resource), 0o600); err != nil {
		return nil, err
	}
	n.agent, err = start(filepath.Join(bin, "accelmux"), "run", "--config", file, "--kubelet-dir", filepath.Join(dir, "kubelet"),
		"--cdi-dir", filepath.Join(dir, "cdi"), "--state-dir", filepath.Join(dir, "state"), "--run-dir", filepath.Join(dir, "run"), "--backend-dir", bin, "--log-level", "error")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if n.floor, err = start(self, "-floor", n.floorSocket); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.kubelet.WaitFor(ctx, func(s kubelettest.State) bool { return s.Resources[resource].Allocatable == m.units }); err != nil {
		return nil, err
	}
	n.socket = n.kubelet.State().Resources[resource].Socket
	for _, device := range n.kubelet.Devices(resource) {
		n.ids = append(n.ids, device.ID)
	}
	return n, nil
}

func start(program string, args ...string) (*exec.Cmd, error) {
	//nolint:noctx // it is ended by stop, with a signal
	command := exec.Command(program, args...)
	command.Stderr = os.Stderr
	return command, command.Start()
}

// stop ends everything and removes the directory.
func (n *node) stop() error {
	var errs []error
	for _, process := range []*exec.Cmd{n.agent, n.floor} {
		if process == nil || process.Process == nil {
			continue
		}
		errs = append(errs, process.Process.Signal(syscall.SIGTERM))
		var exit *exec.ExitError
		if err := process.Wait(); err != nil && !errors.As(err, &exit) {
			errs = append(errs, err)
		}
	}
	n.kubelet.Stop()
	return errors.Join(append(errs, os.RemoveAll(n.dir))...)
}

// printMemory compares resident memory: what is not shared with a file.
func (n *node) printMemory() error {
	report, err := status.NewClient(filepath.Join(n.dir, "run")).Report(context.Background())
	if err != nil {
		return err
	}
	floor, err := anonymous(n.floor.Process.Pid)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		pid  int
	}{{"memory of the core", n.agent.Process.Pid}, {"memory of the mock backend", report.Backends[0].PID}} {
		ours, err := anonymous(p.pid)
		if err != nil {
			return err
		}
		fmt.Printf("  %-34s %9.1f MB %9.1f MB %8.2f\n", p.name, float64(ours)/1024, float64(floor)/1024, float64(ours)/float64(floor))
	}
	return nil
}

// anonymous is RssAnon of proc_pid_status(5), in KiB.
func anonymous(pid int) (int, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "RssAnon:" {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, fmt.Errorf("process %d has no RssAnon", pid)
}

// constant answers everything at once, with an answer of the usual size.
type constant struct {
	pluginapi.UnimplementedDevicePluginServer
}

func (constant) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	answer := &pluginapi.ContainerAllocateResponse{}
	for range request.GetContainerRequests()[0].GetDevicesIds() {
		answer.CdiDevices = append(answer.CdiDevices, &pluginapi.CDIDevice{Name: "mock.accelmux.io/gpu=mock-0"})
	}
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{answer}}, nil
}

func (constant) GetPreferredAllocation(_ context.Context, request *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	first := request.GetContainerRequests()[0]
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{
		{DeviceIDs: first.GetAvailableDeviceIDs()[:first.GetAllocationSize()]},
	}}, nil
}

// serveFloor serves until SIGTERM.
func serveFloor(socket string) error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, constant{})
	return server.Serve(listener)
}

package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status"
)

const bootID = "11111111-1111-4111-8111-111111111111\n"

// Node is an agent and its backend as processes, and a kubelet, in a directory whose
// sys, dev and proc are theirs.
type Node struct {
	Dir string
	// Resource is what kubelet is waited for to hear of.
	Resource string
	// Agent and Backend are process IDs.
	Agent, Backend int

	kubelet *kubelettest.Kubelet
	agent   *exec.Cmd
	// lists are when kubelet got a list, and how many units are healthy then.
	lists chan list
}

type list struct {
	at      time.Time
	healthy int
}

// StartNode starts one with a configuration, and waits until so many units of the
// resource are healthy. The directory goes with [Node.Stop], also if this fails.
func StartNode(bin, dir, config, resource string, units int) (_ *Node, err error) {
	n := &Node{Dir: dir, Resource: resource, lists: make(chan list, 1024)}
	n.kubelet = kubelettest.New(n.Path("kubelet"), kubelettest.Options{OnEvent: func(e kubelettest.Event) {
		if e.Type == kubelettest.EventDevices && e.Resource == resource {
			select {
			case n.lists <- list{e.At, e.Allocatable}:
			default: // nobody waits; the next wait misses it and says so
			}
		}
	}})
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Stop())
		}
	}()
	random := n.Path("proc/sys/kernel/random")
	if err := errors.Join(os.MkdirAll(random, 0o755), os.WriteFile(filepath.Join(random, "boot_id"), []byte(bootID), 0o600),
		os.WriteFile(n.Path("node.yaml"), []byte(config), 0o600), n.kubelet.Start()); err != nil {
		return nil, err
	}
	//nolint:noctx // it is ended by Stop, with a signal
	n.agent = exec.Command(filepath.Join(bin, "accelmux"), "run", "--config", n.Path("node.yaml"), "--kubelet-dir", n.Path("kubelet"),
		"--cdi-dir", n.Path("cdi"), "--state-dir", n.Path("state"), "--run-dir", n.Path("run"), "--backend-dir", bin,
		"--sysfs", n.Path("sys"), "--devfs", n.Path("dev"), "--procfs", n.Path("proc"), "--log-level", "error")
	n.agent.Stderr = os.Stderr
	if err := n.agent.Start(); err != nil {
		return nil, err
	}
	if _, err := n.Await(units); err != nil {
		return nil, err
	}
	report, err := status.NewClient(n.Path("run")).Report(context.Background())
	if err != nil {
		return nil, err
	}
	n.Agent, n.Backend = n.agent.Process.Pid, report.Backends[0].PID
	return n, nil
}

// Path is below the node's directory.
func (n *Node) Path(name string) string { return filepath.Join(n.Dir, name) }

// Stop ends everything and removes the directory.
func (n *Node) Stop() error {
	var errs []error
	if n.agent != nil && n.agent.Process != nil {
		errs = append(errs, n.agent.Process.Signal(syscall.SIGTERM))
		var exit *exec.ExitError
		if err := n.agent.Wait(); err != nil && !errors.As(err, &exit) {
			errs = append(errs, err)
		}
	}
	n.kubelet.Stop()
	return errors.Join(append(errs, os.RemoveAll(n.Dir))...)
}

// Await waits until kubelet has a list with so many healthy units, and says since
// when.
func (n *Node) Await(healthy int) (time.Time, error) {
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	for {
		select {
		case l := <-n.lists:
			if l.healthy == healthy {
				return l.at, nil
			}
		case <-limit.C:
			return time.Time{}, fmt.Errorf("kubelet has not got %d healthy units of %s within %v", healthy, n.Resource, Patience)
		}
	}
}

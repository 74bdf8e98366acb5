package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/nvml"
)

// Of the settings, "reset: never": the fault that asks for a reset would get it, and
// a driver that is let go for a reset hears of no fault of the next GPU.
const (
	// patience bounds every wait.
	patience = 30 * time.Second
	// spacing lets each fault find the node at rest: the agent sends kubelet lists
	// of one resource at least 50 ms apart.
	spacing  = 100 * time.Millisecond
	resource = "nvidia.com/gpu"
	bootID   = "11111111-1111-4111-8111-111111111111\n"
	config   = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - name: nvidia
        recovery: {delay: 0s, reset: never}
        env: {ACCELMUX_NVML_FILE: DIR/nvml.conf, ACCELMUX_NVML_CALLS: DIR/nvml.calls}
        allow:
          devices: [/dev/nvidia*]
          mounts: [DIR/driver/**]
          hooks: [/usr/bin/nvidia-cdi-hook]
        settings: {library: LIBRARY, edits: {driverRoot: DIR/driver}}
    resources:
      - {name: nvidia.com/gpu, class: gpu, replicas: REPLICAS}
`
)

// node is an agent and its NVIDIA backend as processes, and a kubelet.
type node struct {
	dir      string
	replicas int
	driver   *nvml.Double
	kubelet  *kubelettest.Kubelet
	agent    *exec.Cmd
	backend  int // process ID
	// lists are when kubelet got a list, and how many units are healthy then.
	lists chan list
}

type list struct {
	at      time.Time
	healthy int
}

func startNode(bin, library string, replicas int) (_ *node, err error) {
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		return nil, err
	}
	n := &node{dir: dir, replicas: replicas, lists: make(chan list, 1024)}
	n.kubelet = kubelettest.New(n.path("kubelet"), kubelettest.Options{OnEvent: func(e kubelettest.Event) {
		if e.Type == kubelettest.EventDevices && e.Resource == resource {
			select {
			case n.lists <- list{e.At, e.Allocatable}:
			default: // nobody waits; the next wait misses it and says so
			}
		}
	}})
	defer func() {
		if err != nil {
			err = errors.Join(err, n.stop())
		}
	}()
	if n.driver, err = newDouble(library, dir); err != nil {
		return nil, err
	}
	text := strings.NewReplacer("DIR", dir, "LIBRARY", library, "REPLICAS", fmt.Sprint(replicas)).Replace(config)
	random := n.path("proc/sys/kernel/random")
	if err := errors.Join(os.MkdirAll(random, 0o755), os.WriteFile(filepath.Join(random, "boot_id"), []byte(bootID), 0o600),
		os.WriteFile(n.path("node.yaml"), []byte(text), 0o600), n.kubelet.Start()); err != nil {
		return nil, err
	}
	//nolint:noctx // it is ended by stop, with a signal
	n.agent = exec.Command(filepath.Join(bin, "accelmux"), "run", "--config", n.path("node.yaml"), "--kubelet-dir", n.path("kubelet"),
		"--cdi-dir", n.path("cdi"), "--state-dir", n.path("state"), "--run-dir", n.path("run"), "--backend-dir", bin,
		"--sysfs", n.path("sys"), "--devfs", n.path("dev"), "--procfs", n.path("proc"), "--log-level", "error")
	n.agent.Stderr = os.Stderr
	if err := n.agent.Start(); err != nil {
		return nil, err
	}
	if _, err := n.await(gpus * replicas); err != nil {
		return nil, err
	}
	report, err := status.NewClient(n.path("run")).Report(context.Background())
	if err != nil {
		return nil, err
	}
	n.backend = report.Backends[0].PID
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return n, n.driver.Await(ctx, func(calls []nvml.Call) bool {
		return slices.ContainsFunc(calls, func(c nvml.Call) bool { return c.Function == "nvmlEventSetWait_v2" && c.Outcome == nvml.Waits })
	})
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// stop ends everything and removes the directory.
func (n *node) stop() error {
	var errs []error
	if n.agent != nil && n.agent.Process != nil {
		errs = append(errs, n.agent.Process.Signal(syscall.SIGTERM))
		var exit *exec.ExitError
		if err := n.agent.Wait(); err != nil && !errors.As(err, &exit) {
			errs = append(errs, err)
		}
	}
	n.kubelet.Stop()
	return errors.Join(append(errs, os.RemoveAll(n.dir))...)
}

// await waits until kubelet has a list with so many healthy units, and says since
// when.
func (n *node) await(healthy int) (time.Time, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case l := <-n.lists:
			if l.healthy == healthy {
				return l.at, nil
			}
		case <-limit.C:
			return time.Time{}, fmt.Errorf("kubelet has not got %d healthy units of %s within %v", healthy, resource, patience)
		}
	}
}

// fault is a way to fail.
type fault struct {
	name string
	// before is what is set of the GPU before the event, and event what it tells.
	before func(nvml.Section)
	event  string
}

var (
	// xid is judged by the table: drivers before R555 have no recovery action.
	xid = fault{"XID 79 to kubelet", func(g nvml.Section) { g.Delete("recovery-action") }, "xid 79"}
	// recovery is the driver's own word.
	recovery = fault{"recovery action to kubelet", func(g nvml.Section) { g.Set("recovery-action", 1) }, "type gpu-recovery-action"}
)

// faults lets all GPUs fail one after the other, and heal, in each round. What
// counts is the time from NVML's answer to the wait for events until kubelet has the
// list.
func (n *node) faults(way fault, rounds int) (_ []figure, err error) {
	h, err := startHop()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	var hops []time.Duration
	var told, heard []time.Time
	for range rounds {
		for slot := range gpus {
			<-time.After(spacing)
			hop, err := h.take()
			if err != nil {
				return nil, err
			}
			if err := n.driver.Update(func(s nvml.State) { way.before(s.GPU(slot)) }); err != nil {
				return nil, err
			}
			told, hops = append(told, time.Now()), append(hops, hop)
			if _, err := n.driver.Event(fmt.Sprintf("gpu %d %s", slot, way.event)); err != nil {
				return nil, err
			}
			at, err := n.await(gpus - slot - 1)
			if err != nil {
				return nil, err
			}
			heard = append(heard, at)
		}
		if err := n.heal(); err != nil {
			return nil, err
		}
	}
	took, err := n.sinceNVML(told, heard)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%d faults, slowest %.1f ms", len(took), milliseconds(quantile(took, 1)))
	const floor = "a byte to another process and back"
	return []figure{
		{what: way.name + ", median", value: milliseconds(median(took)), unit: "ms", floor: milliseconds(median(hops)), floorIs: floor},
		{
			what: way.name + ", p99", value: milliseconds(quantile(took, 0.99)), limit: 10, unit: "ms",
			floor: milliseconds(quantile(hops, 0.99)), floorIs: floor, note: note,
		},
	}, nil
}

// sinceNVML is how long after NVML said so kubelet heard of each fault, without
// those that a look at all GPUs found first.
func (n *node) sinceNVML(told, heard []time.Time) ([]time.Duration, error) {
	calls, err := n.driver.Calls()
	if err != nil {
		return nil, err
	}
	answers := slices.DeleteFunc(calls, func(c nvml.Call) bool { return c.Function != "nvmlEventSetWait_v2" || c.Outcome != "SUCCESS" })
	took := make([]time.Duration, 0, len(told))
	for i := range told {
		at := slices.IndexFunc(answers, func(c nvml.Call) bool { return c.Time.After(told[i].Round(0)) })
		if at >= 0 && answers[at].Time.Before(heard[i]) {
			took = append(took, heard[i].Round(0).Sub(answers[at].Time))
		}
	}
	if len(took) < len(told)*9/10 {
		return nil, fmt.Errorf("%d of %d faults reached kubelet without a call of NVML", len(told)-len(took), len(told))
	}
	return took, nil
}

// heal lets the driver say that all GPUs are fit.
func (n *node) heal() error {
	err := n.driver.Update(func(s nvml.State) {
		for slot := range gpus {
			s.GPU(slot).Set("recovery-action", 0)
		}
	})
	if err != nil {
		return err
	}
	for slot := range gpus {
		if _, err := n.driver.Event(fmt.Sprintf("gpu %d type gpu-recovery-action", slot)); err != nil {
			return err
		}
	}
	_, err = n.await(gpus)
	return err
}

package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status"
)

const bootID = "11111111-1111-4111-8111-111111111111\n"

// NodeOptions say what a node is made of.
type NodeOptions struct {
	// Bin is the directory of the built programs.
	Bin string
	// Dir is the node's directory, whose sys, dev and proc are the agent's. [Node.Stop] removes
	// it, also if the node does not start. "" makes one.
	Dir string
	// Config is the node configuration, in which DIR stands for the node's directory.
	Config string
	// Want are the healthy units of each resource that the start waits for.
	Want map[string]int
	// Kubelet are the stand-in's. Its OnEvent is called besides the node's own.
	Kubelet kubelettest.Options
	// Args are further arguments of the agent.
	Args []string
	// Log is where the agent logs its errors; nil for this program's standard error.
	Log *os.File
}

// Node is an agent and its backends as processes, and a kubelet.
type Node struct {
	Dir string
	// Resource is the first by name of those wanted, whose lists [Node.Await] waits for.
	Resource string
	// Began is when the agent's process was started.
	Began time.Time
	// Agent and Backend, the first one by name, are process IDs.
	Agent, Backend int
	// Backends are all backends' process IDs, by name.
	Backends map[string]int
	Kubelet  *kubelettest.Kubelet

	options NodeOptions
	agent   *exec.Cmd
	// lists are when kubelet got a list, and how many units were healthy then.
	lists chan list
}

type list struct {
	at      time.Time
	healthy int
}

// Start starts a node, and waits until kubelet has all that the options want.
func Start(o NodeOptions) (_ *Node, err error) {
	n := &Node{Dir: o.Dir, options: o, lists: make(chan list, 1024)}
	if len(o.Want) > 0 {
		n.Resource = slices.Min(slices.Collect(maps.Keys(o.Want)))
	}
	if n.Dir == "" {
		if n.Dir, err = os.MkdirTemp("", "b"); err != nil {
			return nil, err
		}
	}
	n.Kubelet = kubelettest.New(n.Path("kubelet"), n.listening(o.Kubelet))
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Stop())
		}
	}()
	random := n.Path("proc/sys/kernel/random")
	config := strings.ReplaceAll(o.Config, "DIR", n.Dir)
	if err := errors.Join(os.MkdirAll(random, 0o755), os.WriteFile(filepath.Join(random, "boot_id"), []byte(bootID), 0o600),
		os.WriteFile(n.Path("node.yaml"), []byte(config), 0o600), n.Kubelet.Start()); err != nil {
		return nil, err
	}
	return n, n.startAgent()
}

// startAgent starts the agent, and waits until kubelet has all that the options want.
func (n *Node) startAgent() error {
	n.agent, n.Began = n.command(), time.Now()
	if err := n.agent.Start(); err != nil {
		return err
	}
	n.Agent = n.agent.Process.Pid
	if err := n.allocatable(n.options.Want); err != nil {
		return err
	}
	if units := n.options.Want[n.Resource]; units > 0 { // the next Await is for a later list
		if _, err := n.Await(units); err != nil {
			return err
		}
	}
	return n.findBackends()
}

// allocatable waits until kubelet has so many healthy units of each resource.
func (n *Node) allocatable(want map[string]int) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := n.Kubelet.WaitFor(ctx, func(s kubelettest.State) bool {
		for name, units := range want {
			if s.Resources[name].Allocatable != units {
				return false
			}
		}
		return true
	}); err != nil {
		return fmt.Errorf("kubelet does not have %v: %w", want, err)
	}
	return nil
}

// Restart ends the agent as kubelet does, and starts another one on what it left.
func (n *Node) Restart() error {
	if err := End(n.agent); err != nil {
		return err
	}
	none := map[string]int{}
	for name := range n.options.Want {
		none[name] = 0
	}
	if err := n.allocatable(none); err != nil {
		return err
	}
	return n.startAgent()
}

// listening are the options of a kubelet that also reports lists to the node.
func (n *Node) listening(o kubelettest.Options) kubelettest.Options {
	others := o.OnEvent
	o.OnEvent = func(e kubelettest.Event) {
		if e.Type == kubelettest.EventDevices && e.Resource == n.Resource {
			select {
			case n.lists <- list{e.At, e.Allocatable}:
			default: // nothing waits; the next wait misses it and fails
			}
		}
		if others != nil {
			others(e)
		}
	}
	return o
}

// command is the agent, on the node's directory.
func (n *Node) command() *exec.Cmd {
	o := n.options
	args := []string{
		"run", "--config", n.Path("node.yaml"), "--kubelet-dir", n.Path("kubelet"),
		"--cdi-dir", n.Path("cdi"), "--state-dir", n.Path("state"), "--run-dir", n.Path("run"), "--backend-dir", o.Bin,
		"--sysfs", n.Path("sys"), "--devfs", n.Path("dev"), "--procfs", n.Path("proc"), "--log-level", "error",
	}
	command := Command(filepath.Join(o.Bin, "accelmux"), slices.Concat(args, o.Args)...)
	command.Stderr = cmp.Or(o.Log, os.Stderr)
	return command
}

func (n *Node) findBackends() error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	report, err := status.NewClient(n.Path("run")).Report(ctx)
	if err != nil {
		return err
	}
	n.Backends, n.Backend = map[string]int{}, report.Backends[0].PID
	for _, b := range report.Backends {
		n.Backends[b.Name] = b.PID
	}
	return nil
}

// Path is below the node's directory.
func (n *Node) Path(name string) string { return filepath.Join(n.Dir, name) }

// Replace puts a file in the place of another one below the node's directory, at once.
func (n *Node) Replace(name, text string) error {
	draft := n.Path(".draft")
	return errors.Join(os.WriteFile(draft, []byte(text), 0o600), os.Rename(draft, n.Path(name)))
}

// Units are the IDs of a resource's units that kubelet knows, sorted.
func (n *Node) Units(resource string) []string {
	var ids []string
	for _, device := range n.Kubelet.Devices(resource) {
		ids = append(ids, device.ID)
	}
	slices.Sort(ids)
	return ids
}

// Socket is where the agent serves a resource now.
func (n *Node) Socket(resource string) string { return n.Kubelet.State().Resources[resource].Socket }

// Stop ends everything and removes the directory.
func (n *Node) Stop() error {
	err := End(n.agent)
	n.Kubelet.Stop()
	return errors.Join(err, os.RemoveAll(n.Dir))
}

// Await waits until kubelet has a list of the node's resource with so many healthy units, and
// returns since when. Lists before are forgotten.
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
			return time.Time{}, fmt.Errorf("kubelet does not have %d healthy units of %s within %v", healthy, n.Resource, Patience)
		}
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/accelmux/accelmux/test/host"
)

// An interface is moved into a pod's network namespace under its name there, with its address, and
// back when the last of the pod's containers that have it has ended. The alias that it had stays.
func TestInterfaceIsMoved(t *testing.T) {
	node, pod := namespaces(t)
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "bus0"}, PeerName: "eth0"}
	must(t, netlink.LinkAdd(veth), netlink.LinkSetAlias(veth, "left motor"), addAddress(veth), netlink.LinkSetUp(veth))
	first, second := start(t, pod), start(t, pod)
	for _, c := range []*containerProcess{first, second} {
		must(t, hook(c.state, "enter", "bus0", "eth0"))
		want(t, node, "eth0") // the other end has this name on the node
		want(t, pod, "eth0 up 192.0.2.7/24")
	}
	first.end()
	must(t, hook(first.state, "leave", "bus0", "eth0"))
	want(t, pod, "eth0 up 192.0.2.7/24")
	first = start(t, pod) // it restarts, and the other ends without its hook, and restarts, too
	must(t, hook(first.state, "enter", "bus0", "eth0"))
	second.end()
	second = start(t, pod)
	must(t, hook(second.state, "enter", "bus0", "eth0"))
	first.end()
	must(t, hook(first.state, "leave", "bus0", "eth0"))
	want(t, pod, "eth0 up 192.0.2.7/24")
	second.end()
	for range 2 { // both containers' hooks may run when both have ended
		must(t, hook(second.state, "leave", "bus0", "eth0"))
		want(t, node, "bus0 up 192.0.2.7/24", "eth0")
		want(t, pod)
	}
	link, err := netlink.LinkByName("bus0")
	must(t, err)
	if alias := link.Attrs().Alias; alias != "left motor" {
		t.Errorf("the alias is %q", alias)
	}
	third := start(t, netns.None())
	must(t, hook(third.state, "enter", "bus0", "eth0"), hook(start(t, node).state, "enter", "bus0", "eth0"))
	want(t, node, "bus0 up 192.0.2.7/24", "eth0")
}

// An interface that the pod has from elsewhere, such as from its CNI plugin, is neither used nor
// moved, whether or not the node has the one that was asked for.
func TestOthersInterfaceStays(t *testing.T) {
	node, pod := namespaces(t)
	c := start(t, pod)
	must(t, netns.Set(pod), netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "x"}), netns.Set(node))
	refused := func(text string) {
		t.Helper()
		if err := hook(c.state, "enter", "bus0", "eth0"); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want: %s", err, text)
		}
		must(t, hook(c.state, "leave", "bus0", "eth0")) // runtimes run it after a start that failed
		want(t, pod, "eth0", "x")
	}
	refused("the network interface bus0 is neither on the node nor in the pod")
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "bus0"}, PeerName: "y"}))
	refused("another network interface eth0")
	want(t, node, "bus0", "y")
}

// When a pod ends and no hook runs, the kernel moves an interface of hardware back to the node under
// the name that it had in the pod. The next pod gets it.
func TestInterfaceThatTheKernelReturned(t *testing.T) {
	node, pod := namespaces(t)
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "bus0"}, PeerName: "peer"}))
	must(t, hook(start(t, pod).state, "enter", "bus0", "data0"))
	must(t, netns.Set(pod))
	link, err := netlink.LinkByName("data0")
	must(t, err, netlink.LinkSetNsFd(link, int(node)), netns.Set(node))
	want(t, node, "data0", "peer")
	c := start(t, pod)
	must(t, hook(c.state, "enter", "bus0", "data0"))
	want(t, pod, "data0")
	c.end()
	must(t, hook(c.state, "leave", "bus0", "data0"))
	want(t, node, "bus0", "peer")
}

// namespaces are those of a node, which is this thread's, and of a pod.
func namespaces(t *testing.T) (node, pod netns.NsHandle) {
	t.Helper()
	runtime.LockOSThread()
	before, err := netns.Get()
	must(t, err)
	if pod, err = netns.New(); errors.Is(err, syscall.EPERM) {
		host.Lacks(t, "a network namespace needs root: %v", err)
	}
	must(t, err)
	node, err = netns.New()
	must(t, err)
	t.Cleanup(func() {
		must(t, netns.Set(before), before.Close(), node.Close(), pod.Close())
		runtime.UnlockOSThread()
	})
	return node, pod
}

// containerProcess is a container with a process in a network namespace; in the node's if it is none.
type containerProcess struct {
	state string
	end   func()
}

func start(t *testing.T, ns netns.NsHandle) *containerProcess {
	t.Helper()
	dir, config := t.TempDir(), oci.Spec{Linux: &oci.Linux{}}
	here, err := netns.Get()
	must(t, err)
	defer func() { must(t, netns.Set(here), here.Close()) }()
	if ns.IsOpen() {
		config.Linux.Namespaces = []oci.LinuxNamespace{{Type: oci.NetworkNamespace, Path: fmt.Sprintf("/proc/self/fd/%d", ns)}}
		must(t, netns.Set(ns))
	}
	text, err := json.Marshal(config)
	must(t, err, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
	process := exec.Command("sleep", "600")
	must(t, process.Start())
	end := sync.OnceFunc(func() { _, _ = process.Process.Kill(), process.Wait() })
	t.Cleanup(end)
	return &containerProcess{
		fmt.Sprintf(`{"ociVersion": "1.2.0", "id": "c", "status": "creating", "pid": %d, "bundle": %q}`, process.Process.Pid, dir), end,
	}
}

func hook(state string, args ...string) error { return run(args, strings.NewReader(state)) }

func addAddress(link netlink.Link) error {
	address, err := netlink.ParseAddr("192.0.2.7/24")
	if err != nil {
		return err
	}
	return netlink.AddrAdd(link, address)
}

// want compares the interfaces of a namespace, but lo, with their addresses.
func want(t *testing.T, ns netns.NsHandle, interfaces ...string) {
	t.Helper()
	here, err := netns.Get()
	must(t, err, netns.Set(ns))
	links, err := netlink.LinkList()
	must(t, err)
	var got []string
	for _, link := range links {
		if link.Attrs().Name == "lo" {
			continue
		}
		line := link.Attrs().Name
		if link.Attrs().RawFlags&syscall.IFF_UP != 0 {
			line += " up"
		}
		addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
		must(t, err)
		for _, a := range addresses {
			line += " " + a.IPNet.String()
		}
		got = append(got, line)
	}
	must(t, netns.Set(here), here.Close())
	slices.Sort(got)
	if !slices.Equal(got, interfaces) {
		t.Errorf("interfaces %q, want %q", got, interfaces)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Verifies that a hook does not wait for ever for one that hangs.
func TestLockIsBounded(t *testing.T) {
	unlock, err := lock(lockLimit)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(time.Millisecond); err == nil || !strings.Contains(err.Error(), "another one has not ended within 1ms") {
		t.Errorf("the lock of another: %v", err)
	}
	unlock()
	again, err := lock(lockLimit)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

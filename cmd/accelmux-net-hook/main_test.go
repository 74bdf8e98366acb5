package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/accelmux/accelmux/test/host"
)

// An interface is moved into a pod's network namespace under its name there, with its address,
// once for all containers of the pod, and back; where the pod has the name already it stays.
func TestInterfaceIsMoved(t *testing.T) {
	node, pod := namespaces(t)
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "bus0"}, PeerName: "eth0"}
	must(t, netlink.LinkAdd(veth), addAddress(veth), netlink.LinkSetUp(veth))
	state := container(t, pod)
	for range 2 { // the second is that of a container that starts again after a poststop that did not run
		must(t, hook(state, "enter", "bus0", "eth0"))
		want(t, node, "eth0") // the other end has this name on the node
		want(t, pod, "eth0 up 192.0.2.7/24")
	}
	if err := hook(container(t, pod), "enter", "bus1", "x"); err == nil || !strings.Contains(err.Error(), "neither on the node nor, as x, in the pod") {
		t.Errorf("an absent interface: %v", err)
	}
	must(t, hook(state, "leave", "bus0", "eth0"))
	want(t, node, "bus0 up 192.0.2.7/24", "eth0")
	want(t, pod)

	must(t, netns.Set(pod), netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "x"}), netns.Set(node))
	if err := hook(state, "enter", "bus0", "eth0"); err == nil || !strings.Contains(err.Error(), "another network interface eth0") {
		t.Errorf("a name that the pod has: %v", err)
	}
	want(t, node, "bus0 up 192.0.2.7/24", "eth0")
	must(t, hook(container(t, netns.None()), "enter", "bus0", "eth0"), hook(container(t, node), "enter", "bus0", "eth0"))
	want(t, node, "bus0 up 192.0.2.7/24", "eth0")
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

// container returns the state of a container in a network namespace; in the node's if there is none.
func container(t *testing.T, ns netns.NsHandle) string {
	t.Helper()
	dir, config := t.TempDir(), oci.Spec{Linux: &oci.Linux{}}
	if ns.IsOpen() {
		config.Linux.Namespaces = []oci.LinuxNamespace{{Type: oci.NetworkNamespace, Path: fmt.Sprintf("/proc/self/fd/%d", ns)}}
	}
	text, err := json.Marshal(config)
	must(t, err, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
	return fmt.Sprintf(`{"ociVersion": "1.2.0", "id": "c", "status": "creating", "bundle": %q}`, dir)
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

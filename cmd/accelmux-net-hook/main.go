// accelmux-net-hook is an OCI hook by which a container runtime moves a network interface of
// the node into a container's network namespace, and back when the container has ended:
//
//	accelmux-net-hook enter HOST NAME    createRuntime: from the node, where it is HOST, as NAME
//	accelmux-net-hook leave HOST NAME    poststop
//
// Runtimes run it as root on the node, with the container's state on standard input
// (runtime.md of the OCI runtime specification). The containers of a pod share a network
// namespace, so an interface that is there already is right. Addresses, and whether the
// interface is up, stay.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "accelmux-net-hook:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader) error {
	if len(args) != 3 || args[0] != "enter" && args[0] != "leave" {
		return errors.New("a container runtime runs it as a hook: accelmux-net-hook enter|leave HOST NAME")
	}
	runtime.LockOSThread() // a network namespace is that of a thread
	defer runtime.UnlockOSThread()
	node, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open the node's network namespace: %w", err)
	}
	defer func() { _ = node.Close() }()
	defer func() { _ = netns.Set(node) }()
	container, err := containersNamespace(stdin)
	if err != nil {
		return fmt.Errorf("open the container's network namespace: %w", err)
	}
	defer func() { _ = container.Close() }()
	if !container.IsOpen() || container.Equal(node) {
		return nil // a pod on the node's network has all interfaces
	}
	if args[0] == "enter" {
		return enter(node, container, args[1], args[2])
	}
	return move(container, node, args[2], args[1])
}

func enter(node, container netns.NsHandle, host, name string) error {
	err := move(node, container, host, name)
	if !errors.As(err, &netlink.LinkNotFoundError{}) {
		return err
	}
	if err := netns.Set(container); err != nil {
		return err
	}
	if _, there := netlink.LinkByName(name); there != nil {
		return fmt.Errorf("the network interface %s is neither on the node nor, as %s, in the pod: does another pod have it?", host, name)
	}
	return nil
}

// containersNamespace opens the network namespace of the container whose state is on standard
// input. The container itself is gone at poststop, so it is that of its configuration. It is not
// open for a container on the node's network.
func containersNamespace(stdin io.Reader) (netns.NsHandle, error) {
	var state oci.State
	if err := json.NewDecoder(stdin).Decode(&state); err != nil {
		return netns.None(), fmt.Errorf("read the container's state: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(state.Bundle, "config.json"))
	if err != nil {
		return netns.None(), err
	}
	var config oci.Spec
	if err := json.Unmarshal(text, &config); err != nil {
		return netns.None(), fmt.Errorf("read config.json of the container: %w", err)
	}
	if config.Linux == nil {
		return netns.None(), nil
	}
	for _, n := range config.Linux.Namespaces {
		if n.Type == oci.NetworkNamespace {
			return netns.GetFromPath(cmp.Or(n.Path, fmt.Sprintf("/proc/%d/ns/net", state.Pid)))
		}
	}
	return netns.None(), nil
}

// move moves an interface from one namespace to another, under a name there. After an error the
// interface is where it was, but it may be down. An interface that is absent is a [netlink.LinkNotFoundError].
func move(from, to netns.NsHandle, name, as string) error {
	if err := netns.Set(from); err != nil {
		return err
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find the network interface %s: %w", name, err)
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list the addresses of %s: %w", name, err)
	}
	if err := free(to, as); err != nil {
		return err
	}
	if err := netns.Set(from); err != nil {
		return err
	}
	if err := transfer(link, to, as); err != nil {
		return fmt.Errorf("move the network interface %s as %s: %w", name, as, err)
	}
	if err := netns.Set(to); err != nil {
		return err
	}
	moved, err := netlink.LinkByName(as)
	if err != nil {
		return fmt.Errorf("find the network interface %s that was moved: %w", as, err)
	}
	if err := restore(moved, addresses, link.Attrs().Flags&net.FlagUp != 0); err != nil {
		return errors.Join(err, transfer(moved, from, name))
	}
	return nil
}

// free returns an error if a namespace has an interface of this name: the kernel would move one,
// and then not rename it.
func free(ns netns.NsHandle, name string) error {
	if err := netns.Set(ns); err != nil {
		return err
	}
	_, err := netlink.LinkByName(name)
	switch {
	case errors.As(err, &netlink.LinkNotFoundError{}):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("there is another network interface %s where it would be moved to: give it another name", name)
}

// transfer moves an interface of the thread's namespace to another, and renames it, in one step:
// another interface may have its name in the other namespace.
func transfer(link netlink.Link, to netns.NsHandle, as string) error {
	if err := netlink.LinkSetDown(link); err != nil { // only then it can be renamed
		return err
	}
	request := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(link.Attrs().Index) //nolint:gosec // the kernel's are of 32 bits
	request.AddData(message)
	request.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(as)))
	request.AddData(nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(to)))) //nolint:gosec // a file descriptor
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// restore gives a moved interface what the kernel took: the addresses that were configured, and
// its state.
func restore(link netlink.Link, addresses []netlink.Addr, up bool) error {
	for _, a := range addresses {
		if a.Flags&unix.IFA_F_PERMANENT == 0 || a.Scope != unix.RT_SCOPE_UNIVERSE {
			continue
		}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: a.IPNet, Peer: a.Peer, Broadcast: a.Broadcast}); err != nil {
			return fmt.Errorf("give the network interface %s its address %s: %w", link.Attrs().Name, a.IPNet, err)
		}
	}
	if !up {
		return nil
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set the network interface %s up: %w", link.Attrs().Name, err)
	}
	return nil
}

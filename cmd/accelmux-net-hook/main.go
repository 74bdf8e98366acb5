// accelmux-net-hook is an OCI hook by which a container runtime moves a network interface of
// the node into a container's network namespace, and back when the container has ended:
//
//	accelmux-net-hook enter HOST NAME    createRuntime: from the node, where it is HOST, as NAME
//	accelmux-net-hook leave HOST NAME    poststop
//
// Runtimes run it as root on the node, with the container's state on standard input
// (runtime.md of the OCI runtime specification). The containers of a pod share a network
// namespace, so the interface stays until the last of those that have it has ended. Its [mark]
// says which these are. Addresses, and whether the interface is up, stay.
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
	"slices"
	"time"

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
	unlock, err := lock(lockLimit)
	if err != nil {
		return fmt.Errorf("wait for other hooks: %w", err)
	}
	defer unlock()
	runtime.LockOSThread() // a network namespace is that of a thread
	defer runtime.UnlockOSThread()
	node, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open the node's network namespace: %w", err)
	}
	defer func() { _ = node.Close() }()
	defer func() { _ = netns.Set(node) }()
	container, pid, err := containersNamespace(stdin)
	if err != nil {
		return fmt.Errorf("open the container's network namespace: %w", err)
	}
	defer func() { _ = container.Close() }()
	if !container.IsOpen() || container.Equal(node) {
		return nil // a pod on the node's network has all interfaces
	}
	if args[0] == "enter" {
		return enter(node, container, args[1], args[2], pid)
	}
	return leave(node, container, args[1])
}

// lockLimit is how long a hook waits for others, which take milliseconds: CDI gives a hook no time limit of its own.
const lockLimit = 30 * time.Second

// lock waits for the other hooks of the node: one may move an interface back while another adds a
// container to its mark.
func lock(limit time.Duration) (unlock func(), err error) {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(program.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = program.Close() }, nil
		}
		if time.Since(began) > limit {
			return nil, errors.Join(fmt.Errorf("another one has not ended within %s: %w", limit, err), program.Close())
		}
	}
}

// enter moves an interface into a container's network namespace, where another container of the
// pod may have it already.
func enter(node, container netns.NsHandle, host, name string, pid int) error {
	link, m, err := marked(container, host)
	if err != nil {
		return err
	}
	if link != nil {
		m.pids = append(slices.DeleteFunc(m.pids, func(other int) bool { return !isIn(container, other) }), pid)
		if err := netlink.LinkSetAlias(link, m.String()); err != nil {
			return fmt.Errorf("add the container to the alias of the network interface %s: %w", link.Attrs().Name, err)
		}
		return nil
	}
	if link, m, err = onNode(node, host); errors.As(err, &netlink.LinkNotFoundError{}) {
		return fmt.Errorf("the network interface %s is neither on the node nor in the pod: does another pod have it, or was it removed?", host)
	} else if err != nil {
		return err
	}
	m.host, m.pids = host, []int{pid}
	return move(link, node, container, name, m.String())
}

// onNode returns an interface by its name on the node. If a pod ended and its containers' hooks did not
// run, the kernel has returned the interface under another name.
func onNode(node netns.NsHandle, host string) (netlink.Link, mark, error) {
	if err := netns.Set(node); err != nil {
		return nil, mark{}, err
	}
	link, err := netlink.LinkByName(host)
	if !errors.As(err, &netlink.LinkNotFoundError{}) {
		if err != nil {
			return nil, mark{}, err
		}
		return link, parseMark(link.Attrs().Alias), nil
	}
	if link, m, otherErr := marked(node, host); link != nil || otherErr != nil {
		return link, m, otherErr
	}
	return nil, mark{}, err
}

// leave moves an interface back to the node, unless a container of the pod still has it.
func leave(node, container netns.NsHandle, host string) error {
	link, m, err := marked(container, host)
	if err != nil || link == nil || slices.ContainsFunc(m.pids, func(pid int) bool { return isIn(container, pid) }) {
		return err
	}
	return move(link, container, node, host, m.alias)
}

// isIn reports whether a process is in a network namespace.
func isIn(ns netns.NsHandle, pid int) bool {
	other, err := netns.GetFromPid(pid)
	if err != nil {
		return false // it has ended
	}
	defer func() { _ = other.Close() }()
	return other.Equal(ns)
}

// containersNamespace opens the network namespace of the container whose state is on standard
// input. The container itself is gone at poststop, so it is that of its configuration. It is not
// open for a container on the node's network. The process is that of the container; 0 at poststop.
func containersNamespace(stdin io.Reader) (ns netns.NsHandle, pid int, err error) {
	var state oci.State
	if err := json.NewDecoder(stdin).Decode(&state); err != nil {
		return netns.None(), 0, fmt.Errorf("read the container's state: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(state.Bundle, "config.json"))
	if err != nil {
		return netns.None(), 0, err
	}
	var config oci.Spec
	if err := json.Unmarshal(text, &config); err != nil {
		return netns.None(), 0, fmt.Errorf("read config.json of the container: %w", err)
	}
	if config.Linux == nil {
		return netns.None(), 0, nil
	}
	for _, n := range config.Linux.Namespaces {
		if n.Type == oci.NetworkNamespace {
			ns, err = netns.GetFromPath(cmp.Or(n.Path, fmt.Sprintf("/proc/%d/ns/net", state.Pid)))
			return ns, state.Pid, err
		}
	}
	return netns.None(), 0, nil
}

// move moves an interface from one namespace to another, under a name and with an alias there.
// After an error the interface is where it was, but it may be down.
func move(link netlink.Link, from, to netns.NsHandle, as, alias string) error {
	if err := netns.Set(from); err != nil {
		return err
	}
	was := link.Attrs()
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list the addresses of %s: %w", was.Name, err)
	}
	if err := free(to, as); err != nil {
		return fmt.Errorf("move the network interface %s: %w", was.Name, err)
	}
	if err := netns.Set(from); err != nil {
		return err
	}
	if err := transfer(link, to, as, alias); err != nil {
		return fmt.Errorf("move the network interface %s as %s: %w", was.Name, as, err)
	}
	if err := netns.Set(to); err != nil {
		return err
	}
	moved, err := netlink.LinkByName(as)
	if err != nil {
		return fmt.Errorf("find the network interface %s that was moved: %w", as, err)
	}
	if err := restore(moved, addresses, was.Flags&net.FlagUp != 0); err != nil {
		return errors.Join(err, transfer(moved, from, was.Name, was.Alias))
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
	return fmt.Errorf("there is another network interface %s where it would be moved to: give its kind another edits.netDevices[].name", name)
}

// transfer moves an interface of the thread's namespace to another, and gives it its name and alias
// there, in one step: another interface may have its name in the other namespace.
func transfer(link netlink.Link, to netns.NsHandle, as, alias string) error {
	if err := netlink.LinkSetDown(link); err != nil { // only then it can be renamed
		return err
	}
	request := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(link.Attrs().Index) //nolint:gosec // the kernel's are of 32 bits
	request.AddData(message)
	request.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(as)))
	request.AddData(nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(alias)))
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

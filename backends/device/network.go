package device

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
)

// withoutHardware are the interfaces that each network namespace may have from its start: the loopback
// device and the fallback devices of tunnels (fb_tunnels_only_for_init_net in the kernel's
// Documentation/admin-guide/sysctl/net.rst). bonding_masters is a file beside them.
var withoutHardware = []string{
	"lo", "bonding_masters",
	"tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0",
}

// readsNetwork reports whether the kind is for network interfaces or HCAs, or reads them.
func (s source) readsNetwork() bool {
	return slices.Contains(inNetwork, s.kind.Match.Class) || readsInterfaces(s.kind)
}

// interfaces are the names of the network interfaces and HCAs that a kind is for, or reads, in the agent's view of
// sysfs: a change of them is the event that the agent does not get. It is not safe for concurrent use.
type interfaces struct{ names []string }

// note remembers the names for a kind; none if it reads no interfaces.
func (i *interfaces) note(s source) { i.names = s.interfaceNames() }

// changed reports whether there are others than those that were noted.
func (i *interfaces) changed(s source) bool { return !slices.Equal(i.names, s.interfaceNames()) }

// interfaceNames returns the names of what the kind reads, sorted. To a kind of hardware that has interfaces those
// without hardware do not matter: a node has one for each pod.
func (s source) interfaceNames() (names []string) {
	if !s.readsNetwork() {
		return nil
	}
	for _, class := range inNetwork {
		own := s.kind.Match.Class == class
		if !own && (!readsInterfaces(s.kind) || class == "ieee80211") {
			continue
		}
		entries, _ := os.ReadDir(filepath.Join(s.cfg.host.Sysfs, "class", class)) // it is not there without such devices
		for _, e := range entries {
			if own && !s.selects(e.Name()) {
				continue
			}
			if !own {
				to, err := os.Readlink(filepath.Join(s.cfg.host.Sysfs, "class", class, e.Name()))
				if err == nil && strings.Contains(to, "/devices/virtual/") {
					continue
				}
			}
			names = append(names, class+"/"+e.Name())
		}
	}
	return names
}

// hidden returns a problem if the kind reads interfaces and sysfs has none of the node, because it was
// mounted in another network namespace: the directories of hardware for its interfaces are there, and empty. Without the
// problem the kind would find no devices, and status would not say why.
func (s source) hidden() []engine.Problem {
	if !s.readsNetwork() {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(s.cfg.host.Sysfs, "class/net"))
	if err != nil || len(entries) == 0 { // a node without a network
		return nil
	}
	for _, e := range entries {
		if !slices.Contains(withoutHardware, e.Name()) {
			return nil
		}
	}
	cards, _ := filepath.Glob(filepath.Join(s.cfg.host.Sysfs, "bus/*/devices/*/net")) // the pattern is right
	if len(cards) == 0 {
		return nil // a node with a loopback device alone
	}
	return []engine.Problem{{Err: s.wrong(errors.New("the agent sees no network interface of the node, as its /sys is that of another network namespace: " +
		"remove PrivateNetwork=yes from the drop-ins of its systemd unit (systemctl cat accelmux), or mount the node's /sys in its pod"))}}
}
